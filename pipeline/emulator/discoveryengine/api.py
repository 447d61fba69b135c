"""The API's answers as bytes: extractive or canned, in one or in parts, right or broken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groundrows.pipeline.emulator.calls import Violation, last_of
from groundrows.pipeline.emulator.discoveryengine.broken import break_check, break_parts, break_response
from groundrows.pipeline.emulator.discoveryengine.canned import canned_answer, canned_check, canned_stream
from groundrows.pipeline.emulator.discoveryengine.grounding_check import check
from groundrows.pipeline.emulator.discoveryengine.messages import Origin, user_turns
from groundrows.pipeline.emulator.discoveryengine.streaming import parts_of
from groundrows.pipeline.emulator.discoveryengine.validation import violations
from groundrows.pipeline.emulator.faults import ODD
from groundrows.pipeline.emulator.options import EmulatorOptions

if TYPE_CHECKING:
    from groundrows.pipeline.emulator.answering.retrieval import SentenceIndex
    from groundrows.pipeline.emulator.discoveryengine.answers import Extractive


class DiscoveryEngine:
    """The Grounded Generation API, as far as it differs from another.

    Args:
        options: The emulator's flags.
        corpus: What every search looks through; None for the canned answers, which look into no request.
    """

    def __init__(self, options: EmulatorOptions, corpus: SentenceIndex | None) -> None:
        self._extractive = None if corpus is None else _extractive(options, corpus)

    def asked(self, origin: Origin, request: Any) -> tuple[str, int]:
        """The last user turn and the number of user turns; for a check, the answer to check and 0."""
        if origin.is_check:
            return request.answer_candidate, 0
        return last_of(user_turns(request))

    def violations(self, origin: Origin, request: Any, routing: str | None) -> list[Violation]:
        """Everything wrong with a request."""
        return violations(origin, request, routing)

    def tokens(self, origin: Origin, request: Any) -> int:
        """The API reports none."""
        return 0

    def whole(self, origin: Origin, request: Any) -> bytes:
        """The serialized answer in one."""
        if self._extractive is None:
            return canned_check() if origin.is_check else canned_answer()
        body: bytes = self._message(origin, request, self._extractive).SerializeToString(deterministic=True)
        return body

    def parts(self, origin: Origin, request: Any) -> tuple[bytes, ...]:
        """The serialized answer in parts, at least one."""
        if self._extractive is None:
            return canned_stream()
        parts = parts_of(self._message(origin, request, self._extractive))
        return tuple(part.SerializeToString(deterministic=True) for part in parts)

    def broken(self, origin: Origin, request: Any, name: str, variety: int) -> tuple[bytes, ...]:
        """The serialized answer with the fault `name`: in parts for a stream, else as the only part."""
        body = self.whole(origin, request)
        if name in ODD:  # which are another API's
            return self.parts(origin, request) if origin.streams else (body,)
        if origin.streams:
            return break_parts(name, variety, body)
        return ((break_check if origin.is_check else break_response)(name, variety, body),)

    def _message(self, origin: Origin, request: Any, extractive: Extractive) -> Any:
        if origin.is_check:
            return check(request)
        return extractive.answer(request, wide=origin.version == "v1beta")


def _extractive(options: EmulatorOptions, corpus: SentenceIndex) -> Extractive:
    # Ranking brings numpy with it, which a canned emulator need not load.
    from groundrows.pipeline.emulator.discoveryengine.answers import Extractive

    return Extractive(corpus, candidates=options.candidates, images=options.images, videos=options.videos)
