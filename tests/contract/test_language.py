"""What nobody lists: languages and models go out as they are written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from groundrows.schemas.defaults import load_defaults
from groundrows.schemas.discoveryengine.messages import request_class
from groundrows.schemas.question import RecordSettings, parse_question
from groundrows.schemas.record import Record


def spec(record: dict[str, Any], defaults: dict[str, Any]) -> Any:
    settings = RecordSettings(defaults=load_defaults(json.dumps({"generation_spec": defaults}), "v1"))
    fields = {"question": "Why?", "generation_spec": record}
    question = parse_question(Record(json.dumps(fields).encode(), ""), settings)
    return request_class("v1").FromString(question.request).generation_spec


@pytest.mark.parametrize(
    ("record", "defaults", "sent"),
    [
        ({}, {}, ""),
        ({}, {"language_code": "fr"}, "fr"),
        ({"languageCode": "pt-BR"}, {"language_code": "fr"}, "pt-BR"),
        ({"language_code": "zh-Hant-TW"}, {}, "zh-Hant-TW"),
        ({"language_code": None}, {"languageCode": "fr"}, "fr"),
        ({"model_id": "m"}, {"languageCode": "fr"}, "fr"),
    ],
)
def test_the_record_goes_before_the_defaults(
    record: dict[str, Any], defaults: dict[str, Any], sent: str
) -> None:
    assert spec(record, defaults).language_code == sent


@pytest.mark.parametrize("model", ["default", "a-model-of-next-year-05-06", "ein Modell", "x" * 5_000, ""])
def test_models_are_never_checked(model: str) -> None:
    assert spec({"model_id": model}, {}).model_id == model
    assert spec({}, {"modelId": model}).model_id == model
