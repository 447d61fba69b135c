"""Every flag of `groundrows run`, in groups, some shared. What the values may be is checked in `options`."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Sequence
from typing import Any, NoReturn

from groundrows.schemas.errors import UsageError

EXAMPLE = """\
example:
  groundrows run --service=emulator --input=questions.jsonl --output=out/first
"""


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Help that names the default of every flag that has one."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        said = action.help or ""
        if action.default in (None, False, "", [], argparse.SUPPRESS) or "default" in said:
            return said
        return f"{said} (default: %(default)s)".strip()


class FlagParser(argparse.ArgumentParser):
    """An argument parser that raises `UsageError` instead of printing its usage and leaving."""

    def error(self, message: str) -> NoReturn:
        """Raise what is wrong as one sentence."""
        raise UsageError(f"{message[:1].upper()}{message[1:]}; `{self.prog} --help` lists the flags.")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse, but refuse `--flag=--`, of which Python's parser makes a list, whatever the flag takes."""
        for text in args or ():
            if text.startswith("--") and text.endswith("=--"):
                self.error(f"argument {text[:-3]}: the value -- makes no sense")
        return super().parse_known_args(args, namespace)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse, and name the nearest flag to one that there is not."""
        flags, stray = self.parse_known_args(args, namespace)
        if stray:
            raise stray_flag(self.prog, stray[0], [self])
        return flags


def stray_flag(prog: str, text: str, parsers: Sequence[argparse.ArgumentParser]) -> UsageError:
    """The error that says of a flag or value that it is none of the parsers', and what was meant."""
    name = text.split("=")[0]
    if not name.startswith("-") or name == "--":
        return UsageError(f"The value {text!r} belongs to no flag: write --flag=value.")
    names = {name for parser in parsers for action in parser._actions for name in action.option_strings}
    nearest = difflib.get_close_matches(f"--{name.lstrip('-')}", sorted(names), n=1)
    meant = f"did you mean {nearest[0]}?" if nearest else f"`{prog} --help` lists the flags."
    return UsageError(f"There is no flag {name}: {meant}")


def add_run_flags(parser: argparse.ArgumentParser, *, inputs: bool = True) -> None:
    """Add the flags of a run, those that name its input only when asked for."""
    source = parser.add_argument_group("what to ask")
    if inputs:
        source.add_argument("--input", metavar="GLOB[,GLOB]", help="archives of questions; local or gs://")
        source.add_argument(
            "--input_subscription",
            metavar="projects/P/subscriptions/S",
            help="questions from Pub/Sub instead, a message each",
        )
        source.add_argument(
            "--input_topic", metavar="projects/P/topics/T", help="the same by a topic; on Dataflow only"
        )
        source.add_argument(
            "--id_attribute", metavar="NAME", help="the message attribute by which redelivery is known"
        )
        source.add_argument(
            "--timestamp_attribute", metavar="NAME", help="the message attribute that holds its time"
        )
        source.add_argument(
            "--stop_when_idle",
            type=float,
            metavar="S",
            help="end when no message came for so long (the worker on this machine)",
        )
    source.add_argument(
        "--mode",
        default="generate",
        choices=("generate", "check"),
        help="check: records hold an `answer` and `facts`, and nothing is generated",
    )
    source.add_argument("--question_field", default="question", metavar="NAME", help="the field to ask")
    source.add_argument("--id_field", default="id", metavar="NAME", help="the field that names a question")
    source.add_argument(
        "--question_template",
        action="append",
        default=[],
        metavar="TEXT",
        help="the prompt, with the record's fields in {braces}; given again, the next turn's",
    )
    source.add_argument(
        "--answer_field", default="answer", metavar="NAME", help="the field to check, with --mode=check"
    )
    source.add_argument(
        "--request_defaults", metavar="FILE", help="JSON: a partial request laid under every question"
    )

    service = parser.add_argument_group("whom to ask")
    service.add_argument(
        "--service", choices=("discoveryengine", "emulator"), help="required; `emulator` starts one here"
    )
    service.add_argument("--endpoint", metavar="HOST:PORT", help="another server; TLS unless on loopback")
    service.add_argument(
        "--location", metavar="projects/P/locations/L", help="the API's location; picks the endpoint"
    )
    service.add_argument(
        "--api_version", default="v1", choices=("v1", "v1beta", "v1alpha"), help="v1alpha is REST only"
    )
    service.add_argument("--transport", default="grpc", choices=("grpc", "rest"), help="how to call")
    service.add_argument("--stream_answers", action="store_true", help="use the streaming method")
    service.add_argument(
        "--check_grounding",
        action="store_true",
        help="have each answer checked against its support chunks; a call more for each",
    )
    service.add_argument(
        "--citation_threshold",
        type=float,
        metavar="SHARE",
        help="how sure a check must be to cite a fact, 0 to 1 (default: the service's)",
    )
    service.add_argument(
        "--emulator_flags", default="", metavar="TEXT", help="flags for the emulator that the run starts"
    )

    calling = parser.add_argument_group("how to call")
    calling.add_argument(
        "--requests_per_minute",
        type=float,
        metavar="N",
        help="limit over all workers (default: 60 for the service, none for the emulator)",
    )
    calling.add_argument(
        "--check_requests_per_minute",
        type=float,
        metavar="N",
        help="limit of --check_grounding's own calls (default: 60 for the service, none for the emulator)",
    )
    calling.add_argument(
        "--max_in_flight",
        type=int,
        default=64,
        metavar="N",
        help="calls out, a process; checks have as many of their own",
    )
    calling.add_argument(
        "--batch_size", type=int, default=32, metavar="N", help="questions looked up together"
    )
    calling.add_argument(
        "--rate_limiter",
        metavar="HOW",
        help="local, sharded, redis://HOST:PORT/DB or envoy://HOST:PORT "
        "(default: local with one worker process, else sharded)",
    )
    calling.add_argument("--pacing_shards", type=int, metavar="N", help="shares of a sharded limit")
    calling.add_argument(
        "--expected_latency_seconds",
        type=float,
        default=5.0,
        metavar="S",
        help="what a call is expected to take; used to derive --pacing_shards, and by `plan`",
    )
    calling.add_argument(
        "--deadline_seconds", type=float, default=60.0, metavar="S", help="when an attempt is cut"
    )
    calling.add_argument("--max_attempts", type=int, default=5, metavar="N", help="attempts a turn")
    calling.add_argument("--max_requests", type=int, metavar="N", help="budget of calls, over the whole run")
    calling.add_argument(
        "--ledger",
        metavar="URI",
        help="sqlite:///PATH, redis://HOST:PORT/DB or none (default: a SQLite file under a local --output)",
    )
    calling.add_argument(
        "--share_identical", action="store_true", help="ask equal requests once, whatever their ids"
    )

    output = parser.add_argument_group("what comes out")
    output.add_argument("--output", metavar="DIR", help="where the rows go; local or gs://")
    output.add_argument(
        "--keep_response", action="store_true", help="keep the raw response beside each answer"
    )
    output.add_argument(
        "--window_seconds", type=float, metavar="S", help="rows of so long share files (default: 60)"
    )
    output.add_argument(
        "--output_shards", type=int, metavar="N", help="files a window and table (default: 1)"
    )
    output.add_argument(
        "--failures_topic", metavar="projects/P/topics/T", help="publish what failed there too"
    )
    output.add_argument(
        "--bigquery_dataset", metavar="PROJECT.DATASET", help="write the rows into BigQuery's tables too"
    )
    output.add_argument(
        "--overwrite",
        action="store_true",
        help="replace a finished run's rows; stored answers are not asked again unless --ledger=none",
    )
    output.add_argument("--append", action="store_true", help="ask only what is not answered there yet")
    output.add_argument(
        "--max_failure_share",
        type=float,
        default=1.0,
        metavar="SHARE",
        help="exit with 3 when a larger share of the records fails",
    )
    output.add_argument("--quiet", action="store_true", help="no progress, no summary")


def check_runner_flags(parser: argparse.ArgumentParser, unknown: Sequence[str]) -> None:
    """Refuse what is neither ours nor the runner's: Beam would drop a misspelt flag without a word.

    Raises:
        UsageError: naming the flag and the nearest one there is, or what is wrong with a runner's flag.
    """
    if not unknown:
        return
    beams = beam_parser(parser.prog)
    _, stray = beams.parse_known_args(list(unknown))
    if not stray:
        return
    raise stray_flag(parser.prog, stray[0], [parser, beams])


def beam_parser(prog: str) -> FlagParser:
    """A parser of every flag that Beam knows."""
    import apache_beam.options.pipeline_options as beam_options

    class RunnerParser(FlagParser, beam_options._BeamArgumentParser):
        """Beam's parser, which knows Beam's kinds of flags, but with our errors."""

    parser = RunnerParser(prog=prog, add_help=False, allow_abbrev=False, conflict_handler="resolve")
    for kind in beam_options.PipelineOptions.__subclasses__():
        kind._add_argparse_args(parser)
    return parser
