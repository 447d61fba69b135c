"""Warnings before the first call when the first records of an archive suggest that a flag is wrong.

All of them fail for the same reason, or none of them has reference answers. The warning tells the user at the
start of the run rather than at its end.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import islice

from groundrows.pipeline.run.shown import cut
from groundrows.pipeline.sources.formats.items import Item
from groundrows.schemas.check import CheckSettings
from groundrows.schemas.outcome import Failure
from groundrows.schemas.question import Question, RecordSettings
from groundrows.schemas.record import Record
from groundrows.transforms.parse import parse_record

LOOKED_AT = 100
# A run with fewer records ends so soon that its summary is early enough.
LEAST = 10
MOST_FIELDS = 30


def common_failure(items: Iterable[Item], records: RecordSettings | CheckSettings) -> str | None:
    """Return why the first records all fail and which fields they have, or None when one of them is valid.

    Args:
        items: The records that the run reads.
        records: How the run reads them.
    """
    failures: list[Failure] = []
    for item in islice(items, LOOKED_AT):
        parsed = parse_record(item, records) if isinstance(item, Record) else item
        if not isinstance(parsed, Failure) or parsed.code != (failures or [parsed])[0].code:
            return None
        failures.append(parsed)
    if len(failures) < LEAST:
        return None
    first = failures[0]
    return (
        f"The first {len(failures)} records all fail for one reason, {first.code}, as {cut(first.origin)}: "
        f"{cut(first.message)}.{_fields(first.record)}"
    )


def no_references(items: Iterable[Item], records: RecordSettings | CheckSettings) -> str | None:
    """Say that the first records have no reference answers though `--reference_field` names a field.

    None where one of them has some, or where no field is named.
    """
    if isinstance(records, CheckSettings) or records.reference_field is None:
        return None
    asked: list[Question] = []
    for item in islice(items, LOOKED_AT):
        parsed = parse_record(item, records) if isinstance(item, Record) else item
        if isinstance(parsed, Question):
            if parsed.references:
                return None
            asked.append(parsed)
    if not asked:
        return None
    return (
        f"None of the first {len(asked)} questions has a reference answer in "
        f"--reference_field={cut(records.reference_field)}.{_fields(asked[0].record)}"
    )


def _fields(body: bytes) -> str:
    try:
        record = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(record, dict) or not record:
        return ""
    names = [cut(name, 60) for name in record]
    more = ", …" if len(names) > MOST_FIELDS else ""
    return f" The fields of that record are {', '.join(names[:MOST_FIELDS])}{more}."
