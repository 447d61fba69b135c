"""Engines shared by a process: equal settings, one engine."""

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
# Those that a signal stopped, for what is said of them at the end.
_stopped: list[Engine] = []

ClientOf = Callable[[CallSettings], Client]
PacerOf = Callable[[CallSettings], Pacer]


def acquire(settings: CallSettings, client_of: ClientOf, pacer_of: PacerOf, *, anew: bool = False) -> Engine:
    """The process's engine for these settings; made by whoever asks first. Pair with `release`.

    Args:
        settings: How to call.
        client_of: Makes the backend.
        pacer_of: Makes a shard's pacer.
        anew: Whether one that has stopped calling is followed by a new one.

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
    """One user less; the last one closes it."""
    with _lock:
        _users[engine] -= 1
        if _users[engine]:
            return
        del _users[engine]
        for key in [key for key, value in _engines.items() if value is engine]:
            del _engines[key]
    engine.close()


def running() -> list[Engine]:
    """The engines of this process, for a display of progress."""
    # Not under the lock: a signal's handler asks too, and may have interrupted whoever holds it.
    return list(_users)


def stop_calling() -> int:
    """Let no engine of this process call any more; see `Engine.stop_calling`.

    Returns:
        How many calls will be waited for.
    """
    _stopped.extend(running())
    return sum(engine.stop_calling() for engine in running())


def stored(method: Method) -> int | None:
    """Answers that engines of this method had stored when they ended; None before `stop_calling`."""
    ended = [engine.stored for engine in _stopped if engine.settings.method == method]
    return sum(ended) if ended else None


def answered(method: Method) -> int:
    """Questions that engines of this method had an answer to when `stop_calling` ended them."""
    return sum(engine.answered for engine in _stopped if engine.settings.method == method)


def halt_calling(reason: str) -> None:
    """Let no engine of this process call any more, and turn away what waits; see `Engine.halt_calling`."""
    for engine in running():
        engine.halt_calling(reason)
