"""The Grounded Generation API as a service: what `schemas/service.py` asks of one, by the modules beside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from google.protobuf import json_format
from google.protobuf.message import DecodeError

from groundrows.schemas.discoveryengine import check, reading
from groundrows.schemas.discoveryengine import request as requests
from groundrows.schemas.discoveryengine.build import SHARED_FIELDS
from groundrows.schemas.discoveryengine.fill import field_names
from groundrows.schemas.discoveryengine.messages import message_version, request_class, response_class
from groundrows.schemas.discoveryengine.records import Builder, default_request
from groundrows.schemas.errors import UndecodableError
from groundrows.schemas.jsontext import compact_json
from groundrows.schemas.outcome import Answer
from groundrows.schemas.response import CheckResponse, Response
from groundrows.schemas.service import Access, Asked, AskedCheck, BuildSettings, Built, CheckService, Method

_VERSIONS = ("v1", "v1beta", "v1alpha")
# The service has these three regions; any other location is refused by it with a 400.
_ENDPOINTS = {
    "global": "discoveryengine.googleapis.com:443",
    "us": "us-discoveryengine.googleapis.com:443",
    "eu": "eu-discoveryengine.googleapis.com:443",
}
# A ledger does not say which version a response is of; v1beta's message knows every field of v1's.
_STORED_VERSION = "v1beta"


def open_service(api_version: str) -> CheckService:
    """The service in a version of its API.

    Raises:
        ValueError: It has no such version.
    """
    return _DiscoveryEngine(api_version)


def access(location: str) -> Access | None:
    """How the service is reached from a location; from none it is not."""
    if not location:
        return None
    endpoint = _ENDPOINTS.get(location.rpartition("/")[2])
    return Access(endpoint, _VERSIONS, ("grpc", "rest"), tuple(_ENDPOINTS))


def stored_json(response: bytes) -> str | None:
    """A response of any version in the API's JSON form; None when it does not decode."""
    try:
        message = response_class(_STORED_VERSION).FromString(response)
    except DecodeError:
        return None
    return compact_json(json_format.MessageToDict(message))


class _DiscoveryEngine:
    def __init__(self, api_version: str) -> None:
        self.message_version = message_version(api_version)
        self.fields = SHARED_FIELDS
        self.check_fields = check.FIELDS
        self._version = api_version

    def requests(self, settings: BuildSettings) -> Builder:
        return Builder(self._version, settings)

    def default_request(self, fields: Mapping[str, object]) -> Built:
        return default_request(self._version, fields)

    def home_of(self, field: str) -> str | None:
        spec = request_class(self._version)().generation_spec
        return "generation_spec" if field in field_names(spec) else None

    def turn_request(
        self,
        request: bytes,
        method: Method,
        location: str,
        history: Sequence[tuple[str, str]] = (),
        text: str = "",
        instruction: bytes | None = None,
    ) -> bytes:
        if history:
            request = requests.next_turn_request(request, self._version, history, text)
        if instruction is not None:
            request = requests.with_instruction(request, self._version, instruction)
        return requests.with_location(request, self._version, location, method)

    def asked(self, request: bytes) -> Asked:
        try:
            return requests.described(request, self._version)
        except DecodeError:
            raise UndecodableError from None

    def model_of(self, request: bytes) -> str:
        # A microsecond, unless the request carries many facts.
        model: str = request_class(self._version).FromString(request).generation_spec.model_id
        return model

    def text_characters(self, request: bytes, method: Method) -> int:
        return requests.text_characters(request, self._version, method)

    def need(self, request: bytes) -> None:
        return None  # its responses say nothing of tokens

    def read(self, answer: Answer, *, keep: bool) -> Response:
        return reading.read_answer(answer, keep=keep)

    def said(self, answer: Answer) -> str | None:
        return reading.said(answer)

    def build_check(
        self, answer: object, path: str, fields: Mapping[str, object], threshold: float | None, scores: bool
    ) -> Built:
        return check.build_check(self._version, answer, path, fields, threshold, scores)

    def check_request(
        self, answer_text: str, facts: Sequence[tuple[str, Mapping[str, str]]], threshold: float | None
    ) -> bytes:
        return check.check_request(self._version, answer_text, facts, threshold)

    def asked_check(self, request: bytes) -> AskedCheck:
        try:
            return check.described(request, self._version)
        except DecodeError:
            raise UndecodableError from None

    def read_check(self, answer: Answer, answer_text: str, *, keep: bool) -> CheckResponse:
        return reading.read_check(answer, answer_text, keep=keep)
