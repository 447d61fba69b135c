"""A request as rows show it."""

from __future__ import annotations

from groundrows.schemas.service import DISCOVERY_ENGINE, Method, check_service_of, service_of


def request_json(request: bytes, api_version: str, method: Method = "generate") -> str:
    if method == "check":
        return check_service_of(DISCOVERY_ENGINE, api_version).asked_check(request).request_json
    return service_of(DISCOVERY_ENGINE, api_version).asked(request).request_json
