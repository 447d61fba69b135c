"""From the settings to a client of the Grounded Generation API."""

from __future__ import annotations

from groundrows.schemas.errors import SetupError
from groundrows.transforms.generate.clients.base import Client
from groundrows.transforms.generate.settings import CallSettings


def open_client(settings: CallSettings) -> Client:
    """The client of the transport that the settings name. Called on the loop that the client is used from.

    Raises:
        SetupError: There are no credentials, or the transport does not have the version.
    """
    if settings.transport == "rest":
        from groundrows.transforms.generate.clients.discoveryengine.rest_client import RestClient

        return RestClient(settings)
    if settings.api_version == "v1alpha":
        raise SetupError("v1alpha is spoken over REST only: give --transport=rest.")
    from groundrows.transforms.generate.clients.discoveryengine.grpc_client import GrpcClient

    return GrpcClient(settings)
