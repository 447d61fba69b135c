"""A ledger that several processes share, and how one more of them opens it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from groundrows.transforms.generate.ledger.base import Ledger
from groundrows.transforms.generate.ledger.uri import open_ledger

Open = Callable[[], Ledger]


@pytest.fixture(params=["sqlite", "redis"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "redis":
        return str(request.getfixturevalue("redis_uri"))
    return f"sqlite://{tmp_path}/ledger.sqlite"


@pytest.fixture
def open_again(uri: str) -> Iterator[Open]:
    """Opens one and the same ledger once more, as another process would."""
    with ExitStack() as opened:
        yield lambda: opened.enter_context(closing(open_ledger(uri)))
