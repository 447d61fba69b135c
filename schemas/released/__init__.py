"""The schemas as each version was released with them, and what a later change may not do.

Files that were written with a released schema are there for good, and so are the tables they were loaded
into: the schemas of today must read the one and fit the other. A release adds a directory here, by
`python -m groundrows.schemas.released VERSION`; nothing in one is changed afterwards.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from groundrows.schemas.errors import ReleaseError
from groundrows.schemas.tables import TABLES

RELEASED = Path(__file__).resolve().parent
CURRENT = RELEASED.parent
_VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+")
_EMPTY: Mapping[str, Any] = {"array": [], "map": {}}

Schema = Mapping[str, Any]


def released(directory: Path = RELEASED) -> dict[str, dict[str, Schema]]:
    """The schemas of each released version, oldest first, by table."""
    versions = [path for path in directory.iterdir() if _VERSION.fullmatch(path.name)]
    versions.sort(key=lambda path: [int(number) for number in path.name.split(".")])
    return {path.name: _schemas(path) for path in versions}


def current() -> dict[str, Schema]:
    """The schemas of today, by table."""
    return {table: _read(CURRENT / f"{table}.avsc") for table in TABLES}


def problems(old: Mapping[str, Schema], new: Mapping[str, Schema]) -> list[str]:
    """What keeps the schemas `new` from reading files of `old`, or from fitting tables made of them.

    A field may be added if it is nullable or repeated, since BigQuery adds no column that is always filled
    to a table with rows, and has a default, which is what a reader finds in older files. Docs may change.
    Nothing may be removed, renamed, or get another type, not even a wider one: a column keeps its type.
    """
    found: list[str] = []
    for table, schema in old.items():
        if table in new:
            found += _record_problems(schema, new[table], table)
        else:
            found.append(f"the table {table} was removed")
    return found


def release(version: str, directory: Path = RELEASED) -> Path:
    """Note the schemas of today as those of a version; returns the directory they are in.

    Raises:
        ReleaseError: It is no version, is there already with other schemas, or the schemas don't go with
            those of a version before.
    """
    if not _VERSION.fullmatch(version):
        raise ReleaseError(f"{version!r} is no version: give three numbers, such as 1.2.3.")
    for known, schemas in released(directory).items():
        if broken := problems(schemas, current()):
            raise ReleaseError(f"The schemas don't go with those of {known}: {'; '.join(broken)}.")
    texts = {f"{table}.avsc": (CURRENT / f"{table}.avsc").read_bytes() for table in TABLES}
    target = directory / version
    if target.exists() and {path.name: path.read_bytes() for path in target.iterdir()} != texts:
        raise ReleaseError(f"{version} is released already, with other schemas: give the next version.")
    target.mkdir(exist_ok=True)
    for name, text in texts.items():
        (target / name).write_bytes(text)
    return target


def _schemas(directory: Path) -> dict[str, Schema]:
    return {path.stem: _read(path) for path in sorted(directory.glob("*.avsc"))}


def _read(path: Path) -> Schema:
    schema: Schema = json.loads(path.read_text(encoding="utf-8"))
    return schema


def _record_problems(old: Schema, new: Schema, name: str) -> Iterator[str]:
    for key in ("name", "namespace"):
        if old.get(key) != new.get(key):
            yield f"the record {name} has another {key}, {new.get(key)} instead of {old.get(key)}"
    before = {field["name"]: field for field in old["fields"]}
    after = {field["name"]: field for field in new["fields"]}
    for field_name, field in before.items():
        where = f"{name}.{field_name}"
        if field_name in after:
            yield from _type_problems(field["type"], after[field_name]["type"], where)
        else:
            yield f"{where} was removed"
    for field_name, field in after.items():
        if field_name not in before and not _may_be_added(field):
            yield f"{name}.{field_name} is new, so it must be nullable or repeated and have a default"


def _type_problems(old: Any, new: Any, where: str) -> Iterator[str]:
    # Written as a name or as an object that holds nothing but it, a type is the same.
    old, new = _plain(old), _plain(new)
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for one, other in zip(old, new, strict=True):
            yield from _type_problems(one, other, where)
    elif _kind(old) != _kind(new):
        yield f"{where} has another type, {_kind(new)} instead of {_kind(old)}"
    elif _kind(old) == "record":
        yield from _record_problems(old, new, where)
    elif _kind(old) in ("array", "map"):
        inner = "items" if _kind(old) == "array" else "values"
        yield from _type_problems(old[inner], new[inner], where)
    elif old != new:
        yield f"{where} has another type, {json.dumps(new)} instead of {json.dumps(old)}"


def _plain(kind: Any) -> Any:
    return kind["type"] if isinstance(kind, dict) and set(kind) == {"type"} else kind


def _kind(kind: Any) -> str:
    if isinstance(kind, list):
        return "a union"
    return str(kind["type"] if isinstance(kind, dict) else kind)


def _may_be_added(field: Schema) -> bool:
    kind = field["type"]
    if isinstance(kind, list):
        return kind[0] == "null" and "default" in field and field["default"] is None
    repeated = isinstance(kind, dict) and kind["type"] in _EMPTY
    return repeated and field.get("default") == _EMPTY[kind["type"]]
