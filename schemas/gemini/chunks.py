"""Grounding chunks of a response, and the facts of its request, as the chunks that rows are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from groundrows.schemas.gemini.taking import Taking
from groundrows.schemas.response import Chunk
from groundrows.schemas.rows import Image, ImageFile, Website

_REDIRECT = "/grounding-api-redirect/"
_MOST_METADATA = 100
_DEEPEST = 8


def read_chunks(sent: Sequence[dict[str, Any]], taking: Taking) -> list[Chunk]:
    """The chunks of a candidate, each at the place at which supports cite it."""
    return [_chunk(chunk, taking) for chunk in sent]


def fact_chunks(inline: object, taking: Taking) -> list[Chunk]:
    """The facts that a request held, which the prompt shows to the model."""
    facts = taking.objects(taking.members(inline, "inline").get("facts"), "facts")
    chunks = []
    for index, fact in enumerate(facts):
        about = {key: item for key, item in fact.get("attributes", {}).items() if isinstance(item, str)}
        chunks.append(
            Chunk(
                text=taking.text(fact, "text") or "",
                source=str(index),
                uri=about.get("uri") or None,
                title=about.get("title") or None,
                domain=about.get("domain") or None,
                document_id=about.get("document_id") or None,
                page_identifier=about.get("page_identifier") or None,
                metadata=about,
                index_in_stream=None,
                kind="fact",
            )
        )
    return chunks


def images_of(sent: Sequence[dict[str, Any]], taking: Taking) -> tuple[Image, ...]:
    """The images among chunks."""
    images = [taking.members(chunk["image"], "image") for chunk in sent if "image" in chunk]
    return tuple(
        Image(
            ImageFile(taking.text(image, "imageUri"), None, None),
            None,
            Website(taking.text(image, "sourceUri"), taking.text(image, "title"), None),
        )
        for image in images
    )


def links_expire(chunks: Sequence[Chunk]) -> bool:
    """Whether a chunk's link is one of Google Search's redirects, which work for a while only."""
    return any(chunk.uri is not None and _REDIRECT in chunk.uri for chunk in chunks)


def _chunk(chunk: dict[str, Any], taking: Taking) -> Chunk:
    about: dict[str, str] = {}
    for name, read in _KINDS.items():
        if name in chunk:
            made = read(taking.members(chunk[name], name), about, taking)
            _flatten({key: item for key, item in chunk.items() if key != name}, "", about)
            return made
    _flatten(chunk, "", about)
    return _made(None, about)


def _made(
    kind: str | None,
    about: dict[str, str],
    *,
    text: str | None = None,
    uri: str | None = None,
    title: str | None = None,
    domain: str | None = None,
    document_id: str | None = None,
    page: str | None = None,
    place_id: str | None = None,
) -> Chunk:
    return Chunk(text or "", None, uri, title, domain, document_id, page, about, None, kind, place_id)


def _named(kind: str, **names: str) -> Callable[[dict[str, Any], dict[str, str], Taking], Chunk]:
    """Reads a kind of chunk, each of whose columns the service gives as one text of the name given here."""

    def read(said: dict[str, Any], about: dict[str, str], taking: Taking) -> Chunk:
        _flatten_but(said, tuple(names.values()), about)
        return _made(kind, about, **{column: taking.text(said, name) for column, name in names.items()})

    return read


def _retrieved(said: dict[str, Any], about: dict[str, str], taking: Taking) -> Chunk:
    passage = taking.members(said.get("ragChunk"), "ragChunk")
    span = taking.members(passage.get("pageSpan"), "pageSpan")
    first, last = taking.offset(span, "firstPage"), taking.offset(span, "lastPage")
    page = None
    if first is not None:
        page = str(first) if last in (None, first) else f"{first}-{last}"
    elif (number := taking.offset(said, "pageNumber")) is not None:
        page = str(number)
    _flatten_but(
        said, ("uri", "title", "text", "documentName", "ragChunk", "pageNumber", "customMetadata"), about
    )
    for name in ("fileId", "chunkId"):
        if isinstance(passage.get(name), str):
            about[name] = passage[name]
    for entry in taking.objects(said.get("customMetadata"), "customMetadata"):
        value = {key: item for key, item in entry.items() if key != "key"}
        _flatten({f"customMetadata.{entry.get('key')}": next(iter(value.values()), None)}, "", about)
    return _made(
        "retrieved",
        about,
        text=taking.text(said, "text") or taking.text(passage, "text"),
        uri=taking.text(said, "uri"),
        title=taking.text(said, "title"),
        document_id=taking.text(said, "documentName"),
        page=page,
    )


_KINDS = {
    "web": _named("web", uri="uri", title="title", domain="domain"),
    "retrievedContext": _retrieved,
    "maps": _named("maps", text="text", uri="uri", title="title", place_id="placeId"),
    "image": _named("image", uri="sourceUri", title="title", domain="domain"),
}


def _flatten_but(said: Mapping[str, Any], names: Sequence[str], about: dict[str, str]) -> None:
    _flatten({name: item for name, item in said.items() if name not in names}, "", about)


def _flatten(value: object, path: str, about: dict[str, str], depth: int = 0) -> None:
    """Add what else is said of a source, by its path: `route.distance`, `reviewSnippets.0.title`."""
    if len(about) >= _MOST_METADATA or depth > _DEEPEST:
        return
    if isinstance(value, dict):
        for name, item in value.items():
            _flatten(item, f"{path}.{name}" if path else str(name), about, depth + 1)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _flatten(item, f"{path}.{index}", about, depth + 1)
    elif isinstance(value, str):
        about[path] = value
    elif isinstance(value, bool):
        about[path] = "true" if value else "false"
    elif isinstance(value, (int, float)):
        about[path] = _number(value)


def _number(value: float) -> str:
    try:
        return str(value)
    except ValueError:  # a whole number of thousands of digits
        return "a number too long to write"
