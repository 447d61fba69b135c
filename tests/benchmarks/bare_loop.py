"""A bare `grpc.aio` loop that sends the pipeline's own messages: what the library alone can do.

Run as `python -m tests.benchmarks.bare_loop ADDRESS COUNT IN_FLIGHT`; prints calls a second in steady state.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

import grpc
import grpc.aio

from groundrows.schemas.defaults import load_defaults
from groundrows.schemas.discoveryengine.messages import request_class, response_class
from groundrows.schemas.discoveryengine.request import with_location
from groundrows.schemas.question import RecordSettings, parse_question
from groundrows.schemas.record import Record
from tests.benchmarks.tools import GOOGLE_SEARCH, LOCATION, middle_rate

METHOD = "/google.cloud.discoveryengine.v1.GroundedGenerationService/GenerateGroundedContent"


def messages(count: int) -> list[object]:
    """The requests that the pipeline sends for the archive of `count` questions."""
    settings = RecordSettings(defaults=load_defaults(json.dumps(GOOGLE_SEARCH), "v1"))
    message: type = request_class("v1")
    found = []
    for number in range(count):
        body = json.dumps({"id": f"q{number}", "question": f"What is known about item {number}?"}).encode()
        question = parse_question(Record(body, f"bare:{number}"), settings)
        found.append(message.FromString(with_location(question.request, "v1", LOCATION)))
    return found


async def loop(address: str, count: int, in_flight: int) -> float:
    """Keep `in_flight` calls out until `count` are answered."""
    channel = grpc.aio.insecure_channel(address, options=[("grpc.max_receive_message_length", -1)])
    request: type = request_class("v1")
    response: type = response_class("v1")
    call = channel.unary_unary(
        METHOD, request_serializer=request.SerializeToString, response_deserializer=response.FromString
    )
    metadata = (("x-goog-request-params", f"location={LOCATION}"),)
    waiting = iter(messages(count))
    moments: list[float] = []

    async def caller() -> None:
        for message in waiting:
            await call(message, timeout=60, metadata=metadata)
            moments.append(time.monotonic())

    await asyncio.gather(*(caller() for _ in range(in_flight)))
    await channel.close()
    return middle_rate(moments)


if __name__ == "__main__":
    print(asyncio.run(loop(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
