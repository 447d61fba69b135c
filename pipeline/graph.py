"""The whole graph on one screen: records in, rows out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import apache_beam as beam

from pipeline import sources
from pipeline.output import Output
from pipeline.quantiles import WriteQuantiles
from pipeline.sinks import WriteRows
from pipeline.sources import Archive, ReadArchives
from schemas.question import RecordSettings
from transforms import parse
from transforms.flatten import FailureRows, FlattenOutcomes, FlattenSettings
from transforms.generate.settings import CallSettings
from transforms.generate.stage import GenerateAnswers
from transforms.parse import ParseQuestions


@dataclass(frozen=True, slots=True)
class Plan:
    """What a graph is built from: everything was checked, and nothing is opened yet."""

    archives: Sequence[Archive]
    records: RecordSettings
    calls: CallSettings
    rows: FlattenSettings
    output: Output
    spread: bool


def build(pipeline: beam.Pipeline, plan: Plan) -> None:
    """Add every step of a run over archives.

    With one worker process nothing is shuffled before the calls: the first call leaves at once, and memory
    does not grow with the archive. Several share the questions out, which shuffles them. Failures of the
    three places they come from go to three sinks, since the local runner keeps what it flattens together
    until the stage is done.
    """
    read = pipeline | "Read" >> ReadArchives(plan.archives, spread=plan.spread)
    parsed = read[sources.RECORDS] | "Parse" >> ParseQuestions(plan.records)
    questions = parsed[parse.QUESTIONS]
    if plan.spread and plan.calls.rate_limiter != "sharded":
        # Or whoever reads an archive would ask all its questions too.
        questions = questions | "Spread" >> beam.Reshuffle()
    outcomes = questions | "Generate" >> GenerateAnswers(plan.calls)
    rows = outcomes | "Flatten" >> FlattenOutcomes(plan.rows)

    rows | "Write" >> WriteRows(plan.output)
    rows | "Quantiles" >> WriteQuantiles(plan.output)
    for stage, failures in (("read", read[sources.FAILURES]), ("parse", parsed[parse.FAILURES])):
        failed = failures | f"Rows of {stage} failures" >> FailureRows(plan.rows.run_id)
        alone = failed | f"Each {stage} failure" >> beam.Map(lambda row: (row,))
        alone | f"Write {stage} failures" >> WriteRows(plan.output)
