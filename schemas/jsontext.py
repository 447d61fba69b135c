"""A record's bytes as a JSON object, and JSON objects as text again."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from hashlib import sha256
from math import isfinite

from groundrows.schemas.errors import RuleError
from groundrows.schemas.wording import kind_of, quoted

# What the service's rules allow at most: 10 sources of 100 facts of 10 000 characters of 4 bytes.
MAX_RECORD_BYTES = 40_000_000
# Protobuf's own limit on nesting. It also keeps everything that handles metadata later, here and in the
# warehouse, off the edge of its stack.
MAX_DEPTH = 100

# Within JSON a backslash starts an escape and nothing else. The pair comes before the half.
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_REPLACEMENT = r"\ufffd"
_BOM = b"\xef\xbb\xbf"


def read_object(body: bytes, decoder: json.JSONDecoder | None = None) -> dict[str, object]:
    """Read a record: one JSON object in UTF-8, a byte order mark before it tolerated.

    A list of one object is taken for the object: the body of the streaming method is written so. Whole
    numbers stay exact. Strings may still hold what no UTF-8 text can: see `check_surrogates`.

    Args:
        body: The record's bytes.
        decoder: How JSON is read; None for strictly.

    Raises:
        RuleError: `TOO_LARGE`, `EMPTY_RECORD`, `INVALID_UTF8`, `INVALID_JSON`, `NOT_AN_OBJECT`, `TOO_DEEP`,
            `DUPLICATE_KEY` or `NOT_FINITE`.
    """
    if len(body) > MAX_RECORD_BYTES:
        raise RuleError(
            "TOO_LARGE",
            f"the record has {len(body):,} bytes; the service's rules leave room for "
            f"{MAX_RECORD_BYTES:,}: split it",
        )
    value = _read_value(_decoded(body), decoder or _DECODER)
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
        value = value[0]
    if not isinstance(value, dict):
        raise RuleError("NOT_AN_OBJECT", f"the record is {kind_of(value)}: it must be one JSON object")
    # Counting is far cheaper than walking, and nearly every record has fewer openings than that.
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH:
        _check_depth(value)
    return value


def read_record(body: bytes) -> tuple[dict[str, object], frozenset[str]]:
    """Read a record as `read_object`, but take `NaN` and infinities, as Python writes them, for null.

    Returns:
        The object, and the names of its own fields in which such a value stood, at any depth.

    Raises:
        RuleError: as `read_object`.
    """
    if b"NaN" not in body and b"Infinity" not in body:
        return read_object(body), frozenset()
    try:
        return read_object(body), frozenset()  # the word stands within a string
    except RuleError as broken:
        if broken.code != "NOT_FINITE":
            raise
    value = read_object(body, _TOLERANT)
    found = frozenset(name for name, item in value.items() if _holds_unknown(item))
    return {name: _without_unknown(item) if name in found else item for name, item in value.items()}, found


def _holds_unknown(value: object) -> bool:
    if isinstance(value, (dict, list)):
        return any(_holds_unknown(child) for child in _children(value))
    return value is _UNKNOWN


def _without_unknown(value: object) -> object:
    if isinstance(value, dict):
        return {name: _without_unknown(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_without_unknown(item) for item in value]
    return None if value is _UNKNOWN else value


def check_surrogates(value: dict[str, object], body: bytes) -> None:
    """Check that every string of a record read from `body` can be written as UTF-8.

    Raises:
        RuleError: `LONE_SURROGATE`, with the path to the first of them.
    """
    # They can only come from an escape: decoding UTF-8 refuses the raw ones.
    if b"\\ud" not in body and b"\\uD" not in body:
        return
    try:
        compact_json(value).encode()
    except UnicodeEncodeError:
        raise RuleError(
            "LONE_SURROGATE",
            f"{_surrogate_path(value)} holds half of a surrogate pair, which no UTF-8 text can: "
            "write the whole character or leave it out",
        ) from None


def is_writable(text: str) -> bool:
    """Whether UTF-8 can say the text: a lone surrogate it cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def writable(text: str) -> str:
    """The text as UTF-8 can say it: lone surrogates, as in odd file names, become escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def mended_json(text: str) -> str:
    """JSON with U+FFFD, the replacement character, for each escape that is half of a surrogate pair.

    No UTF-8 text can say such a half, and JSON can: a program that cuts texts between any two units of UTF-16
    writes it. White space, numbers and all other escapes stay as they are.
    """
    if "\\ud" not in text and "\\uD" not in text:
        return text
    return _ESCAPE.sub(lambda escape: _REPLACEMENT if escape["half"] else escape[0], text)


def canonical_json(record: Mapping[str, object]) -> str:
    """The object as JSON that does not depend on the order of keys or the white space it was written with."""
    return _CANONICAL.encode(record)


def compact_json(value: object) -> str:
    """The value as JSON without white space, every script readable, keys in the order they came."""
    return _COMPACT.encode(value)


def ordered_json(value: object) -> str:
    """As `compact_json`, but with sorted keys: for protobuf, which gives map fields in any order."""
    return _ORDERED.encode(value)


def derived_id(content: Mapping[str, object] | bytes) -> str:
    """An id for what has none: 32 hexadecimal digits, the same every time and on every machine.

    Of a record that could be read it depends on what the record says, not on the order of its keys; of one
    that could not, on its bytes.
    """
    data = content if isinstance(content, bytes) else canonical_json(content).encode()
    return sha256(data).hexdigest()[:32]


def _decoded(body: bytes) -> str:
    start = len(_BOM) if body.startswith(_BOM) else 0
    try:
        text = body[start:].decode("utf-8")
    except UnicodeDecodeError as error:
        raise RuleError(
            "INVALID_UTF8",
            f"the record is no valid UTF-8 at byte offset {start + error.start}: write it as UTF-8, "
            "or name an archive's encoding with --encoding",
        ) from None
    if not text or text.isspace():
        raise RuleError("EMPTY_RECORD", "the record is empty: it must be one JSON object")
    return text


def _read_value(text: str, decoder: json.JSONDecoder) -> object:
    try:
        return decoder.decode(text)
    except json.JSONDecodeError as error:
        raise RuleError(
            "INVALID_JSON",
            f"the record is no valid JSON at character {error.pos + 1} "
            f"({error.msg.removesuffix(' at').lower()}): write it as one JSON object",
        ) from None
    except RecursionError:
        raise _too_deep() from None
    except ValueError:  # Python reads no whole number of more than 4 300 digits
        raise RuleError(
            "INVALID_JSON", "the record holds a whole number too long to read: write it as a string"
        ) from None


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise RuleError("DUPLICATE_KEY", f"the key {quoted(twice)} stands twice in one object: keep one")
    return value


def _finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise RuleError("NOT_FINITE", "the record holds a number too large to keep: write it as a string")
    return value


def _no_constant(name: str) -> float:
    raise RuleError("NOT_FINITE", f"the record holds {name}, which is no JSON number: write null or a string")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_finite, parse_constant=_no_constant)
_UNKNOWN = float("nan")
_TOLERANT = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_finite, parse_constant=lambda name: _UNKNOWN
)
_CANONICAL = json.JSONEncoder(sort_keys=True, check_circular=False, allow_nan=False, separators=(",", ":"))
_ORDERED = json.JSONEncoder(
    sort_keys=True, ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":")
)
_COMPACT = json.JSONEncoder(ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":"))


def _too_deep() -> RuleError:
    return RuleError("TOO_DEEP", f"the record is nested more than {MAX_DEPTH} levels deep: flatten it")


def _check_depth(value: dict[str, object]) -> None:
    level: list[object] = [value]
    for _ in range(MAX_DEPTH):
        level = [child for parent in level for child in _children(parent) if isinstance(child, (dict, list))]
        if not level:
            return
    raise _too_deep()


def _children(parent: object) -> Iterator[object]:
    if isinstance(parent, dict):
        return iter(parent.values())
    return iter(parent) if isinstance(parent, list) else iter(())


def _surrogate_path(value: dict[str, object]) -> str:
    """Where the first lone surrogate is. A stack of its own: a record may be as deep as it likes."""
    stack: list[tuple[str, object]] = [("", value)]
    while stack:
        path, item = stack.pop()
        if isinstance(item, str) and not is_writable(item):
            return quoted(path)
        if isinstance(item, dict):
            for name in item:
                if not is_writable(name):
                    return f"the key {quoted(name)} of {quoted(path) if path else 'the record'}"
            stack.extend(
                (f"{path}.{name}" if path else name, child) for name, child in reversed(item.items())
            )
        elif isinstance(item, list):
            stack.extend((f"{path}[{i}]", item[i]) for i in reversed(range(len(item))))
    return "the record"
