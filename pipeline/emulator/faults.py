"""Which call goes wrong, and how: a seeded mix of everything a client has to survive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b

# Answered with a status instead of a response.
ERRORS: Mapping[str, tuple[str, str]] = {
    "unavailable": ("UNAVAILABLE", "The service is briefly unavailable."),
    "resource_exhausted": ("RESOURCE_EXHAUSTED", "The quota is used up."),
    "internal": ("INTERNAL", "The service met an internal error."),
    "deadline_exceeded": ("DEADLINE_EXCEEDED", "The service did not finish in time."),
    "aborted": ("ABORTED", "The service gave the call up."),
    "unknown": ("UNKNOWN", "The service met an unknown error."),
    "invalid_argument": ("INVALID_ARGUMENT", "The request holds an invalid argument."),
    "permission_denied": ("PERMISSION_DENIED", "The caller lacks the permission to ask."),
    "unauthenticated": ("UNAUTHENTICATED", "The caller's credentials are missing or invalid."),
    "not_found": ("NOT_FOUND", "The location does not exist."),
    "failed_precondition": ("FAILED_PRECONDITION", "The service is not enabled for this project."),
}
# Answered with a response that is wrong in itself; each API's folder has a broken.py that makes them.
BROKEN = ("empty", "no_content", "malformed", "oversized", "undecodable")
# Answered with a response that is right and odd, as users of Gemini reported; the other API has no such ones.
ODD = (
    "prompt_blocked",
    "answer_blocked",
    "truncated",
    "tool_call",
    "malformed_call",
    "no_chunks",
    "no_grounding",
    "thought_first",
    "two_parts",
    "continuation",
    "unheard_of",
    "queries_twice",
    "resent_metadata",
    "cite_marks",
    "urls_above",
)
# Answered as when a quota of the day is used up, which no waiting mends.
DAY_QUOTA = "day_quota"
# Wrong in the way the call goes: never answered, answered late, or cut off with its connection.
CONDUCT = ("hang", "slow", "disconnect")
NAMES = (*ERRORS, *BROKEN, *CONDUCT)
# `all` leaves out the fault that also hits whatever else is on the same connection: the share of failing
# calls would then depend on how many are under way.
ALL = tuple(name for name in NAMES if name != "disconnect")

_KNOWN = (*NAMES, *ODD, DAY_QUOTA)
_GROUPS: Mapping[str, tuple[str, ...]] = {"all": ALL, "odd": ODD}


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that was drawn.

    Attributes:
        name: One of `NAMES` or `ODD`, or `DAY_QUOTA`.
        variety: A number from 0 up that picks among the forms a fault can take.
    """

    name: str
    variety: int


def parse_faults(text: str) -> tuple[tuple[str, float], ...]:
    """Read `name:share,…`, shares in [0, 1].

    `all:share` spreads its share evenly over all but disconnect, `odd:share` over Gemini's oddities.

    Raises:
        ValueError: One sentence that says what is wrong and what is accepted.
    """
    shares = dict.fromkeys(_KNOWN, 0.0)
    named: set[str] = set()
    for entry in filter(None, (entry.strip() for entry in text.split(","))):
        name, _, number = entry.partition(":")
        if name not in _GROUPS and name not in shares:
            known = ", ".join((*_GROUPS, *_KNOWN))
            raise ValueError(f"--faults: there is no fault {name!r}; there are {known}.")
        try:
            share = float(number)
        except ValueError:
            share = -1.0
        if not 0 <= share <= 1:
            raise ValueError(f"--faults: {entry!r} needs a share between 0 and 1, such as {name}:0.05.")
        if name in named:
            raise ValueError(f"--faults: {name} is given twice; give it one share.")
        named.add(name)
        members = _GROUPS.get(name, (name,))
        for member in members:
            shares[member] += share / len(members)
    if sum(shares.values()) > 1 + 1e-9:
        raise ValueError(f"--faults: the shares add up to {sum(shares.values()):g}; they may not exceed 1.")
    return tuple((name, share) for name, share in shares.items() if share)


class FaultMix:
    """Draws a fault, or none, for each accepted call.

    The draw for the k-th call with a prompt depends on the seed, the prompt and k alone: a retry may
    succeed, and another run with the same seed meets the same faults in whatever order its calls arrive.
    """

    def __init__(self, shares: tuple[tuple[str, float], ...], seed: int) -> None:
        self._shares = shares
        self._seed = seed
        self._seen: Counter[bytes] = Counter()

    def draw(self, prompt: str) -> Fault | None:
        """Draw for the next call with this prompt."""
        digest = blake2b(prompt.encode(), digest_size=16).digest()
        drawn = blake2b(f"{self._seed} {self._seen[digest]} ".encode() + digest, digest_size=16).digest()
        self._seen[digest] += 1
        left = int.from_bytes(drawn[:8], "big") / 2**64
        for name, share in self._shares:
            if left < share:
                return Fault(name, int.from_bytes(drawn[8:], "big"))
            left -= share
        return None
