"""A unit test that starts a process, uses a service or sleeps fails, whatever it does about the error."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT

TESTS = """
import asyncio, multiprocessing, subprocess, time
import pytest

def quietly(does, *arguments):
    try:
        does(*arguments)
    except BaseException:
        pass

@pytest.fixture(scope="module")
def started():
    quietly(subprocess.run, ["true"])

def test_of_a_module_that_starts_a_process(started): pass
def test_process(): quietly(subprocess.Popen, ["true"])
def test_worker(): quietly(multiprocessing.Process(target=print).start)
def test_sleep(): time.sleep(0.06)
def test_sleep_of_a_task(): asyncio.run(asyncio.sleep(0.06))
def test_service(redis_uri): pass
def test_that_does_nothing_of_it(): time.sleep(0.01)
"""


def test_each_of_these_fails(tmp_path: Path) -> None:
    shutil.copy(ROOT / "tests" / "unit" / "conftest.py", tmp_path)
    (tmp_path / "test_made_up.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir=.", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    failed = set(re.findall(r"^(?:ERROR|FAILED) .*::(\w+)", run.stdout, re.MULTILINE))
    made = set(re.findall(r"def (test_\w+)", TESTS))
    assert failed == made - {"test_that_does_nothing_of_it"}, run.stdout
