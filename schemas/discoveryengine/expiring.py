"""Stored responses without what Google Search found: its links, suggestions and passages.

Google Search is the only source of a request that has it, so that all chunks of such a response are its own.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator
from typing import Any

from google.protobuf.message import DecodeError

from groundrows.schemas.discoveryengine.messages import Pb, response_class
from groundrows.schemas.discoveryengine.reading import RAW_RESPONSE
from groundrows.schemas.errors import UndecodableError
from groundrows.schemas.jsontext import is_writable
from groundrows.schemas.names import camel

# v1beta's messages know every field of v1's.
_VERSION = "v1beta"
_GOOGLE_SEARCH = 3
_METADATA = camel("grounding_metadata")
_KEPT = ("source", "index")
"""What a chunk keeps: its marks, which say nothing of where it leads."""


def without_search(response: bytes, *, searched: bool) -> bytes:
    """See `schemas.expiring.without_search`."""
    message = _read(response, response_class(_VERSION))
    metadatas = [candidate.grounding_metadata for candidate in message.candidates]
    if not (searched or any(map(_searched, metadatas))):
        return response
    for metadata in metadatas:
        for chunk in metadata.support_chunks:
            chunk.CopyFrom(type(chunk)(source=chunk.source, index=chunk.index))
        for name in ("search_entry_point", "images", "videos"):
            metadata.ClearField(name)
        metadata.DiscardUnknownFields()
    return _written(message, response)


def json_without_search(text: str, *, searched: bool) -> str:
    """See `schemas.expiring.json_without_search`."""
    told = _told(text)
    parts = [part for part in (told if isinstance(told, list) else [told]) if isinstance(part, dict)]
    metadatas = [metadata for part in parts for metadata in _metadatas(part)]
    if not (searched or any(map(_json_searched, metadatas))):
        return text
    before = json.dumps(told)
    for metadata in metadatas:
        _bare_chunks(metadata, "supportChunks")
        for name in ("searchEntryPoint", "images", "videos"):
            metadata.pop(name, None)
    for part in parts:
        _clear_raw(part)
    return text if json.dumps(told) == before else _said(told)


def check_without_facts(response: bytes) -> bytes:
    """See `schemas.expiring.check_without_facts`."""
    message = _read(response, response_class(_VERSION, "check"))
    for chunk in message.cited_chunks:
        chunk.CopyFrom(type(chunk)(source=chunk.source, index=chunk.index))
    for fact in message.cited_facts:
        fact.Clear()
    return _written(message, response)


def check_json_without_facts(text: str) -> str:
    """See `schemas.expiring.check_json_without_facts`."""
    told = _told(text)
    if not isinstance(told, dict):
        raise UndecodableError
    before = json.dumps(told)
    _bare_chunks(told, "citedChunks")
    for name in ("citedFacts", "facts"):
        if isinstance(told.get(name), list):
            told[name] = [{} for _ in told[name]]
    told.pop(RAW_RESPONSE, None)
    return text if json.dumps(told) == before else _said(told)


def _read(response: bytes, kind: type[Pb]) -> Pb:
    try:
        return kind.FromString(response)
    except DecodeError:
        raise UndecodableError from None


def _written(message: Pb, before: bytes) -> bytes:
    """The message's bytes; those that came where it says the same."""
    came = type(message).FromString(before)
    # Unknown fields are no part of the comparison.
    if message == came and message.ByteSize() == came.ByteSize():
        return before
    written: bytes = message.SerializeToString()
    return written


def _searched(metadata: Pb) -> bool:
    return metadata.HasField("search_entry_point") or any(
        one.source == _GOOGLE_SEARCH for one in metadata.retrieval_metadata
    )


def _json_searched(metadata: dict[str, Any]) -> bool:
    said = metadata.get("retrievalMetadata")
    return "searchEntryPoint" in metadata or any(
        isinstance(one, dict) and one.get("source") in ("GOOGLE_SEARCH", _GOOGLE_SEARCH)
        for one in (said if isinstance(said, list) else ())
    )


def _told(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise UndecodableError from None


def _said(told: object) -> str:
    text = json.dumps(told, ensure_ascii=False, separators=(",", ":"))
    # Half of a surrogate pair can stand in JSON as an escape alone.
    return text if is_writable(text) else json.dumps(told, separators=(",", ":"))


def _metadatas(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    candidates = part.get("candidates")
    for candidate in candidates if isinstance(candidates, list) else ():
        metadata = candidate.get(_METADATA) if isinstance(candidate, dict) else None
        if isinstance(metadata, dict):
            yield metadata


def _bare_chunks(holder: dict[str, Any], name: str) -> None:
    if isinstance(holder.get(name), list):
        holder[name] = [
            {key: chunk[key] for key in _KEPT if key in chunk} if isinstance(chunk, dict) else {}
            for chunk in holder[name]
        ]


def _clear_raw(part: dict[str, Any]) -> None:
    """Clear the response's bytes that stand beside its JSON; what can't be read goes."""
    raw = part.pop(RAW_RESPONSE, None)
    if isinstance(raw, str):
        try:
            bytes_left = without_search(base64.b64decode(raw), searched=True)
        except (UndecodableError, binascii.Error, ValueError):
            return
        part[RAW_RESPONSE] = base64.b64encode(bytes_left).decode()
