"""Makes the client of the service that the settings name."""

from __future__ import annotations

import importlib
import ipaddress

from groundrows.schemas.errors import SetupError
from groundrows.schemas.service import SERVICES
from groundrows.transforms.generate.clients.base import Client
from groundrows.transforms.generate.settings import CallSettings


def open_client(settings: CallSettings) -> Client:
    """Make a client. It must be called on the event loop that will use the client.

    Each service has a folder beside this module, whose module `open` has a function of the same name.

    Raises:
        SetupError: There are no credentials, or the server, the service or the version can't be called.
    """
    host = settings.endpoint.rpartition(":")[0].strip("[]")
    if not settings.secure and not is_loopback(host):
        raise SetupError(f"{settings.endpoint} is not on this machine, so calls to it must use TLS.")
    if settings.service not in SERVICES:
        raise SetupError(f"The service is {settings.service!r}: give one of {', '.join(SERVICES)}.")
    folder = importlib.import_module(f"{__package__}.{settings.service}.open")
    client: Client = folder.open_client(settings)
    return client


def is_loopback(host: str) -> bool:
    """Whether a host name or address, without brackets, is this machine."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
