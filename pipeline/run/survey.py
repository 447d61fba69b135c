"""For `groundrows plan`: counts what a run over an archive would ask, without making a call.

It reads the archive in the same way as a run does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice

from groundrows.pipeline.run.expected import Needs
from groundrows.pipeline.sources.formats.items import Item
from groundrows.schemas.check import CheckSettings
from groundrows.schemas.outcome import Failure
from groundrows.schemas.question import Question, RecordSettings
from groundrows.schemas.record import Record
from groundrows.schemas.service import service_of
from groundrows.transforms.check import AnswerCheck, checks_of
from groundrows.transforms.generate.calling.answered import AnsweredTurns, delivered_turns
from groundrows.transforms.generate.calling.conversation import answer_text, request_after
from groundrows.transforms.generate.calling.job import Job, claimed, look_up, next_job, stored_in
from groundrows.transforms.generate.calling.outcomes import outcome_of
from groundrows.transforms.generate.ledger.base import Ledger, entry_key, fingerprint
from groundrows.transforms.generate.settings import CallSettings
from groundrows.transforms.parse import parse_record

PROMPTS_KEPT = 3


@dataclass(slots=True)
class Reason:
    """A reason for which records are invalid: their number, and the first one."""

    stage: str
    code: str
    count: int
    origin: str
    message: str


@dataclass(slots=True)
class Survey:
    """What was counted. Every record is invalid, a duplicate, already answered, or a question.

    A question has one turn, or several when it is a conversation. Each turn needs one answer.

    Attributes:
        records: Number of records read.
        reasons: Why records are invalid, by stage and code.
        duplicates: Number of records that repeat an earlier record.
        already_answered: Number of questions whose answers the output has (`--append`).
        questions: Number of questions left to ask.
        turns: Number of turns in these questions.
        stored_turns: Number of these turns whose answers are in the ledger. A conversation is counted up to
            its first turn that has no stored answer.
        shared_turns: Number of turns that an equal request of another question answers (`--share_identical`).
        calls: Number of calls to make, without retries.
        most_calls: Number of calls in the longest conversation, which are made one after another.
        checks: Largest number of checks to make: one for each new answer (most answers have one candidate),
            and one for each stored answer whose check is not stored.
        characters: Number of characters in the requests, with as much of the history of later turns as is
            known now.
        largest_bytes: Size of the largest request in bytes; 0 when there is none.
        largest_origin: Where the record of the largest request comes from.
        prompts: The turns of the first questions.
        needs: What those requests need in tokens and searches, by model, where the service reports it.
    """

    records: int = 0
    reasons: dict[tuple[str, str], Reason] = field(default_factory=dict)
    duplicates: int = 0
    already_answered: int = 0
    questions: int = 0
    turns: int = 0
    stored_turns: int = 0
    shared_turns: int = 0
    calls: int = 0
    most_calls: int = 0
    checks: int = 0
    characters: int = 0
    largest_bytes: int = 0
    largest_origin: str = ""
    prompts: list[tuple[str, ...]] = field(default_factory=list)
    needs: dict[str, Needs] = field(default_factory=dict)

    @property
    def invalid(self) -> int:
        """The number of records that can't be asked."""
        return sum(reason.count for reason in self.reasons.values())


class Surveyor:
    """Reads records and counts them in `found`.

    Args:
        records: How records are read.
        calls: The settings of the run's calls; only those that form requests and their keys are used.
        ledger: The store of earlier answers.
        scratch: An empty ledger for the keys that were seen. It may be on disk, which keeps memory bounded.
        answered: The turns that have rows in the output, or None.
        checks: How answers are checked, or None when they are not.
        citation_threshold: The lowest score with which a check cites a chunk; None for the service's default.
    """

    def __init__(
        self,
        records: RecordSettings | CheckSettings,
        calls: CallSettings,
        ledger: Ledger,
        scratch: Ledger,
        answered: AnsweredTurns | None,
        checks: CallSettings | None = None,
        citation_threshold: float | None = None,
    ) -> None:
        self.found = Survey()
        self._checks = checks
        self._citation_threshold = citation_threshold
        self._records = records
        self._calls = calls
        self._ledger = ledger
        self._scratch = scratch
        self._answered = answered

    def read(self, items: Iterable[Item]) -> None:
        """Read all records, in batches of the size that a run uses."""
        rest = iter(items)
        while batch := list(islice(rest, self._calls.batch_size)):
            questions = []
            for item in batch:
                self.found.records += 1
                parsed = parse_record(item, self._records) if isinstance(item, Record) else item
                if isinstance(parsed, Failure):
                    self._note_invalid(parsed)
                else:
                    questions.append(parsed)
            self._take(questions)

    def _note_invalid(self, failure: Failure) -> None:
        key = (failure.stage, failure.code)
        reason = self.found.reasons.get(key)
        if reason is None:
            reason = Reason(failure.stage, failure.code, 0, failure.origin, failure.message)
            self.found.reasons[key] = reason
        reason.count += 1

    def _take(self, questions: Sequence[Question]) -> None:
        found = self.found
        first = claimed(self._scratch, "questions", questions)
        delivered = delivered_turns(self._answered, questions)
        jobs, unchecked = [], []
        for is_first, turns, question in zip(first, delivered, questions, strict=True):
            if not is_first:
                found.duplicates += 1
            elif len(turns) >= len(question.turns):
                found.already_answered += 1
                if any(turns.values()):
                    unchecked.append(next_job(None, question, (), turns, self._calls))
            else:
                found.questions += 1
                found.turns += len(question.turns)
                if len(found.prompts) < PROMPTS_KEPT:
                    found.prompts.append(question.turns)
                jobs.append(next_job(None, question, (), turns, self._calls))
        calling, over = look_up(stored_in(self._ledger), jobs, self._calls)
        found.stored_turns += sum(len(job.answers) for job in (*calling, *over))
        self._count_calls(calling)
        if self._checks is not None:
            stored = look_up(stored_in(self._ledger), unchecked, self._calls)
            self._count_stored_checks([*calling, *over, *chain(*stored)], self._checks)

    def _count_calls(self, jobs: Sequence[Job]) -> None:
        found = self.found
        asked = [(job, list(requests_left(job, self._calls.location))) for job in jobs]
        shared = self._shared(asked) if self._calls.share_identical else frozenset()
        for job, requests in asked:
            calls = 0
            service = service_of(job.question.service, job.question.api_version)
            for turn, request in enumerate(requests):
                if (job.question.origin, turn) in shared:
                    found.shared_turns += 1
                    continue
                calls += 1
                if self._checks is not None and len(job.answers) + turn not in job.delivered:
                    found.checks += 1
                found.characters += service.text_characters(request, job.question.method)
                need = service.need(request) if job.question.method == "generate" else None
                if need is not None:
                    found.needs.setdefault(need.model, Needs()).add(need)
                if len(request) > found.largest_bytes:
                    found.largest_bytes, found.largest_origin = len(request), job.question.origin
            found.calls += calls
            found.most_calls = max(found.most_calls, calls)

    def _count_stored_checks(self, jobs: Sequence[Job], settings: CallSettings) -> None:
        """Count the checks of stored answers, except checks that are stored, too."""
        outcomes = [outcome_of(job, job.answers, None, (), 0) for job in jobs]
        checks = [
            next_job(None, check, (), {}, settings)
            for outcome in outcomes
            for check in checks_of(outcome, self._citation_threshold, settings.service, settings.api_version)
            if isinstance(check, AnswerCheck)
        ]
        missing, _ = look_up(stored_in(self._ledger), checks, settings)
        claims = {job.key: job.question.question_id for job in missing}
        holders = self._scratch.claim("checks", claims)  # with --share_identical, equal checks are sent once
        self.found.checks += sum(holders[key] == answer_id for key, answer_id in claims.items())

    def _shared(self, asked: Sequence[tuple[Job, list[bytes]]]) -> frozenset[tuple[str, int]]:
        """Return the requests, by origin and turn, that an earlier record needs, too."""
        keys = {
            (job.question.origin, turn): entry_key("", len(job.answers) + turn, _name(job, request))
            for job, requests in asked
            for turn, request in enumerate(requests)
        }
        claims: dict[bytes, str] = {}
        for (origin, _), key in keys.items():
            claims.setdefault(key, origin)
        holders = self._scratch.claim("requests", claims)
        return frozenset(place for place, key in keys.items() if holders[key] != place[0])


def _name(job: Job, request: bytes) -> bytes:
    question = job.question
    return fingerprint(
        request,
        question.api_version,
        method=question.method,
        user_context=question.user_context,
        service=question.service,
    )


def requests_left(job: Job, location: str) -> Iterator[bytes]:
    """Yield the requests that a job still needs, in order. Answers that are not known yet are left empty."""
    yield job.request
    said = [answer_text(answer) for answer in job.answers]
    for _ in range(len(job.answers) + 1, len(job.question.turns)):
        said.append("")
        yield request_after(job.question, said, location)
