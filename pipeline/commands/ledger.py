"""`groundrows ledger`: shows what a ledger (the store of responses) holds, or exports it as an Avro file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import datetime
from typing import Any

from fastavro import parse_schema

from groundrows.pipeline.options.ledger import LedgerOptions, parse_ledger
from groundrows.pipeline.storage import file_systems
from groundrows.pipeline.storage.files import read_json
from groundrows.pipeline.storage.output import ledger_in
from groundrows.pipeline.storage.row_formats.known import FORMATS
from groundrows.pipeline.storage.summaries import RUN
from groundrows.pipeline.storage.uris import without_password
from groundrows.pipeline.storage.whole import written_whole
from groundrows.schemas.errors import LedgerError, UsageError
from groundrows.schemas.service import stored_json
from groundrows.transforms.generate.ledger.base import Ledger, ModelSummary
from groundrows.transforms.generate.ledger.uri import open_ledger
from groundrows.transforms.generate.settings import REDIS

_TIME = {"type": "long", "logicalType": "timestamp-micros"}
SCHEMA: Any = parse_schema(
    {
        "type": "record",
        "name": "ledger",
        "namespace": "groundrows",
        "doc": "One row for each response in the ledger.",
        "fields": [
            {"name": "question_id", "type": "string", "doc": "The ID of the question."},
            {"name": "turn_index", "type": "int", "doc": "The turn that it answers, counted from 0."},
            {
                "name": "model_id",
                "type": ["null", "string"],
                "doc": "The model that the request named; null when it named none.",
            },
            {"name": "asked_at", "type": _TIME, "doc": "When the successful call started."},
            {"name": "answered_at", "type": _TIME, "doc": "When its response was complete."},
            {"name": "latency_ms", "type": "double", "doc": "Milliseconds of the successful call alone."},
            {"name": "attempts", "type": "int", "doc": "Number of calls, the successful one included."},
            {
                "name": "response_json",
                "type": ["null", "string"],
                "doc": "The response in the API's JSON form; null when it can't be decoded.",
            },
            {"name": "response", "type": "bytes", "doc": "The response as it was received."},
        ],
    }
)


def ledger(argv: Sequence[str]) -> int:
    """Run the command; returns the exit code.

    Raises:
        UsageError: Something is wrong with the flags, or the ledger can't be read.
    """
    options = parse_ledger(argv)
    uri = uri_of(options.ledger)
    try:
        with closing(open_ledger(uri, read_only=True)) as opened:
            if options.export is None:
                _show(opened, uri, options)
            else:
                _say_exported(export(opened, options.export), options)
    except LedgerError as error:
        raise UsageError(str(error)) from None
    return 0


def uri_of(named: str) -> str:
    """Return the URI of the ledger that the user named by its URI, its path, or its run's directory.

    Raises:
        UsageError: There is no such ledger.
    """
    if named.startswith(("sqlite:///", *REDIS)):
        return named
    if os.path.isdir(named):
        return _of_run(named)
    if os.path.isfile(named):
        return f"sqlite://{os.path.abspath(named)}"
    raise UsageError(
        f"No ledger is named by {without_password(named)}: write sqlite:///PATH or redis://HOST:PORT/DB, or "
        "name the --output of a run on this machine."
    )


def _of_run(directory: str) -> str:
    """Return the URI of the ledger that the last run in a local directory used."""
    try:
        flags = (read_json(os.path.join(directory, RUN)) or {}).get("flags") or {}
        given = flags.get("ledger")
    except (ValueError, AttributeError, OSError):
        given = None
    if given == "none":
        raise UsageError(f"The run in {directory} had no ledger (--ledger=none): name another run.")
    if isinstance(given, str) and "***" in given:
        raise UsageError(f"The ledger of the run in {directory} has a password: give it as --ledger=URI.")
    uri = given or ledger_in(directory) or ""
    if uri.startswith("sqlite://") and not os.path.exists(uri.removeprefix("sqlite://")):
        raise UsageError(
            f"The directory {directory} has no ledger: name the --output of a run, or give --ledger=URI."
        )
    return uri


def export(ledger: Ledger, path: str) -> int:
    """Write every entry to an Avro file, which appears when it is complete; return the number of entries.

    Raises:
        UsageError: The file exists already, or can't be written.
        LedgerError: The ledger can't be read to its end. The file does not appear then.
    """
    if file_systems.exists(path):
        raise UsageError(f"--export={path} exists already: name another file, or remove it first.")
    count = 0
    try:
        with written_whole(path) as file:
            writer = FORMATS["avro"].writer(file, SCHEMA)
            for row in _rows(ledger):
                writer.write_values(row)
                count += 1
            writer.close()
    except OSError as error:
        raise UsageError(f"--export={path} can't be written: {error}; name another file.") from None
    return count


def _rows(ledger: Ledger) -> Iterator[dict[str, Any]]:
    for entry in ledger.entries():
        yield {
            "question_id": entry.question_id,
            "turn_index": entry.turn_index,
            "model_id": entry.model_id or None,
            "asked_at": entry.asked_at,
            "answered_at": entry.answered_at,
            "latency_ms": entry.latency_ms,
            "attempts": entry.attempts,
            "response_json": stored_json(entry.response),
            "response": entry.response,
        }


def _show(ledger: Ledger, uri: str, options: LedgerOptions) -> None:
    found = what_it_holds(ledger.summary(), uri)
    print(json.dumps(found, indent=2, ensure_ascii=False) if options.as_json else for_people(found))


def _say_exported(count: int, options: LedgerOptions) -> None:
    if options.as_json:
        print(json.dumps({"entries": count, "file": options.export}, ensure_ascii=False))
    else:
        print(f"{count:,} responses exported to {options.export}")


def what_it_holds(models: Sequence[ModelSummary], uri: str) -> dict[str, Any]:
    """Return what `--json` prints. Times say when a call started (ISO 8601, UTC); sizes are stored bytes."""
    return {
        "ledger": without_password(uri),
        "entries": sum(model.entries for model in models),
        "stored_bytes": sum(model.stored_bytes for model in models),
        "oldest": _iso(min((model.oldest for model in models if model.oldest), default=None)),
        "newest": _iso(max((model.newest for model in models if model.newest), default=None)),
        "models": [
            {
                "model_id": model.model_id or None,
                "entries": model.entries,
                "stored_bytes": model.stored_bytes,
                "oldest": _iso(model.oldest),
                "newest": _iso(model.newest),
            }
            for model in models
        ],
    }


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def for_people(found: dict[str, Any]) -> str:
    """Say in a few lines what a ledger holds."""
    lines = [f"{found['ledger']} holds {_line(found)}"]
    lines += [f"  {model['model_id'] or '(the service chose)'}: {_line(model)}" for model in found["models"]]
    return "\n".join(lines)


def _line(found: dict[str, Any]) -> str:
    line = f"{found['entries']:,} responses, {found['stored_bytes']:,} bytes"
    return f"{line}, asked from {found['oldest']} to {found['newest']}" if found["entries"] else line
