"""Engines shared by a process: equal settings, one engine."""

from __future__ import annotations

import threading
from collections.abc import Callable

from transforms.generate.clients.base import Client
from transforms.generate.engine import Engine
from transforms.generate.pacing.base import Pacer
from transforms.generate.settings import CallSettings

_lock = threading.Lock()
_engines: dict[object, Engine] = {}
_users: dict[object, int] = {}

ClientOf = Callable[[CallSettings], Client]
PacerOf = Callable[[CallSettings], Pacer]


def acquire(settings: CallSettings, client_of: ClientOf, pacer_of: PacerOf) -> Engine:
    """The process's engine for these settings; made by whoever asks first. Pair with `release`.

    Raises:
        SetupError: Credentials are missing.
        LedgerError: The ledger can't be used.
    """
    key = (settings, client_of, pacer_of)
    with _lock:
        if key not in _engines:
            _engines[key] = Engine(settings, client_of, pacer_of)
        _users[key] = _users.get(key, 0) + 1
        return _engines[key]


def release(engine: Engine) -> None:
    """One user less; the last one closes it."""
    with _lock:
        key = next(key for key, value in _engines.items() if value is engine)
        _users[key] -= 1
        if _users[key]:
            return
        del _engines[key], _users[key]
    engine.close()


def running() -> list[Engine]:
    """The engines of this process, for a display of progress."""
    # Not under the lock: a signal's handler asks too, and may have interrupted whoever holds it.
    return list(_engines.values())


def stop_calling() -> int:
    """Let no engine of this process call any more; see `Engine.stop_calling`.

    Returns:
        How many calls will be waited for.
    """
    return sum(engine.stop_calling() for engine in running())
