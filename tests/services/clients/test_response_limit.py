"""No response takes more memory than a small multiple of `max_response_bytes`, whatever the server sends."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from groundrows.schemas.codes import RESPONSE_TOO_LARGE, UNDECODABLE_RESPONSE
from tests.support.engines import response, run
from tests.support.http2_servers import answering_grpc, framed, gzip_of_zeros
from tests.support.http_servers import serving

LIMIT = 4 << 20
GIGABYTE = 1 << 30
# In a process of its own, as its memory is measured: what it held before the call, and at most.
ASK = """
import asyncio, json, resource, sys
from groundrows.schemas.errors import CallError
from groundrows.transforms.generate.clients.base import Call
from groundrows.transforms.generate.clients.open import open_client
from tests.support.engines import make_settings

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

async def ask(address, settings):
    client = open_client(make_settings(address, **settings))
    before = peak()
    try:
        await client.ask(Call(b""), 60.0)
        code, retryable = "OK", False
    except CallError as error:
        code, retryable = error.code, error.retryable
    await client.close()
    print(json.dumps([code, retryable, peak() - before]))

asyncio.run(ask(sys.argv[1], json.loads(sys.argv[2])))
"""

WAYS = {
    "generate": {},
    "stream": {"stream_answers": True},
    "check": {"method": "check"},
}


def ask_in_a_process(server: Any, transport: str, way: str) -> tuple[str, bool, int]:
    """Code, whether it would be tried again, and by how many bytes the process's memory grew at most."""
    settings = {"transport": transport, "max_response_bytes": LIMIT, **WAYS[way]}

    async def scenario() -> tuple[str, bool, int]:
        async with server as address:
            asked = [sys.executable, "-c", ASK, address, json.dumps(settings)]
            done = await asyncio.to_thread(
                subprocess.run, asked, capture_output=True, text=True, timeout=90, check=False
            )
        assert done.returncode == 0, done.stderr
        code, retryable, grown = json.loads(done.stdout)
        return code, retryable, grown

    found: tuple[str, bool, int] = run(scenario(), 120)
    return found


@asynccontextmanager
async def bomb_over_http() -> AsyncIterator[str]:
    packed = gzip_of_zeros(GIGABYTE)
    assert len(packed) < GIGABYTE // 1000

    async def handler(request: web.Request) -> web.Response:
        return web.Response(body=packed, headers={"Content-Encoding": "gzip"})

    async with serving(handler) as address:
        yield address


@asynccontextmanager
async def endless_over_http() -> AsyncIterator[str]:
    async def handler(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        piece = b"[" + b"{}," * 100_000
        try:
            while True:
                await answer.write(piece)
        except ConnectionError:
            return answer

    async with serving(handler) as address:
        yield address


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("server", [bomb_over_http, endless_over_http], ids=["gzip", "endless"])
def test_a_rest_response_is_cut_at_the_limit(server: Any, way: str) -> None:
    code, retryable, grown = ask_in_a_process(server(), "rest", way)
    assert (code, retryable) == (RESPONSE_TOO_LARGE, False)
    assert grown < 8 * LIMIT


@pytest.mark.parametrize("way", WAYS)
def test_a_grpc_message_is_cut_at_the_limit(way: str) -> None:
    message = framed(response("x" * 16 * LIMIT))
    code, retryable, grown = ask_in_a_process(answering_grpc([message]), "grpc", way)
    assert (code, retryable) == (RESPONSE_TOO_LARGE, False)
    assert grown < 8 * LIMIT


@pytest.mark.parametrize("way", WAYS)
def test_a_grpc_message_is_not_unpacked(way: str) -> None:
    message = framed(gzip_of_zeros(GIGABYTE), compressed=True)
    code, retryable, grown = ask_in_a_process(answering_grpc([message], "gzip"), "grpc", way)
    assert (code, retryable) == (UNDECODABLE_RESPONSE, False)
    assert grown < 8 * LIMIT


@pytest.mark.parametrize("part", [response("x" * 100_000), b""], ids=["full", "empty"])
def test_the_parts_of_a_grpc_stream_are_bounded_together(part: bytes) -> None:
    count = 400_000 if not part else 64 * LIMIT // len(part)
    messages = [framed(part) * (count // 100)] * 100
    code, retryable, grown = ask_in_a_process(answering_grpc(messages), "grpc", "stream")
    assert (code, retryable) == (RESPONSE_TOO_LARGE, False)
    assert grown < 8 * LIMIT


def tiny_candidates(size: int) -> bytes:
    """A message of so many bytes that consists of nothing but empty messages, or nearly empty ones."""
    empty, nearly = b"\x0a\x00", b"\x0a\x02\x08\x01"
    return (empty + nearly) * (size // 6)


@pytest.mark.parametrize("way", ["generate", "stream"])
def test_tiny_messages_over_grpc_are_counted_before_they_are_decoded(way: str) -> None:
    """Decoded they would take some forty times their bytes."""
    parts = 1 if way == "generate" else 8
    messages = [framed(tiny_candidates(LIMIT // 2 // parts))] * parts
    code, retryable, grown = ask_in_a_process(answering_grpc(messages), "grpc", way)
    assert (code, retryable) == (RESPONSE_TOO_LARGE, False)
    assert grown < 6 * LIMIT


@asynccontextmanager
async def tiny_objects_over_http() -> AsyncIterator[str]:
    async def handler(request: web.Request) -> web.Response:
        count = LIMIT // 4
        return web.Response(
            body=b'[{"candidates":[' + b"{}," * count + b"{}]}]", content_type="application/json"
        )

    async with serving(handler) as address:
        yield address


@pytest.mark.parametrize("way", WAYS)
def test_tiny_objects_over_rest_are_counted_before_they_are_decoded(way: str) -> None:
    code, retryable, grown = ask_in_a_process(tiny_objects_over_http(), "rest", way)
    assert (code, retryable) == (RESPONSE_TOO_LARGE, False)
    assert grown < 8 * LIMIT
