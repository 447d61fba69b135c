"""The resource that requests are addressed to. It is part of a request, its path and its routing header."""

from __future__ import annotations

from groundrows.schemas.discoveryengine.messages import request_class
from groundrows.schemas.discoveryengine.request import with_location
from groundrows.schemas.service import Method
from groundrows.transforms.generate.settings import CallSettings

_FIELDS: dict[Method, str] = {"generate": "location", "check": "grounding_config"}


def address_of(settings: CallSettings) -> tuple[str, str]:
    """Return the request's field for the resource that it is addressed to, and the resource's name."""
    method, version = settings.method, settings.api_version
    field = _FIELDS[method]
    addressed = request_class(version, method).FromString(
        with_location(b"", version, settings.location, method)
    )
    return field, getattr(addressed, field)
