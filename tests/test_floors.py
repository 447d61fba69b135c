"""The house has three floors, and an import only ever points down."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.paths import ROOT

FLOORS = ("schemas", "transforms", "pipeline")
MODULES = sorted(path for floor in FLOORS for path in (ROOT / floor).rglob("*.py"))


def imported(path: Path) -> Iterator[str]:
    """Every module that the file imports, wherever in the file it does."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            yield node.module or ""


def imported_at_once(path: Path) -> Iterator[str]:
    """What the file imports as soon as it is imported itself, type checking aside."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def floor_of(module: str) -> int | None:
    house, _, rest = module.partition(".")
    assert house not in FLOORS, f"{module} is imported without its house"
    floor = rest.split(".")[0]
    return FLOORS.index(floor) if house == "groundrows" and floor in FLOORS else None


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_down(path):
    own = FLOORS.index(path.relative_to(ROOT).parts[0])
    above = [module for module in imported(path) if (floor_of(module) or 0) > own]
    assert not above, f"{path.relative_to(ROOT)} imports upward: {above}"
    assert not [module for module in imported(path) if module.split(".")[0] == "tests"]


def test_schemas_know_nothing_of_beam():
    for path in (ROOT / "schemas").rglob("*.py"):
        assert "apache_beam" not in {module.split(".")[0] for module in imported(path)}, path


def test_only_the_stage_of_generate_knows_beam():
    generate = ROOT / "transforms" / "generate"
    knowing = {
        path.relative_to(generate)
        for path in generate.rglob("*.py")
        if "apache_beam" in {module.split(".")[0] for module in imported_at_once(path)}
    }
    assert knowing == {Path("stage.py")}


def test_the_emulator_starts_without_beam():
    for path in (ROOT / "pipeline" / "emulator").rglob("*.py"):
        assert "apache_beam" not in {module.split(".")[0] for module in imported(path)}, path
