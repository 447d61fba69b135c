"""Where questions come from and where rows go beside files: the flags that name Google's resources."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from groundrows.schemas.errors import UsageError

if TYPE_CHECKING:
    import argparse

_NAME = r"[A-Za-z][A-Za-z0-9._~+%-]{2,254}"
_PROJECT = r"(?:[a-z0-9.-]+:)?[a-z][a-z0-9-]*"  # an older kind has its domain before it
# Domains stand before the project of old organisations: example.com:project.
_DATASET = re.compile(
    r"(?P<project>(?:[a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9])[.:](?P<dataset>[A-Za-z0-9_]{1,1024})"
)
_OF_STREAMS = ("id_attribute", "timestamp_attribute", "stop_when_idle", "window_seconds", "output_shards")


@dataclass(frozen=True, slots=True)
class Source:
    """What to read: patterns of files, or one subscription or topic. Attributes bear the flags' names."""

    patterns: tuple[str, ...] = ()
    subscription: str | None = None
    topic: str | None = None
    id_attribute: str | None = None
    timestamp_attribute: str | None = None
    stop_when_idle: float | None = None


def one_source(flags: argparse.Namespace) -> Source:
    """The one source that the flags give.

    Raises:
        UsageError: They give none, several, or one that is none.
    """
    given = [name for name in ("input", "input_subscription", "input_topic") if getattr(flags, name)]
    if not given:
        raise UsageError("Nothing says what to ask: give --input=FILE or --input_subscription=NAME.")
    if len(given) > 1:
        raise UsageError(f"--{given[0]} and --{given[1]} are two sources: give exactly one.")
    if given[0] == "input":
        _check_batch(flags)
        patterns = tuple(pattern for pattern in flags.input.split(",") if pattern)
        if not patterns:
            raise UsageError(f"--input={flags.input} names no file: give --input=FILE.")
        return Source(patterns)
    idle = flags.stop_when_idle
    if idle is not None and not 0 < idle <= 86_400:
        raise UsageError(f"--stop_when_idle={idle:g} makes no sense: give a number of seconds up to 86400.")
    return Source(
        subscription=_subscription(flags.input_subscription),
        topic=topic(flags.input_topic, "input_topic"),
        id_attribute=flags.id_attribute,
        timestamp_attribute=flags.timestamp_attribute,
        stop_when_idle=idle,
    )


def _check_batch(flags: argparse.Namespace) -> None:
    for name in _OF_STREAMS:
        if getattr(flags, name) is not None:
            raise UsageError(
                f"--{name} is for questions from Pub/Sub, and these are in files: leave it out, or give "
                "--input_subscription."
            )


def _subscription(text: str | None) -> str | None:
    if text and not re.fullmatch(f"projects/{_PROJECT}/subscriptions/{_NAME}", text):
        raise UsageError(
            f"--input_subscription={text} is no subscription: write projects/PROJECT/subscriptions/NAME."
        )
    return text


def topic(text: str | None, flag: str) -> str | None:
    """Check a topic's name.

    Raises:
        UsageError: It is none.
    """
    if text and not re.fullmatch(f"projects/{_PROJECT}/topics/{_NAME}", text):
        raise UsageError(f"--{flag}={text} is no topic: write projects/PROJECT/topics/NAME.")
    return text


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset that tables are in."""

    project: str
    name: str

    def __str__(self) -> str:
        return f"{self.project}.{self.name}"


def dataset_of(text: str) -> Dataset:
    """Read `PROJECT.DATASET` or `PROJECT:DATASET`.

    Raises:
        UsageError: It is neither.
    """
    found = _DATASET.fullmatch(text)
    if found is None:
        raise UsageError(f"--bigquery_dataset={text} is no dataset: give PROJECT.DATASET.")
    return Dataset(found["project"], found["dataset"])
