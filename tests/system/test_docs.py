"""Everything that the README and the pages in docs/ show runs as it stands there, page by page, in order."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from groundrows.pipeline.cli import COMMANDS
from groundrows.pipeline.deploy.reference import PAGES, whole_set_of_flags
from tests.support.documents import DOCUMENTS, blocks, library_example
from tests.support.paths import ROOT

ANY_BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
README = DOCUMENTS[0].read_text(encoding="utf-8")
# Programs of others, whose flags these pages name.
PROGRAMS = ("gcloud", "docker", "bq", "gsutil", "pip")


RUNNING = [document for document in DOCUMENTS if blocks(document)]


def copy_of_the_house(folder: Path) -> Path:
    """What the blocks write goes into a folder beside the sources, which they find as a user would."""
    for name in (
        "Makefile",
        "setup.py",
        "constraints.txt",
        "groundrows",
        "pipeline",
        "transforms",
        "schemas",
        "templates",
    ):
        (folder / name).symlink_to(ROOT / name)
    virtual = folder / ".venv"
    virtual.mkdir()
    for entry in Path(sys.prefix).iterdir():
        if entry.name != ".installed":
            (virtual / entry.name).symlink_to(entry)
    # What runs this test is installed, however it was: make need not look.
    (virtual / ".installed").touch()
    return folder


@pytest.mark.parametrize("document", RUNNING, ids=lambda path: path.name)
def test_a_page(document, tmp_path, request):
    folder = copy_of_the_house(tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    if any(pubsub for _, pubsub, _ in blocks(document)):
        environment["PUBSUB_EMULATOR_HOST"] = request.getfixturevalue("pubsub").address
    run_blocks(document, folder, environment)


def run_blocks(document: Path, folder: Path, environment: dict[str, str]) -> None:
    for language, _, text in blocks(document):
        start = ["bash", "-euo", "pipefail", "-c", text] if language == "sh" else [sys.executable, "-c", text]
        finished = subprocess.run(
            start, cwd=folder, env=environment, capture_output=True, text=True, timeout=120
        )
        assert finished.returncode == 0, f"{text}\n{finished.stdout}{finished.stderr}"
        assert finished.stdout.strip(), text


def test_every_kind_of_block_is_there():
    assert {language for language, _, _ in blocks(DOCUMENTS[0])} == {"sh", "python"}
    assert len(blocks(DOCUMENTS[0])) >= 4
    assert {"tutorial.md", "keep-a-stream.md", "how-it-works.md"} <= {path.name for path in RUNNING}


def test_the_library_example_is_short():
    statements = [
        line for line in library_example().splitlines() if line and not line.startswith(("import", "from"))
    ]
    assert len(statements) <= 10


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_flag_and_command_it_names_exists(document):
    text = document.read_text(encoding="utf-8")
    for _, block in ANY_BLOCK.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            if line.lstrip().startswith(PROGRAMS):
                text = text.replace(line, "")
            for command in re.findall(r"(?:^|/)groundrows ([a-z]+)", line):
                assert command in COMMANDS
    # A command of somebody else's that goes over several lines.
    text = re.sub(rf"^({'|'.join(PROGRAMS)})\b.*(\\\n.*)*", "", text, flags=re.MULTILINE)
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z_]+\b(?!-)", text))
    assert named - whole_set_of_flags() == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_its_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (document.parent / target).exists(), target


@pytest.mark.parametrize("name", PAGES)
def test_the_reference_is_what_the_code_says(name):
    assert (ROOT / "docs" / name).read_text(encoding="utf-8") == PAGES[name](), (
        "run `python -m groundrows.pipeline.deploy.reference`"
    )
