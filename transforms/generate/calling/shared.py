"""The engines of a process. Steps with equal settings share an engine."""

from __future__ import annotations

import threading
from collections.abc import Callable

from groundrows.schemas.service import Method
from groundrows.transforms.generate.calling.engine import Engine
from groundrows.transforms.generate.clients.base import Client
from groundrows.transforms.generate.pacing.base import Pacer
from groundrows.transforms.generate.settings import CallSettings

_lock = threading.Lock()
_engines: dict[object, Engine] = {}
_users: dict[Engine, int] = {}
# The engines that a signal stopped; the last message says how many answers they stored.
_stopped: list[Engine] = []

ClientOf = Callable[[CallSettings], Client]
PacerOf = Callable[[CallSettings], Pacer]


def acquire(settings: CallSettings, client_of: ClientOf, pacer_of: PacerOf, *, anew: bool = False) -> Engine:
    """Return the process's engine for these settings; the first caller creates it. Pair with `release`.

    Args:
        settings: The settings of the calls.
        client_of: Makes the client that calls the service.
        pacer_of: Makes a shard's pacer.
        anew: Whether to replace an engine that has stopped calling by a new one.

    Raises:
        SetupError: Credentials are missing.
        LedgerError: The ledger can't be used.
    """
    key = (settings, client_of, pacer_of)
    with _lock:
        engine = _engines.get(key)
        if engine is None or (anew and engine.halt.reason is not None):
            engine = _engines[key] = Engine(settings, client_of, pacer_of)
        _users[engine] = _users.get(engine, 0) + 1
        return engine


def release(engine: Engine) -> None:
    """Stop using an engine. The last user closes it."""
    with _lock:
        _users[engine] -= 1
        if _users[engine]:
            return
        del _users[engine]
        for key in [key for key, value in _engines.items() if value is engine]:
            del _engines[key]
    engine.close()


def running() -> list[Engine]:
    """Return the engines of this process."""
    # Without the lock: a signal's handler calls this, and may have interrupted the thread that holds it.
    return list(_users)


def stop_calling() -> int:
    """Stop the calls of all engines of this process; see `Engine.stop_calling`.

    Returns:
        The number of calls in flight to wait for.
    """
    _stopped.extend(running())
    return sum(engine.stop_calling() for engine in running())


def stored(method: Method) -> int | None:
    """Return the number of answers that the stopped engines of this method stored; None without any."""
    ended = [engine.stored for engine in _stopped if engine.settings.method == method]
    return sum(ended) if ended else None


def answered(method: Method) -> int:
    """Questions that engines of this method had an answer to when `stop_calling` ended them."""
    return sum(engine.answered for engine in _stopped if engine.settings.method == method)


def halt_calling(reason: str) -> None:
    """Stop the calls of all engines of this process, and end waiting questions; see `Engine.halt_calling`."""
    for engine in running():
        engine.halt_calling(reason)
