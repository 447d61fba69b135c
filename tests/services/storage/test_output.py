"""The output directory from command to command, and after a kill between any two steps."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from groundrows.pipeline.storage import output
from groundrows.pipeline.storage.output import Output
from groundrows.schemas.errors import UsageError
from tests.support.tools import files_below, is_one_sentence


def claim(path: Path | str, *, overwrite: bool = False, append: bool = False) -> Output:
    """Claim and let go at once, as a kill does."""
    with output.claimed(str(path), overwrite=overwrite, append=append) as claimed:
        return claimed


HOLD = """
import sys
from groundrows.pipeline.storage import output
with output.claimed(sys.argv[1], overwrite=False, append=False) as claimed:
    print(claimed.run_id, flush=True)
    sys.stdin.read()
"""


@contextmanager
def held(directory: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The directory claimed by another process, which is killed at the end."""
    command = [sys.executable, "-c", HOLD, str(directory)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def test_two_runs_at_once(tmp_path: Path) -> None:
    directory = tmp_path / "out"
    with held(directory) as (_, run_id):
        before = files_below(directory)
        for flags in ({}, {"overwrite": True}, {"append": True}):
            with pytest.raises(UsageError, match="is being written by another run") as raised:
                claim(directory, **flags)
            assert is_one_sentence(str(raised.value))
        assert files_below(directory) == before
        claim(tmp_path / "other")
    # The lock went with the process, and what it began is taken up.
    assert claim(directory).run_id == run_id
