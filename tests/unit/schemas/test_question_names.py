import pytest

from groundrows.schemas.names import camel, near_miss, nearest

KNOWN = frozenset(
    [
        "question",
        "turns",
        "contents",
        "id",
        "metadata",
        "facts",
        "system_instruction",
        "grounding_spec",
        "grounding_sources",
        "generation_spec",
        "user_labels",
        "user_context",
    ]
)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("qestion", "question"),
        ("questoin", "question"),
        ("Question", "question"),
        ("questions", "question"),
        ("quastion", "question"),
        ("turn", "turns"),
        ("tunrs", "turns"),
        ("content", "contents"),
        ("fact", "facts"),
        ("factss", "facts"),
        ("fcats", "facts"),
        ("ID", "id"),
        ("meta_data", "metadata"),
        ("metdata", "metadata"),
        ("generationspecs", "generation_spec"),
        ("generation-spec", "generation_spec"),
        ("Generation Spec", "generation_spec"),
        ("genration_specs", "generation_spec"),
        ("system_instructions", "system_instruction"),
        ("systemInstructions", "system_instruction"),
        ("system_instrction", "system_instruction"),
        ("grounding_source", "grounding_sources"),
        ("groundingspec", "grounding_spec"),
        ("user_label", "user_labels"),
        ("usercontext", "user_context"),
    ],
)
def test_near_misses(name: str, meant: str) -> None:
    assert near_miss(name, KNOWN) == meant


@pytest.mark.parametrize(
    "name",
    [
        "answer",
        "answers",
        "context",
        "contexts",
        "title",
        "topic",
        "questions_count",
        "label",
        "labels",
        "turn_count",
        "idx",
        "data",
        "ids",
        "uid",
        "uuid",
        "question_id",
        "question_type",
        "question2",
        "question_1",
        "fact1",
        "turn_2",
        "facets",
        "faces",
        "factor",
        "faqs",
        "facts_count",
        "terms",
        "turf",
        "tours",
        "meta",
        "detail",
        "details",
        "documents",
        "source",
        "sources",
        "url",
        "uri",
        "language",
        "location",
        "country",
        "company",
        "model_id",
        "temperature",
        "grounding_score",
        "grounding",
        "support_score",
        "user",
        "user_id",
        "user_name",
        "user_query",
        "user_content",
        "instruction",
        "instructions",
        "system",
        "system_prompt",
        "generation",
        "spec",
        "quest",
        "request",
        "session_id",
        "prompt",
        "query",
        "text",
        "body",
        "category",
        "tags",
        "content_type",
        "content_id",
        "notes",
        "role",
        "date",
        "timestamp",
        "région",
        "質問",
        "_",
        "-",
    ],
)
def test_names_in_their_own_right(name: str) -> None:
    assert near_miss(name, KNOWN) is None


def test_an_empty_name_is_no_miss() -> None:
    assert near_miss("", KNOWN) is None


def test_a_known_name_is_no_miss_of_itself_or_of_another() -> None:
    for name in KNOWN:
        assert near_miss(name, KNOWN) is None


def test_nearest_answers_only_when_something_is_near() -> None:
    assert nearest("temprature", ["temperature", "top_k"]) == "temperature"
    assert nearest("zzz", ["temperature", "top_k"]) is None


def test_camel() -> None:
    assert [camel(n) for n in ("role", "top_k", "enterprise_web_retrieval_source")] == [
        "role",
        "topK",
        "enterpriseWebRetrievalSource",
    ]
