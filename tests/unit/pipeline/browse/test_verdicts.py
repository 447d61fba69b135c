"""Verdicts: the last one counts, nobody's is lost, and a conflict is said."""

import sqlite3
import threading
from contextlib import closing

import pytest

from groundrows.pipeline.browse.verdicts import FILE, ConflictError, Judged, Verdicts, given
from groundrows.schemas.errors import UsageError

ANSWER = Judged("run", "a", 1)
OTHER = Judged("run", "a", 2)


def test_the_file_comes_with_the_first_verdict(tmp_path):
    with closing(Verdicts(str(tmp_path))) as verdicts:
        assert verdicts.all() == []
        assert verdicts.of(ANSWER).version == 0
        assert not (tmp_path / FILE).exists()
        before = verdicts.state()
        said = verdicts.give(ANSWER, "right", "sure", 0)
        assert (said.verdict, said.note) == ("right", "sure")
        assert verdicts.state() != before
        assert verdicts.of(OTHER).version == 0
    assert given(str(tmp_path)) == [(ANSWER, said)]


def test_two_windows_see_each_others(tmp_path):
    with closing(Verdicts(str(tmp_path))) as one, closing(Verdicts(str(tmp_path))) as two:
        first = one.give(ANSWER, "right", "", 0)
        before = one.state()
        second = two.give(ANSWER, "wrong", "no", first.version)
        assert one.of(ANSWER) == second
        assert one.state() != before


def test_who_did_not_see_the_last_one_overwrites_nothing(tmp_path):
    with closing(Verdicts(str(tmp_path))) as one, closing(Verdicts(str(tmp_path))) as two:
        mine = one.give(ANSWER, "right", "", 0)
        with pytest.raises(ConflictError) as conflict:
            two.give(ANSWER, "wrong", "mine", 0)
        assert conflict.value.current == mine
        assert one.of(ANSWER) == mine
        later = two.give(ANSWER, "wrong", "mine", conflict.value.current.version)
        assert given(str(tmp_path)) == [(ANSWER, later)]


def test_every_verdict_is_kept(tmp_path):
    with closing(Verdicts(str(tmp_path))) as verdicts:
        first = verdicts.give(ANSWER, "right", "", 0)
        second = verdicts.give(ANSWER, "", "", first.version)
        assert verdicts.all() == []  # taken back
        verdicts.give(ANSWER, "", "only a note", second.version)
        assert [each.note for _, each in verdicts.all()] == ["only a note"]
    with closing(sqlite3.connect(tmp_path / FILE)) as db:
        assert db.execute("SELECT verdict FROM verdicts ORDER BY version").fetchall() == [
            ("right",),
            ("",),
            ("",),
        ]


def test_of_many_at_once_one_wins(tmp_path):
    won, lost = [], []

    def judge(number):
        with closing(Verdicts(str(tmp_path))) as verdicts:
            try:
                won.append(verdicts.give(ANSWER, "unsure", str(number), 0))
            except ConflictError as conflict:
                lost.append(conflict.current)

    with closing(Verdicts(str(tmp_path))) as verdicts:
        verdicts.give(OTHER, "right", "", 0)
    threads = [threading.Thread(target=judge, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert lost == won * 7


@pytest.mark.parametrize(
    ("verdict", "note", "said"), [("perfect", "", "one of"), ("right", "a" * 10_001, "longer")]
)
def test_what_is_no_verdict_is_refused(tmp_path, verdict, note, said):
    with closing(Verdicts(str(tmp_path))) as verdicts:
        with pytest.raises(UsageError, match=said):
            verdicts.give(ANSWER, verdict, note, 0)
        assert verdicts.all() == []


def test_a_directory_in_a_bucket_is_only_read():
    with closing(Verdicts("gs://bucket/run")) as verdicts:
        assert not verdicts.writable
        assert verdicts.all() == []
        with pytest.raises(UsageError, match="copy it"):
            verdicts.give(ANSWER, "right", "", 0)


def test_a_file_that_is_none_is_named(tmp_path):
    (tmp_path / FILE).write_bytes(b"no database " * 100)
    with pytest.raises(UsageError, match="can't be read"):
        given(str(tmp_path))
