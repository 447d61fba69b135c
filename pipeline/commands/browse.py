"""`groundrows browse`: serve all answers of a run, or of two, to a browser on this machine."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Sequence
from contextlib import suppress

from groundrows.pipeline.browse.server import serve
from groundrows.pipeline.browse.shelf import Shelf
from groundrows.pipeline.options.browse import parse_browse
from groundrows.pipeline.query.run import find_run
from groundrows.pipeline.storage.credentials import check_storage
from groundrows.schemas.errors import UsageError


def browse(argv: Sequence[str]) -> int:
    """Run the command; returns the exit code.

    Raises:
        UsageError: Something is wrong with the flags, or a run's files can't be read.
        PortInUseError: The port can't be had.
    """
    options = parse_browse(argv)
    check_storage([options.directory, options.earlier or ""])
    with tempfile.TemporaryDirectory(prefix="groundrows-browse-") as folder:
        run = find_run(options.directory, folder)
        earlier = None if options.earlier is None else find_run(options.earlier, folder)
        try:
            shelf = Shelf(run, earlier, _say)
        except OSError as error:
            raise UsageError(f"The index can't be kept: {error}; make room for it.") from None
        with shelf:
            asyncio.run(serve(shelf, options.port, lambda at: _ready(at, opens=not options.no_open)))
    return 0


def _say(what: str) -> None:
    print(f"Indexing: {what} …", file=sys.stderr, flush=True)


def _ready(address: str, *, opens: bool) -> None:
    print(f"ready on {address}", flush=True)
    if opens:
        # A browser may take its time, or there may be none.
        threading.Thread(target=_open, args=(address,), daemon=True).start()


def _open(address: str) -> None:
    with suppress(Exception):
        webbrowser.open(address)
