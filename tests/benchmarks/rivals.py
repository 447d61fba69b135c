"""The same calls by other means: barrier batches, and what Beam itself offers.

Each rival gets settings a careful user would give it. They write no rows and keep no ledger, so they do less.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import apache_beam as beam
import grpc
import grpc.aio
from apache_beam.io.requestresponse import Caller, RequestResponseIO
from apache_beam.ml.inference.base import RemoteModelHandler, RunInference
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from tests.benchmarks.bare_loop import METHOD, messages
from tests.benchmarks.tools import LOCATION, middle_rate

METADATA = (("x-goog-request-params", f"location={LOCATION}"),)
BATCH = 64

# Filled by steps that run in this process; the module is importable, so it is not pickled by value.
MOMENTS: list[float] = []


def _stub(address: str) -> Any:
    return grpc.insecure_channel(address).unary_unary(METHOD)


class BarrierBatches(beam.DoFn):
    """A batch is asked all at once, and the next begins when its last answer is there."""

    def __init__(self, address: str) -> None:
        self._address = address

    def setup(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._open())

    async def _open(self) -> None:
        self._call: Any = grpc.aio.insecure_channel(self._address).unary_unary(METHOD)

    def process(self, batch: Sequence[bytes]) -> Iterator[bytes]:
        yield from self._loop.run_until_complete(self._all(batch))

    async def _all(self, batch: Sequence[bytes]) -> list[bytes]:
        return await asyncio.gather(*(self._one(request) for request in batch))

    async def _one(self, request: bytes) -> bytes:
        response: bytes = await self._call(request, timeout=60, metadata=METADATA)
        MOMENTS.append(time.monotonic())
        return response


class OneCall(Caller):
    """For RequestResponseIO, which asks one element at a time."""

    def __init__(self, address: str) -> None:
        self._address = address

    def __enter__(self) -> OneCall:
        self._call = _stub(self._address)
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __call__(self, request: bytes, *args: object, **kwargs: object) -> bytes:
        response: bytes = self._call(request, timeout=60, metadata=METADATA)
        MOMENTS.append(time.monotonic())
        return response


class RemoteHandler(RemoteModelHandler):
    """For RunInference: a batch is asked by as many threads as it has questions."""

    def __init__(self, address: str, threads: int) -> None:
        super().__init__(namespace="rivals")
        self._address = address
        self._threads = threads

    def create_client(self) -> Any:
        return _stub(self._address)

    def batch_elements_kwargs(self) -> dict[str, int]:
        return {"min_batch_size": BATCH, "max_batch_size": BATCH}

    def request(self, batch: Sequence[bytes], model: Any, inference_args: Any = None) -> Iterable[bytes]:
        def ask(request: bytes) -> bytes:
            response: bytes = model(request, timeout=60, metadata=METADATA)
            MOMENTS.append(time.monotonic())
            return response

        with ThreadPoolExecutor(self._threads) as pool:
            return list(pool.map(ask, batch))


def steps(kind: str, address: str) -> Any:
    """The rival's transform."""
    if kind == "barrier":
        return beam.BatchElements(BATCH, BATCH) | beam.ParDo(BarrierBatches(address))
    if kind == "request_response_io":
        return RequestResponseIO(OneCall(address), timeout=60)
    threads = 1 if kind == "run_inference" else BATCH
    return RunInference(RemoteHandler(address, threads))


def main(kind: str, address: str, count: int) -> None:
    """Run one rival; prints its calls a second in steady state."""
    requests = [message.SerializeToString() for message in messages(count)]
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        pipeline | beam.Create(requests, reshuffle=False) | steps(kind, address)
    print(middle_rate(MOMENTS))


if __name__ == "__main__":
    from tests.benchmarks import rivals

    rivals.main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
