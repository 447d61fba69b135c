"""Credentials on the wire: a key file, a token server and a TLS server of our own, and nothing in their place."""

import asyncio
import json
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from groundrows.schemas.errors import CallError, SetupError
from groundrows.transforms.generate.clients import credentials
from groundrows.transforms.generate.clients.base import Call
from groundrows.transforms.generate.clients.discoveryengine.rest_client import RestClient
from tests.support.certificates import PEM, self_signed
from tests.support.engines import make_settings, run, text_of
from tests.support.http_servers import serving
from tests.support.services import free_port

ANSWER = {"candidates": [{"content": {"parts": [{"text": "Jupiter."}]}}]}


class TokenServer:
    """Hands out `token-1`, `token-2` …, each for `lifetime` seconds; refuses while `refusal` is set."""

    def __init__(self, lifetime: int = 3600) -> None:
        self.lifetime = lifetime
        self.given = 0
        self.refusal: tuple[int, str] | None = None
        self.held: asyncio.Event | None = None

    async def __call__(self, request: web.Request) -> web.Response:
        if self.held is not None:
            await self.held.wait()
        if self.refusal is not None:
            status, error = self.refusal
            return web.json_response({"error": error, "error_description": "words"}, status=status)
        self.given += 1
        token = {"access_token": f"token-{self.given}", "expires_in": self.lifetime, "token_type": "Bearer"}
        return web.json_response(token)


class Service:
    """The service behind TLS; keeps each request's headers."""

    def __init__(self) -> None:
        self.headers: list[Mapping[str, str]] = []

    async def __call__(self, request: web.Request) -> web.Response:
        self.headers.append(request.headers)
        return web.json_response(ANSWER)

    def tokens(self) -> list[str]:
        return [headers["authorization"].removeprefix("Bearer ") for headers in self.headers]


@pytest.fixture
def tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """A certificate for 127.0.0.1, which this process trusts for the test."""
    path = self_signed(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


@pytest.fixture
def key_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "key.json"
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    monkeypatch.delenv("GOOGLE_CLOUD_QUOTA_PROJECT", raising=False)
    return path


def write_key(path: Path, token_server: str) -> None:
    key = {
        "type": "service_account",
        "client_email": "nobody@example.invalid",
        "private_key": PEM.decode(),
        "private_key_id": "1",
        "token_uri": f"http://{token_server}/token",
        "project_id": "p",
    }
    path.write_text(json.dumps(key))


def secured(address: str) -> RestClient:
    return RestClient(make_settings(address, secure=True, transport="rest"))


def calls(tokens: TokenServer, key_file: Path, tls: ssl.SSLContext, do: Any) -> Service:
    """Run `do` with a client of a TLS server; returns what that server saw."""
    service = Service()

    async def scenario() -> None:
        async with serving(tokens) as token_server, serving(service, tls) as address:
            write_key(key_file, token_server)
            client = secured(address)
            try:
                await do(client)
            finally:
                await client.close()

    run(scenario())
    return service


async def call(client: RestClient) -> None:
    assert text_of((await client.ask(Call(b""), 10.0)).response) == "Jupiter."


def test_one_token_is_fetched_for_all_and_sent_with_each_call(key_file: Path, tls: ssl.SSLContext) -> None:
    tokens = TokenServer()

    async def many(client: RestClient) -> None:
        await asyncio.gather(*(call(client) for _ in range(20)))
        await asyncio.gather(*(call(client) for _ in range(20)))

    service = calls(tokens, key_file, tls, many)
    assert tokens.given == 1
    assert service.tokens() == ["token-1"] * 40
    assert all("x-goog-user-project" not in headers for headers in service.headers)


def test_whose_quota_it_is_goes_with_it(
    key_file: Path, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_QUOTA_PROJECT", "payer")
    (headers,) = calls(TokenServer(), key_file, tls, call).headers
    assert headers["x-goog-user-project"] == "payer"


def test_a_token_near_its_end_is_used_while_the_next_is_fetched(
    key_file: Path, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "PAUSE_SECONDS", 0.0)
    tokens = TokenServer(lifetime=120)

    async def three(client: RestClient) -> None:
        await call(client)
        tokens.held, tokens.lifetime = asyncio.Event(), 3600
        await asyncio.gather(*(call(client) for _ in range(10)))  # nobody waits for the token server
        tokens.held.set()
        while tokens.given < 2:  # noqa: ASYNC110 - another server's doing
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        await call(client)

    service = calls(tokens, key_file, tls, three)
    assert service.tokens() == ["token-1"] * 11 + ["token-2"]
    assert tokens.given == 2


def test_while_no_newer_token_is_to_be_had_the_old_one_serves(
    key_file: Path, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "PAUSE_SECONDS", 0.0)
    tokens = TokenServer(lifetime=120)

    async def on(client: RestClient) -> None:
        await call(client)
        tokens.refusal = (400, "invalid_grant")
        for _ in range(5):
            await call(client)
            await asyncio.sleep(0.05)

    assert calls(tokens, key_file, tls, on).tokens() == ["token-1"] * 6


def test_a_token_that_is_too_old_is_never_sent(
    key_file: Path, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = TokenServer(lifetime=9)  # too old as soon as it is there

    async def two(client: RestClient) -> None:
        await call(client)
        tokens.lifetime = 3600
        await asyncio.gather(*(call(client) for _ in range(5)))

    assert calls(tokens, key_file, tls, two).tokens() == ["token-1"] + ["token-2"] * 5


@pytest.mark.parametrize(
    ("refusal", "code", "retryable"),
    [((400, "invalid_grant"), "UNAUTHENTICATED", False), ((503, "unavailable"), "UNAVAILABLE", True)],
)
def test_a_token_that_can_not_be_had_ends_the_attempt(
    key_file: Path, tls: ssl.SSLContext, refusal: tuple[int, str], code: str, retryable: bool
) -> None:
    tokens = TokenServer()
    tokens.refusal = refusal
    errors: list[Any] = []

    async def fail_and_recover(client: RestClient) -> None:
        asked = (client.ask(Call(b""), 30.0) for _ in range(3))
        errors.extend(await asyncio.gather(*asked, return_exceptions=True))
        tokens.refusal = None
        await call(client)

    service = calls(tokens, key_file, tls, fail_and_recover)
    assert [(error.code, error.retryable) for error in errors] == [(code, retryable)] * 3
    assert service.tokens() == ["token-1"]


def test_waiting_for_a_token_counts_towards_the_deadline_and_a_caller_who_gives_up_harms_nobody(
    key_file: Path, tls: ssl.SSLContext
) -> None:
    tokens = TokenServer()

    async def give_up(client: RestClient) -> None:
        tokens.held = asyncio.Event()
        waits = asyncio.create_task(call(client))
        with pytest.raises(CallError) as caught:
            await client.ask(Call(b""), 0.2)
        assert caught.value.code == "DEADLINE_EXCEEDED"
        tokens.held.set()
        await waits

    assert calls(tokens, key_file, tls, give_up).tokens() == ["token-1"]


def test_a_server_whose_certificate_nobody_vouches_for_gets_nothing(
    key_file: Path, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")

    async def refused(client: RestClient) -> None:
        with pytest.raises(CallError) as caught:
            await client.ask(Call(b""), 10.0)
        assert caught.value.code == "UNAVAILABLE"

    assert calls(TokenServer(), key_file, tls, refused).headers == []


@pytest.mark.parametrize(("no_proxy", "tunnels"), [("", 1), ("127.0.0.1", 0)])
def test_the_environments_proxy_is_used_but_for_hosts_it_leaves_out(
    key_file: Path, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch, no_proxy: str, tunnels: int
) -> None:
    opened: list[str] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
        opened.append(target)
        host, port = target.split(":")
        there, back = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(pump(reader, back), pump(there, writer))

    async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            sink.write(data)
        sink.close()

    service = Service()

    async def scenario() -> None:
        server = await asyncio.start_server(proxy, "127.0.0.1", 0)
        async with serving(TokenServer()) as token_server, serving(service, tls) as address:
            write_key(key_file, token_server)
            monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
            monkeypatch.setenv("NO_PROXY", no_proxy)
            client = secured(address)
            await call(client)
            await client.close()
            assert opened == [address] * tunnels
        server.close()

    run(scenario())
    assert service.tokens() == ["token-1"]


def test_without_credentials_there_is_no_client(key_file: Path) -> None:
    async def scenario() -> None:
        with pytest.raises(SetupError, match="gcloud auth application-default login") as caught:
            secured(f"127.0.0.1:{free_port()}")
        assert "\n" not in str(caught.value)

    run(scenario())
