"""Archives of question records, from their names to records with an origin."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import BinaryIO, Literal

import apache_beam as beam
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics import Metrics

from groundrows.pipeline.sources.formats.avro_rows import read_avro
from groundrows.pipeline.sources.formats.codecs import Codec, decompressed
from groundrows.pipeline.sources.formats.csv_rows import read_csv
from groundrows.pipeline.sources.formats.failure_rows import read_failure_rows
from groundrows.pipeline.sources.formats.items import Item, read_failure, reason_of
from groundrows.pipeline.sources.formats.jsonlines import read_json_file, read_json_lines
from groundrows.pipeline.sources.formats.parquet_rows import read_parquet
from groundrows.pipeline.storage.files import cause_of
from groundrows.schemas.record import Record

Format = Literal["jsonlines", "json", "csv", "avro", "parquet", "failures"]

RECORDS = "records"
FAILURES = "failures"

_FORMATS: dict[str, Format] = {
    ".jsonl": "jsonlines",
    ".ndjson": "jsonlines",
    ".json": "json",
    ".csv": "csv",
    ".avro": "avro",
    ".parquet": "parquet",
}
_CODECS: dict[str, Codec] = {".gz": "gzip", ".bz2": "bzip2", ".zst": "zstd"}
_READERS: dict[Format, Callable[[BinaryIO, str], Iterator[Item]]] = {
    "jsonlines": read_json_lines,
    "json": read_json_file,
    "csv": read_csv,
    "avro": read_avro,
    "parquet": read_parquet,
    "failures": read_failure_rows,
}


@dataclass(frozen=True, slots=True)
class Archive:
    """A file of question records: its path (local or `gs://`), and what its name says about the content.

    Files of the failures table have no ending of their own: only a replay reads those for their records.
    """

    path: str
    format: Format
    codec: Codec


def find_archives(patterns: Sequence[str]) -> list[Archive]:
    """The files that `patterns` match, each once, sorted by path.

    A pattern is Beam's: `*` stops at a slash, `**` does not. One that is itself a file's name stands for
    that file, whatever brackets it holds.

    Raises:
        ValueError: a pattern matches nothing or cannot be looked up, or a file's ending is not known.
    """
    paths = sorted({path for pattern in patterns for path in _match(pattern)})
    # The same local file can be reached by several paths; the first of them stands for it.
    distinct = {path if "://" in path else os.path.realpath(path): path for path in reversed(paths)}
    return [_archive(path) for path in sorted(distinct.values())]


def _match(pattern: str) -> list[str]:
    # Beam looks for `*.csv` in the directory named "", which there is none of.
    here = "./" if pattern and "://" not in pattern and not os.path.isabs(pattern) else ""
    try:
        paths = [
            file.path.removeprefix(here) for file in FileSystems.match([here + pattern])[0].metadata_list
        ]
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


def _archive(path: str) -> Archive:
    stem, ending = os.path.splitext(path.lower())
    codec = _CODECS.get(ending, "none")
    if codec != "none":
        ending = os.path.splitext(stem)[1]
    if ending not in _FORMATS:
        raise ValueError(
            f"The input {path!r} has an ending that is not known; known are {', '.join(_FORMATS)}, "
            f"each also followed by {', '.join(_CODECS)}."
        )
    return Archive(path, _FORMATS[ending], codec)


def read_archive(archive: Archive) -> Iterator[Item]:
    """Yield what an archive holds, in its order, as records and failures of stage `read`. Never raises.

    A file that cannot be opened, is not what its name says, or breaks off, ends with one `UNREADABLE_FILE`
    failure after the records before the break.
    """
    # Rows are UTF-8, which a file's name need not be.
    path = archive.path.encode("utf-8", "backslashreplace").decode()
    last = ""
    try:
        source = FileSystems.open(archive.path, compression_type=CompressionTypes.UNCOMPRESSED)
        with closing(source):
            for item in _READERS[archive.format](decompressed(source, archive.codec), path):
                yield item
                last = item.origin
    except Exception as error:
        where = f" past {last}" if last else ""
        yield read_failure(
            path,
            "UNREADABLE_FILE",
            f"The archive {path} could not be read{where}: {reason_of(error)}.",
        )


class ReadArchives(beam.PTransform):
    """Archives → `records` (Record) and `failures` (Failure): the first leaves at once, none is kept.

    Args:
        archives: What to read, from `find_archives`.
        spread: Hand the archives, not their records, to different workers; their order is then any.
    """

    def __init__(self, archives: Sequence[Archive], spread: bool = False) -> None:
        super().__init__()
        self._archives = list(archives)
        self._spread = spread

    def expand(self, root: beam.pvalue.PBegin) -> beam.pvalue.DoOutputsTuple:
        """Give the two outputs, by name."""
        return (
            root
            | "Archives" >> beam.Create(self._archives, reshuffle=self._spread)
            | "Read" >> beam.ParDo(_ReadArchive()).with_outputs(FAILURES, main=RECORDS)
        )


class _ReadArchive(beam.DoFn):
    def __init__(self) -> None:
        self._records_read = Metrics.counter("groundrows", "records_read")

    def process(self, archive: Archive) -> Iterator[Record | beam.pvalue.TaggedOutput]:
        for item in read_archive(archive):
            self._records_read.inc()
            yield item if isinstance(item, Record) else beam.pvalue.TaggedOutput(FAILURES, item)
