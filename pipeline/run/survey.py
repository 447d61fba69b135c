"""What an archive would ask: read as a run reads it, with nothing called."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice

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
    """Why records are invalid: how many, and the first of them."""

    stage: str
    code: str
    count: int
    origin: str
    message: str


@dataclass(slots=True)
class Survey:
    """What was found; every record is invalid, a duplicate, already answered, or a question.

    Attributes:
        records: Records read.
        reasons: Why the invalid ones are, by stage and code.
        duplicates: Records that an earlier one asks already.
        already_answered: Questions whose answers the output holds (`--append`).
        questions: Questions that are left.
        turns: Their turns.
        stored_turns: Those of them that the ledger holds: of each conversation up to the first missing one.
        shared_turns: Those that another question's equal request answers (`--share_identical`).
        calls: Requests that must be sent, each once.
        most_calls: Those of the longest conversation, which leave one after another.
        checks: Checks of answers that must be sent at most: one for each answer to come, which mostly has one
            candidate, and those of stored answers that the ledger does not hold as well.
        characters: Text in those requests, the history of later turns included as far as it is known.
        largest_bytes: Size of the largest of those requests, 0 when there is none.
        largest_origin: Where its record is from.
        prompts: The turns of the first questions.
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

    @property
    def invalid(self) -> int:
        """Records that can't be asked."""
        return sum(reason.count for reason in self.reasons.values())


class Surveyor:
    """Takes records in; `found` says what they come to.

    Args:
        records: How records are read.
        calls: How a run would call; of it only counts what makes requests and their names.
        ledger: What is stored already.
        scratch: An empty ledger to note in what was seen: kept on disk, it keeps memory bounded.
        answered: Turns whose rows are there already, or None.
        checks: How answers are checked, or None where they are not.
        citation_threshold: From which score on such a check cites a chunk; None for the service's own.
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
        """Take in everything, a batch of the run's own size at a time."""
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
            text_characters = service_of(job.question.service, job.question.api_version).text_characters
            for turn, request in enumerate(requests):
                if (job.question.origin, turn) in shared:
                    found.shared_turns += 1
                    continue
                calls += 1
                if self._checks is not None and len(job.answers) + turn not in job.delivered:
                    found.checks += 1
                found.characters += text_characters(request, job.question.method)
                if len(request) > found.largest_bytes:
                    found.largest_bytes, found.largest_origin = len(request), job.question.origin
            found.calls += calls
            found.most_calls = max(found.most_calls, calls)

    def _count_stored_checks(self, jobs: Sequence[Job], settings: CallSettings) -> None:
        """Count the checks of answers that are stored, unless they are stored themselves."""
        outcomes = [outcome_of(job, job.answers, None, (), 0) for job in jobs]
        checks = [
            next_job(None, check, (), {}, settings)
            for outcome in outcomes
            for check in checks_of(outcome, self._citation_threshold, settings.service, settings.api_version)
            if isinstance(check, AnswerCheck)
        ]
        missing, _ = look_up(stored_in(self._ledger), checks, settings)
        claims = {job.key: job.question.question_id for job in missing}
        holders = self._scratch.claim("checks", claims)  # equal ones are asked once, under --share_identical
        self.found.checks += sum(holders[key] == answer_id for key, answer_id in claims.items())

    def _shared(self, asked: Sequence[tuple[Job, list[bytes]]]) -> frozenset[tuple[str, int]]:
        """The requests, by origin and place, that another record was first to need."""
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
    """The requests that a job still needs, in order, with nothing in the place of answers to come."""
    yield job.request
    said = [answer_text(answer) for answer in job.answers]
    for _ in range(len(job.answers) + 1, len(job.question.turns)):
        said.append("")
        yield request_after(job.question, said, location)
