"""The emulator's flags."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from groundrows.pipeline.emulator.faults import parse_faults
from groundrows.pipeline.emulator.pace import Latency, parse_latency

MAX_CANDIDATES = 8  # as many as Google's APIs give


@dataclass(frozen=True, slots=True)
class EmulatorOptions:
    """Everything that can be set.

    Attributes:
        port: The gRPC side's port on 127.0.0.1; 0 takes a free one.
        rest_port: The REST side's; None for no REST.
        answers: `extractive` finds its answers in the request's facts and the corpus; `canned` gives one
            prebuilt answer without looking at the request.
        latency: How long an accepted call takes.
        requests_per_minute: The quota of generating; None for no limit, 0 for one that is always used up.
        check_requests_per_minute: The same for grounding checks.
        tokens_per_minute: The quota of tokens, of answers that report them (Gemini's); None for no limit.
        retry_info: Whether a call beyond the quota is told when to come back; many services say nothing.
        limits_file: JSON `{"requests_per_minute": N}` that overrules the above, read at the start and on
            SIGHUP.
        faults: (name, share of calls) pairs.
        seed: Decides which calls meet faults, and the latencies.
        candidates: How many candidates an extractive answer has, at least 1.
        images: How many images an extractive answer from Google Search has, at most.
        videos: How many videos it has, at most; v1beta alone tells of them.
        corpus: A directory of .txt files; None for the bundled one.
        call_log: Where to append a JSON line for every call; None for no log.
        exit_with_parent: Whether to stop when stdin ends.
    """

    port: int = 0
    rest_port: int | None = None
    answers: Literal["extractive", "canned"] = "extractive"
    latency: Latency = Latency(0.0)  # noqa: RUF009 - it is frozen, so all options may share one
    requests_per_minute: int | None = None
    check_requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    retry_info: bool = True
    limits_file: Path | None = None
    faults: tuple[tuple[str, float], ...] = ()
    seed: int = 0
    candidates: int = 1
    images: int = 0
    videos: int = 0
    corpus: Path | None = None
    call_log: Path | None = None
    exit_with_parent: bool = False


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the emulator's flags; `from_args` checks them."""
    parser.add_argument("--port", default="0", help="gRPC port on 127.0.0.1; 0 takes a free one (default: 0)")
    parser.add_argument("--rest_port", metavar="P", help="REST port; 0 takes a free one (default: no REST)")
    parser.add_argument(
        "--answers",
        default="extractive",
        metavar="extractive|canned",
        help="answer from the request's facts and the corpus, or always with one prebuilt answer",
    )
    parser.add_argument(
        "--latency",
        default="0",
        metavar="SECONDS|lognormal:MEDIAN,P99",
        help="how long an accepted call takes (default: 0)",
    )
    parser.add_argument(
        "--requests_per_minute", metavar="N", help="quota; 0 is always used up (default: no limit)"
    )
    parser.add_argument(
        "--check_requests_per_minute", metavar="N", help="quota of grounding checks (default: no limit)"
    )
    parser.add_argument(
        "--tokens_per_minute", metavar="N", help="quota of the tokens of Gemini's answers (default: no limit)"
    )
    parser.add_argument(
        "--no_retry_info", action="store_true", help="refuse without saying when a slot is free"
    )
    parser.add_argument(
        "--limits_file", metavar="FILE", help='{"requests_per_minute": N}, read at the start and on SIGHUP'
    )
    parser.add_argument(
        "--faults",
        default="",
        metavar="NAME:SHARE,…",
        help="shares of calls that go wrong; all:SHARE for all but disconnect and day_quota",
    )
    parser.add_argument("--seed", default="0", metavar="N", help="seed of faults and latencies (default: 0)")
    parser.add_argument("--candidates", default="1", metavar="N", help="candidates of an answer (default: 1)")
    parser.add_argument(
        "--images", default="0", metavar="N", help="images beside an answer from Google Search (default: 0)"
    )
    parser.add_argument(
        "--videos", default="0", metavar="N", help="videos beside it, told by v1beta alone (default: 0)"
    )
    parser.add_argument("--corpus", metavar="DIR", help=".txt files to search (default: the bundled ones)")
    parser.add_argument("--call_log", metavar="FILE", help="append a JSON line for every call as it arrives")
    parser.add_argument("--exit_with_parent", action="store_true", help="stop when stdin ends")


def from_args(args: argparse.Namespace) -> EmulatorOptions:
    """Check the parsed flags.

    Raises:
        ValueError: One sentence that names the flag, what is wrong, and what is accepted.
    """
    if args.answers not in ("extractive", "canned"):
        raise ValueError(f"--answers={args.answers} is unknown: use extractive or canned.")
    return EmulatorOptions(
        port=_whole("--port", args.port, highest=65535),
        rest_port=None if args.rest_port is None else _whole("--rest_port", args.rest_port, highest=65535),
        answers=args.answers,
        latency=parse_latency(args.latency),
        requests_per_minute=_limit("--requests_per_minute", args.requests_per_minute),
        check_requests_per_minute=_limit("--check_requests_per_minute", args.check_requests_per_minute),
        tokens_per_minute=_limit("--tokens_per_minute", args.tokens_per_minute),
        retry_info=not args.no_retry_info,
        limits_file=_path(args.limits_file),
        faults=parse_faults(args.faults),
        seed=_whole("--seed", args.seed),
        candidates=_whole("--candidates", args.candidates, lowest=1, highest=MAX_CANDIDATES),
        images=_whole("--images", args.images),
        videos=_whole("--videos", args.videos),
        corpus=_path(args.corpus),
        call_log=_path(args.call_log),
        exit_with_parent=args.exit_with_parent,
    )


def _limit(flag: str, text: str | None) -> int | None:
    return None if text is None else _whole(flag, text)


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None


def _whole(flag: str, text: str, lowest: int = 0, highest: int | None = None) -> int:
    # isdecimal would let other scripts' digits through, int would let "1_0" through.
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else -1
    if number < lowest or (highest is not None and number > highest):
        accepted = f"from {lowest} up" if highest is None else f"from {lowest} to {highest}"
        raise ValueError(f"{flag}={text} is no number of use here: give a whole one {accepted}.")
    return number
