"""Closing an engine from another thread, and waiting for what happens."""

import asyncio
import threading
import time

SECONDS = 20


async def never(prompt, nth):
    await asyncio.Event().wait()


def until(what):
    give_up = time.monotonic() + SECONDS
    while not what():
        assert time.monotonic() < give_up, "it never came"
        time.sleep(0.005)


def close(engine):
    """Closes the engine in a thread, which is to be joined."""
    thread = threading.Thread(target=engine.close, daemon=True)
    thread.start()
    return thread


def join(thread):
    thread.join(SECONDS)
    assert not thread.is_alive()
    assert "groundrows-calls" not in [each.name for each in threading.enumerate()]
