from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from groundrows.pipeline.emulator.discoveryengine.messages import Request

LOCATION = "projects/p/locations/global"


def make_request(*turns: str, facts: tuple[str, ...] = (), google: bool = False) -> Any:
    """A request whose turns are the user's and the model's by turns, the last one the user's."""
    request = Request(location=LOCATION)
    for position, turn in enumerate(turns):
        role = "user" if (len(turns) - position) % 2 else "model"
        request.contents.add(role=role).parts.add(text=turn)
    sources = request.grounding_spec.grounding_sources
    if facts:
        inline = sources.add().inline_source
        for fact in facts:
            inline.grounding_facts.add(fact_text=fact)
    if google:
        sources.add().google_search_source.SetInParent()
    return request


@pytest.fixture(scope="session")
def ask() -> Callable[..., Any]:
    return make_request
