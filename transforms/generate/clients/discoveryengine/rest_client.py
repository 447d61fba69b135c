"""Calls the service over REST, with JSON over HTTP/1.1."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from google.protobuf import json_format
from yarl import URL

from groundrows.schemas.discoveryengine.messages import request_class, response_class
from groundrows.schemas.errors import NotReadableError
from groundrows.schemas.jsontext import compact_json, mended_json
from groundrows.transforms.generate.clients.base import Call, Reply
from groundrows.transforms.generate.clients.credentials import AuthHeaders
from groundrows.transforms.generate.clients.discoveryengine.address import address_of
from groundrows.transforms.generate.clients.discoveryengine.json_messages import read_message
from groundrows.transforms.generate.clients.discoveryengine.merge import merge
from groundrows.transforms.generate.clients.http_post import HttpPost
from groundrows.transforms.generate.clients.reply import read_reply
from groundrows.transforms.generate.clients.status import no_message
from groundrows.transforms.generate.settings import CallSettings


class RestClient:
    """Calls `generateGroundedContent` (streamed or not) or `check`, in v1, v1beta or v1alpha.

    It must be created on the event loop that will use it.

    Raises:
        SetupError: There are no credentials.
    """

    def __init__(self, settings: CallSettings) -> None:
        method, version = settings.method, settings.api_version
        self._request = request_class(version, method)
        self._response = response_class(version, method)
        self._address_field, resource = address_of(settings)
        self._streamed = settings.stream_answers and method == "generate"
        scheme = "https" if settings.secure else "http"
        path = quote(resource, safe="/:")
        verb = "check" if method == "check" else "generateGroundedContent"
        if self._streamed:
            verb = "streamGenerateGroundedContent"
        self._url = URL(f"{scheme}://{settings.endpoint}/{version}/{path}:{verb}", encoded=True)
        self._http = HttpPost(settings, AuthHeaders(settings.endpoint) if settings.secure else None)

    async def ask(self, call: Call, deadline: float) -> Reply:
        """See `Client.ask`."""
        body, first_part_ms = await self._http.post(
            self._url, self._body(call), deadline, is_array=self._streamed
        )
        return self._reply(body, first_part_ms, deadline)

    def _body(self, call: Call) -> bytes:
        message = self._request.FromString(call.request)
        message.ClearField(self._address_field)  # the path has it
        body = compact_json(json_format.MessageToDict(message))
        if call.user_context is not None:
            # The message has no field for it.
            body = f'{body[:-1]}{"," if len(body) > 2 else ""}"userContext":{call.user_context}}}'
        # The streaming method takes a list of requests, too.
        return f"[{body}]".encode() if self._streamed else body.encode()

    def _reply(self, body: bytes, first_part_ms: float | None, deadline: float) -> Reply:
        read = read_reply(body, deadline, is_array=self._streamed)
        try:
            message, whole = self._merged(read) if self._streamed else read_message(read, self._response)
        except NotReadableError:
            raise no_message(len(body)) from None
        came = body.decode()
        whole = whole and mended_json(came) == came
        return Reply(message.SerializeToString(deterministic=True), first_part_ms, None if whole else came)

    def _merged(self, read: object) -> tuple[Any, bool]:
        if not isinstance(read, list):
            raise NotReadableError
        parts = [read_message(part, self._response) for part in read]
        return merge((part for part, _ in parts), self._response), all(whole for _, whole in parts)

    async def close(self) -> None:
        """See `Client.close`."""
        await self._http.close()
