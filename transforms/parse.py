"""Records into questions and checks: what can't be asked becomes a failure, and the run goes on."""

from __future__ import annotations

from collections.abc import Iterator

import apache_beam as beam

from groundrows.schemas.check import CheckSettings, parse_check
from groundrows.schemas.errors import RecordError
from groundrows.schemas.jsontext import derived_id
from groundrows.schemas.outcome import Failure
from groundrows.schemas.question import Question, RecordSettings, parse_question
from groundrows.schemas.record import Record

QUESTIONS = "questions"
FAILURES = "failures"


def parse_record(record: Record, settings: RecordSettings | CheckSettings) -> Question | Failure:
    """The question a record asks, or why it asks none. It never raises: a record costs one row at most.

    With `CheckSettings` the record is an answer, and the question one of the method `check`.
    """
    try:
        if isinstance(settings, CheckSettings):
            return parse_check(record, settings)
        return parse_question(record, settings)
    except RecordError as error:
        return Failure(
            question_id=error.question_id,
            turn_index=0,
            stage=error.stage,
            code=error.code,
            message=error.message,
            retryable=False,
            attempts=0,
            origin=record.origin,
            record=record.body,
            metadata=error.metadata,
            history=record.history,
        )
    except Exception as error:
        return Failure(
            question_id=derived_id(record.body),
            turn_index=0,
            stage="parse",
            code="INTERNAL_PARSE_ERROR",
            # The exception's own text may hold the prompt.
            message=f"the record met a bug in the parser, {type(error).__name__}: report it with the record",
            retryable=False,
            attempts=0,
            origin=record.origin,
            record=record.body,
            metadata=None,
            history=record.history,
        )


class ParseQuestions(beam.PTransform):
    """`Record` → `Question`, with what can't be asked as `Failure` beside it.

    The result has two PCollections: `result[QUESTIONS]`, the main one, and `result[FAILURES]`.
    """

    def __init__(self, settings: RecordSettings) -> None:
        super().__init__()
        self._settings = settings

    def expand(self, records: beam.PCollection[Record]) -> beam.pvalue.DoOutputsTuple:
        """Parse each record by itself."""
        return records | beam.ParDo(_Parse(self._settings)).with_outputs(FAILURES, main=QUESTIONS)


class ParseChecks(beam.PTransform):
    """`Record` → `Question` of the method `check`, with what can't be checked as `Failure` beside it.

    The result has the PCollections that `ParseQuestions` has.
    """

    def __init__(self, settings: CheckSettings) -> None:
        super().__init__()
        self._settings = settings

    def expand(self, records: beam.PCollection[Record]) -> beam.pvalue.DoOutputsTuple:
        """Parse each record by itself."""
        return records | beam.ParDo(_Parse(self._settings)).with_outputs(FAILURES, main=QUESTIONS)


class _Parse(beam.DoFn):
    def __init__(self, settings: RecordSettings | CheckSettings) -> None:
        super().__init__()
        self._settings = settings

    def process(self, record: Record) -> Iterator[Question | beam.pvalue.TaggedOutput]:
        parsed = parse_record(record, self._settings)
        yield beam.pvalue.TaggedOutput(FAILURES, parsed) if isinstance(parsed, Failure) else parsed
