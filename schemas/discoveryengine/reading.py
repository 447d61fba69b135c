"""The service's responses, read into the form that belongs to no service."""

from __future__ import annotations

import base64
import json
import struct
from functools import cache
from itertools import zip_longest
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import DecodeError

from groundrows.schemas.discoveryengine.messages import Pb, response_class
from groundrows.schemas.errors import UndecodableError
from groundrows.schemas.jsontext import mended_json, ordered_json, writable
from groundrows.schemas.offsets import places_of
from groundrows.schemas.outcome import Answer
from groundrows.schemas.response import (
    Candidate,
    CheckedClaim,
    CheckResponse,
    Chunk,
    CitedFact,
    Claim,
    Response,
    Span,
    numbers_of,
)
from groundrows.schemas.rows import Image, ImageFile, Retrieval, Video, Website

RAW_RESPONSE = "rawResponseBase64"
"""The key of `response_json` that holds the response's bytes when its JSON form cannot say everything."""

_MENDED = (
    "The response held half of a surrogate pair, which no text can: the replacement character, U+FFFD, "
    "stands in its place."
)
_LONGEST_NUMBER = 10


def read_answer(answer: Answer, *, keep: bool) -> Response:
    """See `Service.read`."""
    message, whole, warnings = _received(answer, keep)
    numbers, oddities = numbers_of([one.index for one in message.candidates])
    candidates = [
        _candidate(*each, answer.streamed) for each in zip(message.candidates, numbers, oddities, strict=True)
    ]
    return Response(candidates, whole, warnings)


def said(answer: Answer) -> str | None:
    """See `Service.said`."""
    candidates = _decoded(answer).candidates
    if not candidates:
        return None
    # Candidate 0 need not come first. A stream's candidates are put in order, so that by place the history
    # would depend on how the answer came.
    numbers, _ = numbers_of([candidate.index for candidate in candidates])
    return _text_of(candidates[list(numbers).index(0)])


def read_check(answer: Answer, answer_text: str, *, keep: bool) -> CheckResponse:
    """See `CheckService.read_check`."""
    message, whole, warnings = _received(answer, keep)
    ends = (offset for claim in message.claims for offset in (claim.start_pos, claim.end_pos))
    places = places_of(answer_text, ends)
    return CheckResponse(
        score=_score(message, "support_score"),
        cited=[_cited(*pair) for pair in zip_longest(message.cited_chunks, message.cited_facts)],
        claims=[
            _checked_claim(claim, index, answer_text, places) for index, claim in enumerate(message.claims)
        ],
        json=whole,
        warnings=warnings,
    )


def _decoded(answer: Answer) -> Pb:
    try:
        return response_class(answer.api_version, answer.method).FromString(answer.response)
    except DecodeError:
        raise UndecodableError from None


def _received(answer: Answer, keep: bool) -> tuple[Pb, str | None, tuple[str, ...]]:
    """The message without the fields that this version does not know, the whole as JSON, and warnings."""
    message = _decoded(answer)
    size = message.ByteSize()
    message.DiscardUnknownFields()
    unknown_size = size - message.ByteSize()
    warnings: list[str] = []
    unread = answer.unread_json
    if unread is not None and (mended := mended_json(unread)) != unread:
        warnings.append(_MENDED)
        unread = None if _holds(type(message), mended) else mended
    if unread is not None:
        kept = "response_json has them" if keep else "they are not kept"
        warnings.append(f"The response has parts unknown to this version: {kept}.")
    elif unknown_size:
        kept = f"{RAW_RESPONSE} in response_json has them" if keep else "they are not kept"
        warnings.append(f"The response has {unknown_size} bytes in fields unknown to this version: {kept}.")
    if not keep:
        return message, None, tuple(warnings)
    if unread is not None:
        return message, writable(unread), tuple(warnings)
    body = json_format.MessageToDict(message)
    if unknown_size:
        body[RAW_RESPONSE] = base64.b64encode(answer.response).decode()
    return message, ordered_json(body), tuple(warnings)


def _holds(kind: type[Pb], body: str) -> bool:
    """Whether a message has a place for all of a response's JSON, which is a list if it was streamed."""
    try:
        read = json.loads(body)
        for part in read if isinstance(read, list) else [read]:
            json_format.ParseDict(part, kind())
    except (json_format.ParseError, ValueError, TypeError, AttributeError, RecursionError):
        return False
    return True


def _text_of(candidate: Pb) -> str:
    return "".join([part.text for part in candidate.content.parts])


def _candidate(candidate: Pb, index: int, warnings: tuple[str, ...], streamed: bool) -> Candidate:
    metadata = candidate.grounding_metadata
    entry_point = metadata.search_entry_point
    return Candidate(  # in the order of the fields: to name them takes longer, here and below
        index,
        _text_of(candidate) if candidate.HasField("content") else None,
        candidate.content.role or None,
        _score(candidate, "grounding_score"),
        [_chunk(chunk, streamed) for chunk in metadata.support_chunks],
        [
            Claim(claim.claim_text, claim.support_chunk_indices[:], _score(claim, "support_score"))
            for claim in metadata.grounding_support
        ],
        [_retrieval(one) for one in metadata.retrieval_metadata],
        tuple(metadata.web_search_queries),
        entry_point.rendered_content or None,
        entry_point.sdk_blob or None,
        tuple([_image(image) for image in metadata.images]),
        # v1 has no videos.
        tuple([Video(video.youtube_external_id or None) for video in getattr(metadata, "videos", ())]),
        warnings,
    )


def _chunk(chunk: Pb, streamed: bool) -> Chunk:
    about = _source_metadata(chunk)
    return Chunk(
        chunk.chunk_text,
        chunk.source or None,
        chunk.uri or about.get("uri") or None,
        chunk.title or about.get("title") or None,
        chunk.domain or about.get("domain") or None,
        about.get("document_id") or None,
        about.get("page_identifier") or None,
        about,
        # 0 and unset are one in this field: outside a stream, where it is not used, 0 means unset.
        chunk.index if streamed or chunk.index else None,
    )


def _source_metadata(chunk: Pb) -> dict[str, str]:
    """A chunk's source metadata by name: a protobuf map has no order of its own."""
    about = chunk.source_metadata
    return dict(sorted(about.items())) if about else {}


def _retrieval(one: Pb) -> Retrieval:
    version = prediction = None
    if one.dynamic_retrieval_metadata.HasField("predictor_metadata"):
        predictor = one.dynamic_retrieval_metadata.predictor_metadata
        version = _enum_name(predictor, "version")
        prediction = _score(predictor, "prediction")
    return Retrieval(_enum_name(one, "source"), version, prediction)


def _image(image: Pb) -> Image:
    source = None
    if image.HasField("source"):
        # v1 has no site_display_name.
        site = getattr(image.source, "site_display_name", "")
        source = Website(image.source.uri or None, image.source.title or None, site or None)
    return Image(_image_file(image, "image"), _image_file(image, "thumbnail"), source)


def _image_file(image: Pb, field: str) -> ImageFile | None:
    if not image.HasField(field):
        return None
    file = getattr(image, field)
    return ImageFile(file.uri or None, file.width or None, file.height or None)


def _cited(chunk: Pb | None, fact: Pb | None) -> CitedFact:
    """Join one of `cited_chunks`, which citations name, with the text of `cited_facts` beside it."""
    fact_text = "" if fact is None else fact.chunk_text
    if chunk is None:
        return CitedFact(None, fact_text, None, None, None, None, {}, None)
    about = _source_metadata(chunk)
    text = chunk.chunk_text or fact_text
    return CitedFact(
        fact_index=_fact_index(chunk.source),
        text=text,
        source=chunk.source or None,
        uri=chunk.uri or about.get("uri") or None,
        title=chunk.title or about.get("title") or None,
        domain=chunk.domain or about.get("domain") or None,
        metadata=about,
        fact_text=fact_text if fact_text and fact_text != text else None,
    )


def _fact_index(source: str) -> int | None:
    """The number of the request's fact that a source is; the field may hold any text."""
    if not (source.isascii() and source.isdecimal() and len(source) < _LONGEST_NUMBER):
        return None
    return int(source)


def _checked_claim(claim: Pb, index: int, answer_text: str, places: dict[int, int]) -> CheckedClaim:
    warnings: list[str] = []
    return CheckedClaim(
        text=claim.claim_text,
        span=_span(claim, index, answer_text, places, warnings),
        check_required=claim.grounding_check_required if claim.HasField("grounding_check_required") else None,
        score=claim.score if claim.HasField("score") else None,  # of 64 bits, unlike all other scores
        cited=claim.citation_indices[:],
        warnings=tuple(warnings),
    )


def _span(
    claim: Pb, index: int, answer_text: str, places: dict[int, int], warnings: list[str]
) -> Span | None:
    """Where a checked claim stands, in characters: the service counts bytes."""
    sent = [name for name in ("start_pos", "end_pos") if claim.HasField(name)]
    if not sent:
        return None
    start, end = claim.start_pos, claim.end_pos
    if sent == ["end_pos"] and claim.claim_text and answer_text[: places.get(end, 0)] == claim.claim_text:
        return 0, places[end]  # JSON leaves zeros out
    if len(sent) == 1:
        warnings.append(f"Claim {index} has only {sent[0]}, {start or end}: its place is left out.")
        return None
    if start not in places or end not in places or start > end:
        warnings.append(
            f"Claim {index} is said to stand from byte {start} to {end}, which is no stretch of the answer's "
            "characters: left out."
        )
        return None
    span = places[start], places[end]
    if claim.claim_text and claim.claim_text != answer_text[slice(*span)]:
        warnings.append(f"Claim {index} is worded differently from the answer at its place.")
    return span


def _enum_name(message: Pb, field: str) -> str:
    """The value's name, or its number as text when the installed library does not know it."""
    kind: Any = type(message)
    number: int = getattr(message, field)
    return _enum_names(kind, field).get(number) or str(number)


@cache
def _enum_names(kind: Any, field: str) -> dict[int, str]:
    return {value.number: value.name for value in kind.DESCRIPTOR.fields_by_name[field].enum_type.values}


def _score(message: Pb, field: str) -> float | None:
    """A score of 32 bits if it was sent: reading an unset one gives 0.0, which was never sent."""
    if not message.HasField(field):
        return None
    value: float = getattr(message, field)
    # What is no score goes into a warning as it was sent.
    return _shortest(value) if 0 <= value <= 1 else value


def _shortest(value: float) -> float:
    """Return the double with the fewest digits that is the same 32-bit float.

    The service sends 32-bit floats: 0.9 arrives as 0.8999999761581421, which `>= 0.9` would miss.
    """
    # The quicker way first. From 0.1 on, where most scores lie, floats stand closer together than decimals of
    # seven places, and below it seven places are six digits at most: none that is shorter is passed over.
    for places in (7, 8):
        short = round(value, places)
        if _FLOAT.unpack(_FLOAT.pack(short))[0] == value:
            return short
    for digits in range(6, 9):
        short = float(f"{value:.{digits}g}")
        if _FLOAT.unpack(_FLOAT.pack(short))[0] == value:
            return short
    return float(f"{value:.9g}")  # nine digits tell any two floats apart


_FLOAT = struct.Struct("<f")
