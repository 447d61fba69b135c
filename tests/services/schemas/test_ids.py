from __future__ import annotations

import subprocess
import sys

from groundrows.schemas.ids import answer_id
from tests.support.paths import ROOT


def test_an_id_is_the_same_in_every_process() -> None:
    code = "from groundrows.schemas.ids import answer_id; print(answer_id('q', b'request', 'v1', 0, 0))"
    root = ROOT
    seen = set()
    for seed in ("1", "2"):
        env = {"PYTHONHASHSEED": seed, "PYTHONPATH": str(root)}
        seen.add(subprocess.check_output([sys.executable, "-c", code], text=True, env=env).strip())
    assert seen == {answer_id("q", b"request", "v1", 0, 0)}
