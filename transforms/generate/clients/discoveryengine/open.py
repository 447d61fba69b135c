"""Makes a client of the Grounded Generation API."""

from __future__ import annotations

from groundrows.schemas.errors import SetupError
from groundrows.transforms.generate.clients.base import Client
from groundrows.transforms.generate.settings import CallSettings


def open_client(settings: CallSettings) -> Client:
    """Make a client for the settings' transport. Call it on the event loop that will use the client.

    Raises:
        SetupError: There are no credentials, or the transport does not have the version.
    """
    if settings.transport == "rest":
        from groundrows.transforms.generate.clients.discoveryengine.rest_client import RestClient

        return RestClient(settings)
    if settings.api_version == "v1alpha":
        raise SetupError("v1alpha works over REST only: give --transport=rest.")
    from groundrows.transforms.generate.clients.discoveryengine.grpc_client import GrpcClient

    return GrpcClient(settings)
