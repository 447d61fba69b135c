"""Which service is called, and how: its flags, and the address that they amount to."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from groundrows.pipeline.options.flag import Flag, Only, Parameter, flag
from groundrows.schemas.errors import UsageError
from groundrows.transforms.generate.clients.open import is_loopback

EMULATOR_LOCATION = "projects/emulated/locations/global"
LOCATION = r"projects/[A-Za-z0-9.:_-]+/locations/([a-z0-9-]+)"
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


def _words(text: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text))
    except ValueError:
        raise UsageError(
            f"--emulator_flags={text} has a quote without its partner: add the second one."
        ) from None
    if any(word.partition("=")[0] == "--port" for word in words):
        raise UsageError("--emulator_flags holds --port, which the run chooses itself: leave it out.")
    return words


@dataclass(frozen=True, kw_only=True)
class ServiceOptions:
    """Whom to ask. `endpoint` is None when the run starts its own emulator."""

    GROUP: ClassVar[str] = "whom to ask"

    service: str = flag(
        "",
        Flag(
            "The service to ask; `emulator` starts one on this machine. Required, so that emulator output "
            "can't be mistaken for real answers.",
            choices=("discoveryengine", "emulator"),
            template=None,
        ),
    )
    endpoint: Endpoint | None = flag(
        None,
        Flag(
            "Call this server instead of the service's own; over TLS unless it is on this machine.",
            metavar="HOST:PORT",
            template=None,
        ),
    )
    location: str = flag(
        "",
        Flag(
            "The location resource that requests name; it decides which regional endpoint is called.",
            metavar="projects/P/locations/L",
            pattern=LOCATION,
            noun="location",
            example="projects/PROJECT/locations/global",
            template=Parameter(required=True),
        ),
    )
    api_version: str = flag(
        "v1",
        Flag("The version of the API; v1alpha works over REST only.", choices=("v1", "v1beta", "v1alpha")),
    )
    transport: str = flag("grpc", Flag("The protocol of the calls.", choices=("grpc", "rest")))
    stream_answers: bool = flag(
        False, Flag("Call the streaming method, which sends an answer in parts.", only=Only.GENERATING)
    )
    check_grounding: bool = flag(
        False,
        Flag(
            "Check each answer against its support chunks; this makes one more call for each answer.",
            only=Only.GENERATING,
        ),
    )
    citation_threshold: float | None = flag(
        None,
        Flag(
            "The confidence, from 0 to 1, from which a check cites a fact.",
            metavar="SHARE",
            default_said="the service's own",
            least=0,
            most=1,
            only=Only.CHECKS,
        ),
    )
    emulator_flags: tuple[str, ...] = flag(
        (), Flag("Flags for the emulator that the run starts.", metavar="TEXT", read=_words, template=None)
    )


def where_to_call(values: Mapping[str, Any]) -> tuple[Endpoint | None, str]:
    """The server, or None when the run starts its own, and the location resource.

    Args:
        values: The attributes of `ServiceOptions`, but for `endpoint`, which is still a text or None.

    Raises:
        UsageError: The flags name no server, or one that may not be called so.
    """
    service, location, endpoint = values["service"], values["location"], values["endpoint"]
    if not service:
        raise UsageError(
            "Nothing says whom to ask: give --service=discoveryengine, or --service=emulator to try it out."
        )
    if values["transport"] != "rest" and values["api_version"] == "v1alpha":
        raise UsageError("--api_version=v1alpha works over REST only: give --transport=rest too.")
    if not location and service == "emulator":
        location = EMULATOR_LOCATION
    if not location:
        raise UsageError(
            "Nothing says in whose name to ask: give --location=projects/PROJECT/locations/global."
        )
    if values["emulator_flags"] and (service != "emulator" or endpoint is not None):
        raise UsageError("--emulator_flags is for a run that starts its own emulator: leave it out here.")
    if endpoint is not None:
        return _endpoint(endpoint, service), location
    if service == "emulator":
        return None, location
    region = location.rpartition("/")[2]
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
