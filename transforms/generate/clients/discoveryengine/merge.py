"""Merges the parts of a streamed response into one message."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from google.protobuf.unknown_fields import UnknownFieldSet

from groundrows.schemas.discoveryengine.messages import Pb


def merge(parts: Iterable[Pb], message: type[Pb]) -> Pb:
    """Merge the parts of a stream.

    Parts of the same candidate have the same index. Their texts become one text. Lists are joined in the
    order of arrival, with duplicates, because a claim cites chunks by their index in the whole list. For a
    field with a single value, the last value is used. Fields that this version does not know are kept.

    Args:
        parts: `GenerateGroundedContentResponse` messages in the order of arrival. They are not changed.
        message: The class of these messages. Without parts, the response is an empty message.

    Returns:
        The response, with its candidates ordered by index.
    """
    whole = message()
    candidates: dict[tuple[int, int], Pb] = {}
    for part in parts:
        # When one message has several candidates with the same index, they are different candidates.
        seen: dict[int, int] = {}
        for candidate in part.candidates:
            index = candidate.index
            key = (index, seen.get(index, 0))
            seen[index] = key[1] + 1
            if key not in candidates:
                candidates[key] = whole.candidates.add()
            candidates[key].MergeFrom(candidate)
        rest = message()
        rest.CopyFrom(part)
        rest.ClearField("candidates")
        whole.MergeFrom(rest)
    whole.candidates.sort(key=_index_of)
    for candidate in whole.candidates:
        if len(candidate.content.parts) > 1:
            _join_texts(candidate.content)
    return whole


def _index_of(candidate: Pb) -> int:
    index: int = candidate.index
    return index


def _join_texts(content: Pb) -> None:
    """Join neighbouring parts that hold only text."""
    joined = type(content)()
    for is_text, run in groupby(content.parts, _is_text):
        if is_text:
            joined.parts.add(text="".join(part.text for part in run))
        else:
            joined.parts.extend(run)
    content.ClearField("parts")
    content.parts.extend(joined.parts)


def _is_text(part: Pb) -> bool:
    return part.WhichOneof("data") == "text" and not len(UnknownFieldSet(part))
