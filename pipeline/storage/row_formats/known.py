"""The formats in which rows can be stored. CONTRIBUTING.md shows how to add one."""

from __future__ import annotations

from groundrows.pipeline.storage.row_formats.avro import Avro
from groundrows.pipeline.storage.row_formats.parquet import Parquet
from groundrows.pipeline.storage.row_formats.seam import RowFormat

FORMATS: dict[str, RowFormat] = {each.name: each for each in (Avro(), Parquet())}
"""The formats by name."""


def format_of(path: str) -> RowFormat:
    """Return the format of a row file, which the end of its name tells.

    Raises:
        ValueError: The name has no known suffix.
    """
    for each in FORMATS.values():
        if path.endswith(each.suffix):
            return each
    known = ", ".join(each.suffix for each in FORMATS.values())
    raise ValueError(f"{path} is not a row file: its name must end with one of {known}")
