"""A score is the decimal with the fewest digits that says the number sent."""

from __future__ import annotations

import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from groundrows.schemas.service import DISCOVERY_ENGINE, service_of
from tests.contract.flattened import answer_to, question_of, response_of

FLOAT = struct.Struct("<f")


def scored(value: float) -> float | None:
    """The score of a candidate that was sent with `value`."""
    message = response_of("v1")
    message.candidates.add(grounding_score=value)
    answer = answer_to(question_of("v1", "generate"), message)
    response = service_of(DISCOVERY_ENGINE, "v1").read(answer, keep=False)
    assert response.warnings == ()
    (candidate,) = response.candidates
    assert candidate.warnings == ()
    return candidate.score


def as_float(value: float) -> float:
    number: float = FLOAT.unpack(FLOAT.pack(value))[0]
    return number


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, 0.9, 0.99, 0.123456, 0.0625, 0.05, 1e-7, 1.5e-30])
def test_a_score_of_few_digits_is_what_was_meant(value: float) -> None:
    assert scored(value) == value


# The edges of the numbers, of a power of ten and of powers of two; and some that need nine digits.
EDGES = [0.0, 1.0, 1 - 2**-24, 0.1, as_float(0.1) - 2**-27, 0.125, 0.5, 2**-126, 0.012345679, 0.11111112]


@given(st.floats(0, 1, width=32, allow_subnormal=False) | st.floats(0.0625, 1, width=32))
@example(0.10000002)
@example(0.12345679)
def test_a_score_is_the_shortest_decimal_of_its_float(value: float) -> None:
    assert_shortest(as_float(value))


@pytest.mark.parametrize("value", EDGES)
def test_scores_at_the_edges(value: float) -> None:
    assert_shortest(as_float(value))


def assert_shortest(sent: float) -> None:
    short = scored(sent)
    assert short is not None
    assert as_float(short) == sent
    decimals = (float(f"{sent:.{digits}g}") for digits in range(1, 10))
    assert short == next(decimal for decimal in decimals if as_float(decimal) == sent)
