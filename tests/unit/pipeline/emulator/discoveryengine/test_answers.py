from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundrows.pipeline.emulator.answering.corpus import BUNDLED, load_passages
from groundrows.pipeline.emulator.answering.extractive import NOTHING_FOUND, UNGROUNDED
from groundrows.pipeline.emulator.answering.retrieval import Passage, SentenceIndex, to_query
from groundrows.pipeline.emulator.answering.websearch import phishing_confidence, prediction
from groundrows.pipeline.emulator.discoveryengine.answers import Extractive
from groundrows.pipeline.emulator.discoveryengine.messages import Request, Retrieved

EXTRACTIVE = Extractive(SentenceIndex(load_passages(BUNDLED)))
FACTS = (
    "The Lemra is a river. The Lemra is 240 kilometres long.",
    "The town of Orvik stands where the Lemra meets the sea.",
    "Herring is eaten with mustard in Orvik.",
)


def answer(request: Any) -> Any:
    [candidate] = EXTRACTIVE.answer(request).candidates
    return candidate


def text_of(candidate: Any) -> str:
    [part] = candidate.content.parts
    return str(part.text)


def test_answers_from_the_facts_verbatim_and_cites_them(ask: Callable[..., Any]) -> None:
    candidate = answer(ask("How long is the Lemra?", facts=FACTS))
    assert text_of(candidate) == "The Lemra is 240 kilometres long."
    assert candidate.content.role == "model"
    metadata = candidate.grounding_metadata
    assert [(chunk.chunk_text, chunk.source) for chunk in metadata.support_chunks] == [(FACTS[0], "0")]
    [support] = metadata.grounding_support
    assert support.claim_text == "The Lemra is 240 kilometres long."
    assert list(support.support_chunk_indices) == [0]
    assert 0 < support.support_score <= 1
    assert candidate.HasField("grounding_score")
    assert [noted.source for noted in metadata.retrieval_metadata] == [Retrieved.INLINE_CONTENT]
    assert not metadata.web_search_queries
    assert not metadata.HasField("search_entry_point")


def test_says_that_it_found_nothing(ask: Callable[..., Any]) -> None:
    candidate = answer(ask("Who composed the anthem of Belgium?", facts=FACTS))
    assert text_of(candidate) == NOTHING_FOUND
    assert not candidate.grounding_metadata.support_chunks
    assert not candidate.grounding_metadata.grounding_support
    assert not candidate.HasField("grounding_score")


@pytest.mark.parametrize("facts", [("",), (" \n",), ("***",), ("???", "")])
def test_facts_without_words_hold_nothing(ask: Callable[..., Any], facts: tuple[str, ...]) -> None:
    assert text_of(answer(ask("What is it?", facts=facts))) == NOTHING_FOUND
    assert text_of(answer(ask("Orvik?", facts=facts))) == NOTHING_FOUND


def test_one_fact_is_enough(ask: Callable[..., Any]) -> None:
    assert text_of(answer(ask("Where is Orvik?", facts=FACTS[1:2]))) == FACTS[1]


def test_without_a_source_the_answer_is_ungrounded(ask: Callable[..., Any]) -> None:
    candidate = answer(ask("How long is the Lemra?"))
    assert text_of(candidate) == UNGROUNDED
    assert not candidate.grounding_metadata.ByteSize()
    assert not candidate.HasField("grounding_score")


def test_attributes_become_source_metadata_and_the_facts_own_win(ask: Callable[..., Any]) -> None:
    request = ask("Where is Orvik?", facts=FACTS[1:2])
    inline = request.grounding_spec.grounding_sources[0].inline_source
    inline.attributes.update({"author": "the harbour office", "title": "Ports"})
    inline.grounding_facts[0].attributes.update(
        {"title": "Orvik", "uri": "https://orvik.example/", "domain": "orvik.example"}
    )
    [chunk] = answer(request).grounding_metadata.support_chunks
    assert (chunk.title, chunk.uri, chunk.domain) == ("Orvik", "https://orvik.example/", "orvik.example")
    assert dict(chunk.source_metadata) == {
        "author": "the harbour office",
        "title": "Orvik",
        "uri": "https://orvik.example/",
        "domain": "orvik.example",
    }


def test_a_chunks_source_is_the_index_in_the_request(ask: Callable[..., Any]) -> None:
    request = ask("What is the capital of Kenya?", facts=("Cats sleep a lot.",))
    sources = request.grounding_spec.grounding_sources
    sources.add().search_source.serving_config = "projects/p/locations/global/…/servingConfigs/c"
    sources.add().inline_source.grounding_facts.add(fact_text="The capital of Kenya is Nairobi.")
    metadata = answer(request).grounding_metadata
    assert {chunk.source for chunk in metadata.support_chunks} == {"1", "2"}
    assert [noted.source for noted in metadata.retrieval_metadata] == [
        Retrieved.INLINE_CONTENT,
        Retrieved.VERTEX_AI_SEARCH,
    ]
    for chunk in metadata.support_chunks:
        if chunk.source == "1":
            assert chunk.uri.startswith("https://capitals.example/")
            assert {"document_id", "page_identifier", "title", "uri"} <= chunk.source_metadata.keys()


def test_the_same_sentence_in_two_facts_is_one_claim_with_two_chunks(ask: Callable[..., Any]) -> None:
    candidate = answer(
        ask("How long is the Lemra?", facts=("It rains. The Lemra is long.", "The Lemra is long."))
    )
    assert text_of(candidate) == "The Lemra is long."
    [support] = candidate.grounding_metadata.grounding_support
    assert sorted(support.support_chunk_indices) == [0, 1]


@pytest.mark.parametrize(
    ("question", "facts", "expected"),
    [
        (
            "日本で一番高い山は何ですか？",
            ("京都は古い都です。富士山は日本で一番高い山です。",),
            "富士山は日本で一番高い山です。",
        ),
        ("ما هي عاصمة مصر؟", ("القاهرة عاصمة مصر.", "النيل نهر طويل."), "القاهرة عاصمة مصر."),
        ("भारत की राजधानी क्या है?", ("गंगा एक नदी है।", "दिल्ली भारत की राजधानी है।"), "दिल्ली भारत की राजधानी है।"),
        ("กรุงเทพ", ("กรุงเทพเป็นเมืองหลวง",), "กรุงเทพเป็นเมืองหลวง"),
    ],
)
def test_answers_in_scripts_other_than_latin(
    ask: Callable[..., Any], question: str, facts: tuple[str, ...], expected: str
) -> None:
    assert text_of(answer(ask(question, facts=facts))) == expected


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What is the capital of France?", "Paris"),
        ("Who painted The Night Watch?", "Rembrandt"),
        ("Which planet is the largest?", "Jupiter"),
        ("How many keys does a piano have?", "88"),
        ("Who discovered penicillin?", "Fleming"),
        ("What is the boiling point of water?", "100 degrees"),
    ],
)
def test_google_search_answers_from_the_bundled_corpus(
    ask: Callable[..., Any], question: str, expected: str
) -> None:
    candidate = answer(ask(question, google=True))
    assert expected in text_of(candidate)
    metadata = candidate.grounding_metadata
    assert list(metadata.web_search_queries) == [question.rstrip("?")]
    assert question.rstrip("?") in metadata.search_entry_point.rendered_content
    [[query, link]] = json.loads(b64decode(metadata.search_entry_point.sdk_blob))
    assert query == question.rstrip("?")
    assert link.startswith("https://search.example/")
    [noted] = metadata.retrieval_metadata
    assert noted.source == Retrieved.GOOGLE_SEARCH
    assert not noted.HasField("dynamic_retrieval_metadata")
    assert all(chunk.uri and chunk.title and chunk.domain for chunk in metadata.support_chunks)


def test_a_search_that_finds_nothing_still_shows_its_queries(ask: Callable[..., Any]) -> None:
    candidate = answer(ask("Adverse news about Initech in France?", google=True))
    assert text_of(candidate) == NOTHING_FOUND
    assert candidate.grounding_metadata.web_search_queries
    assert not candidate.grounding_metadata.support_chunks


def test_search_suggestions_escape_the_prompt(ask: Callable[..., Any]) -> None:
    metadata = answer(ask('<script>"&', google=True)).grounding_metadata
    assert "<script>" not in metadata.search_entry_point.rendered_content


def dynamic(ask: Callable[..., Any], prompt: str, threshold: float | None) -> Any:
    request = ask(prompt, google=True)
    config = request.grounding_spec.grounding_sources[0].google_search_source.dynamic_retrieval_config
    config.SetInParent()
    if threshold is not None:
        config.predictor.threshold = threshold
    return answer(request)


def grounded(candidate: Any) -> bool:
    if text_of(candidate) == UNGROUNDED:
        assert not candidate.grounding_metadata.support_chunks
        assert not candidate.grounding_metadata.web_search_queries
        assert not candidate.grounding_metadata.HasField("search_entry_point")
        return False
    return True


@pytest.mark.parametrize("prompt", [f"What is the capital of France, {i}?" for i in range(20)])
def test_dynamic_retrieval_grounds_from_the_threshold_on(ask: Callable[..., Any], prompt: str) -> None:
    predicted = prediction(prompt)
    assert 0 <= predicted <= 1
    assert grounded(dynamic(ask, prompt, 0.0))
    assert grounded(dynamic(ask, prompt, predicted))
    assert not grounded(dynamic(ask, prompt, min(1.0, predicted + 1 / 1024))) or predicted == 1
    assert grounded(dynamic(ask, prompt, None)) == (predicted >= 0.7)
    [noted] = dynamic(ask, prompt, 0.5).grounding_metadata.retrieval_metadata
    assert noted.source == Retrieved.GOOGLE_SEARCH
    assert noted.dynamic_retrieval_metadata.predictor_metadata.prediction == predicted
    assert noted.dynamic_retrieval_metadata.predictor_metadata.version == 1


def test_predictions_fill_the_range() -> None:
    drawn = [prediction(f"prompt {i}") for i in range(1000)]
    assert min(drawn) < 0.05
    assert max(drawn) > 0.95


def test_a_search_gives_no_more_results_than_asked_for(ask: Callable[..., Any]) -> None:
    def cited(count: int) -> int:
        request = ask("Which mountain is the highest?")
        search = request.grounding_spec.grounding_sources.add().search_source
        search.serving_config, search.max_result_count = "c", count
        return len(answer(request).grounding_metadata.support_chunks)

    assert cited(0) > 1
    assert cited(1) == 1


@pytest.mark.parametrize("kind", ["google_search_source", "enterprise_web_retrieval_source"])
def test_excluded_domains_are_left_out(ask: Callable[..., Any], kind: str) -> None:
    request = ask("What is the capital of France?")
    source = getattr(request.grounding_spec.grounding_sources.add(), kind)
    source.SetInParent()
    assert "Paris" in text_of(answer(request))
    source.exclude_domains.append("capitals.example")
    domains = {chunk.domain for chunk in answer(request).grounding_metadata.support_chunks}
    assert "capitals.example" not in domains


def test_sites_that_are_blocked_for_phishing_are_left_out(ask: Callable[..., Any]) -> None:
    def domains(threshold: int) -> set[str]:
        request = ask("Which mountain is the highest? Which planet, river and capital is the largest?")
        source = request.grounding_spec.grounding_sources.add().google_search_source
        source.SetInParent()
        source.blocking_confidence = threshold
        hits = EXTRACTIVE._search(request.grounding_spec.grounding_sources[0], to_query(["river mountain"]))
        return {hit.passage.domain for hit in hits}

    shown = domains(0)
    assert shown
    assert domains(30) == {domain for domain in shown if phishing_confidence(domain) < 30}


def test_images_and_videos_come_with_google_search_alone(ask: Callable[..., Any]) -> None:
    extractive = Extractive(SentenceIndex(load_passages(BUNDLED)), images=3, videos=2)
    prompt = "What is the capital of France?"
    [candidate] = extractive.answer(ask(prompt, google=True)).candidates
    metadata = candidate.grounding_metadata
    assert metadata.images
    assert metadata.videos
    assert not answer(ask(prompt, google=True)).grounding_metadata.images
    [candidate] = extractive.answer(ask(prompt, facts=("The capital of France is Paris.",))).candidates
    inline = candidate.grounding_metadata
    assert inline.support_chunks
    assert not inline.images
    assert not inline.videos


@pytest.mark.parametrize("word", ["candidates", "images", "videos", "photos", "clips"])
def test_no_word_of_a_question_changes_the_form_of_its_answer(ask: Callable[..., Any], word: str) -> None:
    candidate = answer(ask(f"{word}: what is the capital of France?", google=True))  # a single candidate
    assert "Paris" in text_of(candidate)
    assert not candidate.grounding_metadata.images
    assert not candidate.grounding_metadata.videos


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        (("Tell me about Mount Everest.", "It is high.", "Who climbed it first?"), "Hillary"),
        (("Tell me about the Matterhorn.", "It is steep.", "Who climbed it first?"), "Matterhorn"),
        (("How tall is the Eiffel Tower?", "330 metres.", "Who painted the Mona Lisa?"), "Leonardo"),
        (("Tell me about photosynthesis.", "Yes.", "And why is that?"), "photosynthesis"),
    ],
)
def test_earlier_turns_say_what_the_last_one_is_about(
    ask: Callable[..., Any], turns: tuple[str, ...], expected: str
) -> None:
    assert expected in text_of(answer(ask(*turns, google=True)))


def test_a_long_history_does_not_drown_the_last_turn(ask: Callable[..., Any]) -> None:
    history = [turn for i in range(20) for turn in (f"Tell me about subject number {i} and topic{i}.", "No.")]
    assert "Leonardo" in text_of(answer(ask(*history, "Who painted the Mona Lisa?", google=True)))


PIECES = ("river", "town", "sea", "long", "old", "Orvik", "Lemra", "**", "山", ".", "!", "?", "\n", "")
texts = st.lists(st.sampled_from(PIECES), max_size=12).map(" ".join)


@given(st.lists(texts, min_size=1, max_size=4), st.lists(texts, min_size=1, max_size=3))
def test_an_answer_is_consistent_in_itself_whatever_is_asked(facts: list[str], turns: list[str]) -> None:
    request = Request()
    for turn in turns:
        request.contents.add(role="user").parts.add(text=turn)
    inline = request.grounding_spec.grounding_sources.add().inline_source
    for fact in facts:
        inline.grounding_facts.add(fact_text=fact)
    candidate = answer(request)
    metadata = candidate.grounding_metadata
    claims = [support.claim_text for support in metadata.grounding_support]
    assert len(claims) <= 3
    assert text_of(candidate) == (" ".join(claims) or NOTHING_FOUND)
    assert candidate.HasField("grounding_score") == bool(claims)
    cited = set()
    for support in metadata.grounding_support:
        assert 0 <= support.support_score <= 1
        indices = list(support.support_chunk_indices)
        assert len(indices) == len(set(indices)) >= 1
        assert support.claim_text in metadata.support_chunks[indices[0]].chunk_text
        cited.update(indices)
    assert cited == set(range(len(metadata.support_chunks)))
    assert {chunk.chunk_text for chunk in metadata.support_chunks} <= set(facts)


def test_an_empty_corpus_is_no_trap(ask: Callable[..., Any]) -> None:
    extractive = Extractive(SentenceIndex([Passage(text="", sentences=())]))
    [candidate] = extractive.answer(ask("Why?", google=True)).candidates
    assert text_of(candidate) == NOTHING_FOUND
