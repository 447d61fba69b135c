"""Everything that the README shows runs as it stands there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(sh|python)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module", autouse=True)
def copy_of_the_house(tmp_path_factory):
    """What the blocks write goes into a folder beside the sources, which they find as a user would."""
    folder = tmp_path_factory.mktemp("readme")
    for name in ("Makefile", "setup.py", "constraints.txt", "pipeline", "transforms", "schemas"):
        (folder / name).symlink_to(ROOT / name)
    virtual = folder / ".venv"
    virtual.mkdir()
    for entry in Path(sys.prefix).iterdir():
        if entry.name != ".installed":
            (virtual / entry.name).symlink_to(entry)
    # What runs this test is installed, however it was: make need not look.
    (virtual / ".installed").touch()
    return folder


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_block(number, copy_of_the_house):
    language, text = BLOCKS[number]
    start = ["bash", "-euc", text] if language == "sh" else [sys.executable, "-c", text]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    finished = subprocess.run(
        start, cwd=copy_of_the_house, env=environment, capture_output=True, text=True, timeout=120
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert finished.stdout.strip()


def test_every_kind_of_block_is_there():
    assert {language for language, _ in BLOCKS} == {"sh", "python"}
    assert len(BLOCKS) >= 4


def test_the_library_example_is_short():
    example = next(text for language, text in BLOCKS if "GenerateAnswers" in text)
    statements = [line for line in example.splitlines() if line and not line.startswith(("import", "from"))]
    assert len(statements) <= 10


def test_the_flags_it_names_exist():
    from pipeline.options import run_parser

    known = {name for action in run_parser()._actions for name in action.option_strings}
    table = README.partition("## The flags")[2].partition("Several worker processes")[0]
    named = set(re.findall(r"`?(--[a-z_]+)", table))
    assert named
    assert named - known - {"--help"} == set()
