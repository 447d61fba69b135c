import pytest

from groundrows.pipeline.storage.row_files import RowFile
from groundrows.pipeline.storage.row_formats.avro import Avro
from tests.support.made import answer


@pytest.fixture
def path(tmp_path):
    """A file of several blocks."""
    file = RowFile(str(tmp_path / "rows.avro"), "answers")
    for number in range(40):
        file.write(answer(answer_id=str(number), answer_text="So it is. " * 1_000))
    file.close()
    return tmp_path / "rows.avro"


def test_a_whole_file_is_whole(path, tmp_path):
    Avro().check_whole(str(path))
    RowFile(str(tmp_path / "empty.avro"), "answers").close()
    Avro().check_whole(str(tmp_path / "empty.avro"))


def test_a_file_that_breaks_off_anywhere_is_not(path):
    data = path.read_bytes()
    begins = [0]  # where a block begins, a file may end
    sync = data[-16:]
    while (found := data.find(sync, begins[-1])) >= 0:
        begins.append(found + 16)
    assert len(begins) > 4
    for size in {*range(0, len(data), 97), *range(len(data) - 20, len(data))} - set(begins[1:]):
        path.write_bytes(data[:size])
        with pytest.raises((ValueError, EOFError, IndexError, StopIteration)):
            Avro().check_whole(str(path))


def test_a_file_with_a_byte_too_many_is_not(path):
    path.write_bytes(path.read_bytes() + b"\x02")
    with pytest.raises((ValueError, EOFError)):
        Avro().check_whole(str(path))
