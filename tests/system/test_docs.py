"""Everything that the README and the pages in docs/ show runs as it stands there, page by page, in order."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from groundrows.pipeline.cli import COMMANDS
from groundrows.pipeline.deploy.reference import PAGES, whole_set_of_flags
from groundrows.pipeline.options.runner import beam_parser
from tests.support.documents import DOCUMENTS, blocks, library_example
from tests.support.paths import ROOT
from tests.support.warm import command_for, warm_groundrows

ANY_BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"(?:^|[/\s])groundrows (?P<name>[a-z]+)(?P<rest>(?:\s[^|;&]*)?)")
README = DOCUMENTS[0].read_text(encoding="utf-8")
# Programs of others, whose flags these pages name.
PROGRAMS = ("gcloud", "docker", "bq", "gsutil", "pip")


RUNNING = [document for document in DOCUMENTS if blocks(document)]


def copy_of_the_house(folder: Path, address: str) -> Path:
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
    (virtual / "bin").mkdir(parents=True)
    for entry in Path(sys.prefix).iterdir():
        if entry.name not in (".installed", "bin"):
            (virtual / entry.name).symlink_to(entry)
    for entry in (Path(sys.prefix) / "bin").iterdir():
        if entry.name != "groundrows":
            (virtual / "bin" / entry.name).symlink_to(entry)
    command_for(address, virtual / "bin" / "groundrows")
    # What runs this test is installed, however it was: make need not look.
    (virtual / ".installed").touch()
    return folder


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with warm_groundrows() as warm:
        yield warm


@pytest.mark.parametrize("document", RUNNING, ids=lambda path: path.name)
def test_a_page_and_the_same_page_again(document, tmp_path, request, address):
    folder = copy_of_the_house(tmp_path, address)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    if any(pubsub for _, pubsub, _ in blocks(document)):
        environment["PUBSUB_EMULATOR_HOST"] = request.getfixturevalue("pubsub").address
    for _ in range(2):
        run_blocks(document, folder, environment)


def run_blocks(document: Path, folder: Path, environment: dict[str, str]) -> None:
    for language, _, text in blocks(document):
        start = ["bash", "-euo", "pipefail", "-c", text] if language == "sh" else [sys.executable, "-c", text]
        finished = subprocess.run(
            start, cwd=folder, env=environment, capture_output=True, text=True, timeout=120
        )
        assert finished.returncode == 0, f"{text}\n{finished.stdout}{finished.stderr}"
        assert finished.stdout.strip(), text


def test_a_page_that_needs_pubsub_says_how_to_have_it():
    pages = [document for document in RUNNING if any(pubsub for _, pubsub, _ in blocks(document))]
    assert pages
    for page in pages:
        before = page.read_text(encoding="utf-8").partition(" pubsub\n")[0]
        assert "gcloud beta emulators pubsub start" in before
        assert "export PUBSUB_EMULATOR_HOST=" in before


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


def commands(document: Path) -> Iterator[tuple[str, list[str]]]:
    """Every command of `groundrows` that a page shows, in a block or within a sentence, with what follows it."""
    text = document.read_text(encoding="utf-8")
    lines = [line for _, block in ANY_BLOCK.findall(text) for line in block.replace("\\\n", " ").splitlines()]
    sentences = re.findall(r"`([^`\n]+)`", ANY_BLOCK.sub("", text))
    for line in (*lines, *sentences):
        found = COMMAND.search(line)
        if found and found["name"] in COMMANDS:
            yield found["name"], shlex.split(found["rest"], comments=True)


@cache
def flags_of_command(name: str) -> set[str]:
    parser = COMMANDS[name].parser()
    of_beam = set(beam_parser("")._option_string_actions) if name in ("run", "plan", "replay") else set()
    return set(parser._option_string_actions) | of_beam


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_a_flag_in_a_command_belongs_to_that_command(document):
    for name, words in commands(document):
        known = flags_of_command(name)
        for word in words:
            flag, _, value = word.partition("=")
            if flag.startswith("-"):
                assert flag in known, f"groundrows {name} has no {flag}: {words}"
            if flag == "--emulator_flags":
                given = {each.partition("=")[0] for each in shlex.split(value)}
                assert given <= flags_of_command("emulator"), words


def test_commands_are_found_in_blocks_and_in_sentences():
    found = [each for document in DOCUMENTS for each in commands(document)]
    assert {"run", "plan", "replay", "report", "ledger", "sql"} <= {name for name, _ in found}
    assert ("ledger", ["--ledger=URI"]) in found
    assert any("--faults" in word for _, words in found for word in words)
    assert len(found) > 20


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
