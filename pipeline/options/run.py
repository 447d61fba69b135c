"""Flags into settings, all checked before the first call."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from groundrows.pipeline.options.endpoints import Endpoint, where_to_call
from groundrows.pipeline.options.flags import (
    EXAMPLE,
    FlagParser,
    HelpFormatter,
    add_run_flags,
    check_runner_flags,
)
from groundrows.pipeline.options.source import Source, dataset_of, one_source, topic
from groundrows.pipeline.storage.uris import without_password
from groundrows.schemas.errors import UsageError

if TYPE_CHECKING:
    import argparse

# Quotas differ per customer; this is low enough to be anybody's.
DEFAULT_REQUESTS_PER_MINUTE = 60.0
# What a number may be at most: databases and clocks take no more.
MOST = 1_000_000_000
DAY_SECONDS = 86_400
WINDOW_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class RunOptions:
    """A run as asked for; every value was checked as far as it can be without opening anything.

    The attributes bear the flags' names. `endpoint` is None when the run starts its own emulator;
    `requests_per_minute` None means no limit; `runner_flags` are Beam's own.
    """

    inputs: tuple[str, ...]
    output: str
    service: str
    endpoint: Endpoint | None
    location: str
    api_version: str
    transport: str
    emulator_flags: tuple[str, ...]
    question_field: str
    id_field: str
    question_template: tuple[str, ...]
    request_defaults: str | None
    requests_per_minute: float | None
    max_in_flight: int
    batch_size: int
    rate_limiter: str | None
    pacing_shards: int | None
    expected_latency_seconds: float
    deadline_seconds: float
    max_attempts: int
    max_requests: int | None
    ledger: str | None
    share_identical: bool
    keep_response: bool
    overwrite: bool
    append: bool
    max_failure_share: float
    quiet: bool
    runner_flags: tuple[str, ...]
    input_subscription: str | None = None
    input_topic: str | None = None
    id_attribute: str | None = None
    timestamp_attribute: str | None = None
    stop_when_idle: float | None = None
    mode: str = "generate"
    answer_field: str = "answer"
    stream_answers: bool = False
    check_grounding: bool = False
    citation_threshold: float | None = None
    check_requests_per_minute: float | None = None
    window_seconds: float = WINDOW_SECONDS
    output_shards: int = 1
    failures_topic: str | None = None
    bigquery_dataset: str | None = None

    @property
    def is_stream(self) -> bool:
        """Whether questions come from Pub/Sub rather than files."""
        return self.input_subscription is not None or self.input_topic is not None


def run_parser(prog: str = "groundrows run") -> FlagParser:
    """The parser of a run's flags."""
    parser = FlagParser(
        prog=prog,
        description="Ask every question of an archive and write the answers as rows.",
        epilog=EXAMPLE + "\nFlags of the runner, such as --direct_num_workers, pass through.",
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    add_run_flags(parser)
    return parser


def parse_run(argv: Sequence[str]) -> RunOptions:
    """Check a run's flags.

    Raises:
        UsageError: One sentence about the first thing that is wrong.
    """
    flags, runner_flags = parse_flags(run_parser(), argv)
    inputs = one_source(flags)
    check_output(flags)
    return checked_options(flags, runner_flags, inputs)


def parse_flags(parser: FlagParser, argv: Sequence[str]) -> tuple[argparse.Namespace, tuple[str, ...]]:
    """Take a command line apart into the parser's flags and the runner's.

    Raises:
        UsageError: A flag is neither's, or its value is of the wrong kind.
    """
    flags, runner_flags = parser.parse_known_args(list(argv))
    check_runner_flags(parser, runner_flags)
    return flags, tuple(runner_flags)


def check_output(flags: argparse.Namespace) -> None:
    """Check that the rows have somewhere to go."""
    if not flags.output:
        raise UsageError("Nothing says where the rows go: give --output=DIR.")


def checked_options(flags: argparse.Namespace, runner_flags: tuple[str, ...], inputs: Source) -> RunOptions:
    """Check the flags that every command which looks at questions has.

    Args:
        flags: The flags; `output` may be missing, and is then empty in what comes back.
        runner_flags: Flags for the runner.
        inputs: What to read, already checked.

    Raises:
        UsageError: One sentence about the first thing that is wrong.
    """
    if flags.overwrite and flags.append:
        raise UsageError("--overwrite replaces what is there and --append adds to it: give only one of them.")
    endpoint, location = where_to_call(flags)
    _check_mode(flags)
    for name in ("question_field", "id_field", "answer_field"):
        if not getattr(flags, name):
            raise UsageError(f"--{name} is empty: give a field's name, or leave it out.")
    if any(flag.partition("=")[0] == "--port" for flag in flags.emulator_flags.split()):
        raise UsageError("--emulator_flags holds --port, which the run chooses itself: leave it out.")
    _numbers(flags)
    return RunOptions(
        inputs=inputs.patterns,
        input_subscription=inputs.subscription,
        input_topic=inputs.topic,
        id_attribute=inputs.id_attribute,
        timestamp_attribute=inputs.timestamp_attribute,
        stop_when_idle=inputs.stop_when_idle,
        mode=flags.mode,
        output=(flags.output.rstrip("/") or "/") if flags.output else "",
        service=flags.service,
        endpoint=endpoint,
        location=location,
        api_version=flags.api_version,
        transport=flags.transport,
        emulator_flags=_emulator_flags(flags),
        question_field=flags.question_field,
        id_field=flags.id_field,
        question_template=tuple(flags.question_template),
        answer_field=flags.answer_field,
        request_defaults=flags.request_defaults,
        stream_answers=flags.stream_answers,
        check_grounding=flags.check_grounding,
        citation_threshold=flags.citation_threshold,
        check_requests_per_minute=_check_limit(flags),
        requests_per_minute=_limit(flags),
        max_in_flight=flags.max_in_flight,
        batch_size=flags.batch_size,
        rate_limiter=_rate_limiter(flags),
        pacing_shards=flags.pacing_shards,
        expected_latency_seconds=flags.expected_latency_seconds,
        deadline_seconds=flags.deadline_seconds,
        max_attempts=flags.max_attempts,
        max_requests=flags.max_requests,
        ledger=_ledger(flags),
        share_identical=flags.share_identical,
        keep_response=flags.keep_response,
        window_seconds=WINDOW_SECONDS if flags.window_seconds is None else flags.window_seconds,
        output_shards=1 if flags.output_shards is None else flags.output_shards,
        failures_topic=topic(flags.failures_topic, "failures_topic"),
        bigquery_dataset=str(dataset_of(flags.bigquery_dataset)) if flags.bigquery_dataset else None,
        overwrite=flags.overwrite,
        append=flags.append,
        max_failure_share=flags.max_failure_share,
        quiet=flags.quiet,
        runner_flags=runner_flags,
    )


def _emulator_flags(flags: argparse.Namespace) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(flags.emulator_flags))
    except ValueError:
        raise UsageError(
            f"--emulator_flags={flags.emulator_flags} has a quote without its partner: add it."
        ) from None


def _check_mode(flags: argparse.Namespace) -> None:
    if flags.mode == "check":
        for name in ("question_template", "request_defaults", "stream_answers", "check_grounding"):
            if getattr(flags, name):
                raise UsageError(f"--{name} is for generating, and --mode=check does not: leave it out.")
        if flags.append:
            raise UsageError(
                "--append looks for answers that are there, and --mode=check writes none: name another "
                "--output; the ledger keeps what was checked."
            )
    elif flags.citation_threshold is not None and not flags.check_grounding:
        raise UsageError("--citation_threshold is for checks: give --check_grounding too, or leave it out.")
    elif flags.answer_field != "answer":
        raise UsageError(
            f"--answer_field={flags.answer_field} is for --mode=check: give that too, or leave it out."
        )
    if flags.mode != "check" and flags.check_requests_per_minute is not None and not flags.check_grounding:
        raise UsageError(
            "--check_requests_per_minute is for checks: give --check_grounding too, or leave it out."
        )


def _numbers(flags: argparse.Namespace) -> None:
    for name in (
        "max_in_flight",
        "batch_size",
        "max_attempts",
        "pacing_shards",
        "max_requests",
        "output_shards",
    ):
        value = getattr(flags, name)
        if value is not None and not 1 <= value <= MOST:
            raise UsageError(f"--{name}={value} makes no sense: give a whole number from 1 to {MOST}.")
    for name, least, most in (
        ("requests_per_minute", 0.001, MOST),
        ("check_requests_per_minute", 0.001, MOST),
        ("deadline_seconds", 0.001, DAY_SECONDS),
        ("expected_latency_seconds", 0.001, DAY_SECONDS),
        ("window_seconds", 1, DAY_SECONDS),
        ("citation_threshold", 0, 1),
    ):
        value = getattr(flags, name)
        if value is not None and not least <= value <= most:  # nor is anything in between a NaN
            raise UsageError(f"--{name}={value:g} makes no sense: give a number from {least} to {most}.")
    if not 0 <= flags.max_failure_share <= 1:
        raise UsageError(f"--max_failure_share={flags.max_failure_share:g} is no share: give 0 to 1.")


def _limit(flags: argparse.Namespace) -> float | None:
    if flags.requests_per_minute is not None:
        return float(flags.requests_per_minute)
    return None if flags.service == "emulator" else DEFAULT_REQUESTS_PER_MINUTE


def _check_limit(flags: argparse.Namespace) -> float | None:
    """The limit of the checks that follow answers; checks alone have the run's own."""
    if flags.check_requests_per_minute is not None:
        return float(flags.check_requests_per_minute)
    return None if flags.service == "emulator" else DEFAULT_REQUESTS_PER_MINUTE


def _rate_limiter(flags: argparse.Namespace) -> str | None:
    how: str | None = flags.rate_limiter
    if how is not None and how not in ("local", "sharded"):
        _check_limiter_uri(how)
        if how.startswith("redis://") and _limit(flags) is None:
            raise UsageError("--rate_limiter=redis://… shares a limit: say which with --requests_per_minute.")
    if flags.pacing_shards is not None and how not in (None, "sharded"):
        raise UsageError(
            "--pacing_shards is for --rate_limiter=sharded, not for "
            f"{without_password(how)}: leave one of them out."
        )
    return how


def _check_limiter_uri(uri: str) -> None:
    if uri.startswith("redis://"):
        from groundrows.transforms.generate.redis_server import server_name

        try:
            server_name(uri)
        except ValueError as error:
            raise UsageError(f"--rate_limiter={without_password(uri)} {error}.") from None
    elif not re.fullmatch(r"envoy://[^/?#@\s]+:[0-9]{1,5}(?:/[^?\s]*)?(?:\?\S*)?", uri):
        raise UsageError(
            f"--rate_limiter={without_password(uri)} is none: "
            "use local, sharded, redis://HOST:PORT/DB or envoy://HOST:PORT."
        )


def _ledger(flags: argparse.Namespace) -> str | None:
    ledger: str | None = flags.ledger
    if ledger is not None and ledger != "none" and not re.match(r"(sqlite:///|redis://).", ledger):
        raise UsageError(
            f"--ledger={without_password(ledger)} is none: "
            "use sqlite:///PATH, redis://HOST:PORT/DB or the word none."
        )
    if ledger == "none" and flags.share_identical:
        raise UsageError("--share_identical looks answers up in the ledger: give it one, or leave it out.")
    return ledger
