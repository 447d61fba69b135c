"""Ids that are derived, not random: the same thing has the same id in every run."""

from __future__ import annotations

from hashlib import sha256


def hashed_id(kind: str, *parts: str | bytes | int | None) -> str:
    """Return 32 hexadecimal digits (128 bits) that stand for `parts`, in this order, as a thing of `kind`.

    Each part is hashed with its type and length, so that no two lists of parts run into each other:
    ("ab", "c") differs from ("a", "bc"), 1 from "1", and None from "". A lone surrogate is hashed as it is.
    """
    return sha256(b"".join([_tagged(kind), *map(_tagged, parts)])).hexdigest()[:32]


def _tagged(part: str | bytes | int | None) -> bytes:
    if isinstance(part, str):
        text = part.encode("utf-8", "surrogatepass")
        return b"s%d:%b" % (len(text), text)
    if isinstance(part, bytes):
        return b"b%d:%b" % (len(part), part)
    if part is None:
        return b"n0:"
    number = str(part).encode()
    return b"i%d:%b" % (len(number), number)


def answer_id(
    question_id: str,
    request: bytes,
    api_version: str,
    turn_index: int,
    candidate_index: int,
    user_context: str | None = None,
) -> str:
    """Return the id of one candidate's answer: the same question asked the same way has the same one.

    `request` is the request as sent, with map fields in a deterministic order. `user_context` is the part of
    a REST request that no protobuf message can hold.
    """
    return hashed_id("answer", question_id, request, api_version, turn_index, candidate_index, user_context)


def failure_id(question_id: str, turn_index: int, stage: str, code: str, origin: str) -> str:
    """Return the id of a failure: the same record failing the same way has the same one."""
    return hashed_id("failure", question_id, turn_index, stage, code, origin)


def check_id(answer_id: str, request: bytes, api_version: str) -> str:
    """Return the id of a check: the same answer checked the same way has the same one.

    `request` is the request as sent, with map fields in a deterministic order.
    """
    return hashed_id("check", answer_id, request, api_version)
