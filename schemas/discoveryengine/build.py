"""The fields of a record, or of the request defaults, laid onto a request message."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from groundrows.schemas.discoveryengine import rules
from groundrows.schemas.discoveryengine.fill import fill, fill_list
from groundrows.schemas.discoveryengine.messages import Pb
from groundrows.schemas.errors import RuleError
from groundrows.schemas.labels import check_label_count, check_labels
from groundrows.schemas.wording import wrong_type

# The fields that a record and the request defaults may both have, by the name of their snake_case form.
SHARED_FIELDS = (
    "facts",
    "generation_spec",
    "grounding_sources",
    "grounding_spec",
    "system_instruction",
    "user_context",
    "user_labels",
)


def lay_over(request: Pb, given: Mapping[str, object]) -> None:
    """Lay fields over those that `request` has already, each checked against the service's rules.

    The generation spec merges field by field and labels merge by key; a system instruction replaces the one
    before it, and grounding sources (`facts` are one) replace all of those before them. An empty list of
    sources replaces them with none.

    Args:
        request: A `GenerateGroundedContentRequest`; it is changed in place.
        given: JSON values by snake_case name; names other than `SHARED_FIELDS` are not looked at, and null
            values are not expected.

    Raises:
        RuleError: a rule is broken, the message says which and where.
    """
    if "system_instruction" in given:
        request.ClearField("system_instruction")
        lay_instruction(request.system_instruction, given["system_instruction"], "system_instruction")
    if "generation_spec" in given:
        request.generation_spec.SetInParent()
        fill(request.generation_spec, given["generation_spec"], "generation_spec")
    if "facts" in given or "grounding_spec" in given or "grounding_sources" in given:
        _lay_sources(request, given)
    if "user_labels" in given:
        lay_labels(request, given["user_labels"])


def lay_contents(request: Pb, contents: object) -> None:
    """Add a conversation in the API's form: `contents` as JSON, history included."""
    fill_list(request.contents, contents, "contents")
    rules.check_contents(request.contents)


def add_content(contents: Pb, role: str, text: str) -> None:
    """Append one content of one part to `contents`, a repeated field."""
    content = contents.add()
    content.role = role
    content.parts.add().text = text


def lay_instruction(content: Pb, value: object, path: str) -> None:
    """Fill an empty content with a system instruction: a string, or the API's own form."""
    if isinstance(value, str):
        content.parts.add().text = value
    elif isinstance(value, dict):
        fill(content, value, path)
    else:
        raise wrong_type(path, "a string or an object with parts", value)
    rules.check_system_instruction(content, path)


def lay_labels(request: Pb, labels: object) -> None:
    """Merge labels into those that a request of either method has already."""
    if not isinstance(labels, Mapping):
        raise wrong_type("user_labels", "an object of strings", labels)
    check_labels(labels)
    request.user_labels.update(labels)
    check_label_count(len(request.user_labels))


def add_facts(facts: Pb, given: object, check_count: Callable[[int, str], None]) -> None:
    """Append a record's `facts` to a repeated field: strings, or objects with a text and attributes.

    Args:
        facts: The repeated field.
        given: The JSON value.
        check_count: The rule on how many there may be.
    """
    if not isinstance(given, list):
        raise wrong_type("facts", "a list", given)
    check_count(len(given), "facts")
    for index, fact in enumerate(given):
        path = f"facts[{index}]"
        added = facts.add()
        if isinstance(fact, str):
            added.fact_text = fact
        elif isinstance(fact, dict):
            fill(added, fact, path)
        else:
            raise wrong_type(path, "a string or an object with fact_text", fact)
        rules.check_fact(added.fact_text, path if isinstance(fact, str) else f"{path}.fact_text")


def user_context_of(value: object) -> Mapping[str, object]:
    """Check a user context as far as anybody can: no description of the API knows its fields."""
    if not isinstance(value, dict):
        raise wrong_type("user_context", "an object", value)
    return value


def _lay_sources(request: Pb, given: Mapping[str, object]) -> None:
    if "grounding_sources" in given and "grounding_spec" in given:
        raise RuleError(
            "TWO_GROUNDINGS", "the record has grounding_spec and grounding_sources: keep one of them"
        )
    spec = type(request)().grounding_spec
    paths: list[str] = []
    if "facts" in given:
        inline_source = spec.grounding_sources.add().inline_source
        add_facts(inline_source.grounding_facts, given["facts"], rules.check_fact_count)
        paths.append("facts")
    root = "grounding_sources"
    if "grounding_sources" in given:
        fill_list(spec.grounding_sources, given["grounding_sources"], root)
    elif "grounding_spec" in given:
        root = "grounding_spec.grounding_sources"
        fill(spec, given["grounding_spec"], "grounding_spec")

    sources = spec.grounding_sources
    rules.check_source_count(len(sources), root, bool(paths))
    for index, source in enumerate(sources[len(paths) :]):
        paths.append(f"{root}[{index}]")
        rules.check_source(source, paths[-1])
    rules.check_sources_together(sources, paths)

    if sources or "grounding_sources" in given or _names_sources(given["grounding_spec"]):
        request.ClearField("grounding_spec")
    request.grounding_spec.MergeFrom(spec)
    request.grounding_spec.SetInParent()


def _names_sources(spec: object) -> bool:
    return isinstance(spec, dict) and any(
        spec.get(name) is not None for name in ("grounding_sources", "groundingSources")
    )
