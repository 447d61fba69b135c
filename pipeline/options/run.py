"""The flags of `groundrows run`, all checked before the first call."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from groundrows.pipeline.options.calling import CallOptions, check_calling, check_units, default_limit
from groundrows.pipeline.options.checks import refuse_without_effect, values_of
from groundrows.pipeline.options.flag import Flag, Only, flags_of
from groundrows.pipeline.options.parser import FlagParser
from groundrows.pipeline.options.questions import QuestionOptions
from groundrows.pipeline.options.rows import RowOptions, check_output, check_rows
from groundrows.pipeline.options.runner import check_runner_flags, without_secrets
from groundrows.pipeline.options.service import EMULATOR, ServiceOptions, is_emulated, service_asked, settled
from groundrows.pipeline.options.source import (
    SourceKind,
    SourceOptions,
    check_one_source,
    check_sample,
    source_kind,
)
from groundrows.pipeline.storage.uris import without_password
from groundrows.schemas.service import access_of

EXAMPLE = """\
example:
  groundrows run --service=emulator --input=questions.jsonl --output=out/first
"""
RUNNERS = "\nFlags of the runner, such as --direct_num_workers, pass through."


# A dataclass lists the attributes of its last base class first. The help has the same order.
@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(RowOptions, CallOptions, ServiceOptions, QuestionOptions, SourceOptions):
    """The flags of a run. Every value is checked as far as possible without opening a file.

    `endpoint` is None when the run starts its own emulator. `requests_per_minute` is None for no limit.
    `runner_flags` are flags of Beam.
    """

    runner_flags: tuple[str, ...] = ()

    @property
    def source_kind(self) -> SourceKind | None:
        """Where the records come from; None for a replay, which reads the failures of earlier runs."""
        return source_kind(partial(getattr, self))

    @property
    def asked(self) -> str:
        """The service that is called; for an emulator, the service that it emulates."""
        return service_asked(self.service)

    @property
    def is_stream(self) -> bool:
        """Whether the source is endless, as Pub/Sub is."""
        return self.source_kind is not None and not self.source_kind.bounded


def run_flags() -> tuple[Flag, ...]:
    """Every flag of a run."""
    return flags_of(RunOptions)


def replay_flags() -> tuple[Flag, ...]:
    """The flags of a run that a replay has, too. It has none for the source, which are earlier failures."""
    return tuple(flag for flag in run_flags() if not flag.names_source and flag.only is not Only.STREAMS)


def run_parser(prog: str = "groundrows run") -> FlagParser:
    """The parser of a run's flags."""
    return FlagParser(
        prog=prog,
        description="Ask every question of an archive and write the answers as rows.",
        epilog=EXAMPLE + RUNNERS,
        flags=run_flags(),
    )


def parse_run(argv: Sequence[str]) -> RunOptions:
    """Check a run's flags.

    Raises:
        UsageError: One sentence about the first thing that is wrong.
    """
    given, runner_flags = parse_flags(run_parser(), argv)
    check_one_source(given)
    return checked_options(run_flags(), given, runner_flags)


def parse_flags(parser: FlagParser, argv: Sequence[str]) -> tuple[argparse.Namespace, tuple[str, ...]]:
    """Split a command line into the parser's flags and the runner's.

    Raises:
        UsageError: A flag is neither's, or its value is of the wrong kind.
    """
    given, runner_flags = parser.parse_known_args(list(argv))
    check_runner_flags(parser, runner_flags)
    return given, tuple(runner_flags)


def checked_options(
    flags: Sequence[Flag],
    given: argparse.Namespace,
    runner_flags: tuple[str, ...],
    *,
    needs_output: bool = True,
) -> RunOptions:
    """Check the flags that `run`, `plan` and `replay` share.

    Args:
        flags: The run's flags that the command has. Attributes of other flags keep their defaults.
        given: The values from the command line.
        runner_flags: Flags for the runner.
        needs_output: Whether rows are written, so that `--output` must be given.

    Raises:
        UsageError: One sentence about the first thing that is wrong.
    """
    values = values_of(flags, given)
    if needs_output:
        check_output(values)
    emulated = is_emulated(values["service"], values["endpoint"])
    where = settled(values)
    refuse_without_effect(flags, values)
    if "limit" in values:  # a replay has no such flag
        check_sample(values)
    for name in ("requests_per_minute", "check_requests_per_minute"):
        if values[name] is None:
            values[name] = default_limit(emulated)
    check_calling(values)
    access = access_of(service_asked(values["service"]), where["location"])
    check_units(
        values, service_asked(values["service"]), reported=access is not None and access.reports_usage
    )
    check_rows(values)
    return RunOptions(**{**values, **where, "runner_flags": runner_flags})


def shown_flags(options: RunOptions) -> dict[str, Any]:
    """Return the flags for `run.json`: by attribute, without secrets."""
    shown: dict[str, Any] = {each.name: getattr(options, each.name) for each in fields(options)}
    for flag in run_flags():
        if flag.secret and shown[flag.attribute]:
            shown[flag.attribute] = without_password(shown[flag.attribute])
    shown["runner_flags"] = without_secrets(options.runner_flags)
    if options.endpoint is not None:
        shown["endpoint"] = options.endpoint.address
    elif options.service != EMULATOR:
        shown["endpoint"] = EMULATOR  # without this, the report's replay command would call the real service
    return shown
