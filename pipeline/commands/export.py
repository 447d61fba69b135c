"""`groundrows export`: writes a run's rows as a file for spreadsheets and other programs."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import closing

import duckdb

from groundrows.pipeline.browse.exported import join_verdicts
from groundrows.pipeline.export.failures import records
from groundrows.pipeline.export.files.known import WRITERS
from groundrows.pipeline.export.flat import flat
from groundrows.pipeline.export.sheet import Sheet, queried
from groundrows.pipeline.export.tables import filtered, load, load_failed
from groundrows.pipeline.options.export import ExportOptions, parse_export
from groundrows.pipeline.query.run import find_run, opened
from groundrows.pipeline.storage.credentials import check_storage
from groundrows.pipeline.storage.whole import check_output, writing_output, written_whole
from groundrows.schemas.errors import UsageError

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def export(argv: Sequence[str]) -> int:
    """Run the command; return the exit code.

    Raises:
        UsageError: A flag is wrong, a file of the run can't be read, or the new file can't be written.
    """
    options = parse_export(argv)
    check_storage([options.directory, options.file])
    check_output(options.file)
    with tempfile.TemporaryDirectory(prefix="groundrows-export-") as folder, closing(opened(folder)) as db:
        count = _write(options, _sheet(db, options, folder))
    print(f"{options.file}: {count:,} {'row' if count == 1 else 'rows'}")
    return 0


def _sheet(db: duckdb.DuckDBPyConnection, options: ExportOptions, folder: str) -> Sheet:
    db.execute("SET preserve_insertion_order = true")
    db.execute("SET TimeZone = 'UTC'")
    run = find_run(options.directory, folder)
    if options.table == "failures":
        load_failed(db, run, folder)
        return records(db, filtered(db, "SELECT * FROM failures", options.where))
    load(db, run, options.table, folder)
    if options.table == "answers":
        join_verdicts(db, options.directory)
    if options.flat:
        load(db, run, "support_chunks", folder)
    query = flat(db) if options.flat else f"SELECT * FROM {options.table}"
    return queried(db, options.table, filtered(db, query, options.where))


def _write(options: ExportOptions, sheet: Sheet) -> int:
    with writing_output(options.file), written_whole(options.file) as file:
        if options.byte_order_mark:
            file.write(_BYTE_ORDER_MARK)
        try:
            return WRITERS[options.format](sheet, file)
        except duckdb.Error as error:
            said = " ".join(str(error).split())
            raise UsageError(f"The rows can't be exported: {said}.") from None
