"""The API's answers as bytes: extractive or canned, in one or in parts, right or broken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groundrows.pipeline.emulator.calls import Violation, last_of
from groundrows.pipeline.emulator.gemini.broken import broken, json_bytes
from groundrows.pipeline.emulator.gemini.calls import Origin, user_turns
from groundrows.pipeline.emulator.gemini.canned import canned_answer, canned_response, canned_stream
from groundrows.pipeline.emulator.gemini.streaming import parts_of
from groundrows.pipeline.emulator.gemini.validation import violations
from groundrows.pipeline.emulator.options import EmulatorOptions

if TYPE_CHECKING:
    from groundrows.pipeline.emulator.answering.retrieval import SentenceIndex
    from groundrows.pipeline.emulator.gemini.answers import Extractive


class Gemini:
    """Gemini, as far as it differs from another API.

    Args:
        options: The emulator's flags.
        corpus: What every search looks through; None for the canned answers, which look into no request.
    """

    def __init__(self, options: EmulatorOptions, corpus: SentenceIndex | None) -> None:
        self._extractive = None if corpus is None else _extractive(options, corpus)
        self._latest: tuple[Any, dict[str, Any]] | None = None

    def asked(self, origin: Origin, request: Any) -> tuple[str, int]:
        """The last user turn and the number of user turns."""
        return last_of(user_turns(request))

    def violations(self, origin: Origin, request: Any, routing: str | None) -> list[Violation]:
        """Everything wrong with a request."""
        return violations(origin, request)

    def tokens(self, origin: Origin, request: Any) -> int:
        """How many tokens the answer reports."""
        return int(self._response(origin, request)["usageMetadata"]["totalTokenCount"])

    def whole(self, origin: Origin, request: Any) -> bytes:
        """The answer in one."""
        return canned_answer() if self._extractive is None else json_bytes(self._response(origin, request))

    def parts(self, origin: Origin, request: Any) -> tuple[bytes, ...]:
        """The answer in parts, at least one."""
        if self._extractive is None:
            return canned_stream()
        return tuple(json_bytes(part) for part in parts_of(self._response(origin, request)))

    def broken(self, origin: Origin, request: Any, name: str, variety: int) -> tuple[bytes, ...]:
        """The answer with the fault `name`: in parts for a stream, else as the only part."""
        return broken(name, variety, self._response(origin, request), streams=origin.streams)

    def _response(self, origin: Origin, request: Any) -> dict[str, Any]:
        if self._extractive is None:
            return canned_response()
        if self._latest is None or self._latest[0] is not request:
            # It is asked for once more when its tokens have been counted. Nobody changes it in between.
            self._latest = request, self._extractive.answer(origin, request)
        return self._latest[1]


def _extractive(options: EmulatorOptions, corpus: SentenceIndex) -> Extractive:
    # Ranking brings numpy with it, which a canned emulator need not load.
    from groundrows.pipeline.emulator.gemini.answers import Extractive

    return Extractive(corpus, candidates=options.candidates)
