"""A streamed response as one message, as if it had come in one."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from google.protobuf.unknown_fields import UnknownFieldSet

from groundrows.schemas.discoveryengine.messages import Pb


def merge(parts: Iterable[Pb], message: type[Pb]) -> Pb:
    """Put the parts of a stream together.

    A candidate's parts are told by its index. Its texts become one; lists are joined in the order in which
    they came, duplicates included, since a claim cites chunks by their place in the whole list; of a field
    that holds one value the last that was sent is kept. Fields unknown to this version are kept as well.

    Args:
        parts: `GenerateGroundedContentResponse` messages in the order of arrival; they are left as they are.
        message: Their class; without any part the response is an empty one.

    Returns:
        The response, its candidates in the order of their indices.
    """
    whole = message()
    candidates: dict[tuple[int, int], Pb] = {}
    for part in parts:
        # A message that gives several candidates the same index means several all the same.
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
    """Make one part of each run of parts that hold a text and nothing else."""
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
