"""The service's rules that can be checked before calling, each with its limit.

They are the limits the service documents for `GenerateGroundedContent` and `CheckGrounding`; the checks on
messages say which path broke which of them. What the service does not document, such as the range of a
temperature or the list of models, is left to the service.
"""

from __future__ import annotations

from collections.abc import Sequence

from groundrows.schemas.discoveryengine.messages import Pb
from groundrows.schemas.errors import RuleError

MAX_SOURCES = 10
MAX_FACTS = 100
MAX_CHECKED_FACTS = 200
MAX_FACT_CHARACTERS = 10_000

# By field name, both ends allowed. Checked as written: without presence, a 0 would read as unset.
RANGES: dict[str, tuple[int, int]] = {
    "max_result_count": (1, 10),
    "threshold": (0, 1),
    "citation_threshold": (0, 1),
}

# Fields of (message, field) that v1beta has and v1 lacks.
V1BETA_ONLY = frozenset(
    {
        ("GenerationSpec", "provisioned_throughput_setting"),
        ("GoogleSearchSource", "exclude_domains"),
        ("GoogleSearchSource", "blocking_confidence"),
        ("EnterpriseWebRetrievalSource", "exclude_domains"),
        ("EnterpriseWebRetrievalSource", "blocking_confidence"),
    }
)


def check_contents(contents: Sequence[Pb]) -> None:
    """Check a conversation in the API's form: roles, texts, and a question of the user's at its end.

    Raises:
        RuleError: `NO_QUESTION`, `INVALID_ROLE`, `NO_TEXT`, `LAST_NOT_USER` or `BLANK_QUESTION`.
    """
    if not contents:
        raise RuleError("NO_QUESTION", "`contents` is empty: give at least the user's question")
    for index, content in enumerate(contents):
        path = f"contents[{index}]"
        check_content(content, path)
        if not content.role and len(contents) > 1:
            raise RuleError("INVALID_ROLE", f"{path}.role is missing: in a history each has user or model")
    if contents[-1].role == "model":
        raise RuleError(
            "LAST_NOT_USER",
            f"contents[{len(contents) - 1}].role is model: the last one asks, so it is user",
        )
    if not text_of(contents[-1]).strip():
        raise RuleError("BLANK_QUESTION", f"contents[{len(contents) - 1}] is blank: it must ask something")


def check_content(content: Pb, path: str) -> None:
    """Check that one content has a role the API knows, or none, and text in each of its parts."""
    if content.role not in ("", "user", "model"):
        raise RuleError("INVALID_ROLE", f"{path}.role must be user or model")
    if not content.parts:
        raise RuleError("NO_TEXT", f"{path}.parts is empty: give a part with text")
    for index, part in enumerate(content.parts):
        if part.WhichOneof("data") is None:
            raise RuleError("NO_TEXT", f"{path}.parts[{index}].text is missing")


def check_system_instruction(content: Pb, path: str) -> None:
    """Check a system instruction in the API's form: it must say something."""
    check_content(content, path)
    if not text_of(content).strip():
        raise RuleError("BLANK_SYSTEM_INSTRUCTION", f"{path} is blank: leave it out or fill it")


def check_source_count(count: int, path: str, facts_count_too: bool) -> None:
    """Check how many grounding sources one request has; `facts` beside them are one of them."""
    if count > MAX_SOURCES:
        beside = " with the one of `facts`" if facts_count_too else ""
        raise RuleError(
            "TOO_MANY_SOURCES",
            f"{path} has {count} sources{beside}: a request takes {MAX_SOURCES}",
        )


def check_source(source: Pb, path: str) -> None:
    """Check one grounding source by itself.

    Raises:
        RuleError: `EMPTY_SOURCE`, `TOO_MANY_FACTS`, `EMPTY_FACT`, `FACT_TOO_LONG` or
            `MISSING_SERVING_CONFIG`.
    """
    kind = source.WhichOneof("source")
    if kind is None:
        raise RuleError("EMPTY_SOURCE", f"{path} names no source: give inline_source or another")
    if kind == "inline_source":
        facts_path = f"{path}.inline_source.grounding_facts"
        check_fact_count(len(source.inline_source.grounding_facts), facts_path)
        for index, fact in enumerate(source.inline_source.grounding_facts):
            check_fact(fact.fact_text, f"{facts_path}[{index}].fact_text")
    elif kind == "search_source" and not source.search_source.serving_config.strip():
        raise RuleError(
            "MISSING_SERVING_CONFIG",
            f"{path}.search_source.serving_config is missing: give projects/…/servingConfigs/…",
        )


def check_sources_together(sources: Sequence[Pb], paths: Sequence[str]) -> None:
    """Check what sources may stand beside each other: Google Search must be the only one."""
    if len(sources) > 1:
        for source, path in zip(sources, paths, strict=True):
            if source.WhichOneof("source") == "google_search_source":
                raise RuleError(
                    "GOOGLE_SEARCH_NOT_ALONE",
                    f"{path} is Google Search beside {len(sources) - 1} more: it must be the only source",
                )


def check_fact_count(count: int, path: str) -> None:
    """Check how many facts one inline source has."""
    if count == 0:
        raise RuleError("EMPTY_SOURCE", f"{path} is empty: give at least one fact or leave the source out")
    if count > MAX_FACTS:
        raise RuleError(
            "TOO_MANY_FACTS",
            f"{path} has {count} facts: an inline source takes {MAX_FACTS}, use several",
        )


def check_checked_fact_count(count: int, path: str) -> None:
    """Check how many facts an answer is checked against."""
    if count == 0:
        raise RuleError("NO_FACTS", f"{path} is empty: give at least one fact to check the answer against")
    if count > MAX_CHECKED_FACTS:
        raise RuleError(
            "TOO_MANY_FACTS", f"{path} has {count} facts: a check takes {MAX_CHECKED_FACTS}, leave some out"
        )


def check_fact(text: str, path: str) -> None:
    """Check one fact's text; its length counts in characters."""
    if len(text) > MAX_FACT_CHARACTERS:
        raise RuleError(
            "FACT_TOO_LONG",
            f"{path} has {len(text):,} characters: a fact takes {MAX_FACT_CHARACTERS:,}, split it",
        )
    if not text.strip():
        raise RuleError("EMPTY_FACT", f"{path} is empty: give its text or leave it out")


def text_of(content: Pb) -> str:
    """The text of a content: its parts together."""
    return "".join(part.text for part in content.parts)
