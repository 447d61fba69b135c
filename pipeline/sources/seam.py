"""What a source of records does. Archives and Pub/Sub do it each in their way; the rest sees no more of them.

`options/source.py` lists the sources with the flags that name them; `source_of` makes the one that is named.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar

import apache_beam as beam
from apache_beam.metrics import Metrics

from groundrows.pipeline.options.run import RunOptions
from groundrows.pipeline.sources.formats.items import Item
from groundrows.schemas.record import Record
from groundrows.transforms.counters import RECORDS as NAMESPACE
from groundrows.transforms.counters import RECORDS_READ

RECORDS = "records"
FAILURES = "failures"
Part = TypeVar("Part")


class Source(Protocol):
    """Where the records of a run come from. Making one opens nothing."""

    @property
    def bounded(self) -> bool:
        """Whether the records come to an end."""
        ...

    @property
    def paths(self) -> Sequence[str]:
        """The files that it reads, or patterns of them, local or `gs://`."""
        ...

    def check(self) -> None:
        """Find out, without keeping anything, whether there is something to read.

        Raises:
            UsageError: There is not; the sentence says why.
        """
        ...

    def notes(self) -> Iterable[str]:
        """What a person should know about how it will be read, in sentences."""
        ...

    def items(self) -> Iterator[Item]:
        """What it holds, read in this process, for a plan and a count; nothing where it has no end."""
        ...

    def read(self, pipeline: beam.Pipeline, *, spread: bool) -> tuple[Any, Any | None]:
        """Add the reading to a graph. It counts each record and each failure as `RECORDS_READ`.

        Args:
            pipeline: The graph.
            spread: Whether several workers share the reading out.

        Returns:
            PCollection[Record], unbounded if and only if the source is; and PCollection[Failure] of what
            could not even be read, or None where nothing can fail so.
        """
        ...


def source_of(options: RunOptions) -> Source:
    """The source that the flags name.

    Raises:
        UsageError: A flag about it is wrong.
    """
    kind = options.source_kind
    assert kind is not None, "a run is parsed with one source"
    module, _, name = kind.made_by.partition(":")
    made: Source = getattr(importlib.import_module(module), name)(options)
    return made


class ReadItems(beam.PTransform, Generic[Part]):
    """Parts of a bounded source → `records` (Record) and `failures` (Failure): the first leaves at once.

    Args:
        parts: What can be read apart from each other, such as files. They are pickled.
        items_of: Reads one part, in its order. It never raises: what can't be read is a failure.
        spread: Hand the parts, not their records, to different workers; their order is then any.
    """

    def __init__(
        self, parts: Sequence[Part], items_of: Callable[[Part], Iterator[Item]], spread: bool = False
    ) -> None:
        super().__init__()
        self._parts = list(parts)
        self._items_of = items_of
        self._spread = spread

    def expand(self, root: beam.pvalue.PBegin) -> beam.pvalue.DoOutputsTuple:
        """Give the two outputs, by name."""
        return (
            root
            | "Parts" >> beam.Create(self._parts, reshuffle=self._spread)
            | "Read" >> beam.ParDo(_ReadItems(self._items_of)).with_outputs(FAILURES, main=RECORDS)
        )


class _ReadItems(beam.DoFn):
    def __init__(self, items_of: Callable[[Any], Iterator[Item]]) -> None:
        self._items_of = items_of
        self._records_read = Metrics.counter(NAMESPACE, RECORDS_READ)

    def process(self, part: Any) -> Iterator[Record | beam.pvalue.TaggedOutput]:
        for item in self._items_of(part):
            self._records_read.inc()
            yield item if isinstance(item, Record) else beam.pvalue.TaggedOutput(FAILURES, item)
