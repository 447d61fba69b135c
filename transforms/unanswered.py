"""Records into the questions that an output does not answer yet: `ParseQuestions` for `--append`.

When an archive that has grown is asked again, nearly all of its records are answered already. An element
costs Beam more than it costs to find that out, and so does a claim in the ledger. So these records end here:
they are counted, and they become no elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.transforms.window import GlobalWindows

from groundrows.schemas.check import CheckSettings
from groundrows.schemas.outcome import Failure
from groundrows.schemas.question import Question, RecordSettings
from groundrows.schemas.record import Record
from groundrows.transforms.counters import ALREADY_ANSWERED, DUPLICATES, RECORDS, TALLY
from groundrows.transforms.generate.calling.answered import AnsweredTurns, delivered_turns, is_complete
from groundrows.transforms.generate.calling.job import first_of_their_kind
from groundrows.transforms.parse import FAILURES, QUESTIONS, parse_record

# Looked up together. Records can be large, and no more than so many bytes of them wait for the others.
BATCH_RECORDS = 500
BATCH_BYTES = 4 << 20


class ParseUnanswered(beam.PTransform):
    """`Record` → `Question`, with what can't be asked as `Failure` beside it; no answered question comes out.

    The result has the PCollections that `ParseQuestions` has. A question that is left out counts as
    `ALREADY_ANSWERED`, and as `DUPLICATES` when it was left out before in this run. Questions of which a turn
    is not answered, or an answer is yet to be checked, come out. The records are those of archives: the
    windows and timestamps of others would be lost.

    Args:
        settings: How records are read.
        answered_path: The file of answered turns; see `AnsweredTurns`.
    """

    def __init__(self, settings: RecordSettings | CheckSettings, answered_path: str) -> None:
        super().__init__()
        self._settings = settings
        self._answered_path = answered_path

    def expand(self, records: beam.PCollection[Record]) -> beam.pvalue.DoOutputsTuple:
        """Parse the records, and look their questions up batch by batch."""
        step = beam.ParDo(_ParseUnanswered(self._settings, self._answered_path))
        return records | step.with_outputs(FAILURES, main=QUESTIONS)


class _ParseUnanswered(beam.DoFn):
    def __init__(self, settings: RecordSettings | CheckSettings, answered_path: str) -> None:
        super().__init__()
        self._settings = settings
        self._answered_path = answered_path
        self._already_answered = Metrics.counter(RECORDS, ALREADY_ANSWERED)
        self._duplicates = Metrics.counter(RECORDS, DUPLICATES)

    def setup(self) -> None:
        self._answered = AnsweredTurns(self._answered_path)

    def teardown(self) -> None:
        self._answered.close()

    def start_bundle(self) -> None:
        self._batch: list[Question] = []
        self._bytes = 0

    def process(self, record: Record) -> Iterable[Question | beam.pvalue.TaggedOutput]:
        parsed = parse_record(record, self._settings)
        if isinstance(parsed, Failure):
            return (beam.pvalue.TaggedOutput(FAILURES, parsed),)
        self._batch.append(parsed)
        self._bytes += len(record.body)
        if len(self._batch) < BATCH_RECORDS and self._bytes < BATCH_BYTES:
            return ()
        return self._unanswered()

    def finish_bundle(self) -> Iterator[Any]:
        return map(GlobalWindows.windowed_value, self._unanswered())

    def _unanswered(self) -> Sequence[Question]:
        batch, self._batch, self._bytes = self._batch, [], 0
        delivered = delivered_turns(self._answered, batch)
        left_out = [each for each, turns in zip(batch, delivered, strict=True) if is_complete(each, turns)]
        if not left_out:
            return batch
        first = sum(first_of_their_kind(self._answered.claim, left_out))
        self._already_answered.inc(first)
        self._duplicates.inc(len(left_out) - first)
        TALLY.left_out += len(left_out)
        return [each for each, turns in zip(batch, delivered, strict=True) if not is_complete(each, turns)]
