"""The flags that say where questions come from: files, or a subscription or topic of Pub/Sub."""

from __future__ import annotations

import argparse
import codecs
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from groundrows.pipeline.options.flag import DAY_SECONDS, MOST, Flag, Only, Parameter, flag
from groundrows.pipeline.options.resources import SUBSCRIPTION, TOPIC
from groundrows.schemas.errors import UsageError


@dataclass(frozen=True, slots=True)
class SourceKind:
    """A kind of source.

    Attributes:
        flag: The flag that names a source of this kind. A run has exactly one such flag.
        attribute: The attribute of the options that the flag sets.
        bounded: Whether such a source has an end.
        made_by: `MODULE:FUNCTION` of the function that makes the `Source` from the options. It is a name
            rather than an import, because flags are checked without importing Beam.
    """

    flag: str
    attribute: str
    bounded: bool
    made_by: str


_ARCHIVES = "groundrows.pipeline.sources.archive_source:archives_of"
_MESSAGES = "groundrows.pipeline.sources.messages:messages_of"

SOURCES = (
    SourceKind("input", "inputs", True, _ARCHIVES),
    SourceKind("input_subscription", "input_subscription", False, _MESSAGES),
    SourceKind("input_topic", "input_topic", False, _MESSAGES),
)
"""Every kind of source."""


def source_kind(value_of: Callable[[str], Any]) -> SourceKind | None:
    """Return the kind of the source that the options' attributes name, or None."""
    return next((kind for kind in SOURCES if value_of(kind.attribute)), None)


def _patterns(text: str) -> tuple[str, ...]:
    patterns = tuple(pattern for pattern in text.split(",") if pattern)
    if text and not patterns:
        raise UsageError(f"--input={text} names no file: give --input=FILE.")
    return patterns


_DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}


def _delimiter(text: str) -> str:
    delimiter = _DELIMITERS.get(text, text)
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise UsageError(
            f"--csv_delimiter={text} is not a delimiter: give one character, or one of "
            f"{', '.join(_DELIMITERS)}."
        )
    return delimiter


def _encoding(text: str) -> str:
    try:
        # Decoding refuses codecs that are not encodings of text, such as base64.
        b"a".decode(text)
        return codecs.lookup(text).name
    except UnicodeError:  # in UTF-16, for example, one byte is not a character
        return codecs.lookup(text).name
    except (LookupError, ValueError):
        raise UsageError(
            f"--encoding={text} is not an encoding that Python knows: give one such as latin-1, cp1252 or "
            "utf-16."
        ) from None


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """What to read: `inputs` holds patterns of files, and is empty when questions come from Pub/Sub."""

    GROUP: ClassVar[str] = "what to ask"

    inputs: tuple[str, ...] = flag(
        (),
        Flag(
            "The files that hold the questions, local or gs://.",
            name="input",
            metavar="GLOB[,GLOB]",
            read=_patterns,
            only=Only.ARCHIVES,
            names_source=True,
            template=Parameter(required=True),
        ),
    )
    csv_delimiter: str | None = flag(
        None,
        Flag(
            "The separator in CSV files: comma, semicolon, tab, pipe, or any one character.",
            metavar="CHARACTER",
            default_said="found out from the first lines",
            read=_delimiter,
            only=Only.ARCHIVES,
        ),
    )
    encoding: str | None = flag(
        None,
        Flag(
            "The encoding of JSON and CSV files, such as latin-1.",
            metavar="NAME",
            default_said="UTF-8; UTF-16 for a file with its byte order mark",
            read=_encoding,
            only=Only.ARCHIVES,
        ),
    )
    limit: int | None = flag(
        None,
        Flag(
            "Ask only the first N records, in the order of the files' names. Broken records count, too.",
            metavar="N",
            least=1,
            most=MOST,
            only=Only.ARCHIVES,
            names_source=True,
        ),
    )
    sample: int | None = flag(
        None,
        Flag(
            "Ask only N records, drawn at random from all files. The files are read once more for this.",
            metavar="N",
            least=1,
            most=MOST,
            only=Only.ARCHIVES,
            names_source=True,
        ),
    )
    seed: int = flag(
        0,
        Flag(
            "The seed for --sample. The same seed draws the same records, and a larger sample contains the "
            "smaller one.",
            metavar="N",
            least=0,
            most=MOST,
            only=Only.ARCHIVES,
            names_source=True,
        ),
    )
    input_subscription: str | None = flag(
        None,
        Flag(
            "Read questions from this Pub/Sub subscription instead of files. Each message is one question.",
            metavar="projects/P/subscriptions/S",
            pattern=SUBSCRIPTION,
            noun="subscription",
            example="projects/PROJECT/subscriptions/NAME",
            empty="absent",
            only=Only.STREAMS,
            names_source=True,
            template=Parameter("PUBSUB_SUBSCRIPTION"),
        ),
    )
    input_topic: str | None = flag(
        None,
        Flag(
            "Read questions from this Pub/Sub topic instead of files. This works on Dataflow only.",
            metavar="projects/P/topics/T",
            pattern=TOPIC,
            noun="topic",
            example="projects/PROJECT/topics/NAME",
            empty="absent",
            only=Only.STREAMS,
            names_source=True,
            template=Parameter("PUBSUB_TOPIC"),
        ),
    )
    id_attribute: str | None = flag(
        None,
        Flag(
            "The message attribute that identifies a message. A message that is delivered twice is then "
            "asked only once.",
            metavar="NAME",
            only=Only.STREAMS,
        ),
    )
    timestamp_attribute: str | None = flag(
        None,
        Flag("The message attribute that holds the time of the message.", metavar="NAME", only=Only.STREAMS),
    )
    stop_when_idle: float | None = flag(
        None,
        Flag(
            "Stop when no message came for S seconds. This works only with a worker on this machine.",
            metavar="S",
            least=0.001,
            most=DAY_SECONDS,
            only=Only.STREAMS,
            template=None,
        ),
    )


def check_one_source(given: argparse.Namespace) -> None:
    """Check that the flags name exactly one source.

    Raises:
        UsageError: They name none, or several.
    """
    sources = [kind.flag for kind in SOURCES if getattr(given, kind.flag, None)]
    if not sources:
        raise UsageError("Nothing says what to ask: give --input=FILE or --input_subscription=NAME.")
    if len(sources) > 1:
        raise UsageError(f"--{sources[0]} and --{sources[1]} name two sources: give exactly one.")


def check_sample(values: Mapping[str, Any]) -> None:
    """Check that the flags that choose records fit together.

    Raises:
        UsageError: Two of them contradict each other.
    """
    if values["limit"] is not None and values["sample"] is not None:
        raise UsageError("--limit takes the first records and --sample random ones: give only one of them.")
    if values["seed"] and values["sample"] is None:
        raise UsageError("--seed has an effect only with --sample: give --sample=N, too, or leave it out.")
