"""Real services for tests, started on free loopback ports and stopped again.

A test that needs a service calls `need` (the starters here do): when the service is not installed, the test
is left out, and the end of the run names it with the command that installs it.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

START_SECONDS = 20.0


@dataclass(frozen=True)
class Service:
    """A program that tests use.

    Attributes:
        name: What people call it.
        found: Its path, or None.
        install: The command that installs it.
        must_be_there: Whether a run under `CI=true` fails without it.
    """

    name: str
    found: Callable[[], str | None]
    install: str
    must_be_there: bool = True


def _pubsub_emulator() -> str | None:
    gcloud = shutil.which("gcloud")
    if gcloud is None:
        return None
    program = Path(gcloud).resolve().parent.parent / "platform/pubsub-emulator/bin/cloud-pubsub-emulator"
    return str(program) if program.exists() else None


SERVICES = {
    service.name: service
    for service in (
        Service("redis-server", lambda: shutil.which("redis-server"), "apt-get install redis-server"),
        Service("chromium", lambda: shutil.which("chromium"), "apt-get install chromium"),
        Service(
            "Pub/Sub emulator",
            _pubsub_emulator,
            "apt-get install google-cloud-cli-pubsub-emulator   "
            "# from https://packages.cloud.google.com/apt, see https://cloud.google.com/sdk/docs/install",
            must_be_there=False,
        ),
    )
}
_missed: set[str] = set()


def need(name: str) -> str:
    """The path of a service's program; leaves the test out when there is none."""
    path = SERVICES[name].found()
    if path is None:
        miss(name)
        pytest.skip(f"{name} is not installed: {SERVICES[name].install}")
    return path


def miss(name: str) -> None:
    """Note that tests needed this service and did not find it."""
    _missed.add(name)


def missed() -> list[str]:
    """The services that tests of this run needed and did not find."""
    return sorted(_missed)


def run_must_fail(names: Iterable[str], environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a run that missed these services proves too little to pass."""
    return environment.get("CI") == "true" and any(SERVICES[name].must_be_there for name in names)


def free_port() -> int:
    """A loopback port that was free a moment ago."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


class RedisServer(NamedTuple):
    """A running redis-server. To restart it: kill the process, wait for it, start one on the same port."""

    port: int
    process: subprocess.Popen[bytes]


@contextmanager
def redis_server(port: int | None = None, *options: str) -> Iterator[RedisServer]:
    """A redis-server that keeps nothing on disk; ready when the block begins, gone when it ends.

    Args:
        port: Where to listen; a free one by default.
        options: Further options, such as `--requirepass`.
    """
    program = need("redis-server")
    port = port or free_port()
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    process = subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL)
    try:
        _wait_until_ready(port, process)
        yield RedisServer(port, process)
    finally:
        process.kill()
        process.wait()


def _wait_until_ready(port: int, process: subprocess.Popen[bytes]) -> None:
    give_up = time.monotonic() + START_SECONDS
    with redis.Redis(port=port, socket_timeout=1, retry=Retry(NoBackoff(), 0)) as client:
        while True:
            try:
                client.ping()
                return
            except (redis.AuthenticationError, redis.BusyLoadingError):
                return
            except (redis.ConnectionError, redis.TimeoutError):
                if process.poll() is not None or time.monotonic() > give_up:
                    raise RuntimeError(f"redis-server on port {port} did not start") from None
            time.sleep(0.02)


class Queue(NamedTuple):
    """A topic with one subscription, by their full names."""

    topic: str
    subscription: str


ACK_SECONDS = 10


@dataclass
class PubSub:
    """A running Pub/Sub emulator.

    Attributes:
        address: What `PUBSUB_EMULATOR_HOST` takes.
        process: The emulator.
        publisher: A client of it.
        subscriber: A client of it.
    """

    address: str
    process: subprocess.Popen[bytes]
    publisher: Any
    subscriber: Any

    def new_queue(self, **settings: Any) -> Queue:
        """A new topic with a new subscription; `settings` are the subscription's own."""
        name = uuid.uuid4().hex
        queue = Queue(f"projects/demo-project/topics/t{name}", f"projects/demo-project/subscriptions/s{name}")
        self.publisher.create_topic(name=queue.topic)
        settings.setdefault("ack_deadline_seconds", ACK_SECONDS)
        self.subscriber.create_subscription(
            request={"name": queue.subscription, "topic": queue.topic, **settings}
        )
        return queue

    def publish(self, queue: Queue, bodies: Iterable[bytes], **attributes: str) -> list[str]:
        """Publish messages; returns their ids once the server has them all."""
        sent = [self.publisher.publish(queue.topic, body, **attributes) for body in bodies]
        return [each.result(START_SECONDS) for each in sent]

    def coming_again(self, queue: Queue) -> list[Any]:
        """The messages that come back because nobody acknowledged them; asks for as long as it may take.

        The subscription's deadline for an acknowledgement is the 10 seconds of `new_queue`, which is also the
        least that Pub/Sub takes. The first message ends the wait.
        """
        limit = time.monotonic() + ACK_SECONDS + 1
        while not (found := self.waiting(queue)) and time.monotonic() < limit:
            pass
        return found

    def waiting(self, queue: Queue) -> list[Any]:
        """The messages that can be had right now, taken and acknowledged."""
        found: list[Any] = []
        while True:
            # The emulator answers an empty pull a second before its time is up.
            pulled = self.subscriber.pull(subscription=queue.subscription, max_messages=1000, timeout=2)
            if not pulled.received_messages:
                return found
            found += [each.message for each in pulled.received_messages]
            self.subscriber.acknowledge(
                subscription=queue.subscription, ack_ids=[each.ack_id for each in pulled.received_messages]
            )


@contextmanager
def pubsub_emulator(port: int | None = None) -> Iterator[PubSub]:
    """Google's Pub/Sub emulator, without topics; ready when the block begins, gone when it ends.

    Args:
        port: Where to listen; a free one by default.
    """
    program = need("Pub/Sub emulator")
    address = f"127.0.0.1:{port or free_port()}"
    # The program is a script that becomes the server.
    process = subprocess.Popen(
        [program, "--host=127.0.0.1", f"--port={address.rpartition(':')[2]}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with grpc.insecure_channel(address) as channel:
            try:
                grpc.channel_ready_future(channel).result(2 * START_SECONDS)
            except grpc.FutureTimeoutError:
                raise RuntimeError(f"the Pub/Sub emulator at {address} did not start") from None
        with _clients(address) as (publisher, subscriber):
            yield PubSub(address, process, publisher, subscriber)
    finally:
        process.kill()
        process.wait()


@contextmanager
def _clients(address: str) -> Iterator[tuple[Any, Any]]:
    from google.cloud import pubsub_v1  # here, because it takes a second

    before = os.environ.get("PUBSUB_EMULATOR_HOST")
    os.environ["PUBSUB_EMULATOR_HOST"] = address
    try:
        publisher, subscriber = pubsub_v1.PublisherClient(), pubsub_v1.SubscriberClient()
    finally:
        del os.environ["PUBSUB_EMULATOR_HOST"]
        if before is not None:
            os.environ["PUBSUB_EMULATOR_HOST"] = before
    try:
        yield publisher, subscriber
    finally:
        publisher.stop()
        publisher.transport.close()
        subscriber.close()


# Tokens come back at a steady rate; a request that finds none is told when the next is there.
_BUCKET = """
local rate, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] + time[2] / 1e6
local state = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens = math.min(burst, (tonumber(state[1]) or burst) + (now - (tonumber(state[2]) or now)) * rate)
local wait = 0
if tokens >= 1 then tokens = tokens - 1 else wait = (1 - tokens) / rate end
redis.call('HSET', KEYS[1], 'tokens', tokens, 'at', string.format('%.6f', now))
return string.format('%.6f', wait)
"""


@dataclass
class RateLimitService:
    """A running rate limit service.

    Attributes:
        port: Where it listens.
        asked: The domain and the descriptors of every request so far.
    """

    port: int
    asked: list[tuple[str, list[dict[str, str]]]] = field(default_factory=list)


@contextmanager
def envoy_ratelimit_server(
    redis_port: int, *, per_second: float, burst: int = 1, port: int | None = None
) -> Iterator[RateLimitService]:
    """A rate limit service with Envoy's interface: a token bucket in Redis for each domain and descriptor.

    Args:
        redis_port: The redis-server that holds the buckets.
        per_second: Tokens a second.
        burst: The most tokens there are at once.
        port: Where to listen; a free one by default.
    """
    from apache_beam.io.components import rate_limit_pb2  # here, because it takes seconds

    service = RateLimitService(port or free_port())
    buckets = redis.Redis(port=redis_port)
    bucket = buckets.register_script(_BUCKET)

    def should_rate_limit(request: Any, context: grpc.ServicerContext) -> Any:
        descriptors = [{entry.key: entry.value for entry in one.entries} for one in request.descriptors]
        service.asked.append((request.domain, descriptors))
        wait = float(bucket(keys=[f"bucket:{request.domain}:{descriptors}"], args=[per_second, burst]))
        codes = rate_limit_pb2.RateLimitResponse
        response = codes(overall_code=codes.OVER_LIMIT if wait else codes.OK)
        status = response.statuses.add(code=response.overall_code)
        status.duration_until_reset.FromMicroseconds(round(wait * 1_000_000))
        return response

    method = grpc.unary_unary_rpc_method_handler(
        should_rate_limit,
        request_deserializer=rate_limit_pb2.RateLimitRequest.FromString,
        response_serializer=rate_limit_pb2.RateLimitResponse.SerializeToString,
    )
    name = "envoy.service.ratelimit.v3.RateLimitService"
    server = grpc.server(ThreadPoolExecutor(8))
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(name, {"ShouldRateLimit": method}),)
    )
    if not server.add_insecure_port(f"127.0.0.1:{service.port}"):
        raise RuntimeError(f"port {service.port} is taken")
    server.start()
    try:
        yield service
    finally:
        server.stop(0.2).wait()
        buckets.close()
