"""Requests that check an answer against facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from google.protobuf import json_format

from groundrows.schemas.discoveryengine import rules
from groundrows.schemas.discoveryengine.build import add_facts, lay_labels
from groundrows.schemas.discoveryengine.fill import fill
from groundrows.schemas.discoveryengine.messages import Pb, request_class
from groundrows.schemas.errors import RuleError
from groundrows.schemas.jsontext import ordered_json
from groundrows.schemas.service import AskedCheck, Built
from groundrows.schemas.wording import wrong_type

FIELDS = ("facts", "grounding_spec", "citation_threshold", "user_labels")
"""Fields of a record that make a check's request, beside the answer."""

_NO_LABELS: Mapping[str, str] = MappingProxyType({})


def check_request(
    api_version: str,
    answer_text: str,
    facts: Sequence[tuple[str, Mapping[str, str]]],
    citation_threshold: float | None,
    user_labels: Mapping[str, str] = _NO_LABELS,
) -> bytes:
    """The request that checks an answer, claim by claim; nothing is cut to fit.

    Args:
        api_version: Whose message to build.
        answer_text: The answer.
        facts: What to check it against, at least one: texts with attributes.
        citation_threshold: From which score on a fact is cited, in [0, 1]; None for the service's own.
        user_labels: Labels for the request.

    Returns:
        A serialized `CheckGroundingRequest` without its grounding config, which is made of the location;
        map fields in a deterministic order.

    Raises:
        RuleError: `BLANK_ANSWER`, `NO_FACTS`, `TOO_MANY_FACTS`, `FACT_TOO_LONG`, `EMPTY_FACT`,
            `OUT_OF_RANGE`, `INVALID_LABEL`, `TOO_MANY_LABELS` or `LONE_SURROGATE`.
    """
    given: list[object] = [{"fact_text": text, "attributes": dict(attributes)} for text, attributes in facts]
    spec = {"citation_threshold": citation_threshold, "enable_claim_level_score": True}
    message = request_class(api_version, "check")()
    try:
        _lay_check(message, answer_text, "answer", given)
        fill(message.grounding_spec, spec, "grounding_spec")
        lay_labels(message, user_labels)
        return _serialized(message)
    except UnicodeEncodeError:
        raise RuleError(
            "LONE_SURROGATE",
            "the check holds half of a surrogate pair, which no UTF-8 text can: write the whole character",
        ) from None


def build_check(
    api_version: str,
    answer: object,
    path: str,
    fields: Mapping[str, object],
    citation_threshold: float | None,
    claim_scores: bool,
) -> Built:
    """Build the request of a record that wants an answer checked; see `CheckService.build_check`."""
    message = request_class(api_version, "check")()
    _lay_check(message, answer, path, fields.get("facts"))
    spec = message.grounding_spec
    spec.enable_claim_level_score = claim_scores
    if citation_threshold is not None:
        spec.citation_threshold = citation_threshold
    _lay_spec(spec, fields)
    if "user_labels" in fields:
        lay_labels(message, fields["user_labels"])
    return Built(_serialized(message), message.answer_candidate)


def described(request: bytes, api_version: str) -> AskedCheck:
    """What rows say of a request for a check.

    Raises:
        DecodeError: It is no request of its version.
    """
    message = request_class(api_version, "check").FromString(request)
    spec = message.grounding_spec
    return AskedCheck(
        request_json=ordered_json(json_format.MessageToDict(message)),
        citation_threshold=spec.citation_threshold if spec.HasField("citation_threshold") else None,
        fact_count=len(message.facts),
    )


def _lay_check(message: Pb, answer: object, path: str, facts: object) -> None:
    if not isinstance(answer, str):
        raise wrong_type(path, "a string", answer)
    if not answer.strip():
        raise RuleError("BLANK_ANSWER", f"{path} is blank: it must say something that can be checked")
    message.answer_candidate = answer
    if facts is None:
        raise RuleError("NO_FACTS", "the record holds no facts: give `facts` to check the answer against")
    add_facts(message.facts, facts, rules.check_checked_fact_count)


def _lay_spec(spec: Pb, fields: Mapping[str, object]) -> None:
    """Lay a record's own settings, in the API's form or the threshold alone, over those of the run."""
    if "grounding_spec" in fields:
        if "citation_threshold" in fields:
            raise RuleError(
                "TWO_THRESHOLDS", "the record has grounding_spec and citation_threshold: keep one of them"
            )
        fill(spec, fields["grounding_spec"], "grounding_spec")
    elif "citation_threshold" in fields:
        fill(spec, {"citation_threshold": fields["citation_threshold"]})


def _serialized(message: Pb) -> bytes:
    data: bytes = message.SerializeToString(deterministic=True)
    return data
