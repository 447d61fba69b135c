"""From the flags: which archives to read, and how."""

from __future__ import annotations

from collections.abc import Sequence

from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems
from google.api_core.exceptions import GoogleAPIError

from groundrows.pipeline.options.run import RunOptions
from groundrows.pipeline.sources.archives import Archive, find_archives
from groundrows.pipeline.sources.formats.items import reason_of
from groundrows.pipeline.storage.files import cause_of
from groundrows.schemas.check import CheckSettings
from groundrows.schemas.defaults import load_defaults
from groundrows.schemas.errors import UsageError
from groundrows.schemas.question import RecordSettings


def archives_of(patterns: Sequence[str]) -> list[Archive]:
    """The archives that the flags name.

    Raises:
        UsageError: A pattern matches nothing, or a file is of no known kind.
    """
    try:
        return find_archives(patterns)
    except ValueError as error:
        raise UsageError(str(error)) from None


def read_settings(options: RunOptions) -> RecordSettings | CheckSettings:
    """The settings of the mode: questions to be answered, or answers to be checked.

    Raises:
        UsageError: The flags contradict each other, or the defaults can't be used.
    """
    return check_records(options) if options.mode == "check" else record_settings(options)


def check_records(options: RunOptions) -> CheckSettings:
    """The settings for answers that are to be checked.

    Raises:
        UsageError: The flags contradict each other.
    """
    try:
        return CheckSettings(
            id_field=options.id_field,
            answer_field=options.answer_field,
            citation_threshold=options.citation_threshold,
            api_version=options.api_version,
        )
    except ValueError as error:
        raise _usage(error) from None


def record_settings(options: RunOptions) -> RecordSettings:
    """The settings that the flags ask for, request defaults read and checked.

    Raises:
        UsageError: The flags contradict each other, or the defaults can't be used.
    """
    try:
        defaults = None
        if options.request_defaults is not None:
            defaults = load_defaults(_text(options.request_defaults), options.api_version)
        return RecordSettings(
            question_field=options.question_field,
            id_field=options.id_field,
            question_templates=options.question_template,
            defaults=defaults,
            api_version=options.api_version,
            transport=options.transport,  # type: ignore[arg-type]
        )
    except ValueError as error:
        raise _usage(error) from None


def _usage(error: ValueError) -> UsageError:
    said = str(error).rstrip(".")
    return UsageError(f"{said[:1].upper()}{said[1:]}.")


def _text(path: str) -> str:
    try:
        with FileSystems.open(path) as file:
            text: str = file.read().decode("utf-8")
            return text
    except (OSError, UnicodeDecodeError, BeamIOError, GoogleAPIError) as error:
        raise UsageError(f"--request_defaults={path} can't be read: {reason_of(cause_of(error))}.") from None
