"""What is particular to the ledger in Redis, on a real redis-server."""

import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import UTC, datetime

import pytest
import redis

from groundrows.schemas.errors import LedgerError
from groundrows.transforms.generate.ledger.base import Entry, Ledger, entry_key
from groundrows.transforms.generate.ledger.redis import RedisLedger
from tests.support.services import free_port, redis_server

AN_ENTRY = Entry(
    key=entry_key("question", 0, b"fingerprint"),
    question_id="question",
    turn_index=0,
    model_id="gemini",
    response=b"response",
    attempts=1,
    latency_ms=12.5,
    asked_at=datetime(2026, 1, 1, tzinfo=UTC),
    answered_at=datetime(2026, 1, 1, tzinfo=UTC),
)
NAME = f"groundrows:entry:{AN_ENTRY.key.hex()}"


@pytest.fixture
def client(redis_uri: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_uri) as opened:
        yield opened


@pytest.fixture
def ledger(redis_uri: str) -> Iterator[RedisLedger]:
    with closing(RedisLedger(redis_uri, patience=0)) as opened:
        yield opened


def refused(uri: str) -> str:
    with pytest.raises(LedgerError) as error:
        RedisLedger(uri)
    says = str(error.value)
    assert "\n" not in says
    return says


# -- what is not opened -----------------------------------------------------------------------------------


def test_nothing_that_answers_is_said_at_once() -> None:
    port = free_port()
    assert f"redis://127.0.0.1:{port}/3 can't be used: nothing answers" in refused(
        f"redis://127.0.0.1:{port}/3"
    )


def test_a_server_that_takes_connections_and_says_nothing_is_given_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert "does not answer within" in refused(f"redis://127.0.0.1:{listener.getsockname()[1]}/0")


def test_what_is_no_redis_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            connection.recv(1000)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            connection.close()

        threading.Thread(target=answer, daemon=True).start()
        assert "not a Redis server" in refused(f"redis://127.0.0.1:{listener.getsockname()[1]}/0")


def test_a_wrong_password_is_refused_and_never_shown() -> None:
    with redis_server(None, "--requirepass", "right") as server:
        for login in (":hunter2@", "somebody:hunter2@", ""):
            says = refused(f"redis://{login}127.0.0.1:{server.port}/0")
            assert "password" in says
            assert "hunter2" not in says
        with closing(RedisLedger(f"redis://:right@127.0.0.1:{server.port}/0")) as opened:
            opened.put_many([AN_ENTRY])


def test_a_user_without_rights_is_told_which(client: redis.Redis, redis_uri: str) -> None:
    client.execute_command("ACL", "SETUSER", "reader", "on", ">hunter2", "~*", "+@read", "+@connection")
    says = refused(redis_uri.replace("//", "//reader:hunter2@"))
    assert "may not run commands" in says
    assert "hunter2" not in says


@pytest.mark.parametrize(
    "uri", ["redis://user:hun/ter2@127.0.0.1:1/0", "redis://127.0.0.1:1/zero", "redis://"]
)
def test_a_uri_that_cannot_be_read_is_refused_without_quoting_it(uri: str) -> None:
    says = refused(uri)
    assert "redis://[USER:PASSWORD@]HOST:PORT/DB" in says
    assert "ter2" not in says


@pytest.mark.parametrize("value", ["2 0123", "something of mine", ""])
def test_another_format_or_somebody_elses_key_is_refused_and_left_alone(
    client: redis.Redis, redis_uri: str, value: str
) -> None:
    client.set("groundrows:ledger", value)
    assert "format 1 is needed" in refused(redis_uri)
    assert client.keys() == [b"groundrows:ledger"]
    assert client.get("groundrows:ledger") == value.encode()


def test_a_marker_of_another_type_is_refused_and_left_alone(client: redis.Redis, redis_uri: str) -> None:
    client.rpush("groundrows:ledger", "mine")
    assert "something else" in refused(redis_uri)
    assert client.lrange("groundrows:ledger", 0, -1) == [b"mine"]


# -- foreign and damaged values ---------------------------------------------------------------------------


def test_a_foreign_value_is_refused_and_never_overwritten(ledger: RedisLedger, client: redis.Redis) -> None:
    client.set(NAME, "mine")
    for use in uses(ledger):
        with pytest.raises(LedgerError, match=NAME):
            use()
    assert client.get(NAME) == b"mine"


def test_a_value_of_another_type_is_refused_and_never_overwritten(
    ledger: RedisLedger, client: redis.Redis
) -> None:
    client.hset(NAME, "mine", "1")
    with pytest.raises(LedgerError, match="something else"):
        ledger.put_many([AN_ENTRY])
    with pytest.raises(LedgerError, match="something else"):
        ledger.summary()
    assert client.hgetall(NAME) == {b"mine": b"1"}


def test_a_damaged_value_is_named(ledger: RedisLedger, client: redis.Redis) -> None:
    ledger.put_many([AN_ENTRY])
    client.setrange(NAME, int(client.strlen(NAME)) - 6, "\0\0\0\0\0\0")  # type: ignore[arg-type]
    with pytest.raises(LedgerError, match=NAME):
        ledger.get_many([AN_ENTRY.key])
    with pytest.raises(LedgerError, match=NAME):
        list(ledger.entries())


def test_a_key_that_is_no_entry_s_is_refused(ledger: RedisLedger, client: redis.Redis) -> None:
    client.set("groundrows:entry:\xff not hexadecimal", "mine")
    with pytest.raises(LedgerError, match="not an entry of a ledger"):
        ledger.summary()
    with pytest.raises(LedgerError, match="not an entry of a ledger"):
        list(ledger.entries())


def uses(ledger: RedisLedger) -> list[Callable[[], object]]:
    return [
        lambda: ledger.get_many([AN_ENTRY.key]),
        lambda: ledger.put_many([AN_ENTRY]),
        lambda: list(ledger.entries()),
        ledger.summary,
    ]


# -- what is kept, where and for how long -----------------------------------------------------------------


def test_only_keys_of_its_own_are_used_and_only_claims_expire(
    ledger: RedisLedger, client: redis.Redis
) -> None:
    client.set("theirs", "untouched")
    ledger.put_many([AN_ENTRY])
    ledger.claim("run", {AN_ENTRY.key: "archive:1"})
    ledger.reserve("run", 10, 3)
    ledger.give_back("run", 1)
    lives = {name.decode(): client.ttl(name) for name in client.keys("*")}  # type: ignore[union-attr]
    assert lives.pop("theirs") == -1
    assert all(name.startswith("groundrows:") for name in lives)
    assert lives[NAME] == lives["groundrows:ledger"] == lives["groundrows:budgets"] == -1
    assert 29 * 24 * 3600 < int(lives["groundrows:claims:run"]) <= 30 * 24 * 3600  # type: ignore[arg-type]


def test_databases_of_one_server_are_ledgers_of_their_own(redis_uri: str) -> None:
    with (
        closing(RedisLedger(redis_uri)) as one,
        closing(RedisLedger(redis_uri.removesuffix("/0") + "/1")) as other,
    ):
        one.put_many([AN_ENTRY])
        assert other.get_many([AN_ENTRY.key]) == {}


def test_a_model_s_name_may_be_longer_than_what_is_read_to_count_it(ledger: RedisLedger) -> None:
    long = "a model with a name of many words " * 100
    ledger.put_many([replace(AN_ENTRY, model_id=long)])
    assert [(one.model_id, one.entries) for one in ledger.summary()] == [(long, 1)]


def test_giving_back_twice_by_one_token_gives_back_once(ledger: RedisLedger) -> None:
    """As when the first reply is lost and the same is said again."""
    ledger.reserve("run", 10, 10)
    for _ in range(2):
        ledger._give_back(keys=["groundrows:budgets", "groundrows:given:token"], args=[4, "run"])
    assert ledger.reserve("run", 10, 10) == 4


def test_counting_twice_by_one_token_counts_once(ledger: RedisLedger) -> None:
    for _ in range(2):
        keys = ["groundrows:budgets", "groundrows:ledger", "groundrows:counted:token"]
        counted = ledger._count(keys=keys, args=[70, "run max_tokens", ledger._marker])
        assert int(counted) == 70
    assert ledger.count("run max_tokens", 0) == 70


@pytest.mark.parametrize("gone", ["groundrows:budgets", "groundrows:ledger"])
def test_a_budget_whose_count_is_gone_stops_the_run_and_the_next_one(
    ledger: RedisLedger, redis_uri: str, client: redis.Redis, gone: str
) -> None:
    """As when the server evicts it: what is left must not be taken for a budget that nobody has used."""
    assert ledger.reserve("run", 10, 8) == 8
    client.delete(gone)
    with pytest.raises(LedgerError, match="data was lost"):
        ledger.reserve("run", 10, 8)
    with pytest.raises(LedgerError, match="data was lost"):
        ledger.count("run max_tokens", 500)
    ledger.give_back("run", 8)
    with pytest.raises(LedgerError, match="part of its data is gone"):
        RedisLedger(redis_uri)


def test_a_ledger_of_an_earlier_version_keeps_its_budgets(redis_uri: str, client: redis.Redis) -> None:
    client.set("groundrows:ledger", "1 0123456789abcdef")
    client.set("groundrows:budget:run", 7)
    for left in (3, 0):
        with closing(RedisLedger(redis_uri)) as opened:
            assert opened.reserve("run", 10, 8) == left


# -- a server that goes away ------------------------------------------------------------------------------


def test_a_server_that_hangs_is_an_error_in_time() -> None:
    with (
        redis_server() as server,
        closing(RedisLedger(f"redis://127.0.0.1:{server.port}/0", patience=0)) as ledger,
    ):
        server.process.send_signal(signal.SIGSTOP)
        with pytest.raises(LedgerError, match="does not answer"):
            ledger.get_many([AN_ENTRY.key])


def test_a_server_that_restarts_is_waited_for(tmp_path_factory: pytest.TempPathFactory) -> None:
    keeps = ["--appendonly", "yes", "--appendfsync", "always", "--dir", str(tmp_path_factory.mktemp("redis"))]
    with ExitStack() as servers:
        server = servers.enter_context(redis_server(None, *keeps))
        ledger = servers.enter_context(closing(RedisLedger(f"redis://127.0.0.1:{server.port}/0")))
        ledger.put_many([AN_ENTRY])
        ledger.claim("run", {AN_ENTRY.key: "archive:1"})
        assert ledger.reserve("run", 10, 7) == 7
        server.process.kill()
        server.process.wait()

        def restart() -> None:
            time.sleep(0.5)
            servers.enter_context(redis_server(server.port, *keeps))

        restarting = threading.Thread(target=restart)
        restarting.start()
        assert ledger.get_many([AN_ENTRY.key]) == {AN_ENTRY.key: AN_ENTRY}
        assert ledger.claim("run", {AN_ENTRY.key: "archive:2"}) == {AN_ENTRY.key: "archive:1"}
        assert ledger.reserve("run", 10, 7) == 3
        restarting.join()


@pytest.mark.parametrize(
    "use",
    [
        lambda ledger: ledger.claim("run", {AN_ENTRY.key: "archive:1"}),
        lambda ledger: ledger.reserve("run", 10, 1),
    ],
    ids=["claim", "reserve"],
)
def test_data_that_was_lost_is_never_taken_for_a_fresh_start(
    ledger: RedisLedger, client: redis.Redis, redis_uri: str, use: Callable[[Ledger], object]
) -> None:
    use(ledger)
    client.flushall()
    with pytest.raises(LedgerError, match="lost or replaced"):
        use(ledger)
    with closing(RedisLedger(redis_uri)) as another:
        use(another)
        with pytest.raises(LedgerError, match="lost or replaced"):
            use(ledger)


def test_a_server_that_stayed_away_once_is_waited_for_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    with redis_server() as server:
        ledger = RedisLedger(f"redis://127.0.0.1:{server.port}/0", patience=0.3)
    pauses: list[float] = []
    monkeypatch.setattr("groundrows.transforms.generate.ledger.redis.time.sleep", pauses.append)
    with closing(ledger):
        with pytest.raises(LedgerError, match="nothing answers"):
            ledger.get_many([AN_ENTRY.key])
        assert pauses
        pauses.clear()
        for again in (
            lambda: ledger.get_many([AN_ENTRY.key]),
            lambda: ledger.put_many([AN_ENTRY]),
            lambda: ledger.lease("run/1", [AN_ENTRY.key], 10),
            lambda: ledger.claim("run", {AN_ENTRY.key: "archive:1"}),
        ):
            with pytest.raises(LedgerError, match="nothing answers"):
                again()
    assert pauses == []
