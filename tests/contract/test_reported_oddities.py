"""What users of Gemini reported of it, and which test shows that we live with it.

The texts are ours; what was reported is told shortly. Each test has input of its own making.
"""

from __future__ import annotations

import ast

import pytest

from groundrows.pipeline.emulator.faults import ODD
from tests.support.paths import ROOT

READING = "unit/schemas/gemini/test_reading.py"
RECORDS = "unit/schemas/gemini/test_records.py"
ANY = "contract/test_any_gemini_response.py"
CLIENT = "services/clients/test_gemini_client.py"
EMULATOR = "services/emulator/test_gemini.py"
ROWS = "system/test_gemini.py"

ODDITIES: dict[str, tuple[str, str]] = {
    "searched, but no chunks and no supports": (READING, "test_searched_but_no_chunks_and_no_supports"),
    "supports that point at no chunks": (READING, "test_chunks_missing_while_supports_point_at_them"),
    "metadata missing at random": (READING, "test_no_metadata_at_all_is_an_answer_without_grounding"),
    "the part behind a thought is not named": (
        READING,
        "test_a_thought_is_no_part_of_the_answer_and_an_unnamed_part_is_found",
    ),
    "offsets count within a part": (READING, "test_offsets_count_in_the_part_that_is_named"),
    "offsets count in the joined text": (
        READING,
        "test_offsets_that_count_in_the_joined_text_are_recognised",
    ),
    "thoughts shift what is cited": (READING, "test_the_history_is_the_text_without_thoughts"),
    "bytes taken for characters": (READING, "test_bytes_become_characters"),
    "pairs of surrogates split": (READING, "test_half_of_a_surrogate_pair_costs_no_answer"),
    "any script and any split into parts": (ANY, "test_every_claim_stands_where_the_characters_are_its_own"),
    "segments as short as two marks": (READING, "test_a_tiny_segment_marks_one_place_alone"),
    "a chunk's field that nobody knows": (
        READING,
        "test_a_field_nobody_knows_is_kept_in_the_source_metadata",
    ),
    "redirects for sources, and no domain": (READING, "test_redirect_links_expire_and_no_domain_is_guessed"),
    "STOP without parts; the output limit used up by thinking; no content; RECITATION with citations; "
    "MALFORMED_FUNCTION_CALL; UNEXPECTED_TOOL_CALL": (READING, "test_no_text_is_a_failure_that_says_why"),
    "an empty answer passes": (ROWS, "test_an_empty_answer_is_asked_for_three_times_and_never_kept"),
    "the finish message names the tool": (
        READING,
        "test_what_the_service_says_of_a_refusal_is_in_the_message",
    ),
    "grounding in an early part of a stream": (
        READING,
        "test_metadata_in_an_early_part_survives_the_last_one",
    ),
    "a trailing part with usage alone; metadata without content": (
        READING,
        "test_metadata_without_content_and_usage_without_candidates",
    ),
    "metadata sent again whole": (READING, "test_metadata_sent_again_whole_is_not_counted_twice"),
    "metadata missing in streams alone": (
        READING,
        "test_a_stream_without_any_metadata_is_an_answer_without_grounding",
    ),
    "chunks of stores overlooked": (READING, "test_a_passage_of_a_store_has_text_document_and_page"),
    "no place within the document": (
        READING,
        "test_a_passage_of_a_store_need_not_say_where_in_the_document_it_stands",
    ),
    "the model decides not to search": (
        READING,
        "test_a_model_that_decides_not_to_search_leaves_the_metadata_empty",
    ),
    "the old search tool is refused; structured output is, beside a search": (
        EMULATOR,
        "test_a_wrong_request_is_refused",
    ),
    "dynamic retrieval and structured output are refused before the call": (
        RECORDS,
        "test_what_can_not_be_asked_is_refused_with_a_way_out",
    ),
    "marks of citations in the text": (READING, "test_marks_that_the_model_wrote_stay_in_the_text"),
    "tokens of tools outside of the other counts": (
        READING,
        "test_tokens_outside_prompt_and_answer_are_counted_apart",
    ),
    "the same query several times, billed once": (
        READING,
        "test_queries_are_kept_as_sent_and_billed_once",
    ),
    "addresses that were read are told beside or above the candidate": (
        READING,
        "test_addresses_that_were_read_may_be_told_above_the_candidates_and_in_a_part_of_a_stream",
    ),
    "a refusal without details; a store that is refused": (CLIENT, "test_what_a_call_ends_in"),
    "a second request after a connection broke": (
        CLIENT,
        "test_a_connection_that_breaks_is_one_call_and_one_error",
    ),
    "answers that go on elsewhere": (READING, "test_text_is_an_answer_whatever_it_ends_for"),
    "all of them at once, among faults": (ROWS, "test_faults_and_oddities_leave_the_count_law_standing"),
}


@pytest.mark.parametrize(("file", "name"), ODDITIES.values(), ids=ODDITIES)
def test_each_has_its_test(file: str, name: str) -> None:
    tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_each_oddity_of_the_emulator_is_one_that_its_gemini_makes() -> None:
    from groundrows.pipeline.emulator.gemini.broken import broken
    from groundrows.pipeline.emulator.gemini.canned import canned_response

    for name in ODD:
        whole = broken(name, 0, canned_response(), streams=False)
        parts = broken(name, 0, canned_response(), streams=True)
        assert len(whole) == 1
        assert parts
