from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundrows.pipeline.emulator.faults import ALL, NAMES, Fault, FaultMix, parse_faults


def test_parses_shares() -> None:
    assert dict(parse_faults("unavailable:0.05, hang:0.01,slow:0")) == {"unavailable": 0.05, "hang": 0.01}
    assert parse_faults("") == ()


def test_all_spreads_its_share_over_every_fault_but_disconnect() -> None:
    shares = dict(parse_faults("all:0.36"))
    assert set(shares) == set(ALL) == set(NAMES) - {"disconnect"}
    assert set(shares.values()) == {0.36 / len(ALL)}
    assert dict(parse_faults("all:0.36,hang:0.1,disconnect:0.1")).keys() == set(NAMES)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gremlin:0.1", "gremlin"),
        ("hang", "hang:0.05"),
        ("hang:", "between 0 and 1"),
        ("hang:often", "between 0 and 1"),
        ("hang:-0.1", "between 0 and 1"),
        ("hang:1.1", "between 0 and 1"),
        ("hang:nan", "between 0 and 1"),
        ("hang:0.1,hang:0.2", "twice"),
        ("hang:0.6,slow:0.6", "1.2"),
        ("all:0.9,disconnect:0.2", "1.1"),
    ],
)
def test_refuses_in_one_sentence(text: str, said: str) -> None:
    with pytest.raises(ValueError, match="--faults") as raised:
        parse_faults(text)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


@given(st.lists(st.sampled_from("abcd"), max_size=40), st.integers(0, 5))
def test_a_call_meets_the_same_fault_whatever_comes_between(order: list[str], seed: int) -> None:
    shares = parse_faults("unavailable:0.3,slow:0.3")
    together = FaultMix(shares, seed)
    alone = {prompt: FaultMix(shares, seed) for prompt in "abcd"}
    for prompt in order:
        assert together.draw(prompt) == alone[prompt].draw(prompt)


def test_shares_are_kept_and_a_retry_may_succeed() -> None:
    mix = FaultMix(parse_faults("unavailable:0.2,hang:0.1"), seed=3)
    first = [mix.draw(f"prompt {i}") for i in range(5000)]
    names = [fault.name if fault else "" for fault in first]
    assert names.count("unavailable") / 5000 == pytest.approx(0.2, abs=0.02)
    assert names.count("hang") / 5000 == pytest.approx(0.1, abs=0.02)
    again = [mix.draw(f"prompt {i}") for i in range(5000)]
    assert sum(bool(a) and not b for a, b in zip(first, again, strict=True)) > 500


def test_the_seed_decides_and_whole_shares_are_certain() -> None:
    def draws(seed: int, text: str) -> list[str]:
        mix = FaultMix(parse_faults(text), seed)
        return [fault.name if (fault := mix.draw(str(i))) else "" for i in range(50)]

    assert draws(1, "hang:0.5") == draws(1, "hang:0.5") != draws(2, "hang:0.5")
    assert draws(1, "hang:1") == ["hang"] * 50
    assert FaultMix(parse_faults("hang:0"), 1).draw("x") is None


def test_every_fault_has_a_variety_to_choose_a_form_by() -> None:
    mix = FaultMix(parse_faults("malformed:1"), 0)
    drawn = [mix.draw(str(i)) for i in range(60)]
    assert all(isinstance(fault, Fault) for fault in drawn)
    assert {fault.variety % 3 for fault in drawn if fault} == {0, 1, 2}


def test_a_quota_of_the_day_is_a_fault_for_itself():
    assert parse_faults("day_quota:1") == (("day_quota", 1.0),)
    assert "day_quota" not in dict(parse_faults("all:0.5,odd:0.5"))
