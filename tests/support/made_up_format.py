"""A format of row files that only tests know: each row is pickled. It shows that the seam needs no more."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import polars as pl

from groundrows.schemas.rows import Row, encode
from tests.support.read_back import as_read


class Pickled:
    """The format `pickled`."""

    name = "pickled"
    suffix = ".rows.pickle"

    def writer(self, file: BinaryIO, schema: Mapping[str, Any]) -> PickledWriter:
        return PickledWriter(file, [field["name"] for field in schema["fields"]])

    def read(self, file: BinaryIO, columns: Mapping[str, Any] | None = None) -> Iterator[dict[str, Any]]:
        rows: list[dict[str, Any]] = pickle.load(file)["rows"]
        for row in rows:
            if columns is None:
                yield row
            else:
                yield {
                    field["name"]: row.get(field["name"], field.get("default")) for field in columns["fields"]
                }

    def count(self, file: BinaryIO) -> int:
        return len(pickle.load(file)["rows"])

    def check_whole(self, path: str) -> None:
        if not os.path.getsize(path):
            raise ValueError("it is empty")

    def scan(self, path: str, batch_rows: int) -> pl.LazyFrame:
        with open(path, "rb") as file:
            found = pickle.load(file)
        return pl.LazyFrame(found["rows"], schema=None if found["rows"] else found["names"])


class PickledWriter:
    def __init__(self, file: BinaryIO, names: list[str]) -> None:
        self._file = file
        self._found: dict[str, Any] = {"names": names, "rows": []}

    def write(self, row: Row) -> None:
        encode(row)  # which checks it
        self.write_values(as_read(row))

    def write_values(self, values: Mapping[str, Any]) -> None:
        self._found["rows"].append(dict(values))

    def close(self) -> None:
        pickle.dump(self._found, self._file)
