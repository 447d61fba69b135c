import pytest

from groundrows.schemas.codes import EMPTY_ANSWER, RESPONSE_TOO_LARGE, UNDECODABLE_RESPONSE
from groundrows.schemas.errors import CallError
from groundrows.schemas.spending import NOTHING, Need, Spent
from groundrows.transforms.generate.calling.fares import (
    FIRST_GUESS_TOKENS,
    FREE,
    MEAN_OF,
    Cost,
    Expectations,
    Fare,
)
from groundrows.transforms.generate.clients.base import Reply

NEED = Need("m", prompt=10, most_answer=None, may_search=False)


def took(tokens, searches=0):
    return Spent(total=tokens, searches=searches, searched_calls=int(searches > 0))


def test_before_the_first_answer_the_largest_one_allowed_is_expected_or_a_guess():
    expectations = Expectations()
    assert expectations.of(NEED) == Cost(10 + FIRST_GUESS_TOKENS, 0)
    assert expectations.of(Need("m", 10, most_answer=200, may_search=True)) == Cost(210, 1)


def test_afterwards_it_is_what_answers_of_the_same_model_took_beyond_their_requests():
    expectations = Expectations()
    for tokens in (110, 310):
        expectations.learn(NEED, took(tokens))
    assert expectations.of(NEED).tokens == 10 + 200
    assert expectations.of(Need("m", 1_000, most_answer=50_000, may_search=False)).tokens == 1_200
    assert expectations.of(Need("other", 10, None, False)).tokens == 10 + FIRST_GUESS_TOKENS
    for _ in range(20 * MEAN_OF):  # the mean follows what has changed
        expectations.learn(NEED, took(1_010))
    assert expectations.of(NEED).tokens == pytest.approx(1_010, abs=2)


def test_searches_are_expected_of_those_that_may_search_alone_and_at_least_one_till_it_is_known():
    expectations = Expectations()
    searching = Need("m", 10, None, may_search=True)
    expectations.learn(NEED, took(20))
    assert (expectations.of(searching).searches, expectations.of(NEED).searches) == (1, 0)
    for _ in range(3):
        expectations.learn(searching, took(20, searches=3))
    assert (expectations.of(searching).searches, expectations.of(NEED).searches) == (3, 0)


def test_an_estimate_that_is_too_high_never_makes_a_call_free():
    expectations = Expectations()
    expectations.learn(Need("m", 10_000, None, False), took(5))
    assert expectations.of(NEED).tokens == 1


def test_what_attempts_took_adds_up_empty_answers_included():
    fare = Fare(Expectations(), NEED)
    empty = CallError(EMPTY_ANSWER, "", spent=Spent(prompt=9, thought=90, total=99))
    assert fare.ended(fare.expected(), empty) == Cost(99, 0)
    reply = Reply(b"", spent=Spent(prompt=9, answer=20, total=29, searches=2, searched_calls=1))
    assert fare.ended(fare.expected(), reply) == Cost(29, 2)
    assert fare.spent == Spent(prompt=18, answer=20, thought=90, total=128, searches=2, searched_calls=1)


@pytest.mark.parametrize("code", ["UNAVAILABLE", "RESOURCE_EXHAUSTED", "INVALID_ARGUMENT", "NOT_FOUND"])
def test_what_the_service_refused_is_not_billed(code):
    fare = Fare(Expectations(), NEED)
    assert fare.ended(fare.expected(), CallError(code, "")) == FREE
    assert fare.spent == NOTHING


@pytest.mark.parametrize(
    "how",
    [
        CallError("DEADLINE_EXCEEDED", ""),
        CallError(RESPONSE_TOO_LARGE, ""),
        CallError(UNDECODABLE_RESPONSE, ""),
        Reply(b"{}"),
    ],
)
def test_what_may_have_been_billed_counts_as_expected_and_is_told_apart(how):
    fare = Fare(Expectations(), NEED)
    expected = fare.expected()
    assert fare.ended(expected, how) == expected
    assert fare.spent == Spent(unreported_calls=1, unreported_tokens=expected.tokens)
    assert fare.expected() == expected  # nothing was learnt


def test_a_service_that_reports_nothing_costs_nothing():
    fare = Fare(Expectations())
    assert (fare.expected(), fare.ended(FREE, Reply(b""))) == (FREE, FREE)
    assert (fare.spent, fare.model) == (NOTHING, "")
