"""The views as text; what they give is tried in `tests/templates/`."""

from __future__ import annotations

import re
from importlib import resources

import pytest

from groundrows.pipeline.sinks.views import text_of, view_names, views
from groundrows.schemas.tables import TABLES


def test_every_file_is_a_view() -> None:
    files = {
        file.name
        for file in resources.files("groundrows.templates.sql").iterdir()
        if file.name.endswith(".sql")
    }
    assert not {"answers_latest.sql", "failures_latest.sql"} & files  # made from key and time column
    made = {f"{table}_latest.sql" for table in TABLES} - files
    assert files | made == {f"{name}.sql" for name in view_names()}


@pytest.mark.parametrize("dataset", ["my-project.answers", None])
def test_each_view_is_made_of_tables_and_earlier_views(dataset: str | None) -> None:
    there = set(TABLES)
    for name, statement in views(dataset).items():
        code = re.sub(r"^--.*\n", "", statement, flags=re.MULTILINE)
        made = f"`{dataset}.{name}`" if dataset else name
        assert code.startswith(f"CREATE OR REPLACE VIEW {made} AS\n")
        assert code.count(";") == 1
        assert code.endswith(";\n")
        assert "$" not in code
        found = re.findall(r"(?:FROM|JOIN) (`[^`]+`|\w+)", code)
        used = {one.strip("`").removeprefix(f"{dataset}.") for one in found} - {"UNNEST", "predicted"}
        assert used
        assert used <= there
        there.add(name)


def test_each_view_says_what_its_placeholder_is() -> None:
    for name in view_names():
        text = text_of(name)
        head = text[: text.index("CREATE")]
        assert all(line.startswith("-- ") for line in head.splitlines())
        assert "${DATASET} stands for PROJECT.DATASET" in head
