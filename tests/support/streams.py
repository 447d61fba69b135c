"""What tests of streams share: schedules of events, played to a pipeline by Beam's own test stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from unittest.mock import patch

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.direct import direct_runner
from apache_beam.runners.direct.clock import TestClock
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from hypothesis import strategies as st

START = 1_740_830_407  # 2025-03-01 12:00:07 UTC
_clocks = [TestClock(Timestamp(START))]


class Come(NamedTuple):
    """Elements arrive together, with these times of their own, in seconds."""

    times: tuple[float, ...]


class Watermark(NamedTuple):
    """The watermark goes to this second; what comes with an earlier time is late from now on."""

    second: float


class Wait(NamedTuple):
    """So many seconds pass."""

    seconds: float


Event = Come | Watermark | Wait

# Three rows out of order, two that are late, an idle hour, more that are late by whole windows, and some that
# nothing follows.
LATE: Sequence[Event] = (
    Come((20, 10, 15)),
    Watermark(130),
    Come((5, 70)),
    Wait(61),
    Come((200,)),
    Wait(3600),
    Watermark(100_000),
    Come((1, 2, 3, 99_000)),
    Wait(10),
    Come((100_100, 4)),
)


def clock() -> float:
    """The time of the stream that is being played, which is `START` at first and passes with each `Wait`."""
    return _clocks[-1].time()


def arrivals(events: Sequence[Event]) -> int:
    """How many elements come."""
    return sum(len(event.times) for event in events if isinstance(event, Come))


def schedules() -> st.SearchStrategy[list[Event]]:
    """Events in any order, with elements from long before the watermark to long after it."""
    times = st.lists(st.integers(0, 5_000), min_size=1, max_size=6).map(tuple)
    event = st.one_of(
        times.map(Come), st.integers(1, 1_000).map(Watermark), st.sampled_from([1, 59, 61, 7200]).map(Wait)
    )
    return st.lists(event, max_size=12).map(_risen)


def _risen(events: list[Event]) -> list[Event]:
    """The watermark's steps added up, as it never goes back."""
    risen, second = [], 0.0
    for event in events:
        if isinstance(event, Watermark):
            second += event.second
            risen.append(Watermark(second))
        else:
            risen.append(event)
    return risen


def play(
    events: Sequence[Event],
    element: Callable[[int], Any],
    then: Callable[[Any], Any],
    start: float = START,
) -> Any:
    """Run a pipeline over a stream that ends after these events; returns the result.

    Args:
        events: What happens; the watermark never goes back.
        element: Makes an element from its number, counted from 0 in the order of arrival.
        then: Adds the pipeline's steps to the stream.
        start: The time at first, in seconds since the epoch.
    """
    stream, count = TestStream(), 0
    for event in events:
        match event:
            case Come(times):
                stream = stream.add_elements(
                    [TimestampedValue(element(count + n), time) for n, time in enumerate(times)]
                )
                count += len(times)
            case Watermark(second):
                stream = stream.advance_watermark_to(second)
            case Wait(seconds):
                stream = stream.advance_processing_time(seconds)
    options = PipelineOptions(["--streaming"])
    pipeline = beam.Pipeline(runner=direct_runner.BundleBasedDirectRunner(), options=options)
    then(pipeline | "Stream" >> stream.advance_watermark_to_infinity())
    _clocks[:] = [TestClock(Timestamp(start))]
    # The runner makes itself a clock; this is it.
    with patch.object(direct_runner, "TestClock", lambda: _clocks[-1]):
        result = pipeline.run()
        result.wait_until_finish()
    return result
