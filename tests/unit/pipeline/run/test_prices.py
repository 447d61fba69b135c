import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundrows.pipeline.run.prices import Price, load_prices
from groundrows.schemas.errors import UsageError
from groundrows.schemas.spending import Spent
from tests.support.tools import is_one_sentence

FLASH = '{"prompt": 0.3, "answer": 2.5}'


def test_each_kind_has_its_price_and_what_is_not_given_costs_what_it_is_made_of():
    spent = Spent(
        prompt=3_000_000, cached=1_000_000, answer=2_000_000, thought=1_000_000, tool=1_000_000,
        searches=1_000, searched_calls=100,
    )  # fmt: skip
    assert Price(prompt=1.0, answer=10.0).of(spent) == 2 + 1 + 20 + 10 + 1
    every = Price(1.0, 10.0, cached=0.25, thought=5.0, tool=0.0, search=0.014, searched_call=0.035)
    assert every.of(spent) == pytest.approx(2 + 0.25 + 20 + 5 + 0 + 14 + 3.5)


def test_cached_tokens_are_never_more_than_the_request_s():
    assert Price(1.0, 1.0, cached=0.5).of(Spent(prompt=1_000_000, cached=9_000_000)) == 0.5


def test_a_file_is_read_as_it_says():
    pro = f'{FLASH[:-1]}, "search": 1}}'
    read = load_prices(f'{{"currency": "EUR", "models": {{"flash": {FLASH}, "pro": {pro}}}}}')
    assert read.currency == "EUR"
    assert read.models == {"flash": Price(0.3, 2.5), "pro": Price(0.3, 2.5, search=1.0)}
    assert load_prices(f'{{"models": {{"flash": {FLASH}}}}}').currency is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "JSON"),
        ("[]", "object"),
        ("{}", "names no model"),
        ('{"models": []}', "names no model"),
        ('{"models": {}}', "names no model"),
        (f'{{"model": {{"m": {FLASH}}}}}', "model` is unknown"),
        (f'{{"models": {{"m": {FLASH}}}, "currency": 5}}', "currency"),
        ('{"models": {"m": 5}}', "`m` is a whole number"),
        ('{"models": {"m": {"prompt": 1}}}', "no price of answer"),
        ('{"models": {"m": {"prompt": 1, "answer": 2, "promt": 3}}}', "did you mean prompt"),
        ('{"models": {"m": {"prompt": 1, "answer": 2, "thinking_of_it": 3}}}', "there are prompt, answer"),
        ('{"models": {"m": {"prompt": -1, "answer": 2}}}', "prompt is no price"),
        ('{"models": {"m": {"prompt": "1", "answer": 2}}}', "prompt is no price"),
        ('{"models": {"m": {"prompt": true, "answer": 2}}}', "prompt is no price"),
        ('{"models": {"m": {"prompt": null, "answer": 2}}}', "prompt is no price"),
        ('{"models": {"m": {"prompt": NaN, "answer": 2}}}', "NaN"),
        ('{"models": {"m": {"prompt": 1e300, "answer": 2}}}', "prompt is no price"),
        ('{"models": {"m": {"prompt": 1}, "m": {"prompt": 2}}}', "`m`"),
    ],
)
def test_what_is_no_file_of_prices_is_refused_in_one_sentence(text, says):
    with pytest.raises(UsageError) as refused:
        load_prices(text)
    assert is_one_sentence(str(refused.value)), refused.value
    assert str(refused.value).startswith("--prices")
    assert says in str(refused.value)


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.fixed_dictionaries({"models": st.dictionaries(st.sampled_from(["m", "`", "\ud800"]), json_values)}))
@settings(max_examples=60, deadline=None)
def test_nothing_in_a_file_ends_in_anything_but_a_sentence(read):
    with suppress(UsageError):
        load_prices(json.dumps(read))
