"""A service that is not installed is named at the end of the run, and fails it where all must be there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.services import run_must_fail

NEEDS_REDIS = "tests/services/ledger/test_redis.py::test_databases_of_one_server_are_ledgers_of_their_own"


@pytest.mark.parametrize(("ci", "status"), [("true", 1), ("", 0)])
def test_a_run_without_redis_names_it(tmp_path: Path, ci: str, status: int) -> None:
    environment = {**os.environ, "PATH": str(tmp_path), "CI": ci}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", NEEDS_REDIS]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == status, run.stdout
    assert "1 skipped" in run.stdout
    assert "apt-get install redis-server" in run.stdout


def test_only_google_s_emulator_may_be_missing_where_all_must_be_there() -> None:
    assert not run_must_fail(["Pub/Sub emulator"], {"CI": "true"})
    assert run_must_fail(["Pub/Sub emulator", "chromium"], {"CI": "true"})
    assert not run_must_fail(["Pub/Sub emulator", "chromium"], {"CI": "false"})
    assert not run_must_fail([], {"CI": "true"})
