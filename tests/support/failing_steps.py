"""A run whose step fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner


class _Fail(beam.DoFn):
    def __init__(self, fail: Callable[[], None]) -> None:
        self._fail = fail

    def process(self, number: int) -> Iterator[int]:
        self._fail()
        yield number


def disk_full() -> None:
    with open("/dev/full", "w") as file:
        file.write("x")


def raised_by(fail: Callable[[], None]) -> BaseException:
    try:
        fail()
    except Exception as error:
        return error
    raise AssertionError("it did not fail")


def raised_in_a_run(fail: Callable[[], None], *flags: str) -> BaseException:
    def run() -> None:
        pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions(list(flags)))
        _ = (
            pipeline
            | beam.Create([1])
            | "Outer" >> beam.Map(lambda n: n)
            | "Step/inner" >> beam.ParDo(_Fail(fail))
        )
        pipeline.run().wait_until_finish()

    return raised_by(run)
