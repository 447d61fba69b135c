from __future__ import annotations

from pathlib import Path

import pytest

from groundrows.pipeline.emulator.answering.corpus import BUNDLED, load_passages


def test_the_bundled_corpus_is_whole_sentences() -> None:
    passages = load_passages(BUNDLED)
    titles = {passage.title for passage in passages}
    assert len(titles) >= 25
    lines = [sentence for passage in passages for sentence in passage.sentences]
    assert len(lines) == len(set(lines))
    in_files = [
        line for path in sorted(BUNDLED.glob("*.txt")) for line in path.read_text("utf-8").splitlines()
    ]
    assert lines == in_files  # a sentence a line: the splitter cuts none of them in two


def test_passages_hold_their_sentences_and_their_origin(tmp_path: Path) -> None:
    (tmp_path / "b_side.txt").write_text("One. Two. Three. Four.", encoding="utf-8")
    (tmp_path / "a.txt").write_text("Zero.", encoding="utf-8")
    (tmp_path / "notes.md").write_text("Not read.", encoding="utf-8")
    zero, first, second = load_passages(tmp_path)
    assert (zero.title, zero.domain, zero.text) == ("A", "a.example", "Zero.")
    assert (first.title, first.domain, first.uri) == ("B side", "b-side.example", "https://b-side.example/1")
    assert (first.text, second.text) == ("One. Two. Three.", "Four.")
    assert dict(second.metadata)["page_identifier"] == "2"
    assert dict(first.metadata)["document_id"] == dict(second.metadata)["document_id"]


def test_a_corpus_of_no_use_is_named_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a directory"):
        load_passages(tmp_path / "none")
    with pytest.raises(ValueError, match="no text"):
        load_passages(tmp_path)
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    with pytest.raises(ValueError, match=r"latin\.txt is not UTF-8"):
        load_passages(tmp_path)
