"""What was written with a released schema can be read, and loaded beside rows of today, for good."""

from __future__ import annotations

import subprocess
import sys

from tests.support.paths import ROOT


def test_the_command() -> None:
    command = [sys.executable, "-m", "groundrows.schemas.released"]
    for arguments in ([], ["x"], ["1.0.0", "1.0.0"]):
        done = subprocess.run([*command, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
