"""One example for each reason for which records of a run failed."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from groundrows.pipeline.run.shown import cut
from groundrows.pipeline.storage.output import Output
from groundrows.pipeline.storage.row_files import columns_of, readable_rows
from groundrows.schemas.errors import UsageError

MOST = 10
_COLUMNS = columns_of("failures", "code", "message", "origin")


@dataclass(frozen=True, slots=True)
class Example:
    """The first failure row of a code that was found: what failed, where, and why. All of it is data."""

    code: str
    origin: str
    message: str

    def line(self) -> str:
        """It on one line, fit for a terminal."""
        return f"{cut(self.code)}, as {cut(self.origin)}: {cut(self.message)}"


def failure_examples(where: Output, counts: Mapping[str, int]) -> list[Example]:
    """An example for each code, those of the most frequent codes first, and not of more than `MOST` codes.

    Args:
        where: The directory, with the run's files under their final names; earlier runs' are left out.
        counts: How many failure rows the run wrote, by code.
    """
    wanted = sorted(counts, key=lambda code: (-counts[code], code))[:MOST]
    found: dict[str, Example] = {}
    kept = set(where.kept_files)
    files = [path for path in where.table_files("failures") if path not in kept]
    # A run is not lost for an example: what is wrong with a file is said where its rows are counted.
    with suppress(UsageError):
        for row in readable_rows(files, _COLUMNS):
            if len(found) == len(wanted):
                break
            if row["code"] in wanted:
                found.setdefault(row["code"], Example(row["code"], row["origin"], row["message"]))
    return [found[code] for code in wanted if code in found]
