"""The summaries of a directory's finished runs: each under `runs/`, the last one as `run.json`.

A run that begins sets `run.json` aside, since a directory without it is one in which a run is under way. When
it ends, its own summary takes that place; where it found nothing to do, what was set aside comes back.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from groundrows.pipeline.storage.files import delete, make_directory, read_json, remove_directory
from groundrows.pipeline.storage.uris import is_remote
from groundrows.pipeline.storage.whole import write_whole

RUN = "run.json"
RUNS = "runs"
# Everything a run keeps for itself. No pattern over the tables' directories matches it.
PRIVATE = ".groundrows"
# What run.json was before the run that is under way, in there.
EARLIER = "earlier.json"


def set_aside(path: str) -> None:
    """Keep what `run.json` says before a run begins that keeps the rows there; then take it away.

    Directories of the first versions have no `runs/`: the last run's summary is written there now.
    """
    text = _read(_name(path, RUN))
    if text is None:
        return
    run_id = _run_id(text)
    if run_id is not None and not FileSystems.exists(_of_run(path, run_id)):
        _write_run(path, run_id, text)
    make_directory(_name(path, PRIVATE))
    _write(path, _name(path, PRIVATE, EARLIER), text)
    delete(_name(path, RUN))


def remove(path: str) -> None:
    """Remove every summary, before a run that keeps nothing."""
    delete(_name(path, RUN))
    delete(_name(path, PRIVATE, EARLIER))
    remove_directory(_name(path, RUNS))


def earlier(path: str) -> dict[str, Any] | None:
    """What `run.json` said before the run that is under way; None where it was not there or is damaged."""
    try:
        return read_json(_name(path, PRIVATE, EARLIER))
    except ValueError:
        return None


def write(path: str, run_id: str, summary: Mapping[str, Any], *, again: bool = False) -> None:
    """Write a finished run's summary under `runs/`, and then as `run.json`.

    Args:
        path: The directory.
        run_id: The run's name.
        summary: What it says.
        again: Whether a run of this name may have finished before, as a worker has that is started again:
            each of its summaries then has a file of its own.
    """
    # A path may hold bytes that are no UTF-8; they are written as escapes.
    text = json.dumps(summary, indent=2, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"
    name, count = run_id, 1
    while again and FileSystems.exists(_of_run(path, name)):
        count += 1
        name = f"{run_id}.{count}"
    _write_run(path, name, text)
    _write(path, _name(path, RUN), text)
    delete(_name(path, PRIVATE, EARLIER))


def put_back(path: str) -> bool:
    """Make `run.json` what it was before the run that is under way; returns whether there was one."""
    text = _read(_name(path, PRIVATE, EARLIER))
    if text is None:
        return False
    _write(path, _name(path, RUN), text)
    delete(_name(path, PRIVATE, EARLIER))
    return True


def count(path: str) -> int:
    """How many summaries there are under `runs/`."""
    if is_remote(path):
        return len(FileSystems.match([_name(path, RUNS, "*.json")])[0].metadata_list)
    directory = _name(path, RUNS)
    names = os.listdir(directory) if os.path.isdir(directory) else []
    return sum(name.endswith(".json") for name in names)


def _name(path: str, *names: str) -> str:
    return str(FileSystems.join(path, *names))


def _of_run(path: str, run_id: str) -> str:
    return _name(path, RUNS, f"{run_id}.json")


def _write_run(path: str, run_id: str, text: bytes) -> None:
    make_directory(_name(path, RUNS))
    _write(path, _of_run(path, run_id), text)


def _write(path: str, name: str, text: bytes) -> None:
    # The unfinished file is out of sight of whoever lists the directory.
    write_whole(name, text, _name(path, PRIVATE, "half.run.json"))


def _read(name: str) -> bytes | None:
    if not FileSystems.exists(name):
        return None
    with FileSystems.open(name, compression_type=CompressionTypes.UNCOMPRESSED) as file:
        text: bytes = file.read()
        return text


def _run_id(text: bytes) -> str | None:
    """The run's name in a summary; None where it can't be a file's."""
    try:
        run_id = json.loads(text)["run_id"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return run_id if isinstance(run_id, str) and run_id.isalnum() and len(run_id) <= 64 else None
