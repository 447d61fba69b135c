"""The flags that say how the service is called: rate limit, attempts, budget and ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from groundrows.pipeline.options.flag import DAY_SECONDS, MOST, Flag, Only, flag
from groundrows.pipeline.storage.uris import without_password
from groundrows.schemas.errors import UsageError
from groundrows.transforms.generate.settings import REDIS

# Quotas differ between customers. This limit is low enough for all of them.
DEFAULT_REQUESTS_PER_MINUTE = 60.0
_DEFAULT_LIMIT_SAID = "60 for the service, none for the emulator"
# The lower bound for a number that must be more than 0.
_LEAST = 0.001
# A count that every database and JSON reader takes.
MOST_TOKENS = 1_000_000_000_000
# gRPC counts a message's bytes in 31 bits.
_MOST_MEGABYTES = 2047


def _limiter(text: str) -> str:
    """Check the parts of a Redis URI that the flag's pattern can't check."""
    if text.startswith(REDIS):
        from groundrows.transforms.generate.redis_server import server_name

        try:
            server_name(text)
        except ValueError as error:
            raise UsageError(f"--rate_limiter={without_password(text)} {error}.") from None
    return text


@dataclass(frozen=True, kw_only=True)
class CallOptions:
    """How to call. None means no limit."""

    GROUP: ClassVar[str] = "how to call"

    requests_per_minute: float | None = flag(
        None,
        Flag(
            "Maximum number of calls per minute, over all workers.",
            metavar="N",
            default_said=_DEFAULT_LIMIT_SAID,
            least=_LEAST,
            most=MOST,
        ),
    )
    check_requests_per_minute: float | None = flag(
        None,
        Flag(
            "Maximum number of calls per minute that --check_grounding makes, over all workers.",
            metavar="N",
            default_said=_DEFAULT_LIMIT_SAID,
            least=_LEAST,
            most=MOST,
            only=Only.CHECKS,
        ),
    )
    tokens_per_minute: float | None = flag(
        None,
        Flag(
            "Maximum number of tokens per minute, over all workers. What a call takes is estimated before it "
            "and corrected by what its response reports. Only for a service that reports it (Gemini).",
            metavar="N",
            least=_LEAST,
            most=MOST,
            only=Only.GENERATING,
        ),
    )
    max_in_flight: int = flag(
        64,
        Flag(
            "Maximum number of concurrent calls per worker process. The checks of --check_grounding have a "
            "maximum of their own, which is the same number.",
            metavar="N",
            least=1,
            most=MOST,
        ),
    )
    batch_size: int = flag(
        32, Flag("Number of questions looked up in the ledger at once.", metavar="N", least=1, most=MOST)
    )
    rate_limiter: str | None = flag(
        None,
        Flag(
            "How workers share the limit: local (one process keeps it), sharded (each shard keeps a part of "
            "it), redis://HOST:PORT/DB (rediss:// over TLS) or envoy://HOST:PORT (a server keeps it).",
            metavar="HOW",
            default_said="local with one worker process, else sharded",
            pattern=r"local|sharded|rediss?://.*|envoy://[^/?#@\s]+:[0-9]{1,5}(?:/[^?\s]*)?(?:\?\S*)?",
            noun="rate limiter",
            example="local, sharded, redis://HOST:PORT/DB or envoy://HOST:PORT",
            read=_limiter,
            secret=True,
        ),
    )
    pacing_shards: int | None = flag(
        None,
        Flag(
            "Number of shards that a sharded limit is divided into.",
            metavar="N",
            default_said="derived from the limit and --expected_latency_seconds",
            least=1,
            most=MOST,
        ),
    )
    expected_latency_seconds: float = flag(
        5.0,
        Flag(
            "Expected duration of a call. The default of --pacing_shards and the estimate of `plan` are "
            "computed from it.",
            metavar="S",
            least=_LEAST,
            most=DAY_SECONDS,
        ),
    )
    deadline_seconds: float = flag(
        60.0,
        Flag(
            "Cancel an attempt, which is one call for a question, after S seconds.",
            metavar="S",
            least=_LEAST,
            most=DAY_SECONDS,
        ),
    )
    max_response_mb: int = flag(
        16,
        Flag(
            "Reject a response of more than N megabytes, before or after it is decompressed. Its question "
            "fails with RESPONSE_TOO_LARGE.",
            metavar="N",
            least=1,
            most=_MOST_MEGABYTES,
        ),
    )
    max_attempts: int = flag(
        5,
        Flag(
            "Maximum number of attempts per turn, which is one question of a conversation.",
            metavar="N",
            least=1,
            most=MOST,
        ),
    )
    max_requests: int | None = flag(
        None, Flag("Stop after N calls, counted over the whole run.", metavar="N", least=1, most=MOST)
    )
    max_tokens: int | None = flag(
        None,
        Flag(
            "Stop after N tokens, counted over the whole run, failed calls included. Calls that are "
            "in flight then still end and may pass it. Only for a service that reports tokens (Gemini).",
            metavar="N",
            least=1,
            most=MOST_TOKENS,
            only=Only.GENERATING,
        ),
    )
    max_searches: int | None = flag(
        None,
        Flag(
            "The same for the searches that the service makes for its answers.",
            metavar="N",
            least=1,
            most=MOST,
            only=Only.GENERATING,
        ),
    )
    prices: str | None = flag(
        None,
        Flag(
            "JSON file with prices by model, for a million tokens of each kind and for a search. With it "
            "run.json and the report state what the calls cost. No price is built in.",
            metavar="FILE",
            empty="absent",
            only=Only.GENERATING,
        ),
    )
    ledger: str | None = flag(
        None,
        Flag(
            "The store for responses. Each is stored when it arrives, so that a run that is started again "
            "doesn't pay twice: sqlite:///PATH, redis://HOST:PORT/DB (rediss:// over TLS) or none.",
            metavar="URI",
            default_said="a SQLite file under a local --output",
            pattern=r"none|(?:sqlite:///|rediss?://)[\s\S]+",
            noun="ledger",
            example="sqlite:///PATH, redis://HOST:PORT/DB or the word none",
            secret=True,
            replayed=False,  # a replay finds the first run's ledger by itself
        ),
    )
    share_identical: bool = flag(False, Flag("Send equal requests only once, even if their ids differ."))


def default_limit(emulated: bool) -> float | None:
    """Return the default limit: none for an emulator, a low one for a service."""
    return None if emulated else DEFAULT_REQUESTS_PER_MINUTE


_IN_UNITS = ("tokens_per_minute", "max_tokens", "max_searches", "prices")


def check_units(values: Mapping[str, Any], asked: str, *, reported: bool) -> None:
    """Check that limits in tokens and searches, and their prices, are for a service that reports them.

    Args:
        values: The attributes of `CallOptions`.
        asked: The name of the service.
        reported: Whether it reports what a call took.

    Raises:
        UsageError: It does not.
    """
    given = next((name for name in _IN_UNITS if values.get(name) is not None), None)
    if given is not None and not reported:
        raise UsageError(
            f"--{given} goes by the tokens and searches that a call took, and {asked} does not report them: "
            "leave it out, or ask --service=gemini."
        )


def check_calling(values: Mapping[str, Any]) -> None:
    """Check that the flags in this module fit together.

    Args:
        values: The attributes of `CallOptions`. The limits have their defaults filled in.

    Raises:
        UsageError: Two of them contradict each other.
    """
    how: str | None = values["rate_limiter"]
    in_tokens = values["tokens_per_minute"] is not None
    if how is not None and how.startswith(REDIS) and values["requests_per_minute"] is None and not in_tokens:
        raise UsageError("--rate_limiter=redis://… needs a limit to share: give --requests_per_minute=N.")
    if how is not None and how.startswith("envoy://") and in_tokens:
        raise UsageError(
            "--tokens_per_minute can't be shared through --rate_limiter=envoy://…, which counts calls: give "
            "redis://HOST:PORT/DB, or leave one of them out."
        )
    if values["pacing_shards"] is not None and how not in (None, "sharded"):
        raise UsageError(
            "--pacing_shards is for --rate_limiter=sharded, not for "
            f"{without_password(how)}: leave one of them out."
        )
    if values["ledger"] == "none" and values["share_identical"]:
        raise UsageError(
            "--share_identical looks answers up in the ledger, and --ledger=none turns it off: leave out one "
            "of them."
        )
