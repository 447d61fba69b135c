"""`groundrows expire`: removes what Google Search found from old answers. The answers themselves stay."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from groundrows.pipeline.expire.directory import Removed
from groundrows.pipeline.expire.directory import expire as remove
from groundrows.pipeline.expire.rows import KINDS
from groundrows.pipeline.options.expire import parse_expire
from groundrows.pipeline.storage.credentials import check_storage
from groundrows.schemas.errors import LedgerError, UsageError

_SHOWN = {
    "links": "links",
    "search_suggestions": "search suggestions",
    "chunk_texts": "chunk texts",
    "responses": "parts of stored requests and responses",
}


def expire(argv: Sequence[str]) -> int:
    """Run the command; returns the exit code.

    Raises:
        UsageError: Something is wrong with the flags, the directory or a ledger.
    """
    options = parse_expire(argv)
    assert options.older_than is not None
    check_storage([options.directory])
    before = datetime.now(UTC) - options.older_than
    try:
        removed = remove(options.directory, before, options.ledger)
    except LedgerError as error:
        raise UsageError(f"{str(error).rstrip('.')}. The same command does the rest.") from None
    said = told(options.directory, before, removed)
    print(json.dumps(said, indent=2, ensure_ascii=False) if options.as_json else for_people(said))
    return 0


def told(directory: str, before: datetime, removed: Removed) -> dict[str, Any]:
    """Return what `--json` prints: the changed rows of each table and responses of each ledger."""
    return {
        "directory": directory,
        "before": before.isoformat(),
        "tables": {
            table: {"rows": counted["rows"]} | {kind: counted[kind] for kind in KINDS if counted[kind]}
            for table, counted in removed.tables.items()
        },
        "ledgers": [
            {"ledger": each.uri, "responses": each.responses, "unreadable": each.unreadable}
            for each in removed.ledgers
        ],
    }


def for_people(said: dict[str, Any]) -> str:
    """Say in a few lines what was removed."""
    lines = [
        f"Removed what Google Search found from answers of before {said['before']} in {said['directory']}:"
    ]
    for table, counted in said["tables"].items():
        kinds = ", ".join(f"{counted[kind]:,} {name}" for kind, name in _SHOWN.items() if counted.get(kind))
        lines.append(f"  {table}: {counted['rows']:,} rows changed{': ' + kinds if kinds else ''}")
    for ledger in said["ledgers"]:
        lines.append(f"  ledger {ledger['ledger']}: {ledger['responses']:,} responses changed")
        if ledger["unreadable"]:
            lines.append(f"    {ledger['unreadable']:,} old ones are left as they are: they can't be read")
    return "\n".join(lines)
