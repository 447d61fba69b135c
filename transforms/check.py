"""Answered questions → their answers, checked against the support chunks that came with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import apache_beam as beam
from apache_beam.metrics import Metrics

from groundrows.schemas.errors import RuleError, UndecodableError
from groundrows.schemas.outcome import Answer, Failure, Outcome
from groundrows.schemas.question import Question
from groundrows.schemas.response import Candidate, Chunk
from groundrows.schemas.service import DISCOVERY_ENGINE, check_service_of, service_of
from groundrows.transforms.counters import CHECKS, SKIPPED
from groundrows.transforms.generate.calling.shared import ClientOf, PacerOf
from groundrows.transforms.generate.clients.open import open_client
from groundrows.transforms.generate.pacing.open import open_pacer
from groundrows.transforms.generate.settings import CallSettings
from groundrows.transforms.generate.stage import GenerateAnswers
from groundrows.transforms.rows.answer_rows import answer_id_of

CHECKED = "checked"
REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class AnswerCheck(Question):
    """The check of one candidate's answer: asked like any question, under the answer's id.

    What it has of the question that was answered (record, origin, history, metadata) makes the failure row of
    a check one that can be replayed.

    Attributes:
        answered_id: The id of the question that was answered.
        answered_turn: Which of its turns, counted from 0.
        candidate_index: Which candidate, as in `answers`.
        chunk_indices: For each fact of the request, the support chunk it is.
    """

    answered_id: str = ""
    answered_turn: int = 0
    candidate_index: int = 0
    chunk_indices: tuple[int, ...] = ()


def checks_of(
    outcome: Outcome,
    citation_threshold: float | None,
    service: str = DISCOVERY_ENGINE,
    api_version: str | None = None,
) -> Iterator[AnswerCheck | Outcome | None]:
    """Find what to check of a question's outcome: every candidate of every turn that was answered.

    Of answers that an earlier run delivered it is the candidates that are yet to be checked.

    Args:
        outcome: What became of a question. A response that does not decode is passed over, as it is a failure
            of the question already.
        citation_threshold: From which score on a fact is cited, in [0, 1]; None for the service's own.
        service: Which service checks, whichever one answered.
        api_version: The version of its API; None for the one that the question was asked in.

    Yields:
        For each candidate the check to ask; or what became of it at once, a failure of stage `check`, where
        it breaks a rule of the service; or None where there is nothing to check or nothing to check against:
        no text, or no chunk with one, as Google Search quotes no pages.
    """
    api_version = api_version or outcome.question.api_version
    for answer in outcome.answers:
        try:
            response = service_of(answer.service, answer.api_version).read(answer, keep=False)
        except UndecodableError:
            continue
        for candidate in response.candidates:
            if answer.unchecked is not None:
                answer_id = answer_id_of(outcome.question, answer, candidate.index)
                if answer_id not in answer.unchecked:
                    continue
            yield _check_of(outcome.question, answer, candidate, citation_threshold, service, api_version)


def _check_of(
    question: Question,
    answer: Answer,
    candidate: Candidate,
    citation_threshold: float | None,
    service: str,
    api_version: str,
) -> AnswerCheck | Outcome | None:
    text = candidate.text or ""
    quoting = [index for index, chunk in enumerate(candidate.chunks) if chunk.text.strip()]
    if not text.strip() or not quoting:
        return None
    facts = [(candidate.chunks[index].text, _attributes(candidate.chunks[index])) for index in quoting]
    failure = None
    try:
        request = check_service_of(service, api_version).check_request(text, facts, citation_threshold)
    except RuleError as broken:
        request = b""
        failure = _refused(question, answer, candidate.index, broken)
    check = AnswerCheck(
        question_id=answer_id_of(question, answer, candidate.index),
        turns=(text,),
        request=request,
        api_version=api_version,
        user_context=None,
        metadata=question.metadata,
        record=question.record,
        origin=question.origin,
        history=question.history,
        method="check",
        service=service,
        answered_id=question.question_id,
        answered_turn=answer.turn_index,
        candidate_index=candidate.index,
        chunk_indices=tuple(quoting),
    )
    return check if failure is None else Outcome(check, (), failure, None, (), 0)


def _attributes(chunk: Chunk) -> dict[str, str]:
    """All that is known of a chunk's source; where its metadata says something, the metadata's word."""
    known = {"uri": chunk.uri, "title": chunk.title, "domain": chunk.domain}
    return {name: value for name, value in known.items() if value} | chunk.metadata


def _refused(question: Question, answer: Answer, candidate_index: int, broken: RuleError) -> Failure:
    return Failure(
        question_id=question.question_id,
        turn_index=answer.turn_index,
        stage="check",
        code=broken.code,
        message=f"candidate {candidate_index} of turn {answer.turn_index} can't be checked: {broken.message}",
        retryable=False,
        attempts=0,
        origin=question.origin,
        record=question.record,
        metadata=question.metadata,
        history=question.history,
    )


class CheckAnswers(beam.PTransform):
    """PCollection[Outcome] of questions -> PCollections[Outcome] of the checks of their answers.

    The result has two PCollections: `result[CHECKED]` of what was asked of the service, and `result[REFUSED]`
    of what breaks one of its rules. They stay apart because the local runner keeps what it flattens together
    until the stage is done. Answers with nothing to check are counted.

    Args:
        settings: How to call; its method is `check`, and its service the one that checks.
        citation_threshold: From which score on a fact is cited, in [0, 1]; None for the service's own.
        client_of: See `GenerateAnswers`.
        pacer_of: See `GenerateAnswers`.

    Raises:
        ValueError: The settings are those of another method.
    """

    def __init__(
        self,
        settings: CallSettings,
        citation_threshold: float | None = None,
        client_of: ClientOf = open_client,
        pacer_of: PacerOf = open_pacer,
    ) -> None:
        super().__init__()
        if settings.method != "check":
            raise ValueError(f"the settings' method is {settings.method}: to check answers it must be check")
        self._calling = (settings, client_of, pacer_of)
        self._citation_threshold = citation_threshold

    def expand(self, outcomes: beam.PCollection[Outcome]) -> dict[str, beam.PCollection[Outcome]]:
        """Make the checks and ask them."""
        checks = outcomes | "Checks" >> beam.ParDo(
            _ChecksFn(self._citation_threshold, self._calling[0])
        ).with_outputs(REFUSED, main=CHECKED)
        return {
            CHECKED: checks[CHECKED] | "Check" >> GenerateAnswers(*self._calling),
            REFUSED: checks[REFUSED],
        }


class _ChecksFn(beam.DoFn):
    def __init__(self, citation_threshold: float | None, settings: CallSettings) -> None:
        self._how = (citation_threshold, settings.service, settings.api_version)
        self._skipped = Metrics.counter(CHECKS, SKIPPED)

    def process(self, outcome: Outcome) -> Iterator[AnswerCheck | beam.pvalue.TaggedOutput]:
        for check in checks_of(outcome, *self._how):
            if check is None:
                self._skipped.inc()
            elif isinstance(check, Outcome):
                yield beam.pvalue.TaggedOutput(REFUSED, check)
            else:
                yield check
