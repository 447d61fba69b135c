"""The flags that say which service is called, and the address that follows from them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from groundrows.pipeline.options.flag import Flag, Only, Parameter, flag
from groundrows.schemas.errors import UsageError
from groundrows.schemas.service import (
    DISCOVERY_ENGINE,
    FACTS_INSTRUCTION,
    SERVICES,
    Access,
    access_of,
)
from groundrows.transforms.generate.clients.open import is_loopback

EMULATOR_LOCATION = "projects/emulated/locations/global"
LOCATION = r"projects/[A-Za-z0-9.:_-]+/locations/([a-z0-9-]+)"
ADDRESS = re.compile(
    r"(?:(?P<scheme>https?)://)?(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(?::(?P<port>[0-9]{1,5}))?/?"
)
EMULATOR = "emulator"
"""A value of two flags. `--service`: the Grounded Generation API, emulated. `--endpoint`: an emulator of the
service that `--service` names."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where calls are sent: `HOST:PORT`, and whether they use TLS and credentials."""

    address: str
    secure: bool


def _words(text: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text))
    except ValueError:
        raise UsageError(
            f"--emulator_flags={text} has an opening quote without a closing one: add it."
        ) from None
    if any(word.partition("=")[0] == "--port" for word in words):
        raise UsageError("--emulator_flags holds --port, which the run chooses itself: leave it out.")
    return words


@dataclass(frozen=True, kw_only=True)
class ServiceOptions:
    """Which service to call. `endpoint` is None when the run starts its own emulator."""

    GROUP: ClassVar[str] = "which service to call"

    service: str = flag(
        "",
        Flag(
            "The service to ask: the Grounded Generation API (`discoveryengine`) or Gemini; `emulator` is "
            "the first of them on an emulator. Required, so that emulator output can't be mistaken for real "
            "answers.",
            choices=(*SERVICES, EMULATOR),
            template=Parameter(required=True, choices=SERVICES),
        ),
    )
    endpoint: Endpoint | None = flag(
        None,
        Flag(
            "Call this server instead of the service's own. The calls use TLS unless it is on this machine. "
            "The word emulator starts an emulator of the service on this machine.",
            metavar="HOST:PORT",
            template=None,
        ),
    )
    location: str = flag(
        "",
        Flag(
            "The location resource that requests name. It decides which regional endpoint is called. Gemini "
            "is called on the Agent Platform when it is given. Without it, Gemini is called on the Developer "
            "API, with the key in GEMINI_API_KEY.",
            metavar="projects/P/locations/L",
            pattern=LOCATION,
            noun="location",
            example="projects/PROJECT/locations/global",
            template=Parameter(required=True),
        ),
    )
    api_version: str = flag(
        "",
        Flag(
            "The version of the API. v1alpha works over REST only.",
            choices=("v1", "v1beta", "v1alpha", "v1beta1"),
            default_said="v1; for Gemini on the Developer API v1beta",
        ),
    )
    transport: str = flag(
        "",
        Flag(
            "The protocol of the calls.",
            choices=("grpc", "rest"),
            default_said="grpc; for Gemini rest",
        ),
    )
    model: str | None = flag(
        None,
        Flag(
            "The model of every request that names none. Gemini needs one.",
            metavar="NAME",
            default_said="the service's own",
            pattern=r"[A-Za-z0-9][A-Za-z0-9._@/:-]*",
            noun="model",
            example="a name such as gemini-2.5-flash",
            only=Only.GENERATING,
        ),
    )
    facts_instruction: str = flag(
        FACTS_INSTRUCTION,
        Flag(
            "The text above a record's facts in the prompt, for a service that takes facts only there "
            "(Gemini).",
            metavar="TEXT",
            empty="refused",
            only=Only.GENERATING,
        ),
    )
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
    check_location: str = flag(
        "",
        Flag(
            "The location resource for the checks of --check_grounding when Gemini answers. The Grounded "
            "Generation API makes these checks.",
            metavar="projects/P/locations/L",
            pattern=LOCATION,
            noun="location",
            example="projects/PROJECT/locations/global",
            only=Only.GENERATING,
        ),
    )
    citation_threshold: float | None = flag(
        None,
        Flag(
            "The lowest confidence, from 0 to 1, with which a check cites a fact.",
            metavar="SHARE",
            default_said="the service's default",
            least=0,
            most=1,
            only=Only.CHECKS,
        ),
    )
    emulator_flags: tuple[str, ...] = flag(
        (), Flag("Flags for the emulator that the run starts.", metavar="TEXT", read=_words, template=None)
    )


def service_asked(service: str) -> str:
    """Return the name of the service that `--service` means."""
    return DISCOVERY_ENGINE if service == EMULATOR else service


def is_emulated(service: str, endpoint: str | None) -> bool:
    """Whether `--service` and `--endpoint`, as given, name an emulator rather than a service."""
    return EMULATOR in (service, endpoint)


def settled(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of `ServiceOptions` that depend on each other, such as endpoint and version.

    Args:
        values: The attributes of `ServiceOptions`, except that `endpoint` is still a text or None.

    Raises:
        UsageError: The flags name no server, or one that may not be called in this way.
    """
    service, location, endpoint = values["service"], values["location"], values["endpoint"]
    if not service:
        raise UsageError(
            "Nothing says which service to call: give --service=discoveryengine, --service=gemini, or "
            "--service=emulator to try it out."
        )
    asked = service_asked(service)
    if not location and is_emulated(service, endpoint) and access_of(asked, "") is None:
        location = EMULATOR_LOCATION
    access = access_of(asked, location)
    if access is None:
        raise UsageError(
            "Nothing says which project makes the calls: give --location=projects/PROJECT/locations/global."
        )
    return {
        "location": location,
        "transport": _one_of(access.transports, "transport", values["transport"], asked, location),
        "api_version": _version(access.versions, values, asked, location),
        "endpoint": _where(values, access, location),
        "check_location": _check_location(values, asked),
    }


def _check_location(values: Mapping[str, Any], asked: str) -> str:
    """Return the location of the checks when the service that answers does not make them; else empty."""
    given: str = values["check_location"]
    if asked == DISCOVERY_ENGINE or not values["check_grounding"]:
        if given:
            raise UsageError(
                "--check_location is for --check_grounding with --service=gemini: leave it out here."
            )
        return ""
    if not given and is_emulated(values["service"], values["endpoint"]):
        return EMULATOR_LOCATION
    access = access_of(DISCOVERY_ENGINE, given)
    if access is None:
        raise UsageError(
            "--check_grounding calls the Grounded Generation API, and --service=gemini calls another one: "
            "give --check_location=projects/PROJECT/locations/global, or leave out --check_grounding."
        )
    if access.endpoint is None:
        raise UsageError(
            f"--check_location={given} is in {given.rpartition('/')[2]}, where no endpoint is known: use one "
            f"of {', '.join(access.regions)}."
        )
    return given


def _one_of(known: tuple[str, ...], name: str, given: str, asked: str, location: str) -> str:
    if not given or given in known:
        return given or known[0]
    where = f"{asked} {'with' if location else 'without'} a --location"
    raise UsageError(
        f"--{name}={given} does not exist for {where}: give {' or '.join(known)}, or leave it out."
    )


def _version(known: tuple[str, ...], values: Mapping[str, Any], asked: str, location: str) -> str:
    version = _one_of(known, "api_version", values["api_version"], asked, location)
    if version == "v1alpha" and asked == DISCOVERY_ENGINE and values["transport"] != "rest":
        raise UsageError("--api_version=v1alpha works over REST only: give --transport=rest too.")
    return version


def _where(values: Mapping[str, Any], access: Access, location: str) -> Endpoint | None:
    service, endpoint = values["service"], values["endpoint"]
    starts_one = endpoint == EMULATOR or (service == EMULATOR and endpoint is None)
    if values["emulator_flags"] and not starts_one:
        raise UsageError("--emulator_flags is for a run that starts its own emulator: leave it out here.")
    if starts_one:
        return None
    if endpoint is not None:
        return _endpoint(endpoint, service)
    if access.endpoint is None:
        raise UsageError(
            f"--location={location} is in {location.rpartition('/')[2]}, where no endpoint is known: use one "
            f"of {', '.join(access.regions)}, or name a server with --endpoint."
        )
    return Endpoint(access.endpoint, secure=True)


def _endpoint(text: str, service: str) -> Endpoint:
    if "@" in text:  # the error must not show the text, which may contain a password
        raise UsageError("--endpoint contains a user name, which is not allowed: write HOST:PORT.")
    match = ADDRESS.fullmatch(text)
    port = int(match["port"]) if match and match["port"] else None
    if match is None or (port is not None and not 0 < port < 65536):
        raise UsageError(f"--endpoint={text} is not an address: write HOST:PORT.")
    scheme, host = match["scheme"], match["host"].strip("[]")
    local = is_loopback(host)
    secure = scheme == "https" or (scheme is None and not local)
    if not local and (not secure or service == EMULATOR):
        raise UsageError(
            f"--endpoint={text} is not on this machine, and calls without TLS are allowed only to this "
            f"machine: use an https address with --service={service_asked(service)}, or 127.0.0.1."
        )
    if port is None and not secure:
        raise UsageError(f"--endpoint={text} names no port: write HOST:PORT.")
    name = f"[{host}]" if ":" in host else host
    return Endpoint(f"{name}:{port or 443}", secure)
