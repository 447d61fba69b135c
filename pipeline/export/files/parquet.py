"""Parquet, with the types of the rows."""

from __future__ import annotations

from typing import BinaryIO

import pyarrow.parquet as pq

from groundrows.pipeline.export.sheet import Sheet


def write(sheet: Sheet, file: BinaryIO) -> int:
    """Write the rows; return their number."""
    count = 0
    with pq.ParquetWriter(file, sheet.schema, compression="zstd") as writer:
        for batch in sheet.read():
            writer.write_batch(batch)
            count += batch.num_rows
    return count
