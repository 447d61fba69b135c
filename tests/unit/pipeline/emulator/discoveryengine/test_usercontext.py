from __future__ import annotations

from typing import Any

import pytest

from groundrows.pipeline.emulator.discoveryengine.json_requests import check_user_context, take_user_context


@pytest.mark.parametrize("name", ["userContext", "user_context"])
def test_is_taken_out_of_the_body(name: str) -> None:
    body: dict[str, Any] = {name: {"languageCode": "de"}, "contents": []}
    assert take_user_context(body) == {"languageCode": "de"}
    assert body == {"contents": []}
    assert take_user_context(body) is None


def test_two_of_them_are_one_too_many() -> None:
    body: dict[str, Any] = {"userContext": {}, "user_context": {}}
    take_user_context(body)
    assert list(body) == ["user_context"]  # which no message has a field for


@pytest.mark.parametrize(
    "context",
    [
        None,
        {},
        {"languageCode": "pt-BR"},
        {"language_code": "en", "lat_lng": {"latitude": -90, "longitude": 180.0}},
        {"latLng": {}},
        {"latLng": {"latitude": 0}},
    ],
)
def test_right_ones_pass(context: object) -> None:
    assert list(check_user_context(context)) == []


@pytest.mark.parametrize(
    ("context", "field"),
    [
        ([], "user_context"),
        ("de", "user_context"),
        ({"country": "CH"}, "user_context"),
        ({"languageCode": 5}, "user_context.language_code"),
        ({"languageCode": None}, "user_context.language_code"),
        ({"latLng": [1, 2]}, "user_context.lat_lng"),
        ({"latLng": {"altitude": 5}}, "user_context.lat_lng"),
        ({"latLng": {"latitude": 90.1}}, "user_context.lat_lng.latitude"),
        ({"latLng": {"longitude": -181}}, "user_context.lat_lng.longitude"),
        ({"latLng": {"latitude": "47"}}, "user_context.lat_lng.latitude"),
        ({"latLng": {"latitude": True}}, "user_context.lat_lng.latitude"),
        ({"latLng": {"latitude": 1e999}}, "user_context.lat_lng.latitude"),
    ],
)
def test_wrong_ones_are_named(context: object, field: str) -> None:
    assert [named for named, _ in check_user_context(context)] == [field]
