"""From `--rate_limiter` to a pacer."""

from __future__ import annotations

import math

from groundrows.transforms.generate.pacing.base import Pacer, calls_per_second
from groundrows.transforms.generate.pacing.local import LocalPacer
from groundrows.transforms.generate.settings import REDIS, CallSettings


def open_pacer(settings: CallSettings) -> Pacer:
    """The pacer of one shard of the run, as the settings name it."""
    limit = settings.requests_per_minute
    if settings.rate_limiter.startswith(REDIS) and limit is not None:
        from groundrows.transforms.generate.pacing.redis import RedisPacer

        # Checks have a quota of their own, so they have a schedule of their own.
        quota = settings.location if settings.method == "generate" else f"{settings.location}/checks"
        return RedisPacer(settings.rate_limiter, quota, calls_per_second(limit))
    if settings.rate_limiter.startswith("envoy://"):
        from groundrows.transforms.generate.pacing.envoy import EnvoyPacer

        return EnvoyPacer(settings.rate_limiter, math.inf if limit is None else calls_per_second(limit))
    shards = settings.pacing_shards
    rate = math.inf if limit is None else calls_per_second(limit, shards)
    return LocalPacer(rate, start_late=shards > 1)
