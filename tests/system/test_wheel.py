"""The wheel, installed in an environment of its own outside the checkout, beside folders with names like ours."""

import fcntl
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from groundrows.schemas.tables import TABLES
from tests.support.documents import library_example
from tests.support.paths import ROOT
from tests.support.tools import rows, run_json, write_lines

FOLDERS = ("pipeline", "schemas", "templates", "transforms")
SOURCES = ("LICENSE", "README.md", "pyproject.toml", "setup.py", "groundrows", *FOLDERS)
OF_THE_IMAGE = {f"groundrows/templates/{name}" for name in ("Dockerfile", "backfill.json", "stream.json")}
"""What lies in templates/ for the Flex Templates' image alone."""
BUILD = """
import sys
from setuptools import build_meta
print(getattr(build_meta, sys.argv[1])(sys.argv[2]))
"""
TYPED = """
import groundrows as gr
from groundrows.schemas.rows import AnswerRow

def shown(row: AnswerRow) -> str:
    return f"{row.question}: {row.answer_text}"

record = gr.Record(b"{}", "here:1")
settings = gr.CallSettings("localhost:1", False, "projects/me/locations/global", "v1", run_id="mine")
reveal_type(record.origin)
reveal_type(settings.run_id)
reveal_type(gr.running_emulator)
"""
WRONG = """
import groundrows as gr

gr.Record("text rather than bytes", "here:1")
"""


@dataclass(frozen=True)
class Installed:
    """The wheel in an environment that holds nothing else.

    Attributes:
        wheel: The file.
        bin: The environment's programs.
        packages: Its `site-packages`.
        mine: A directory of the user's, with folders named as those of the checkout.
    """

    wheel: Path
    bin: Path
    packages: Path
    mine: Path

    def run(self, program: str, *arguments: str) -> str:
        """What a program of the environment prints, started in the user's directory."""
        return _run([str(self.bin / program), *arguments], self.mine)


def _run(command: list[str], folder: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    finished = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )
    assert finished.returncode == 0, f"{command}\n{finished.stdout}{finished.stderr}"
    return finished.stdout


def _build(what: str, sources: Path, target: Path) -> Path:
    return target / _run([sys.executable, "-c", BUILD, what, str(target)], sources).splitlines()[-1]


def _install(folder: Path) -> None:
    """Sources -> archive of the sources -> wheel -> environment, as an installer does it."""
    checkout = folder / "checkout"
    checkout.mkdir(parents=True)
    for name in SOURCES:
        (checkout / name).symlink_to(ROOT / name)
    archive = _build("build_sdist", checkout, folder)
    with tarfile.open(archive) as file:
        file.extractall(folder, filter="data")
    wheel = _build("build_wheel", folder / archive.name.removesuffix(".tar.gz"), folder)
    _run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], folder)
    _packages(folder).joinpath("dependencies.pth").write_text(sysconfig.get_path("purelib"))
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "venv")]
    _run([*pip, "install", "--quiet", "--no-index", "--no-deps", str(wheel)], folder)
    for name in FOLDERS:
        (folder / "mine" / name).mkdir(parents=True)
        (folder / "mine" / name / "__init__.py").write_text(
            "raise ImportError('this one is the user\\'s own')"
        )


def _packages(folder: Path) -> Path:
    return next((folder / "venv" / "lib").glob("python*/site-packages"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Built once, however many processes run the tests.

    The other packages are those that run this test, by a `.pth` file: a path named there is searched, while its
    own `.pth` files, such as that of the checkout's editable install, are not read.
    """
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "wheel"
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _install(folder)
    wheel = next(folder.glob("*.whl"))
    return Installed(wheel, folder / "venv" / "bin", _packages(folder), folder / "mine")


def test_it_brings_one_name(installed: Installed) -> None:
    found = {path.name for path in installed.packages.iterdir()} - {"dependencies.pth"}
    others = {name for name in found if not re.fullmatch(r"groundrows-[\w.]+\.dist-info", name)}
    assert others == {"groundrows"}
    assert len(found) == 2


def test_it_holds_every_file_of_the_sources(installed: Installed) -> None:
    wanted = {
        f"groundrows/{path.relative_to(ROOT).as_posix()}"
        for name in FOLDERS
        for path in (ROOT / name).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    wanted |= {f"groundrows/{name}" for name in ("__init__.py", "__main__.py", "py.typed")}
    held = {name for name in zipfile.ZipFile(installed.wheel).namelist() if ".dist-info/" not in name}
    assert held == wanted - OF_THE_IMAGE
    assert wanted > OF_THE_IMAGE


def test_the_library_example(installed: Installed) -> None:
    (installed.mine / "example.py").write_text(library_example())
    assert "When does tin melt? -> Tin melts at 232 degrees." in installed.run("python", "example.py")


def test_a_run_and_its_report(installed: Installed) -> None:
    write_lines(installed.mine / "mine.jsonl", [{"question": "Who painted The Starry Night?"}])
    printed = installed.run("groundrows", "run", "--service=emulator", "--input=mine.jsonl", "--output=out")
    assert "1 records read = 1 answered" in printed
    assert run_json(installed.mine / "out")["balanced"]
    assert [row["answer_text"] for row in rows(installed.mine / "out", "answers")]
    installed.run("groundrows", "report", "out", "-o", "out.html")
    page = (installed.mine / "out.html").read_text(encoding="utf-8")
    assert "Who painted The Starry Night?" in page
    views = installed.run("groundrows", "sql")
    assert all(f"{table}_latest" in views for table in TABLES)


def test_the_module_is_the_program(installed: Installed) -> None:
    told = installed.run("python", "-m", "groundrows", "--help")
    assert told.startswith("usage: groundrows")
    assert told == installed.run("groundrows", "--help")


def test_the_users_own_folders_stay_the_users(installed: Installed) -> None:
    says = "try:\n    import {}\nexcept ImportError as error:\n    print(error)"
    for name in FOLDERS:
        assert installed.run("python", "-c", says.format(name)) == "this one is the user's own\n"
        found = installed.run("python", "-c", f"import groundrows.{name} as m; print(m.__file__)")
        assert Path(found.strip()).is_relative_to(installed.packages)


def test_a_strict_type_checker_sees_the_types(installed: Installed) -> None:
    (installed.mine / "typed.py").write_text(TYPED)
    (installed.mine / "wrong.py").write_text(WRONG)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir=cache", "--config-file="]
    finished = subprocess.run(
        [*command, f"--python-executable={installed.bin / 'python'}", "typed.py", "wrong.py"],
        cwd=installed.mine,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert finished.returncode == 1, finished.stderr
    *lines, count = finished.stdout.splitlines()
    assert count.startswith("Found 1 error in 1 file (checked 2 source files)"), finished.stdout
    error = next(line for line in lines if ": error: " in line)
    assert error.startswith("wrong.py:4: ")
    assert 'incompatible type "str"; expected "bytes"' in error
    told = finished.stdout.replace("builtins.", "")
    revealed = re.findall(r'^typed\.py:\d+: note: Revealed type is "(.*)"$', told, re.MULTILINE)
    assert revealed[:2] == ["str", "str"]
    assert "EmulatorProcess" in revealed[2]
