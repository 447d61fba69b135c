"""`--limit` and `--sample` over archives of several kinds, broken ones too."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from groundrows.pipeline.sources.archives import Archive, find_archives, note_on, read_archive
from groundrows.pipeline.sources.selection import limited, sampled
from groundrows.schemas.record import Record


@pytest.fixture
def archives(tmp_path: Path) -> list[Archive]:
    """Three readable archives with 4, 0 and 5 records, and one that can't be read between them."""
    (tmp_path / "a.jsonl").write_text("".join(f'{{"question": "a{n}"}}\n' for n in range(4)))
    (tmp_path / "b.jsonl").write_text("")
    (tmp_path / "c.parquet").write_text("no Parquet")
    (tmp_path / "d.csv").write_text("question\n" + "".join(f"d{n}\n" for n in range(5)))
    return find_archives([str(tmp_path / "*")])


def places(archives: list[Archive]) -> list[str]:
    """The origins of what is read, by the files' names."""
    return [item.origin.rpartition("/")[2] for archive in archives for item in read_archive(archive)]


def test_a_limit_goes_over_all_files_in_order(archives: list[Archive]) -> None:
    everything = places(archives)
    assert len(everything) == 10
    for limit in (1, 3, 4, 5, 6, 9, 10, 11, 1_000_000_000):
        assert places(limited(archives, limit)) == everything[:limit]


def test_files_behind_the_limit_are_not_opened(archives: list[Archive]) -> None:
    chosen = limited([*archives, Archive("/not/there.jsonl", "jsonlines", "none")], 10)
    assert [Path(each.path).name for each in chosen] == ["a.jsonl", "b.jsonl", "c.parquet", "d.csv"]


def test_a_limit_reads_no_further_than_it_must(tmp_path: Path) -> None:
    path = tmp_path / "broken.jsonl"
    path.write_bytes(b'{"question": "one"}\n{"question": "two"}\n' + b"\xff" * 1000 + b"\n")
    (archive,) = limited(find_archives([str(path)]), 2)
    assert all(isinstance(item, Record) for item in read_archive(archive))


@pytest.mark.parametrize("size", [1, 4, 9, 10, 50])
def test_a_sample_is_drawn_from_all_files(archives: list[Archive], size: int) -> None:
    everything = places(archives)
    found = places(sampled(archives, size, 1))
    assert len(found) == min(size, 10)
    assert found == [place for place in everything if place in found]
    assert found == places(sampled(archives, size, 1))
    assert size >= 10 or any(found != places(sampled(archives, size, seed)) for seed in range(2, 10))


def test_a_sample_of_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("")
    assert places(sampled(find_archives([str(tmp_path / "*")]), 5, 0)) == []


def test_what_is_read_in_part_goes_to_other_workers(archives: list[Archive]) -> None:
    for chosen in (limited(archives, 6), sampled(archives, 6, 0)):
        assert places(pickle.loads(pickle.dumps(chosen))) == places(chosen)


def test_a_file_of_which_nothing_is_drawn_is_not_called_empty(archives: list[Archive]) -> None:
    chosen = sampled(archives, 1, 0)
    said = [note for note in map(note_on, chosen) if note]
    assert len(said) == 1
    assert "b.jsonl holds no record" in said[0]
