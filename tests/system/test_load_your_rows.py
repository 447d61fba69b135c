"""The notebook runs cell by cell, and what of the page on loading rows needs other services can be parsed."""

from __future__ import annotations

import ast
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import ROOT

NOTEBOOK = ROOT / "docs" / "look-at-rows.ipynb"
PAGE = (ROOT / "docs" / "load-your-rows.md").read_text(encoding="utf-8")


def cells() -> list[str]:
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def value_of(cell: str, names: dict[str, Any]) -> Any:
    """Run a cell as a notebook does: the value of an expression at its end is what it shows."""
    tree = ast.parse(cell)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, str(NOTEBOOK), "exec"), names)
    if last is None:
        return None
    assert isinstance(last, ast.Expr)
    return eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)


def test_the_notebook_runs_and_shows_a_table_and_plots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("groundrows", "pipeline"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    shown = [value_of(cell, names) for cell in cells()]
    tables = [value for value in shown if hasattr(value, "_repr_html_")]
    plots = [value._repr_svg_() for value in shown if hasattr(value, "_repr_svg_")]
    assert [len(table) for table in tables] == [10]
    assert len(plots) == 2
    for plot in plots:
        assert plot.startswith("<svg")
        assert plot.count('aria-roledescription="bar"') >= 3


def block(language: str) -> str:
    (text,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return str(text)


def test_what_needs_other_services_can_be_parsed() -> None:
    ast.parse(block("py"))
    commands = [shlex.split(line) for line in block("bash").splitlines()]
    assert [words[:2] for words in commands] == [["bq", "load"]] * 2
    assert "--use_avro_logical_types" in commands[0]
