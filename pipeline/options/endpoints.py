"""Whom to call: the flags that name a service, a location and a server, into an address."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from groundrows.schemas.errors import UsageError
from groundrows.transforms.generate.clients.open import is_loopback

if TYPE_CHECKING:
    import argparse

EMULATOR_LOCATION = "projects/emulated/locations/global"
LOCATION = re.compile(r"projects/[A-Za-z0-9.:_-]+/locations/([a-z0-9-]+)")
ADDRESS = re.compile(
    r"(?:(?P<scheme>https?)://)?(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(?::(?P<port>[0-9]{1,5}))?/?"
)
# The service has these three regions; any other location is refused by it with a 400.
ENDPOINTS = {
    "global": "discoveryengine.googleapis.com:443",
    "us": "us-discoveryengine.googleapis.com:443",
    "eu": "eu-discoveryengine.googleapis.com:443",
}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where calls go: `HOST:PORT`, and whether over TLS with credentials."""

    address: str
    secure: bool


def where_to_call(flags: argparse.Namespace) -> tuple[Endpoint | None, str]:
    """The server, or None when the run starts its own, and the location resource.

    Raises:
        UsageError: The flags name none, or one that may not be called so.
    """
    if flags.service is None:
        raise UsageError(
            "Nothing says whom to ask: give --service=discoveryengine, or --service=emulator to try it out."
        )
    if flags.transport != "rest" and flags.api_version == "v1alpha":
        raise UsageError("--api_version=v1alpha is spoken over REST only: give --transport=rest too.")
    location = flags.location
    if location is None and flags.service == "emulator":
        location = EMULATOR_LOCATION
    if location is None:
        raise UsageError(
            "Nothing says in whose name to ask: give --location=projects/PROJECT/locations/global."
        )
    match = LOCATION.fullmatch(location)
    if match is None:
        raise UsageError(f"--location={location} is no location: write projects/PROJECT/locations/global.")
    if flags.emulator_flags and (flags.service != "emulator" or flags.endpoint is not None):
        raise UsageError("--emulator_flags is for a run that starts its own emulator: leave it out here.")
    if flags.endpoint is not None:
        return _endpoint(flags.endpoint, flags.service), location
    if flags.service == "emulator":
        return None, location
    region = match.group(1)
    if region not in ENDPOINTS:
        raise UsageError(
            f"--location={location} is in {region}, which has no endpoint known here: "
            f"use one of {', '.join(ENDPOINTS)}, or name a server with --endpoint."
        )
    return Endpoint(ENDPOINTS[region], secure=True), location


def _endpoint(text: str, service: str) -> Endpoint:
    if "@" in text:  # not shown: there may be a password in it
        raise UsageError("--endpoint holds a user, which no server here takes: write HOST:PORT.")
    match = ADDRESS.fullmatch(text)
    port = int(match["port"]) if match and match["port"] else None
    if match is None or (port is not None and not 0 < port < 65536):
        raise UsageError(f"--endpoint={text} is no address: write HOST:PORT.")
    scheme, host = match["scheme"], match["host"].strip("[]")
    local = is_loopback(host)
    secure = scheme == "https" or (scheme is None and not local)
    if not local and (not secure or service == "emulator"):
        raise UsageError(
            f"--endpoint={text} is not on this machine, and calls without TLS stay on loopback: "
            "use an https address with --service=discoveryengine, or 127.0.0.1."
        )
    if port is None and not secure:
        raise UsageError(f"--endpoint={text} names no port: write HOST:PORT.")
    name = f"[{host}]" if ":" in host else host
    return Endpoint(f"{name}:{port or 443}", secure)
