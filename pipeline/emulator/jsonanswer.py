"""Responses and errors as the JSON that the service's REST side sends."""

from __future__ import annotations

import json

from google.protobuf import json_format
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from groundrows.pipeline.emulator.calls import MethodName
from groundrows.pipeline.emulator.messages import CheckResponse, Response
from groundrows.pipeline.emulator.status import Refusal

# Imported for the sake of its messages: an error's details are looked up among those that are loaded.
assert error_details_pb2

# What undecodable bytes are over REST: JSON that breaks off, and text that is no UTF-8.
_UNDECODABLE = (b'{"%b": [{', b'{"%b": [{"text": "\xc3\x28"}]}')


def response_json(method: MethodName, body: bytes, numbers: bool) -> bytes:
    """A serialized response as JSON.

    Args:
        method: Whose response it is.
        body: The serialized response; the undecodable one becomes JSON that cannot be read either.
        numbers: Whether enums are written as numbers rather than as names.
    """
    is_check = method == "CheckGrounding"
    kind = CheckResponse if is_check else Response
    try:
        message = kind.FromString(body)
    except DecodeError:
        return _UNDECODABLE[len(body) % len(_UNDECODABLE)] % (b"claims" if is_check else b"candidates")
    text: str = json_format.MessageToJson(
        message, indent=None, ensure_ascii=False, use_integers_for_enums=numbers
    )
    return text.encode()


def error_json(refusal: Refusal, http_status: int) -> bytes:
    """A refusal as the service's JSON: code, message, status and the details with their types."""
    status = json_format.MessageToDict(status_pb2.Status.FromString(refusal.details))
    error = {"code": http_status, "message": refusal.message, "status": refusal.code}
    if "details" in status:
        error["details"] = status["details"]
    return json.dumps({"error": error}).encode()
