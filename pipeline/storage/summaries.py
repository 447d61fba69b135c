"""The summaries of the finished runs in a directory: all of them under `runs/`, the last one as `run.json`.

A directory with a `run.json` holds no unfinished run. So a run that starts moves the earlier `run.json` into
the directory of internal files. When the run ends, it writes its own `run.json`. When it had nothing to do,
the earlier one is restored.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from groundrows.pipeline.storage import file_systems
from groundrows.pipeline.storage.files import delete, make_directory, read_json, remove_directory
from groundrows.pipeline.storage.uris import is_remote
from groundrows.pipeline.storage.whole import write_whole

RUN = "run.json"
RUNS = "runs"
# The directory of internal files. Patterns over the tables' directories don't match it.
PRIVATE = ".groundrows"
# In that directory: the run.json of the run before the one in progress.
EARLIER = "earlier.json"


def set_aside(path: str) -> None:
    """Move `run.json` to the internal files, before a run that keeps the earlier rows starts.

    Directories of the first versions have no `runs/`, so the last run's summary is also copied there.
    """
    text = _read(_name(path, RUN))
    if text is None:
        return
    run_id = _run_id(text)
    if run_id is not None and not file_systems.exists(_of_run(path, run_id)):
        _write_run(path, run_id, text)
    make_directory(_name(path, PRIVATE))
    _write(path, _name(path, PRIVATE, EARLIER), text)
    delete(_name(path, RUN))


def remove(path: str) -> None:
    """Remove every summary, before a run that keeps no earlier rows starts."""
    delete(_name(path, RUN))
    delete(_name(path, PRIVATE, EARLIER))
    remove_directory(_name(path, RUNS))


def earlier(path: str) -> dict[str, Any] | None:
    """Return the `run.json` from before the run in progress; None when there was none or it is damaged."""
    try:
        return read_json(_name(path, PRIVATE, EARLIER))
    except ValueError:
        return None


def write(path: str, run_id: str, summary: Mapping[str, Any], *, again: bool = False) -> None:
    """Write a finished run's summary under `runs/`, and then as `run.json`.

    Args:
        path: The directory.
        run_id: The run's ID.
        summary: The content.
        again: Whether a run with this ID may have finished before. A worker keeps its ID when it is started
            again. Each of its summaries then gets a file of its own.
    """
    # A path may hold bytes that are not valid UTF-8; they are written as escapes.
    text = json.dumps(summary, indent=2, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"
    name, count = run_id, 1
    while again and file_systems.exists(_of_run(path, name)):
        count += 1
        name = f"{run_id}.{count}"
    _write_run(path, name, text)
    _write(path, _name(path, RUN), text)
    delete(_name(path, PRIVATE, EARLIER))


def put_back(path: str) -> bool:
    """Restore the `run.json` from before the run in progress; return whether there was one."""
    text = _read(_name(path, PRIVATE, EARLIER))
    if text is None:
        return False
    _write(path, _name(path, RUN), text)
    delete(_name(path, PRIVATE, EARLIER))
    return True


def count(path: str) -> int:
    """Return the number of summaries under `runs/`."""
    if is_remote(path):
        return len(file_systems.remote_files(_name(path, RUNS, "*.json")))
    directory = _name(path, RUNS)
    names = os.listdir(directory) if os.path.isdir(directory) else []
    return sum(name.endswith(".json") for name in names)


def every(path: str) -> Iterator[dict[str, Any]]:
    """What each finished run said of itself, the last one's also as `run.json`; damaged ones are left out."""
    pattern = _name(path, RUNS, "*.json")
    if is_remote(path):
        runs = file_systems.remote_files(pattern)
    else:
        directory = _name(path, RUNS)
        names = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
        runs = [os.path.join(directory, name) for name in names if name.endswith(".json")]
    for name in (*runs, _name(path, RUN), _name(path, PRIVATE, EARLIER)):
        try:
            said = read_json(name)
        except ValueError:
            continue
        if said is not None:
            yield said


def _name(path: str, *names: str) -> str:
    return str(file_systems.join(path, *names))


def _of_run(path: str, run_id: str) -> str:
    return _name(path, RUNS, f"{run_id}.json")


def _write_run(path: str, run_id: str, text: bytes) -> None:
    make_directory(_name(path, RUNS))
    _write(path, _of_run(path, run_id), text)


def _write(path: str, name: str, text: bytes) -> None:
    # The unfinished file is in the directory of internal files, so that no reader lists it.
    write_whole(name, text, _name(path, PRIVATE, "half.run.json"))


def _read(name: str) -> bytes | None:
    if not file_systems.exists(name):
        return None
    with file_systems.opened(name) as file:
        text: bytes = file.read()
        return text


def _run_id(text: bytes) -> str | None:
    """Return the run's ID from a summary; None when it can't be a file's name."""
    try:
        run_id = json.loads(text)["run_id"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return run_id if isinstance(run_id, str) and run_id.isalnum() and len(run_id) <= 64 else None
