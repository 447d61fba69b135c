"""A source that only tests know: `--input=3` asks three questions. It shows that the seam needs no more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam

from groundrows.pipeline.options.run import RunOptions
from groundrows.pipeline.sources.formats.items import Item, read_failure
from groundrows.pipeline.sources.seam import FAILURES, RECORDS, ReadItems
from groundrows.schemas.errors import UsageError
from groundrows.schemas.record import Record


@dataclass(frozen=True)
class Numbers:
    count: int
    paths: tuple[str, ...] = ()
    bounded: bool = True

    def check(self) -> None:
        if self.count < 1:
            raise UsageError(f"--input={self.count} asks nothing: give a larger number.")

    def notes(self) -> Iterator[str]:
        yield f"There are {self.count} numbers."

    def items(self) -> Iterator[Item]:
        return (item for number in range(self.count) for item in asked(number))

    def read(self, pipeline: beam.Pipeline, *, spread: bool) -> tuple[Any, Any]:
        read = pipeline | "Read" >> ReadItems(range(self.count), asked, spread)
        return read[RECORDS], read[FAILURES]


def asked(number: int) -> Iterator[Item]:
    if number == 13:
        yield read_failure("numbers:13", "UNLUCKY", "Nobody asks about 13.")
    else:
        yield Record(json.dumps({"question": f"What is {number}?"}).encode(), f"numbers:{number}")


def numbers_of(options: RunOptions) -> Numbers:
    return Numbers(int(options.inputs[0]))
