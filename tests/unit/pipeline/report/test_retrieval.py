import json
import struct

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from groundrows.pipeline.report.retrieval import PROMPTS_A_STEP, retrieval
from groundrows.schemas.rows import Retrieval
from tests.support.made import answer


def predicted(number, prediction, **changes):
    made = {
        "answer_id": str(number),
        "question": f"prompt {number}",
        "retrieval": (Retrieval("GOOGLE_SEARCH", None, prediction),),
    }
    return answer(**(made | changes))


def test_none_without_predictions(load):
    db, _ = load([answer(), predicted(1, None)])
    assert retrieval(db) is None


def test_grounded_at_each_threshold(load):
    predictions = (0.0, 0.1, 0.25, 0.7, 0.999, 1.0)
    # As the service sends them: 32 bits, which a double shows to be a little off.
    sent = [struct.unpack("f", struct.pack("f", each))[0] for each in predictions]
    db, _ = load([predicted(number, each) for number, each in enumerate(sent)] + [answer(answer_id="none")])
    found = retrieval(db)
    assert found is not None
    assert (found.predictions, found.answers) == (6, 7)
    for step, count in enumerate(found.grounded):
        assert count == sum(each >= step / 100 for each in predictions), step
    assert [prompt.text for prompt in found.prompts] == [f"prompt {number}" for number in range(6)]
    assert not found.sampled


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 1000), min_size=1, max_size=40))
def test_it_counts_as_the_service_would(load, thousandths):
    db, _ = load([predicted(number, each / 1000) for number, each in enumerate(thousandths)])
    found = retrieval(db)
    db.execute("SET schema = 'main'; DROP SCHEMA this CASCADE")
    assert found is not None
    for step in (0, 1, 29, 57, 58, 70, 100):
        assert found.grounded[step] == sum(each >= step * 10 for each in thousandths)


def test_prompts_are_a_sample_of_each_step_and_in_order(load):
    db, _ = load([predicted(number, 0.5) for number in range(20)] + [predicted("low", 0.1)])
    found = retrieval(db)
    assert found is not None
    assert found.sampled
    assert [prompt.step for prompt in found.prompts] == [10] + [50] * PROMPTS_A_STEP


def test_the_threshold_is_the_one_most_were_asked_with(load):
    def asked(threshold):
        config = {"dynamicRetrievalConfig": {"predictor": {"threshold": threshold}}}
        return json.dumps({"groundingSpec": {"groundingSources": [{"googleSearchSource": config}]}})

    rows = [predicted(number, 0.5, request_json=asked(0.35)) for number in range(3)]
    rows.append(predicted("other", 0.5, request_json=asked(0.9), web_search_queries=("one",)))
    db, _ = load(rows)
    found = retrieval(db)
    assert found is not None
    assert (found.threshold, found.named, found.searched) == (0.35, True, 1)


def test_without_one_it_is_the_services_own(load):
    db, _ = load([predicted(1, 0.5)])
    found = retrieval(db)
    assert found is not None
    assert (found.threshold, found.named) == (0.7, False)


def test_other_candidates_of_a_call_do_not_count_again(load):
    db, _ = load([predicted(1, 0.5), predicted(2, 0.5, candidate_index=1)])
    found = retrieval(db)
    assert found is not None
    assert (found.predictions, found.answers) == (1, 1)
