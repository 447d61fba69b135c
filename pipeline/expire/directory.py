"""A run's directory without what Google Search found in old answers: its rows first, and then its ledgers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from os.path import isdir

from groundrows.pipeline.expire.found import UNREADABLE, find
from groundrows.pipeline.expire.ledgers import Expired, expire_ledger, ledgers_of, opened
from groundrows.pipeline.expire.rows import CLEARED, expire_file
from groundrows.pipeline.storage import file_systems
from groundrows.pipeline.storage.files import check_name, remove_directory
from groundrows.pipeline.storage.indexes import room_of, sweep
from groundrows.pipeline.storage.output import STAGING, is_under_way, ledger_in, locked
from groundrows.pipeline.storage.row_files import columns_of, readable_rows, row_files
from groundrows.pipeline.storage.summaries import PRIVATE
from groundrows.pipeline.storage.uris import is_remote
from groundrows.schemas.errors import UsageError

_HALF = "half.expired"


@dataclass(frozen=True, slots=True)
class Removed:
    """What was removed from a directory.

    Attributes:
        tables: By table the number of `rows` that changed, and of what was removed by kind.
        ledgers: What became of each ledger.
    """

    tables: Mapping[str, Counter[str]]
    ledgers: tuple[Expired, ...]


def expire(directory: str, before: datetime, ledger: str | None = None) -> Removed:
    """Remove what Google Search found from answers of before a moment.

    Each file changes all at once. Stopped in between, the same call does the rest.

    Args:
        directory: The `--output` of runs, local or `gs://`.
        before: The moment, UTC.
        ledger: A ledger that runs there used, with its password; None for those that their summaries name.

    Raises:
        UsageError: There is no such directory, a run is under way there, somebody browses it, or a file or a
            ledger can't be read.
        LedgerError: A ledger failed.
    """
    with _taken(directory), ExitStack() as stack:
        # An index repeats texts of the rows, and is made anew when somebody browses them again.
        if not sweep(room_of(directory)):
            raise UsageError(f"Somebody browses {directory}: end `groundrows browse` first.")
        uris = ledgers_of(directory, ledger)
        # Whoever can't be reached is found out before anything is changed.
        ledgers = {uri: stack.enter_context(closing(opened(uri))) for uri in uris}
        files = {table: row_files(_within(directory, table)) for table in CLEARED}
        found = find(files["support_chunks"], before)
        own = ledger_in(directory)
        mine = frozenset(_times(files)) if set(uris) - {own} else frozenset()
        tables = {
            table: sum((expire_file(path, table, found, _half(directory)) for path in paths), Counter())
            for table, paths in files.items()
        }
        done = [
            expire_ledger(uri, each, found, None if uri == own else mine) for uri, each in ledgers.items()
        ]
    return Removed(tables, tuple(done))


@contextmanager
def _taken(directory: str) -> Iterator[None]:
    """Keep runs out of the directory meanwhile, and what a run that was stopped had begun.

    Raises:
        UsageError: A run is under way there.
    """
    if not is_remote(directory) and not isdir(directory):
        raise UsageError(f"There is no directory {directory}: name the --output of a run.")
    try:
        check_name(directory)
    except ValueError as error:
        raise UsageError(f"The directory {directory} can't be used: {error}; name another one.") from None
    busy = f"A run is under way in {directory}: wait until it has ended."
    with locked(directory, busy):
        # On gs:// nothing says whether a run that was begun is still alive.
        if is_remote(directory) and is_under_way(directory):
            raise UsageError(f"A run was begun in {directory} and has not finished: let it finish first.")
        remove_directory(_within(directory, PRIVATE, STAGING))
        yield


def _within(directory: str, *names: str) -> str:
    return str(file_systems.join(directory, *names))


def _half(directory: str) -> str:
    return _within(directory, PRIVATE, _HALF)


def _times(files: Mapping[str, list[str]]) -> Iterator[datetime]:
    """When the answers and the checks of a directory came: by that a ledger's entries are known as theirs."""
    for table, column in (("answers", "answered_at"), ("grounding_checks", "checked_at")):
        for row in readable_rows(files[table], columns_of(table, column), UNREADABLE):
            yield row[column]
