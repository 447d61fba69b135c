"""From the settings to a client."""

from __future__ import annotations

import importlib
import ipaddress

from groundrows.schemas.errors import SetupError
from groundrows.schemas.service import SERVICES
from groundrows.transforms.generate.clients.base import Client
from groundrows.transforms.generate.settings import CallSettings


def open_client(settings: CallSettings) -> Client:
    """The client of the service that the settings name. Called on the loop that the client is used from.

    The module `open` in the service's folder beside this one has a function of this name, too.

    Raises:
        SetupError: There are no credentials, or the settings name a server, a service or a version that can't
            be called.
    """
    host = settings.endpoint.rpartition(":")[0].strip("[]")
    if not settings.secure and not is_loopback(host):
        raise SetupError(f"{settings.endpoint} is not on this machine: calls without TLS stay on loopback.")
    if settings.service not in SERVICES:
        raise SetupError(f"The service is {settings.service!r}: give one of {', '.join(SERVICES)}.")
    folder = importlib.import_module(f"{__package__}.{settings.service}.open")
    client: Client = folder.open_client(settings)
    return client


def is_loopback(host: str) -> bool:
    """Whether a name or an address, without brackets, is this machine itself."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
