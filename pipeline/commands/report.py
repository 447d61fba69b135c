"""`groundrows report`: reads a run, and writes one web page about it."""

from __future__ import annotations

import sys
import tempfile
import webbrowser
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from groundrows.pipeline.options.report import parse_report
from groundrows.pipeline.query.run import find_run, opened
from groundrows.pipeline.report.document import page
from groundrows.pipeline.report.gather import gather
from groundrows.pipeline.report.read import narrow
from groundrows.pipeline.storage.credentials import check_storage
from groundrows.pipeline.storage.whole import check_output, write_whole, writing_output


def report(argv: Sequence[str]) -> int:
    """Run the command; return the exit code.

    Raises:
        UsageError: A flag is wrong, a file of the run can't be read, or the page can't be written.
    """
    options = parse_report(argv)
    check_storage([options.directory, options.earlier or "", options.page])
    check_output(options.page)
    with tempfile.TemporaryDirectory(prefix="groundrows-report-") as folder, closing(opened(folder)) as db:
        run = find_run(options.directory, folder)
        earlier = None if options.earlier is None else find_run(options.earlier, folder)
        narrow(db, run, "this", folder)
        if earlier is not None:
            narrow(db, earlier, "earlier", folder)
        text = page(gather(db, options, run, earlier))
    size = write(options.page, text)
    print(f"{options.page}: {size / 1e6:.1f} MB; open it in any browser")
    if options.open_page and not webbrowser.open(Path(options.page).absolute().as_uri()):
        print(f"No browser was found here: open {options.page} yourself.", file=sys.stderr)
    return 0


def write(path: str, text: str) -> int:
    """Write the page, which appears only when it is complete; return its size in bytes.

    Raises:
        UsageError: It can't be written.
    """
    data = text.encode("utf-8", "backslashreplace")  # a directory's name may not be valid UTF-8
    with writing_output(path):
        write_whole(path, data)
    return len(data)
