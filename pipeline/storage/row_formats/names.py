"""The names of the formats of row files. Whoever needs no more than the names loads no library for them."""

from __future__ import annotations

AVRO = "avro"
PARQUET = "parquet"
NAMES = (AVRO, PARQUET)
DEFAULT = AVRO
