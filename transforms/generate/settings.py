"""How to call: everything the calling needs to know, in one picklable value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from groundrows.schemas.service import DISCOVERY_ENGINE, Method

MEGABYTE = 1 << 20
REDIS = ("redis://", "rediss://")
"""How the URI of a Redis server begins; the second is for one over TLS."""


@dataclass(frozen=True, slots=True)
class CallSettings:
    """Settings of one run's calls; equal settings share one engine in a process.

    Attributes:
        endpoint: `HOST:PORT`.
        secure: Whether to use TLS and Application Default Credentials; False only on loopback.
        location: The API's location resource, `projects/P/locations/L`; empty for a service that is asked in
            nobody's name.
        api_version: The version of the service's API, such as `v1`.
        run_id: The run's name; scopes the budget and the search for duplicates.
        requests_per_minute: The limit over all workers, or None for no limit.
        rate_limiter: `local`, `sharded`, `redis://HOST:PORT/DB` or `envoy://HOST:PORT`.
        pacing_shards: How many shares the rate and the budget are cut into; 1 unless `sharded`.
        max_in_flight: Maximum concurrent calls per worker process.
        batch_size: Questions looked up in the ledger at once.
        deadline_seconds: When an attempt is cut.
        max_attempts: Attempts a turn, the first included.
        retry_seconds: No attempt starts later than this after a turn's first.
        backoff_seconds: The first retry's longest wait; it doubles from there.
        max_requests: The budget of calls over the whole run, or None.
        tokens_per_minute: The limit in tokens over all workers, or None for no limit.
        max_tokens: The budget of tokens over the whole run, or None.
        max_searches: The budget of searches over the whole run, or None.
        ledger: `sqlite:///PATH`, `redis://HOST:PORT/DB` or `none`.
        share_identical: Whether equal requests under different ids are asked once.
        exhausted_seconds: How long nothing but transient errors may come back before calling stops; longer
            than the minute over which quotas are counted.
        answered_path: A SQLite file of turns that are already answered, and of what is yet to be checked of
            them, or None.
        transport: `grpc` or `rest`.
        method: `generate` or `check`: what every question of this engine calls.
        stream_answers: Whether `generate` uses the streaming method.
        service: Which service is called: a name of `SERVICES`.
        release_failed: Whether a question that failed may be asked again when it comes again in this run, as
            in a stream, where it was published anew; in an archive it is a duplicate still.
        max_response_bytes: The most that one response may have, as sent and as unpacked.
    """

    endpoint: str
    secure: bool
    location: str
    api_version: str
    run_id: str
    requests_per_minute: float | None = None
    rate_limiter: str = "local"
    pacing_shards: int = 1
    max_in_flight: int = 64
    batch_size: int = 32
    deadline_seconds: float = 60.0
    max_attempts: int = 5
    retry_seconds: float = 600.0
    backoff_seconds: float = 1.0
    max_requests: int | None = None
    tokens_per_minute: float | None = None
    max_tokens: int | None = None
    max_searches: int | None = None
    ledger: str = "none"
    share_identical: bool = False
    exhausted_seconds: float = 90.0
    answered_path: str | None = None
    transport: Literal["grpc", "rest"] = "grpc"
    method: Method = "generate"
    stream_answers: bool = False
    release_failed: bool = False
    max_response_bytes: int = 16 * MEGABYTE
    service: str = DISCOVERY_ENGINE
