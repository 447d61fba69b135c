import pytest

from groundrows.schemas.errors import SetupError
from groundrows.transforms.generate.clients.discoveryengine.grpc_client import GrpcClient
from groundrows.transforms.generate.clients.discoveryengine.rest_client import RestClient
from groundrows.transforms.generate.clients.open import open_client
from tests.support.engines import make_settings, run


def opened(endpoint: str = "127.0.0.1:9", **changes: object) -> type[object]:
    async def scenario() -> type[object]:
        client = open_client(make_settings(endpoint, **changes))
        await client.close()
        return type(client)

    kind: type[object] = run(scenario())
    return kind


@pytest.mark.parametrize("method", ["generate", "check"])
def test_the_transport_chooses_the_client(method: str) -> None:
    assert opened(method=method) is GrpcClient
    assert opened(method=method, transport="rest") is RestClient
    assert opened(method=method, transport="rest", api_version="v1alpha") is RestClient


def test_v1alpha_is_not_spoken_over_grpc() -> None:
    with pytest.raises(SetupError, match="REST only"):
        opened(api_version="v1alpha")


@pytest.mark.parametrize("transport", ["grpc", "rest"])
def test_without_tls_nothing_leaves_this_machine(transport: str) -> None:
    for endpoint in ("127.0.0.1:9", "localhost:9", "LOCALHOST:9", "[::1]:9", "127.8.8.8:9"):
        opened(endpoint, transport=transport)
    for endpoint in ("10.0.0.1:9", "example.invalid:9", "127.0.0.1.example.invalid:9", "[2001:db8::1]:9", ""):
        with pytest.raises(SetupError, match="not on this machine"):
            opened(endpoint, transport=transport)


def test_a_service_that_there_is_not_is_named() -> None:
    with pytest.raises(SetupError, match="'oracle': give one of discoveryengine"):
        opened(service="oracle")
