"""The flags of `groundrows expire`."""

from __future__ import annotations

from datetime import timedelta

import pytest

from groundrows.pipeline.options.expire import parse_expire
from groundrows.schemas.errors import UsageError
from tests.support.tools import is_one_sentence


@pytest.mark.parametrize(
    ("text", "age"), [("30d", timedelta(days=30)), ("12h", timedelta(hours=12)), ("0d", timedelta())]
)
def test_an_age_is_days_or_hours(text: str, age: timedelta) -> None:
    options = parse_expire(["out/first/", f"--older_than={text}"])
    assert (options.directory, options.older_than) == ("out/first", age)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["out"], "give --older_than, such as 30d"),
        (["out", "--older_than=30"], "write 30d or 12h"),
        (["out", "--older_than=-1d"], "write 30d or 12h"),
        (["out", "--older_than=999999d"], "write 30d or 12h"),
        (["out", "--older_than=30d", "--ledger=none"], "write sqlite:///PATH"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(flags: list[str], says: str) -> None:
    with pytest.raises(UsageError, match=says) as raised:
        parse_expire(flags)
    assert is_one_sentence(str(raised.value))
