"""Finds one example failure for each failure code of a run."""

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
    """The first failure row found with a code.

    The three texts come from the data, so they are escaped before they are printed.
    """

    code: str
    origin: str
    message: str

    def line(self) -> str:
        """Return the example as one line that is safe to print."""
        return f"{cut(self.code)}, as {cut(self.origin)}: {cut(self.message)}"


def failure_examples(where: Output, counts: Mapping[str, int]) -> list[Example]:
    """Return one example for each of the `MOST` most frequent codes, the most frequent first.

    Args:
        where: The directory, with the run's files under their final names. Files of earlier runs are
            not read.
        counts: How many failure rows the run wrote, by code.
    """
    wanted = sorted(counts, key=lambda code: (-counts[code], code))[:MOST]
    found: dict[str, Example] = {}
    kept = set(where.kept_files)
    files = [path for path in where.table_files("failures") if path not in kept]
    # A missing example must not fail the run. Where the rows are counted, an unreadable file is reported.
    with suppress(UsageError):
        for row in readable_rows(files, _COLUMNS):
            if len(found) == len(wanted):
                break
            if row["code"] in wanted:
                found.setdefault(row["code"], Example(row["code"], row["origin"], row["message"]))
    return [found[code] for code in wanted if code in found]
