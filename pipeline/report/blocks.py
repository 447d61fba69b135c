"""Whether an Avro file is whole: polars leaves out a last block that is cut, without a word."""

from __future__ import annotations

import os
from typing import cast

from fastavro import parse_schema, schemaless_reader

# How the specification of Avro's files says that they begin.
_HEADER = parse_schema(
    {
        "type": "record",
        "name": "org.apache.avro.file.Header",
        "fields": [
            {"name": "magic", "type": {"type": "fixed", "name": "Magic", "size": 4}},
            {"name": "meta", "type": {"type": "map", "values": "bytes"}},
            {"name": "sync", "type": {"type": "fixed", "name": "Sync", "size": 16}},
        ],
    }
)


def check_whole(path: str) -> None:
    """Check that every block of an Avro file is there, by their headers, which takes no time.

    Raises:
        ValueError: The file breaks off.
    """
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        sync = cast(dict[str, bytes], schemaless_reader(file, _HEADER, None))["sync"]
        while file.tell() < size:
            schemaless_reader(file, "long", None)  # the number of its rows
            file.seek(cast(int, schemaless_reader(file, "long", None)), os.SEEK_CUR)
            if file.read(len(sync)) != sync:
                raise ValueError("it breaks off, or is damaged")
