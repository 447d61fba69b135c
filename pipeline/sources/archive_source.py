"""Archives as a source of a run: which files the flags name, and which of their records are asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import apache_beam as beam

from groundrows.pipeline.options.checks import usage_error
from groundrows.pipeline.options.run import RunOptions
from groundrows.pipeline.sources.archives import (
    Archive,
    ReadArchives,
    ReadSettings,
    find_archives,
    note_on,
    read_archive,
)
from groundrows.pipeline.sources.formats.items import Item
from groundrows.pipeline.sources.seam import FAILURES, RECORDS
from groundrows.pipeline.sources.selection import limited, sampled
from groundrows.schemas.errors import UsageError
from groundrows.schemas.outcome import Failure
from groundrows.schemas.template import template_fields, template_parts

# Each archive that is looked at is opened once more; a person needs no note on the thousandth.
_NOTED = 20


@dataclass(frozen=True)
class Archives:
    """Archives as a source; see `Source`.

    Attributes:
        paths: Patterns of files, as `--input` lists them.
        settings: How they are read.
        limit: How many records are read, the first ones; None for all.
        sample: How many records are read, drawn with `seed`; None for all.
        seed: What a sample is drawn with.
        known: The archives, where they need not be looked for.
    """

    paths: tuple[str, ...]
    settings: ReadSettings = field(default_factory=ReadSettings)
    limit: int | None = None
    sample: int | None = None
    seed: int = 0
    known: tuple[Archive, ...] | None = None

    @property
    def bounded(self) -> bool:
        """They come to an end."""
        return True

    @cached_property
    def found(self) -> Sequence[Archive]:
        """The archives that there are; with a limit or a sample, to be read in part.

        Raises:
            UsageError: A pattern matches nothing, or a file is of no known kind.
        """
        if self.known is not None:
            return self.known
        try:
            archives = find_archives(self.paths, self.settings)
        except ValueError as error:
            raise UsageError(str(error)) from None
        if self.limit is not None:
            return limited(archives, self.limit)
        return archives if self.sample is None else sampled(archives, self.sample, self.seed)

    def check(self) -> None:
        """Refuse an input of which nothing can be read. Where anything can, the rest costs a row a file."""
        unreadable = None
        for archive in self.found:
            first = next(read_archive(archive), None)
            if not (isinstance(first, Failure) and first.code == "UNREADABLE_FILE"):
                return
            unreadable = unreadable or first
        if unreadable is not None:
            raise UsageError(f"Nothing of the input can be read: {unreadable.message}")

    def notes(self) -> Iterator[str]:
        """See `note_on`."""
        return filter(None, map(note_on, self.found[:_NOTED]))

    def items(self) -> Iterator[Item]:
        """What the archives hold, one archive after another."""
        return (item for archive in self.found for item in read_archive(archive))

    def read(self, pipeline: beam.Pipeline, *, spread: bool) -> tuple[Any, Any]:
        """Read them all."""
        read = pipeline | "Read" >> ReadArchives(self.found, spread)
        return read[RECORDS], read[FAILURES]


def archives_of(options: RunOptions) -> Archives:
    """The archives that the flags name.

    Raises:
        UsageError: A question template is wrong.
    """
    settings = ReadSettings(
        csv_delimiter=options.csv_delimiter, encoding=options.encoding, text_fields=_text_fields(options)
    )
    return Archives(options.inputs, settings, options.limit, options.sample, options.seed)


def _text_fields(options: RunOptions) -> frozenset[str]:
    """The fields that must hold text: bytes in them that are no UTF-8 are an error of the record."""
    try:
        words = template_fields(template_parts(options.question_template))
    except ValueError as error:
        raise usage_error(error) from None
    named = {options.question_field, options.answer_field, options.reference_field}
    return frozenset(filter(None, named)) | words
