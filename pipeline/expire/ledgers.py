"""Ledgers without what Google Search found: those that the runs in a directory used."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from datetime import datetime

from groundrows.pipeline.expire.found import Found
from groundrows.pipeline.storage.output import ledger_in
from groundrows.pipeline.storage.summaries import every
from groundrows.pipeline.storage.uris import without_password
from groundrows.schemas.errors import LedgerError, UndecodableError, UsageError
from groundrows.schemas.expiring import check_without_facts, json_without_search, without_search
from groundrows.transforms.generate.ledger.base import Entry, Ledger
from groundrows.transforms.generate.ledger.uri import open_ledger

_SQLITE = "sqlite://"


@dataclass(frozen=True, slots=True)
class Expired:
    """What became of a ledger.

    Attributes:
        uri: Which one, without its password.
        responses: How many responses something was removed from.
        unreadable: How many old ones are left, since nobody can read them.
    """

    uri: str
    responses: int
    unreadable: int


def ledgers_of(directory: str, given: str | None) -> list[str]:
    """The URIs of the ledgers that runs in a directory used, as far as they are there.

    Args:
        directory: The directory, local or `gs://`.
        given: A ledger as a person named it, with its password if it has one.
    """
    own = ledger_in(directory)
    named = [own] if own is not None else []
    for summary in every(directory):
        flags = summary.get("flags")
        uri = flags.get("ledger") if isinstance(flags, dict) else None
        if isinstance(uri, str) and uri not in ("", "none"):
            named.append(uri)
    if given is not None:
        # It takes the place of its like, which a summary names without the password.
        named = [uri for uri in named if uri != without_password(given)] + [given]
    return [uri for uri in dict.fromkeys(named) if _is_there(uri)]


def _is_there(uri: str) -> bool:
    return not uri.startswith(_SQLITE) or os.path.exists(uri.removeprefix(_SQLITE))


def opened(uri: str) -> Ledger:
    """Open a ledger to change it.

    Raises:
        UsageError: It can't be used.
    """
    try:
        return open_ledger(uri)
    except LedgerError as error:
        raise UsageError(
            f"{str(error).rstrip('.')}. Where it needs a password, give it as --ledger=URI."
        ) from None


def expire_ledger(uri: str, ledger: Ledger, found: Found, mine: frozenset[datetime] | None) -> Expired:
    """Take what Google Search found out of a ledger's old responses, which still count as answered.

    Args:
        uri: Which ledger it is.
        ledger: It, open.
        found: The old answers that Google Search had a part in.
        mine: The times of the answers to which alone this may be done; None for all of the ledger.

    Raises:
        LedgerError: The ledger failed. To do it again does the rest.
    """
    work = _Clearing(found, mine)
    count = ledger.rewrite(work.changed)
    return Expired(without_password(uri), count, work.unreadable)


class _Clearing:
    def __init__(self, found: Found, mine: frozenset[datetime] | None) -> None:
        self._found = found
        self._mine = mine
        self.unreadable = 0

    def changed(self, entry: Entry) -> Entry | None:
        """The entry without what was found, or None where that changes nothing."""
        is_check = hash(entry.question_id) in self._found.whole
        if not is_check and entry.answered_at >= self._found.before:
            return None
        if self._mine is not None and entry.answered_at not in self._mine:
            return None
        try:
            new = self._cleared(entry, is_check)
        except UndecodableError:
            self.unreadable += 1
            return None
        return None if new == entry else new

    def _cleared(self, entry: Entry, is_check: bool) -> Entry:
        if is_check:
            # JSON beside a message repeats all of it.
            return replace(entry, response=check_without_facts(entry.response), unread_json=None)
        searched = entry.answered_at in self._found.times
        response = without_search(entry.response, searched=searched)
        unread = entry.unread_json
        if unread is not None:
            searched = searched or response != entry.response
            unread = json_without_search(unread, None, searched=searched)
        return replace(entry, response=response, unread_json=unread)
