"""Redis over TLS, for the ledger and for the limiter."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from groundrows.schemas.errors import LedgerError, SetupError
from groundrows.transforms.generate.ledger.base import Ledger
from groundrows.transforms.generate.ledger.uri import open_ledger
from groundrows.transforms.generate.pacing.base import Pacer
from groundrows.transforms.generate.pacing.open import open_pacer
from tests.support.certificates import self_signed
from tests.support.engines import make_settings
from tests.support.services import RedisServer, free_port, redis_server


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    return self_signed(tmp_path)


@pytest.fixture
def tls_port(certificate: Path) -> int:
    return free_port()


@pytest.fixture
def server(certificate: Path, tls_port: int) -> Iterator[RedisServer]:
    """A server that speaks plainly on one port, and TLS on another."""
    file = str(certificate)
    tls = ["--tls-port", str(tls_port), "--tls-cert-file", file, "--tls-key-file", file]
    with redis_server(None, *tls, "--tls-ca-cert-file", file, "--tls-auth-clients", "no") as running:
        yield running


@pytest.fixture
def uri(server: RedisServer, tls_port: int) -> str:
    return f"rediss://127.0.0.1:{tls_port}/0"


def use_ledger(uri: str) -> None:
    ledger: Ledger
    with closing(open_ledger(uri)) as ledger:
        assert ledger.get_many([b"key"]) == {}


def use_pacer(uri: str) -> None:
    async def pace() -> None:
        pacer: Pacer = open_pacer(make_settings(rate_limiter=uri, requests_per_minute=6000))
        try:
            await asyncio.wait_for(pacer.acquire(), 20)
        finally:
            await pacer.close()

    asyncio.run(pace())


USES = pytest.mark.parametrize("use", [use_ledger, use_pacer])


@USES
def test_a_server_with_a_trusted_certificate_is_used(
    use: object, uri: str, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert callable(use)
    use(uri)


@USES
def test_a_certificate_that_is_not_trusted_is_refused_at_once(use: object, uri: str) -> None:
    assert callable(use)
    with pytest.raises((LedgerError, SetupError), match="certificate is not trusted here") as refused:
        use(uri)
    assert uri in str(refused.value)


def test_a_server_without_tls_is_refused(server: RedisServer) -> None:
    with pytest.raises(LedgerError, match="can't be used: it does not answer"):
        use_ledger(f"rediss://127.0.0.1:{server.port}/0")
