"""A run as it is intended: its flags, who carries it out, and what follows from both; nothing is touched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

from groundrows.pipeline.options.run import RunOptions
from groundrows.pipeline.run.runner import empty_pipeline, equip_workers, worker_processes
from groundrows.pipeline.run.settings import ledger_of, pacing_of, read_settings
from groundrows.pipeline.sources.seam import Source, source_of
from groundrows.pipeline.storage.output import Output
from groundrows.schemas.check import CheckSettings
from groundrows.schemas.question import RecordSettings


class Kind(Enum):
    """Who carries a run out, and where its records come from."""

    ARCHIVES = "archives, whose end this process waits for"
    REPLAY = "what failed in earlier runs, whose end this process waits for"
    WORKER = "a subscription, worked off in this process"
    JOB = "archives or a subscription, handed to a service that carries the run out"


@dataclass(frozen=True)
class Intended:
    """A run that has not begun. Its properties are worked out once, when they are first asked for.

    Each property raises `UsageError` when the flags are wrong; nothing is called or written by any of them.

    Attributes:
        options: The flags.
        kind: Who carries it out.
        started: When the command was started, in seconds on the monotonic clock.
        source_in: Gives the source once the output directory is claimed, where it lies inside it.
    """

    options: RunOptions
    kind: Kind
    started: float
    source_in: Callable[[Output], Source] | None = None

    @cached_property
    def beam_options(self) -> PipelineOptions:
        """The runner's options, with what its workers need to have this package."""
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
        """How many processes will work, or None where the runner decides."""
        return worker_processes(self.beam_options)

    @cached_property
    def records(self) -> RecordSettings | CheckSettings:
        """How records are read, with the request defaults."""
        return read_settings(self.options)

    @cached_property
    def pacing(self) -> tuple[str, int]:
        """The rate limiter, and over how many shards it shares the limit out."""
        return pacing_of(self.options, self.beam_options)

    @cached_property
    def ledger(self) -> str:
        """The ledger's URI, or `none`."""
        return ledger_of(self.options, self.beam_options)

    @cached_property
    def source(self) -> Source:
        """Where the flags say that the records come from."""
        return source_of(self.options)

    def settled_source(self, where: Output) -> Source:
        """Where the records come from, once the output directory is claimed."""
        return self.source if self.source_in is None else self.source_in(where)
