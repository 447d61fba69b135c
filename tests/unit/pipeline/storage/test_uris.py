"""URIs that may be shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundrows.pipeline.storage.uris import without_password


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("none", "none"),
        ("local", "local"),
        ("redis://h:6379/0", "redis://h:6379/0"),
        ("redis://:pw@h:6379/0", "redis://h:6379/0"),
        ("redis://user:pw@h:6379/0", "redis://h:6379/0"),
        ("redis://user:p@w@h:6379/0", "redis://h:6379/0"),
        ("redis://user:p/w@h:6379/0", "redis://h:6379/0"),
        ("redis://h:6379/0?password=pw", "redis://h:6379/0"),
        ("redis:pw@h", "h"),
        ("envoy://h:80/domain?quota=q", "envoy://h:80/domain"),
        ("sqlite:///home/me@work/a?b.sqlite", "sqlite:///home/me@work/a?b.sqlite"),
        ("", ""),
    ],
)
def test_what_is_shown(uri: str, shown: str) -> None:
    assert without_password(uri) == shown


@given(st.text(min_size=1).filter(lambda text: "\n" not in text))
def test_no_password_is_shown_whatever_it_holds(password: str) -> None:
    assert without_password(f"redis://u:{password}XsecretX{password}@host:6379/0") == "redis://host:6379/0"
