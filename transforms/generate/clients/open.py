"""From the settings to a client."""

from __future__ import annotations

import ipaddress

from groundrows.schemas.errors import SetupError
from groundrows.transforms.generate.clients.base import Client
from groundrows.transforms.generate.settings import CallSettings


def open_client(settings: CallSettings) -> Client:
    """The client of the transport that the settings name. Called on the loop that the client is used from.

    Raises:
        SetupError: There are no credentials, or the settings name a server or a version that can't be called.
    """
    host = settings.endpoint.rpartition(":")[0].strip("[]")
    if not settings.secure and not is_loopback(host):
        raise SetupError(f"{settings.endpoint} is not on this machine: calls without TLS stay on loopback.")
    if settings.transport == "rest":
        from groundrows.transforms.generate.clients.discoveryengine.rest_client import RestClient

        return RestClient(settings)
    if settings.api_version == "v1alpha":
        raise SetupError("v1alpha is spoken over REST only: give --transport=rest.")
    from groundrows.transforms.generate.clients.discoveryengine.grpc_client import GrpcClient

    return GrpcClient(settings)


def is_loopback(host: str) -> bool:
    """Whether a name or an address, without brackets, is this machine itself."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
