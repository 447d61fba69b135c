"""Makes the pacer that `--rate_limiter` names."""

from __future__ import annotations

import math

from groundrows.schemas.errors import SetupError
from groundrows.transforms.generate.pacing.base import Pacer, UnitPacer, calls_per_second
from groundrows.transforms.generate.pacing.local import LocalPacer
from groundrows.transforms.generate.pacing.local_units import LocalUnits
from groundrows.transforms.generate.settings import REDIS, CallSettings


def open_pacer(settings: CallSettings) -> Pacer:
    """Make the pacer of one shard of the run."""
    limit = settings.requests_per_minute
    if settings.rate_limiter.startswith(REDIS) and limit is not None:
        from groundrows.transforms.generate.pacing.redis import RedisPacer

        # The service has a separate quota for checks, so their schedule is separate, too.
        quota = settings.location if settings.method == "generate" else f"{settings.location}/checks"
        return RedisPacer(settings.rate_limiter, quota, calls_per_second(limit))
    if settings.rate_limiter.startswith("envoy://"):
        from groundrows.transforms.generate.pacing.envoy import EnvoyPacer

        return EnvoyPacer(settings.rate_limiter, math.inf if limit is None else calls_per_second(limit))
    shards = settings.pacing_shards
    rate = math.inf if limit is None else calls_per_second(limit, shards)
    return LocalPacer(rate, start_late=shards > 1)


def open_unit_pacer(settings: CallSettings) -> UnitPacer | None:
    """Make the pacer in tokens of one shard of the run; None when there is no such limit.

    Raises:
        SetupError: The rate limiter can't share a limit in tokens.
    """
    limit = settings.tokens_per_minute
    if limit is None:
        return None
    if settings.rate_limiter.startswith(REDIS):
        from groundrows.transforms.generate.pacing.redis_units import RedisUnits

        return RedisUnits(settings.rate_limiter, f"{settings.service}/{settings.location}/tokens", limit)
    if settings.rate_limiter.startswith("envoy://"):
        raise SetupError("--tokens_per_minute can't be shared by envoy://…: give redis://HOST:PORT/DB.")
    return LocalUnits(limit, settings.pacing_shards)
