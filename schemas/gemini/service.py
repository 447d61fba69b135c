"""Gemini as a service: what `schemas/service.py` asks of one, by the modules beside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from groundrows.schemas.errors import UndecodableError
from groundrows.schemas.gemini import reading
from groundrows.schemas.gemini import request as requests
from groundrows.schemas.gemini.generation import GENERATION_FIELDS
from groundrows.schemas.gemini.own import OWN_FIELDS
from groundrows.schemas.gemini.platform import AGENT_VERSIONS, DEVELOPER_VERSIONS, is_agent_platform
from groundrows.schemas.gemini.records import FIELDS, Builder, default_request
from groundrows.schemas.gemini.taking import read_response
from groundrows.schemas.jsontext import compact_json
from groundrows.schemas.names import camel
from groundrows.schemas.outcome import Answer
from groundrows.schemas.response import Response
from groundrows.schemas.service import Access, Asked, BuildSettings, Built, Method, Service
from groundrows.schemas.spending import Need

_TRANSPORTS = ("rest",)
_MULTI_REGIONS = ("us", "eu")


def open_service(api_version: str) -> Service:
    """The service in a version of its API.

    Raises:
        ValueError: It has no such version.
    """
    is_agent_platform(api_version)
    return _Gemini(api_version)


def access(location: str) -> Access:
    """How the service is reached: from a location it is the Agent Platform, from none the Developer API."""
    if not location:
        return Access(
            "generativelanguage.googleapis.com:443", DEVELOPER_VERSIONS, _TRANSPORTS, reports_usage=True
        )
    region = location.rpartition("/")[2]
    host = f"{region}-aiplatform.googleapis.com"
    if region == "global":
        host = "aiplatform.googleapis.com"
    elif region in _MULTI_REGIONS:
        host = f"aiplatform.{region}.rep.googleapis.com"
    return Access(f"{host}:443", AGENT_VERSIONS, _TRANSPORTS, reports_usage=True)


def stored_json(response: bytes) -> str | None:
    """A response as JSON; None when it is none."""
    if response[:1] not in (b"{", b"["):
        return None
    try:
        return compact_json(read_response(response))
    except (UndecodableError, ValueError):
        return None


class _Gemini:
    def __init__(self, api_version: str) -> None:
        self.message_version = api_version
        self.fields = FIELDS

    def requests(self, settings: BuildSettings) -> Builder:
        return Builder(self.message_version, settings)

    def default_request(self, fields: Mapping[str, object]) -> Built:
        return default_request(self.message_version, fields)

    def home_of(self, field: str) -> str | None:
        homes = {"generation_spec": GENERATION_FIELDS, "gemini": OWN_FIELDS}
        for home, names in homes.items():
            if field in names or field in map(camel, names):
                return home
        return None

    def turn_request(
        self,
        request: bytes,
        method: Method,
        location: str,
        history: Sequence[tuple[str, str]] = (),
        text: str = "",
        instruction: bytes | None = None,
    ) -> bytes:
        return requests.turn_request(request, location, history, text, instruction)

    def asked(self, request: bytes) -> Asked:
        return requests.described(request)

    def model_of(self, request: bytes) -> str:
        return requests.model_of(request)

    def text_characters(self, request: bytes, method: Method) -> int:
        return requests.text_characters(request)

    def need(self, request: bytes) -> Need:
        return requests.need(request)

    def read(self, answer: Answer, *, keep: bool) -> Response:
        return reading.read_answer(answer, keep=keep)

    def said(self, answer: Answer) -> str | None:
        return reading.said(answer)
