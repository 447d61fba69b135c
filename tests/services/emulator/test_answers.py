from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from groundrows.pipeline.emulator.answering.corpus import BUNDLED, load_passages
from groundrows.pipeline.emulator.answering.retrieval import SentenceIndex
from groundrows.pipeline.emulator.discoveryengine.answers import Extractive
from tests.support.paths import ROOT

EXTRACTIVE = Extractive(SentenceIndex(load_passages(BUNDLED)))


def answer(request: Any) -> Any:
    [candidate] = EXTRACTIVE.answer(request).candidates
    return candidate


def test_the_answer_is_the_same_bytes_whatever_the_hash_seed() -> None:
    program = """
import sys
from groundrows.pipeline.emulator.discoveryengine.answers import Extractive
from groundrows.pipeline.emulator.answering.corpus import BUNDLED, load_passages
from groundrows.pipeline.emulator.answering.retrieval import SentenceIndex
from groundrows.pipeline.emulator.discoveryengine.messages import Request
extractive = Extractive(SentenceIndex(load_passages(BUNDLED)))
for prompt in ("Which mountain is the highest?", "What is the longest river in the world?", "Who won?"):
    request = Request()
    request.contents.add(role="user").parts.add(text=prompt)
    request.grounding_spec.grounding_sources.add().search_source.serving_config = "c"
    inline = request.grounding_spec.grounding_sources.add().inline_source
    inline.attributes.update({"author": "a", "title": "b", "uri": "c"})
    inline.grounding_facts.add(fact_text="The longest river and the highest mountain in the world.")
    print(extractive.answer(request).SerializeToString(deterministic=True).hex())
"""
    root = ROOT
    said = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=root,
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1
    assert len(said.pop()) > 1000
