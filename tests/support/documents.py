"""The README and the pages in docs/, and the blocks of code in them."""

import re
from pathlib import Path

from tests.support.paths import ROOT

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_BLOCK = re.compile(r"^```(sh|python)( pubsub)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(document: Path) -> list[tuple[str, bool, str]]:
    """The blocks that run as they stand: language, whether Pub/Sub is needed, text."""
    found = _BLOCK.findall(document.read_text(encoding="utf-8"))
    return [(language, bool(pubsub), text) for language, pubsub, text in found]


def library_example() -> str:
    """The block of the README that uses Groundrows as a library."""
    return next(text for _, _, text in blocks(DOCUMENTS[0]) if "GenerateAnswers" in text)
