"""The file formats by name. The name is also the end of the files' names."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

from groundrows.pipeline.export.files import csv, jsonl, parquet, xlsx
from groundrows.pipeline.export.sheet import Sheet

Write = Callable[[Sheet, BinaryIO], int]
"""A function that writes a sheet into an open file and returns the number of rows."""

WRITERS: dict[str, Write] = {
    "csv": csv.write,
    "xlsx": xlsx.write,
    "parquet": parquet.write,
    "jsonl": jsonl.write,
}
