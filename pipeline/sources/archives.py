"""Archives of question records, from their names to records with an origin."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import BinaryIO, Literal

from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from groundrows.pipeline.sources.formats.avro_rows import read_avro
from groundrows.pipeline.sources.formats.codecs import Codec, decompressed
from groundrows.pipeline.sources.formats.csv_rows import DELIMITERS, csv_layout, read_csv
from groundrows.pipeline.sources.formats.failure_rows import read_failure_rows
from groundrows.pipeline.sources.formats.items import LFS_ADVICE, LFS_POINTER, Item, read_failure
from groundrows.pipeline.sources.formats.jsonlines import read_json_file, read_json_lines
from groundrows.pipeline.sources.formats.parquet_rows import read_parquet
from groundrows.pipeline.sources.formats.text import as_utf8
from groundrows.pipeline.sources.parts import Part
from groundrows.pipeline.sources.seam import ReadItems
from groundrows.pipeline.storage.files import cause_of
from groundrows.pipeline.storage.uris import is_remote
from groundrows.schemas.wording import reason_of

Format = Literal["jsonlines", "json", "csv", "tsv", "avro", "parquet", "failures"]

_FORMATS: dict[str, Format] = {
    ".jsonl": "jsonlines",
    ".ndjson": "jsonlines",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "tsv",
    ".avro": "avro",
    ".parquet": "parquet",
}
_CODECS: dict[str, Codec] = {".gz": "gzip", ".bz2": "bzip2", ".zst": "zstd"}
_TEXT: frozenset[Format] = frozenset({"jsonlines", "json", "csv", "tsv"})


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """How archives are read, where their names do not say it.

    Attributes:
        csv_delimiter: What stands between the cells of a CSV file; None to tell it from the first lines.
        encoding: How files of text are encoded; None for UTF-8, or what a byte order mark says.
        text_fields: Fields that hold text: bytes in them that are no UTF-8 make the record one that can't be
            read. In other fields such bytes become base64.
    """

    csv_delimiter: str | None = None
    encoding: str | None = None
    text_fields: frozenset[str] = frozenset({"question"})


@dataclass(frozen=True, slots=True)
class Archive:
    """A file of question records: its path (local or `gs://`), and how it is read.

    Files of the failures table have no ending of their own: only a replay reads those for their records.
    `part` says which of its records are read; None for all.
    """

    path: str
    format: Format
    codec: Codec
    settings: ReadSettings = ReadSettings()
    part: Part | None = None


def find_archives(patterns: Sequence[str], settings: ReadSettings | None = None) -> list[Archive]:
    """The files that `patterns` match, each once, sorted by path.

    A pattern is Beam's: `*` stops at a slash, `**` does not, and `**/` also stands for no directory at all.
    One that is itself a file's name stands for that file, whatever brackets it holds. Patterns that match
    nothing alone, but with a comma between them, are a name with a comma.

    Args:
        patterns: What `--input` lists.
        settings: How the files are read.

    Raises:
        ValueError: a pattern matches nothing or can't be looked up, it is a directory or something else that
            is no file, or a file's ending is not known.
    """
    paths = sorted({path for pattern in _with_commas(patterns) for path in _match(pattern)})
    # The same local file can be reached by several paths; the first of them stands for it.
    distinct = {path if is_remote(path) else os.path.realpath(path): path for path in reversed(paths)}
    return [_archive(path, settings or ReadSettings()) for path in sorted(distinct.values())]


def _with_commas(patterns: Sequence[str]) -> Iterator[str]:
    """The patterns, those joined that are the parts of one local file's name."""
    rest = list(patterns)
    while rest:
        names = [",".join(rest[:count]) for count in range(len(rest), 1, -1)]
        name = next((name for name in names if os.path.isfile(name)), rest[0])
        yield name
        del rest[: name.count(",") + 1 if name != rest[0] else 1]


def _match(pattern: str) -> list[str]:
    if not is_remote(pattern) and os.path.exists(pattern) and not os.path.isfile(pattern):
        raise ValueError(f"The input {pattern!r} is {_kind(pattern)}")
    patterns = [pattern, pattern.replace("**/", "")] if "**/" in pattern else [pattern]
    try:
        paths = [path for each in patterns for path in _found(each)]
        if not paths and pattern and FileSystems.exists(pattern):
            paths = [pattern]
    except Exception as error:
        reason = reason_of(cause_of(error))
        raise ValueError(
            f"The input {pattern!r} cannot be looked up: {reason}; check it and try again."
        ) from error
    if not paths:
        raise ValueError(f"The input {pattern!r} matches no file; check the path and the pattern.")
    return paths


def _found(pattern: str) -> Iterator[str]:
    # Beam looks for `*.csv` in the directory named "", which there is none of.
    here = "./" if pattern and not is_remote(pattern) and not os.path.isabs(pattern) else ""
    for file in FileSystems.match([here + pattern])[0].metadata_list:
        path = file.path.removeprefix(here)
        # A pipe would be waited for without end.
        if is_remote(path) or os.path.isfile(path):
            yield path


def _kind(path: str) -> str:
    """What a path is that is no file, and what to do."""
    if not os.path.isdir(path):
        return "no regular file; write what it gives to a file, and name that."
    known = sorted({ending for ending in map(_ending, os.listdir(path)) if ending in _FORMATS})
    example = os.path.join(path, f"*{known[0] if known else '.jsonl'}")
    return f"a directory; name the files in it, as in --input={example!r}."


def _ending(path: str) -> str:
    """The ending that says the format, without that of a compression."""
    stem, ending = os.path.splitext(path.lower())
    return os.path.splitext(stem)[1] if ending in _CODECS else ending


def _archive(path: str, settings: ReadSettings) -> Archive:
    ending = _ending(path)
    if ending not in _FORMATS:
        raise ValueError(
            f"The input {path!r} has an ending that is not known; known are {', '.join(_FORMATS)}, "
            f"each also followed by {', '.join(_CODECS)}."
        )
    codec = _CODECS.get(os.path.splitext(path.lower())[1], "none")
    return Archive(path, _FORMATS[ending], codec, settings)


def read_archive(archive: Archive) -> Iterator[Item]:
    """Yield what is to be read of an archive, in its order: records, and failures of stage `read`.

    Nothing is raised: a file that cannot be opened, is not what its name says, or breaks off, ends with one
    `UNREADABLE_FILE` failure after the records before the break.
    """
    with closing(_read_all(archive)) as items:
        yield from items if archive.part is None else archive.part.of(items)


def _read_all(archive: Archive) -> Generator[Item, None, None]:
    # Rows are UTF-8, which a file's name need not be.
    path = archive.path.encode("utf-8", "backslashreplace").decode()
    last = ""
    try:
        with _opened(archive) as stream:
            for item in _read(archive, stream, path):
                yield item
                last = item.origin
    except Exception as error:
        where = f" past {last}" if last else ""
        reason = LFS_ADVICE if not last and _is_lfs_pointer(archive) else reason_of(error)
        yield read_failure(
            path,
            "UNREADABLE_FILE",
            f"The archive {path} could not be read{where}: {reason}.",
        )


def _is_lfs_pointer(archive: Archive) -> bool:
    with suppress(Exception), _opened(archive) as stream:
        return stream.read(len(LFS_POINTER)) == LFS_POINTER
    return False


def note_on(archive: Archive) -> str | None:
    """What a person should know about how an archive will be read, in one sentence; None without a surprise.

    Whatever is wrong with the file is for `read_archive` to say.
    """
    delimiter = archive.settings.csv_delimiter
    try:
        if archive.format == "csv" and delimiter is None:
            with _opened(archive) as stream:
                found = csv_layout(stream).delimiter
            if found != ",":
                return (
                    f"{archive.path} is read with {DELIMITERS.get(found, repr(found))} between its cells; "
                    "give --csv_delimiter for another."
                )
        if next(_read_all(archive), None) is None:
            return f"{archive.path} holds no record."
    except Exception:
        return None
    return None


@contextmanager
def _opened(archive: Archive) -> Iterator[BinaryIO]:
    """An archive's content, uncompressed and, where it is text, in UTF-8."""
    source = FileSystems.open(archive.path, compression_type=CompressionTypes.UNCOMPRESSED)
    with closing(source):
        stream = decompressed(source, archive.codec)
        if archive.format in _TEXT:
            stream = as_utf8(stream, archive.settings.encoding)
        yield stream


def _read(archive: Archive, stream: BinaryIO, path: str) -> Iterator[Item]:
    settings = archive.settings
    match archive.format:
        case "jsonlines":
            return read_json_lines(stream, path)
        case "json":
            return read_json_file(stream, path)
        case "csv":
            return read_csv(stream, path, settings.csv_delimiter)
        case "tsv":
            return read_csv(stream, path, settings.csv_delimiter or "\t")
        case "avro":
            return read_avro(stream, path, settings.text_fields)
        case "parquet":
            return read_parquet(stream, path, settings.text_fields)
        case "failures":
            return read_failure_rows(stream, path)


class ReadArchives(ReadItems[Archive]):
    """Archives → `records` (Record) and `failures` (Failure): the first leaves at once, none is kept.

    Args:
        archives: What to read, from `find_archives`.
        spread: Hand the archives, not their records, to different workers; their order is then any.
    """

    def __init__(self, archives: Sequence[Archive], spread: bool = False) -> None:
        super().__init__(archives, read_archive, spread)
