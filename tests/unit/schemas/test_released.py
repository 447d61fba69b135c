"""What was written with a released schema can be read, and loaded beside rows of today, for good."""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest
from fastavro.utils import generate_many

from groundrows.schemas.errors import ReleaseError
from groundrows.schemas.released import current, problems, release, released
from groundrows.schemas.tables import TABLES
from groundrows.schemas.warehouse import columns, merged
from tests.support.paths import ROOT

RELEASED = [(version, table) for version, schemas in released().items() for table in schemas]


def test_this_version_is_released() -> None:
    (version,) = re.findall(r'version="([^"]+)"', (ROOT / "setup.py").read_text(encoding="utf-8"))
    assert version in released(), f"run python -m groundrows.schemas.released {version}"
    assert set(released()["0.1.0"]) == {
        "answers",
        "support_chunks",
        "claim_supports",
        "grounding_checks",
        "failures",
    }


@pytest.mark.parametrize("version", released())
def test_no_change_since_breaks_anything(version: str) -> None:
    assert problems(released()[version], current()) == []


@pytest.mark.parametrize(("version", "table"), RELEASED)
def test_files_of_a_released_version_are_readable(version: str, table: str) -> None:
    schema = released()[version][table]
    random.seed(7)
    rows = list(generate_many(schema, 30))
    file = BytesIO()
    fastavro.writer(file, schema, rows)
    file.seek(0)
    read = list(fastavro.reader(file, reader_schema=current()[table]))
    file.seek(0)
    defaults = {field["name"]: field.get("default") for field in current()[table]["fields"]}
    # As the old schema reads them, with defaults for what is new.
    assert read == [{**defaults, **row} for row in fastavro.reader(file)]  # type: ignore[dict-item]


@pytest.mark.parametrize(("version", "table"), RELEASED)
def test_tables_of_a_released_version_take_rows_of_today(version: str, table: str) -> None:
    there = columns(fastavro.parse_schema(copy.deepcopy(dict(released()[version][table]))))
    ours = columns(fastavro.parse_schema(copy.deepcopy(dict(current()[table]))))
    assert {column["name"] for column in merged(there, ours)} == {column["name"] for column in ours}


def field(schema: Any, *names: str) -> Any:
    """The field of that name, or of a record within."""
    (found,) = [one for one in schema["fields"] if one["name"] == names[0]]
    if len(names) == 1:
        return found
    kind = found["type"]
    while not (isinstance(kind, dict) and kind["type"] == "record"):
        kind = kind[1] if isinstance(kind, list) else kind["items"]
    return field(kind, *names[1:])


def added(schema: Any, kind: Any, **more: Any) -> None:
    schema["fields"].append({"name": "extra", "type": kind, **more})


def renamed_record(schema: Any) -> None:
    field(schema, "retrieval")["type"]["items"]["name"] = "Other"


INCOMPATIBLE: dict[str, tuple[Callable[[Any], Any], str]] = {
    "removed": (lambda s: s["fields"].remove(field(s, "warnings")), "answers.warnings was removed"),
    "renamed": (lambda s: field(s, "role").update(name="part"), "answers.role was removed"),
    "another type": (
        lambda s: field(s, "attempts").update(type="string"),
        "answers.attempts has another type",
    ),
    "wider": (lambda s: field(s, "attempts").update(type="long"), "answers.attempts has another type"),
    "nullable": (
        lambda s: field(s, "question").update(type=["null", "string"]),
        "answers.question has another",
    ),
    "not nullable": (lambda s: field(s, "role").update(type="string"), "answers.role has another type"),
    "union turned": (lambda s: field(s, "role").update(type=["string", "null"]), "answers.role has another"),
    "no time any more": (lambda s: field(s, "asked_at").update(type="long"), "answers.asked_at has another"),
    "coarser time": (
        lambda s: field(s, "asked_at")["type"].update(logicalType="timestamp-millis"),
        "answers.asked_at has another type",
    ),
    "other items": (
        lambda s: field(s, "warnings")["type"].update(items="bytes"),
        "answers.warnings has another",
    ),
    "removed within": (
        lambda s: field(s, "images", "image", "uri").update(name="url"),
        "answers.images.image.uri was removed",
    ),
    "retyped within": (
        lambda s: field(s, "retrieval", "source").update(type="bytes"),
        "answers.retrieval.source has another type",
    ),
    "record renamed": (renamed_record, "the record answers.retrieval has another name"),
    "namespace": (lambda s: s.update(namespace="other"), "the record answers has another namespace"),
    "required": (lambda s: added(s, "string", default=""), "answers.extra is new"),
    "no default": (lambda s: added(s, ["null", "string"]), "answers.extra is new"),
    "null not first": (lambda s: added(s, ["string", "null"], default=""), "answers.extra is new"),
    "list without default": (
        lambda s: added(s, {"type": "array", "items": "string"}),
        "answers.extra is new",
    ),
    "list with items": (
        lambda s: added(s, {"type": "array", "items": "string"}, default=["x"]),
        "answers.extra is new",
    ),
}


@pytest.mark.parametrize("change", INCOMPATIBLE)
def test_an_incompatible_change_is_refused(change: str) -> None:
    alter, problem = INCOMPATIBLE[change]
    new = copy.deepcopy(current())
    alter(new["answers"])
    found = problems(current(), new)
    assert found
    assert found[0].startswith(problem), found


def test_a_table_may_not_go() -> None:
    new = dict(current())
    del new["failures"]
    assert problems(current(), new) == ["the table failures was removed"]


def test_what_may_change() -> None:
    new: Any = copy.deepcopy(current())
    answers = new["answers"]
    added(answers, ["null", "string"], default=None)
    answers["fields"].append({"name": "list", "type": {"type": "array", "items": "string"}, "default": []})
    answers["fields"].append({"name": "map", "type": {"type": "map", "values": "string"}, "default": {}})
    field(answers, "images")["type"]["items"]["fields"].append(
        {"name": "extra", "type": ["null", "int"], "default": None}
    )
    field(answers, "question")["doc"] = "Something else."
    answers["fields"].reverse()
    new["more"] = {"type": "record", "name": "more", "fields": []}
    assert problems(current(), new) == []


def test_releasing(tmp_path: Path) -> None:
    assert released(tmp_path) == {}
    for version in ("0.10.0", "0.9.1", "0.9.1"):
        assert release(version, tmp_path) == tmp_path / version
    assert list(released(tmp_path)) == ["0.9.1", "0.10.0"]
    assert released(tmp_path)["0.9.1"] == current()
    for table in TABLES:
        assert (tmp_path / "0.9.1" / f"{table}.avsc").read_bytes() == (
            ROOT / "schemas" / f"{table}.avsc"
        ).read_bytes()


def test_a_release_is_not_changed(tmp_path: Path) -> None:
    path = release("1.0.0", tmp_path) / "answers.avsc"
    older = path.read_bytes().replace(b"The run that", b"The run which")
    path.write_bytes(older)
    with pytest.raises(ReleaseError, match=r"1\.0\.0 is released already"):
        release("1.0.0", tmp_path)
    assert path.read_bytes() == older
    release("1.0.1", tmp_path)


def test_a_release_that_breaks_an_earlier_one_is_refused(tmp_path: Path) -> None:
    path = release("1.0.0", tmp_path) / "answers.avsc"
    path.write_bytes(path.read_bytes().replace(b'"name": "question"', b'"name": "prompt"'))
    with pytest.raises(ReleaseError, match=r"go with those of 1\.0\.0: answers\.prompt was removed"):
        release("1.1.0", tmp_path)
    assert not (tmp_path / "1.1.0").exists()


@pytest.mark.parametrize("version", ["", "1", "1.0", "v1.0.0", "1.0.0rc1", "../1.0.0", "1.0.0\n"])
def test_what_is_no_version(version: str, tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="is no version"):
        release(version, tmp_path)
