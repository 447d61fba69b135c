"""The formats in which rows can be stored. CONTRIBUTING.md shows how to add one."""

from __future__ import annotations

from groundrows.pipeline.storage.row_formats.avro import Avro
from groundrows.pipeline.storage.row_formats.seam import RowFormat

FORMATS: dict[str, RowFormat] = {each.name: each for each in (Avro(),)}
"""The formats by name."""

DEFAULT = "avro"


def format_of(path: str) -> RowFormat:
    """The format of a row file, by the end of its name.

    Raises:
        ValueError: No format's files are named so.
    """
    for each in FORMATS.values():
        if path.endswith(each.suffix):
            return each
    raise ValueError(f"{path} is no row file: none of {', '.join(each.suffix for each in FORMATS.values())}")
