"""The settings of the calls, in one picklable value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from groundrows.schemas.service import DISCOVERY_ENGINE, Method

MEGABYTE = 1 << 20
REDIS = ("redis://", "rediss://")
"""The beginnings of a Redis server's URI; the second is for TLS."""


@dataclass(frozen=True, slots=True)
class CallSettings:
    """The settings of a run's calls. Equal settings share one engine in a process.

    Attributes:
        endpoint: The address, `HOST:PORT`.
        secure: Whether to use TLS and Application Default Credentials. False only on loopback.
        location: The API's location resource, `projects/P/locations/L`; empty when requests name none.
        api_version: The version of the service's API, such as `v1`.
        run_id: The run's ID. The budget and the search for duplicates belong to it.
        requests_per_minute: The limit over all workers, or None for no limit.
        rate_limiter: `local`, `sharded`, `redis://HOST:PORT/DB` or `envoy://HOST:PORT`.
        pacing_shards: The number of shards that the limit and the budget are divided by; 1 unless `sharded`.
        max_in_flight: Maximum number of concurrent calls per worker process.
        batch_size: Number of questions looked up in the ledger at once.
        deadline_seconds: The time after which an attempt is cancelled.
        max_attempts: Maximum number of attempts per turn, including the first one.
        retry_seconds: No attempt starts later than this after the start of the turn's first one.
        backoff_seconds: The longest wait before the first retry. It doubles with each retry.
        max_requests: The budget of calls for the whole run, or None.
        tokens_per_minute: The limit in tokens over all workers, or None for no limit.
        max_tokens: The budget of tokens for the whole run, or None.
        max_searches: The budget of searches for the whole run, or None.
        ledger: `sqlite:///PATH`, `redis://HOST:PORT/DB` or `none`.
        share_identical: Whether equal requests of different questions are sent once.
        exhausted_seconds: Calling stops when only transient errors came back for so long. It is longer than a
            minute, because quotas are counted per minute.
        answered_path: A SQLite file with the turns that are already answered (`AnsweredTurns`), or None.
        transport: `grpc` or `rest`.
        method: `generate` or `check`: the method that this engine calls.
        stream_answers: Whether `generate` uses the streaming method.
        service: The name of the service that is called, one of `SERVICES`.
        release_failed: Whether a question that failed may be asked again when it comes again. True
            for a stream, where it was published again. In an archive, it is a duplicate.
        max_response_bytes: The largest size of a response in bytes, before and after it is decompressed.
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
