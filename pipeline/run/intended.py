"""What a run is going to do, worked out from its flags before anything is called, written or removed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

from groundrows.pipeline.options.run import RunOptions
from groundrows.pipeline.run.prices import Prices
from groundrows.pipeline.run.runner import empty_pipeline, equip_workers, worker_processes
from groundrows.pipeline.run.settings import ledger_of, pacing_of, prices_of, read_settings
from groundrows.pipeline.sources.seam import Source, source_of
from groundrows.pipeline.storage.output import Output
from groundrows.schemas.check import CheckSettings
from groundrows.schemas.question import RecordSettings


class Kind(Enum):
    """Where the records of a run come from, and which process does the work."""

    ARCHIVES = "archives; this process waits for the end of the run"
    REPLAY = "failures of earlier runs; this process waits for the end of the run"
    WORKER = "a subscription, which this process works through"
    JOB = "archives or a subscription; a service such as Dataflow does the work"


@dataclass(frozen=True)
class Intended:
    """A run that has not begun. Each property is computed once, when it is first read.

    Each property raises `UsageError` when the flags are wrong. No property calls or writes anything.

    Attributes:
        options: The flags.
        kind: Where the records come from, and which process does the work.
        started: When the command was started, in seconds on the monotonic clock.
        source_in: Returns the source once the output directory is claimed. Set when the source lies inside
            the output directory; None otherwise.
    """

    options: RunOptions
    kind: Kind
    started: float
    source_in: Callable[[Output], Source] | None = None

    @cached_property
    def beam_options(self) -> PipelineOptions:
        """The runner's options, including those that install this package on its workers."""
        found = PipelineOptions(list(self.options.runner_flags))
        if self.options.is_stream and self.kind is not Kind.WORKER:
            found.view_as(StandardOptions).streaming = True
        equip_workers(found)
        return found

    @cached_property
    def pipeline(self) -> beam.Pipeline:
        """The empty pipeline."""
        return empty_pipeline(self.beam_options)

    @cached_property
    def processes(self) -> int | None:
        """The number of worker processes, or None when the runner decides."""
        return worker_processes(self.beam_options)

    @cached_property
    def records(self) -> RecordSettings | CheckSettings:
        """How records are read, with the request defaults."""
        return read_settings(self.options)

    @cached_property
    def prices(self) -> Prices | None:
        """What calls cost, where the flags say it."""
        return prices_of(self.options)

    @cached_property
    def pacing(self) -> tuple[str, int]:
        """The rate limiter, and the number of shards that it divides the limit by."""
        return pacing_of(self.options, self.beam_options)

    @cached_property
    def ledger(self) -> str:
        """The ledger's URI, or `none`."""
        return ledger_of(self.options, self.beam_options)

    @cached_property
    def source(self) -> Source:
        """The source that the flags name."""
        return source_of(self.options)

    def settled_source(self, where: Output) -> Source:
        """Return the source of the records. The output directory must be claimed before."""
        return self.source if self.source_in is None else self.source_in(where)
