"""Which part of the house may import which: an import only ever points down."""

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

from groundrows.pipeline.commands import COMMANDS
from groundrows.schemas.service import SERVICES
from tests.support.paths import ROOT

FLOORS = ("schemas", "transforms", "pipeline")
BELOW = {"schemas", "transforms"}
ROOMS = {
    # Nothing of Groundrows but the schemas: it stands for somebody else's server.
    "emulator": {"schemas"},
    "storage": {"schemas"},
    "options": {*BELOW, "storage"},
    "sources": {*BELOW, "storage", "options"},
    "sinks": {*BELOW, "storage", "options", "sources"},
    "run": {*BELOW, "storage", "options", "sources", "sinks", "emulator"},
    "worker": {*BELOW, "storage", "options", "sources", "sinks", "run"},
    # It reads the files of a run, whatever wrote them.
    "query": {*BELOW, "storage"},
    # What pages have in common.
    "pages": {"schemas"},
    "report": {*BELOW, "storage", "options", "query", "pages"},
    "browse": {*BELOW, "storage", "options", "query", "pages"},
    "export": {*BELOW, "storage", "sources", "query"},
    "expire": {*BELOW, "storage"},
    "commands": {
        *BELOW,
        "storage",
        "options",
        "sources",
        "sinks",
        "run",
        "worker",
        "query",
        "pages",
        "report",
        "browse",
        "export",
        "expire",
        "emulator",
    },
    "deploy": {*BELOW, "options", "run", "commands", "emulator"},
    # Single files.
    "sentences": {"schemas"},
    "cli": {"schemas", "run", "commands", "sentences"},
    "demo": {"cli"},
    "__main__": {"cli"},
    "__init__": set(),
}
"""What each room of `pipeline/` may import beside itself."""

MODULES = sorted(path for floor in FLOORS for path in (ROOT / floor).rglob("*.py"))
OF_PIPELINE = sorted((ROOT / "pipeline").rglob("*.py"))


@cache
def _nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def imported(path: Path) -> Iterator[str]:
    """Every module that the file imports, wherever in the file it does."""
    for node in _nodes(path):
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


def room_of(module: str) -> str | None:
    """The floor, or the room of `pipeline/`, that a module of Groundrows lies in."""
    house, *names = module.split(".")
    if house != "groundrows" or not names or names[0] not in FLOORS:
        return None
    return names[0] if names[0] != "pipeline" or len(names) == 1 else names[1]


def imported_names(path: Path) -> Iterator[str]:
    """Every module that the file imports, and every name it imports from one, which may be a module too."""
    for node in _nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", OF_PIPELINE, ids=lambda path: str(path.relative_to(ROOT)))
def test_rooms_see_only_what_they_may(path):
    own = path.relative_to(ROOT / "pipeline").parts[0].removesuffix(".py")
    seen = {room for name in imported_names(path) if (room := room_of(name)) is not None}
    assert seen - {own} <= ROOMS[own], f"{path.relative_to(ROOT)} imports what {own}/ may not see"


ROOMS_OF_TRANSFORMS = {
    "counters": set(),
    "shards": set(),
    "parse": {"counters"},
    "generate/settings": set(),
    "generate/redis_server": set(),
    "generate/ledger": {"generate/settings", "generate/redis_server"},
    "generate/pacing": {"generate/settings", "generate/redis_server"},
    "generate/clients": {"generate/settings"},
    "generate/calling": {"generate/settings", "generate/ledger", "generate/pacing", "generate/clients"},
    "generate/stage": {
        "counters",
        "shards",
        "generate/settings",
        "generate/ledger",
        "generate/pacing",
        "generate/clients",
        "generate/calling",
    },
    # The two halves of a check: the question made of an answer's claims, and the rows made of what comes back.
    "rows": {"counters", "check"},
    "check": {
        "counters",
        "rows",
        "generate/settings",
        "generate/pacing",
        "generate/clients",
        "generate/calling",
        "generate/stage",
    },
    "unanswered": {"counters", "parse", "generate/calling"},
    "__init__": set(),
    "generate/__init__": set(),
}
"""What each file and folder of `transforms/` may import of the others."""

OF_TRANSFORMS = sorted((ROOT / "transforms").rglob("*.py"))


def room_of_transforms(names: Sequence[str]) -> str:
    return "/".join(names[:2] if names[0] == "generate" else names[:1]).removesuffix(".py")


@pytest.mark.parametrize("path", OF_TRANSFORMS, ids=lambda path: str(path.relative_to(ROOT)))
def test_steps_see_only_what_they_may(path):
    own = room_of_transforms(path.relative_to(ROOT / "transforms").parts)
    seen = {
        room_of_transforms(names)
        for name in imported_names(path)
        if (names := name.split(".")[2:]) and name.startswith("groundrows.transforms.")
    }
    assert seen - {own} <= ROOMS_OF_TRANSFORMS[own], f"{path.relative_to(ROOT)} imports what it may not see"


def test_no_two_rooms_see_each_other():
    for room, seen in ROOMS.items():
        for other in seen & ROOMS.keys():
            assert room not in ROOMS[other], (room, other)


def test_the_commands_of_the_table_are_there():
    for name, command in COMMANDS.items():
        assert command.parser().prog == f"groundrows {name}"


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


SERVICE_FOLDERS = (
    "pipeline/emulator",
    *(f"schemas/{service}" for service in SERVICES),
    *(f"transforms/generate/clients/{service}" for service in SERVICES),
)


def test_only_the_service_and_the_emulator_know_the_services_messages():
    for path in MODULES:
        where = path.relative_to(ROOT)
        if where.as_posix().startswith(tuple(f"{folder}/" for folder in SERVICE_FOLDERS)):
            continue
        for name in (*imported(path), *imported_names(path)):
            assert not name.startswith(("google.protobuf", "google.rpc", "google.cloud.discoveryengine")), (
                where
            )
            assert not {*SERVICES, "request_class", "response_class"} & set(name.split(".")), where


GEMINIS_NAMES = re.compile(
    "candidates?Token|promptToken|groundingMetadata|groundingChunks|groundingSupports|generateContent|"
    "usageMetadata|finishReason|promptFeedback|webSearchQueries|thoughtSignature"
)


def test_only_gemini_and_the_emulator_know_geminis_json():
    for path in MODULES:
        where = path.relative_to(ROOT).as_posix()
        if "/gemini/" in where or where.startswith("pipeline/emulator/"):
            continue
        found = GEMINIS_NAMES.search(path.read_text(encoding="utf-8"))
        assert found is None, f"{where} knows {found}"


def test_no_service_knows_another():
    for path in MODULES:
        own = next((name for name in SERVICES if name in path.relative_to(ROOT).parts), None)
        if own is not None:
            for name in (*imported(path), *imported_names(path)):
                assert not (set(SERVICES) - {own}) & set(name.split(".")), path


def test_a_service_is_known_by_its_folders_and_its_name_alone():
    for name in SERVICES:
        assert (ROOT / "schemas" / name / "service.py").is_file()
        assert (ROOT / "schemas" / name / "expiring.py").is_file()
        assert (ROOT / "transforms" / "generate" / "clients" / name / "open.py").is_file()
    others = {path.parent.name for path in (ROOT / "schemas").glob("*/service.py")}
    assert others == set(SERVICES)
