"""The texts that stand for the web and for a search engine's documents."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

from groundrows.pipeline.emulator.answering.retrieval import Passage
from groundrows.pipeline.emulator.answering.text import sentences

BUNDLED = Path(__file__).parent / "texts"
SENTENCES_PER_PASSAGE = 3


def load_passages(directory: Path) -> list[Passage]:
    """Read the `.txt` files of a directory, in the order of their names, as passages of three sentences.

    A file `solar_system.txt` becomes the document "Solar system" of the domain `solar-system.example`;
    `.example` is reserved and leads nowhere.

    Raises:
        ValueError: One sentence: there is no such directory, no text in it, or a file that is no UTF-8.
    """
    if not directory.is_dir():
        raise ValueError(f"--corpus={directory} is not a directory: name one that holds .txt files.")
    passages: list[Passage] = []
    for path in sorted(directory.glob("*.txt")):
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise ValueError(f"{path} is not UTF-8: save it as UTF-8 or take it out of --corpus.") from None
        except OSError as error:
            raise ValueError(f"{path} cannot be read: {error.strerror}.") from None
        passages.extend(_passages(path.stem, sentences(text)))
    if not passages:
        raise ValueError(f"--corpus={directory} holds no text: put a .txt file with sentences there.")
    return passages


def _passages(stem: str, lines: list[str]) -> list[Passage]:
    title = " ".join(stem.replace("_", " ").split()).capitalize()
    domain = f"{'-'.join(stem.lower().replace('_', ' ').split())}.example"
    passages = []
    for page, start in enumerate(range(0, len(lines), SENTENCES_PER_PASSAGE), start=1):
        group = tuple(lines[start : start + SENTENCES_PER_PASSAGE])
        passages.append(
            Passage(
                text=" ".join(group),
                sentences=group,
                title=title,
                uri=f"https://{domain}/{page}",
                domain=domain,
                metadata=(
                    ("document_id", blake2b(stem.encode(), digest_size=8).hexdigest()),
                    ("page_identifier", str(page)),
                    ("title", title),
                    ("uri", f"https://{domain}/{page}"),
                ),
            )
        )
    return passages
