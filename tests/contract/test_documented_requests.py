"""Every request that the service's pages show is a record as it stands, and becomes the message it means."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest
from google.protobuf import json_format

from groundrows.schemas.discoveryengine.messages import request_class
from groundrows.schemas.errors import RecordError
from groundrows.schemas.question import Question, RecordSettings, parse_question
from groundrows.schemas.record import Record
from groundrows.transforms.generate.calling.conversation import turn_request
from tests.contract.documented_requests import CONTEXT, REQUESTS
from tests.support.paths import ROOT
from tests.support.request_json import request_json

LOCATION = "projects/42/locations/global"


def ask(sample: Any, **settings: Any) -> Question:
    return parse_question(Record(json.dumps(sample).encode(), "a.jsonl:1"), RecordSettings(**settings))


def meant(sample: Any, version: str) -> Any:
    """The message by protobuf's own reader, which takes none of what the pages do beside the API's JSON."""
    (sample,) = sample if isinstance(sample, list) else [sample]
    fields = {name: value for name, value in sample.items() if name not in ("user_context", "location")}
    for name in ("systemInstruction", "system_instruction"):
        if isinstance(fields.get(name, {}).get("parts"), dict):
            fields[name] = fields[name] | {"parts": [fields[name]["parts"]]}
    return json_format.ParseDict({**fields, "location": LOCATION}, request_class(version)())


@pytest.mark.parametrize("version", ["v1", "v1beta", "v1alpha"])
@pytest.mark.parametrize("name", REQUESTS)
def test_a_documented_request_is_a_record(name: str, version: Any) -> None:
    sample = REQUESTS[name]
    question = ask(sample, api_version=version, transport="rest")
    sent = request_class(version).FromString(turn_request(question, (), LOCATION))
    assert sent == meant(sample, version)
    has_context = "user_context" in json.dumps(sample)
    assert question.user_context == (json.dumps(CONTEXT, separators=(",", ":")) if has_context else None)


def test_every_sample_of_the_pages_is_here() -> None:
    counts = {page: sum(name.startswith(page) for name in REQUESTS) for page in ("en-", "fr-", "py-", "ref-")}
    assert counts == {"en-": 10, "fr-": 10, "py-": 3, "ref-": 11}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_documented_request_fits_into_grpc_but_for_its_user_context(name: str) -> None:
    sample = REQUESTS[name]
    if "user_context" in json.dumps(sample):
        with pytest.raises(RecordError, match=r"NEEDS_REST.*--transport=rest"):
            ask(sample)
    else:
        assert ask(sample).request == ask(sample, transport="rest").request


def test_the_location_of_the_python_samples_is_the_runs_and_stays_readable() -> None:
    question = ask(REQUESTS["py-stream"])
    assert json.loads(question.metadata or "") == {"location": "projects/42/locations/global"}
    elsewhere = turn_request(question, (), "projects/7/locations/eu")
    assert json.loads(request_json(elsewhere, "v1"))["location"] == "projects/7/locations/eu"


# What the pages say a request can do, and the test that holds us to it.
FEATURES = {
    "inline text, several sources of several facts": "contract/test_sources.py::test_sources_keep_their_order",
    "attributes on facts and on the source": "contract/test_sources.py::test_attributes_on_facts_and_on_the_source",
    "search engines, several": "contract/test_sources.py::test_sources_keep_their_order",
    "result count, filter, safe search": "contract/test_sources.py::test_a_search_as_written",
    "any mix up to ten sources": "contract/test_sources.py::test_ten_sources_in_the_order_of_the_guide",
    "eleven sources are too many": "unit/schemas/discoveryengine/test_rules.py::test_limits",
    "a hundred facts a source, of 10 000 characters": "unit/schemas/discoveryengine/test_rules.py::test_limits",
    "Google Search stands alone": "unit/schemas/discoveryengine/test_rules.py::test_google_search_stands_alone_wherever_it_stands",
    "dynamic retrieval: three requests": "contract/test_sources.py::test_dynamic_retrieval_is_sent_as_written",
    "a threshold in [0, 1]": "unit/schemas/discoveryengine/test_rules.py::test_limits",
    "the predictor's version": "unit/schemas/discoveryengine/test_request.py::test_an_enum_may_be_a_name_or_a_number",
    "web retrieval for enterprises": "contract/test_sources.py::test_enterprise_web_retrieval",
    "v1beta's fields": "contract/test_sources.py::test_v1beta_fields_go_out_on_v1beta",
    "v1beta's fields elsewhere": "contract/test_sources.py::test_v1beta_fields_fail_elsewhere",
    "sources from the defaults": "unit/schemas/test_request_defaults.py::test_defaults_lie_under_every_record",
    "system instruction, string or content": "unit/schemas/discoveryengine/test_request.py::test_every_field_arrives",
    "parts as an object": "unit/schemas/test_question.py::test_parts_may_be_an_object_and_one_content_may_leave_its_role",
    "camelCase and snake_case": "unit/schemas/test_question.py::test_camel_case_and_snake_case_ask_the_same",
    "the history in every turn": "unit/schemas/discoveryengine/test_request.py::test_the_next_turn_says_everything_again",
    "the system instruction in every turn": "contract/test_turns.py::test_the_instruction_is_said_in_every_turn",
    "another system instruction in a turn": "contract/test_turns.py::test_a_turn_with_its_own_instruction",
    "a history as sent": "contract/test_turns.py::test_a_history_goes_out_as_it_came",
    "model parameters": "unit/schemas/discoveryengine/test_request.py::test_every_field_arrives",
    "any model": "unit/schemas/discoveryengine/test_rules.py::test_what_nobody_documents_is_left_to_the_service",
    "language code": "contract/test_language.py::test_the_record_goes_before_the_defaults",
    "latitude and longitude": "unit/schemas/test_question.py::test_a_user_context_goes_out_over_rest",
    "a user context for all": "unit/schemas/test_request_defaults.py::test_the_user_context_of_the_defaults",
    "labels": "unit/schemas/discoveryengine/test_rules.py::test_limits",
    "streaming: the same request in a list": "unit/schemas/test_question.py::test_a_list_of_one_object_is_the_object",
    "checking an answer": "unit/schemas/test_check.py::test_an_answer_and_its_facts",
    "two hundred facts for a check": "unit/schemas/test_check.py::test_the_limits_themselves_pass",
    "claim scores and citation threshold": "unit/schemas/test_check.py::test_a_record_goes_before_the_settings",
}


@pytest.mark.parametrize("feature", FEATURES)
def test_a_documented_feature_has_its_test(feature: str) -> None:
    path, _, name = FEATURES[feature].partition("::")
    tree = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
