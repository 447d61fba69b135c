import redis

from groundrows.transforms.generate.pacing.open import open_pacer
from tests.support.engines import LOCATION, make_settings, run


def test_checks_have_a_schedule_of_their_own_beside_that_of_the_questions(redis_uri: str) -> None:
    async def acquire(method: str) -> None:
        settings = make_settings(rate_limiter=redis_uri, requests_per_minute=6e5, method=method)
        pacer = open_pacer(settings)
        await pacer.acquire()
        await pacer.close()

    with redis.Redis.from_url(redis_uri) as client:
        run(acquire("generate"))
        assert client.keys("groundrows:pace:*") == [f"groundrows:pace:{LOCATION}".encode()]
        run(acquire("check"))
        assert len(client.keys("groundrows:pace:*")) == 2  # type: ignore[arg-type]
