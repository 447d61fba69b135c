"""How calling ends: what is out may end and is kept, nothing else is let out, and nothing hangs."""

import pytest

from groundrows.pipeline.emulator.process import running_emulator
from groundrows.transforms.generate.calling.basket import Basket
from groundrows.transforms.generate.calling.engine import Engine
from tests.support.closing import close, join, until
from tests.support.engines import (
    make_settings,
    questions,
)


@pytest.fixture
def ledger(tmp_path):
    return f"sqlite://{tmp_path}/ledger"


@pytest.mark.parametrize("kept", [False, True])
def test_closing_with_calls_at_a_real_server_does_not_hang(kept, ledger):
    with running_emulator("--faults=hang:1") as emulator:
        engine = Engine(
            make_settings(emulator.address, ledger=ledger if kept else "none", deadline_seconds=1.0)
        )
        engine.submit(list(enumerate(questions(30))), Basket())
        until(lambda: engine.attempts.out == 30)
        join(close(engine))
