import json
from collections import Counter
from dataclasses import replace

import apache_beam as beam
import pytest
from apache_beam.metrics import MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.window import FixedWindows, GlobalWindows, SlidingWindows
from hypothesis import given, settings
from hypothesis import strategies as st

from groundrows.pipeline.emulator.process import running_emulator
from groundrows.transforms.counters import CHECKS, RECORDS, retries_by_code
from groundrows.transforms.generate.calling import shared
from groundrows.transforms.generate.clients.open import open_client
from groundrows.transforms.generate.pacing.open import open_pacer
from groundrows.transforms.generate.stage import GenerateAnswers, _GenerateShardFn
from groundrows.transforms.shards import shard_of
from tests.support import pipelines
from tests.support.engines import (
    codes_of,
    make_check,
    make_question,
    make_settings,
    read_log,
    text_of,
)
from tests.support.paths import ROOT
from tests.support.streams import Come, play

SHARDED = {"rate_limiter": "sharded", "requests_per_minute": 1e7}


@pytest.fixture(autouse=True)
def _afresh():
    pipelines.forget_everything()
    yield
    assert shared.running() == []  # every engine was closed


def questions(count, seconds=1.0):
    return [make_question(f"q{number}", second=number * seconds) for number in range(count)]


def run(asked, calls, client_of=pipelines.uneven_client, windowing=None, bounded=True, **options):
    """Run a pipeline over the questions; its result. Without `bounded` the graph is built as for a stream."""
    pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions.from_dictionary(options))
    source = pipeline | beam.Create(asked) | beam.Map(pipelines.stamped)
    if windowing is not None:
        source = source | beam.WindowInto(windowing)
    source.is_bounded = bounded
    source | GenerateAnswers(calls, client_of) | beam.ParDo(pipelines.Collect())
    result = pipeline.run()
    result.wait_until_finish()
    return result


def outcomes():
    return [outcome for outcome, _, _ in pipelines.collected]


def counters(result, namespace):
    found = result.metrics().query(MetricsFilter().with_namespace(namespace))
    return {counter.key.metric.name: counter.result for counter in found["counters"]}


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 100])
@pytest.mark.parametrize("how", [{}, {**SHARDED, "pacing_shards": 3}], ids=["local", "sharded"])
def test_no_question_is_lost_whatever_the_batch_size(count, how):
    run(questions(count), make_settings(batch_size=8, max_in_flight=4, **how))
    assert Counter(outcome.question.question_id for outcome in outcomes()) == {
        f"q{number}": 1 for number in range(count)
    }
    assert codes_of(outcomes()) == ({"OK": count} if count else {})


@pytest.mark.parametrize(
    "how",
    [{}, {**SHARDED, "pacing_shards": 1}, {**SHARDED, "pacing_shards": 5}],
    ids=["local", "one shard", "five shards"],
)
def test_every_outcome_keeps_its_questions_window_and_timestamp(how):
    asked = questions(120, seconds=1.5)
    run(asked, make_settings(batch_size=7, max_in_flight=16, **how), windowing=FixedWindows(10))
    assert len(pipelines.collected) == 120
    windows = set()
    for outcome, timestamp, window in pipelines.collected:
        second = json.loads(outcome.question.metadata)["second"]
        assert float(timestamp) == second
        assert float(window.start) == second // 10 * 10
        windows.add(window)
    assert len(windows) == 18
    # They did come in another order than they went.
    order = [outcome.question.question_id for outcome, _, _ in pipelines.collected]
    assert order != [question.question_id for question in asked]


def test_a_question_in_several_windows_has_its_outcome_in_each():
    run(questions(10, seconds=10), make_settings(batch_size=3), windowing=SlidingWindows(20, 10))
    seen = Counter()
    for outcome, timestamp, window in pipelines.collected:
        second = json.loads(outcome.question.metadata)["second"]
        assert float(timestamp) == second
        assert window.start <= second < window.end
        seen[outcome.question.question_id] += 1
    assert seen == {f"q{number}": 2 for number in range(10)}
    assert codes_of(outcomes()) == {"OK": 20}


@pytest.mark.parametrize("bounded", [True, False], ids=["grouped", "in state"])
@pytest.mark.parametrize("shards", [1, 2, 7])
def test_sharded_calling_ends_the_same(shards, bounded):
    asked = questions(60)
    run(asked, make_settings(batch_size=4), pipelines.shaky_client)
    expected = {
        outcome.question.question_id: (codes_of([outcome]), outcome.calls, outcome.retry_codes)
        for outcome in outcomes()
    }
    pipelines.forget_everything()
    settings = make_settings(batch_size=4, **SHARDED, pacing_shards=shards)
    run(asked, settings, pipelines.shaky_client, bounded=bounded)
    assert expected == {
        outcome.question.question_id: (codes_of([outcome]), outcome.calls, outcome.retry_codes)
        for outcome in outcomes()
    }
    assert len(expected) == 60


def test_counters_say_what_was_called():
    result = run(questions(100), make_settings(batch_size=9), pipelines.shaky_client)
    # Of 100: ten fail once, ten twice, and ten for good at the first call.
    assert codes_of(outcomes()) == {"OK": 90, "INVALID_ARGUMENT": 10}
    assert counters(result, RECORDS) == {"calls": 130, "retries": 30}
    assert counters(result, retries_by_code(RECORDS)) == {"UNAVAILABLE": 10, "ABORTED": 20}
    assert sum(len(client.log) for client in pipelines.clients) == 130
    found = result.metrics().query(MetricsFilter().with_namespace(RECORDS))["distributions"]
    assert [latency.result.count for latency in found] == [90]


def distributions(result, namespace):
    found = result.metrics().query(MetricsFilter().with_namespace(namespace))["distributions"]
    return {one.key.metric.name: one.result for one in found}


def test_checks_are_counted_apart():
    checks = [make_check(f"a{number}", question_id=f"c{number}") for number in range(3)]
    result = run(checks, make_settings(method="check"), pipelines.client_by_method)
    assert codes_of(outcomes()) == {"OK": 3}
    assert counters(result, CHECKS) == {"calls": 4, "retries": 1}
    assert counters(result, retries_by_code(CHECKS)) == {"UNAVAILABLE": 1}
    assert {name: one.count for name, one in distributions(result, CHECKS).items()} == {"latency_ms": 3}
    assert counters(result, RECORDS) == counters(result, retries_by_code(RECORDS)) == {}


def test_of_streams_the_first_part_is_timed_too():
    result = run(questions(3), make_settings(stream_answers=True), pipelines.client_by_method)
    found = distributions(result, RECORDS)
    assert found.keys() == {"latency_ms", "first_part_ms"}
    assert (found["first_part_ms"].count, found["first_part_ms"].max) == (3, 7)
    pipelines.forget_everything()
    result = run(questions(3), make_settings(), pipelines.client_by_method)
    assert distributions(result, RECORDS).keys() == {"latency_ms"}


def test_over_rest_a_pipeline_ends_the_same():
    asked = [make_question(f"Which planet is number {number}?") for number in range(30)]
    with running_emulator("--port=0", "--rest_port=0") as emulator:
        for address, transport in ((emulator.address, "grpc"), (emulator.rest_address, "rest")):
            # By the default, which goes by the settings.
            run(asked, make_settings(address, transport=transport), open_client)
    ended = outcomes()
    assert codes_of(ended) == {"OK": 60}
    texts = {}
    for outcome in ended:
        texts.setdefault(outcome.question.question_id, []).append(text_of(outcome.answers[0].response))
    assert all(one == other for one, other in texts.values())


def test_what_the_ledger_gives_is_not_counted_as_called(tmp_path):
    calls = make_settings(ledger=f"sqlite://{tmp_path}/ledger")
    run(questions(20), calls)
    result = run(questions(20), replace(calls, run_id="another"))
    assert codes_of(outcomes()) == {"OK": 40}
    assert counters(result, RECORDS) == {"from_ledger": 20}


def test_waiting_for_the_pace_is_signalled():
    result = run(questions(4), make_settings(requests_per_minute=120.0))
    assert counters(result, RECORDS)["cumulativeThrottlingSeconds"] == 1


def test_threads_share_one_engine():
    run(
        questions(200),
        make_settings(batch_size=8),
        direct_num_workers=4,
        direct_running_mode="multi_threading",
    )
    assert codes_of(outcomes()) == {"OK": 200}
    assert len(pipelines.clients) == 1


def test_a_source_of_many_bundles_is_one_run():
    pipeline = beam.Pipeline(runner=FnApiRunner())
    # A shuffle cuts the questions into bundles, and several threads work on them.
    (
        pipeline
        | beam.Create(questions(100) + [replace(question, origin="again") for question in questions(100)])
        | beam.Reshuffle(num_buckets=7)
        | GenerateAnswers(make_settings(batch_size=8), pipelines.uneven_client)
        | beam.ParDo(pipelines.Collect())
    )
    pipeline.run().wait_until_finish()
    assert codes_of(outcomes()) == {"OK": 100, "duplicate": 100}


# -- when nothing can work -------------------------------------------------------------------------------


def asked_as_a_stream(count, calls, client_of):
    """Play the questions as a stream that stands still, twice: before a half of them and after the other."""
    events = [Come(tuple(range(half))) for half in (count // 2, count - count // 2)]
    play(
        events,
        lambda number: make_question(f"q{number}"),
        lambda asked: asked | GenerateAnswers(calls, client_of) | beam.ParDo(pipelines.Collect()),
    )
    for engine in shared.running():  # the local runner takes nothing down of what failed; others do
        shared.release(engine)


@pytest.mark.parametrize("how", [{}, {**SHARDED, "pacing_shards": 2}], ids=["local", "sharded"])
def test_a_stream_loses_no_question_while_nothing_can_work(how):
    asked_as_a_stream(40, make_settings(**how), pipelines.denied_at_first)
    assert {outcome.question.question_id for outcome in outcomes()} == {f"q{n}" for n in range(40)}
    assert codes_of(outcomes())["NOT_ATTEMPTED"] == 0
    assert codes_of(outcomes())["OK"] == 40


def test_an_archives_questions_are_accounted_for_when_nothing_can_work():
    run(questions(40), make_settings(max_in_flight=5), pipelines.denied_at_first)
    assert len(outcomes()) == 40
    assert codes_of(outcomes())["NOT_ATTEMPTED"] >= 30
    assert len(pipelines.clients) == 1


# -- the budget ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 13, 60])
@pytest.mark.parametrize("shards", [1, 4])
@pytest.mark.parametrize("bounded", [True, False], ids=["grouped", "in state"])
def test_a_budget_without_a_ledger_is_kept_to_the_call(limit, shards, bounded):
    calls = make_settings(max_requests=limit, batch_size=5, **SHARDED, pacing_shards=shards)
    run(questions(100), calls, pipelines.shaky_client, bounded=bounded)
    made = sum(len(client.log) for client in pipelines.clients)
    assert made == sum(outcome.calls for outcome in outcomes()) == limit
    assert len(outcomes()) == 100


def test_a_budget_over_windows_needs_a_ledger(tmp_path):
    calls = make_settings(max_requests=5, **SHARDED, pacing_shards=2)
    with pytest.raises(ValueError, match="counted in a ledger"):
        run(questions(10), calls, windowing=FixedWindows(3))
    run(questions(40), calls, windowing=GlobalWindows())
    assert codes_of(outcomes()) == {"OK": 5, "NOT_ATTEMPTED": 35}
    pipelines.forget_everything()
    run(questions(40), replace(calls, ledger=f"sqlite://{tmp_path}/ledger"), windowing=FixedWindows(3))
    assert codes_of(outcomes()) == {"OK": 5, "NOT_ATTEMPTED": 35}


class State:
    """A shard's state as a runner keeps it: what is written is kept when the bundle ends well."""

    def __init__(self):
        self.kept = None
        self.written = None

    def read(self):
        return self.written if self.written is not None else self.kept

    def write(self, value):
        self.written = value

    def commit(self):
        self.kept, self.written = self.read(), None

    def roll_back(self):
        self.written = None


def bundle(worker, asked, state, *, fails=False):
    worker.start_bundle()
    ended = []
    for question in asked:
        ended += worker.process((0, question), 0, None, state)
    ended += worker.finish_bundle()
    if fails:
        state.roll_back()
    else:
        state.commit()
    assert len(ended) == len(asked)


moves = st.lists(st.tuples(st.integers(0, 1), st.integers(1, 6), st.booleans()), min_size=1, max_size=8)


@given(limit=st.integers(0, 40), moves=moves)
@settings(max_examples=25, deadline=None)
def test_a_budget_moves_with_its_shard_and_is_never_passed(limit, moves):
    pipelines.forget_everything()
    calls = make_settings(max_requests=limit, batch_size=2, **SHARDED)
    makers = (pipelines.shaky_client, pipelines.another_client)
    workers = [_GenerateShardFn(calls, client_of, open_pacer) for client_of in makers]
    for worker in workers:
        worker.setup()
    try:
        state, number = State(), 0
        for who, count, fails in moves:
            asked = [make_question([f"{number + n}", f"{number + n} more"]) for n in range(count)]
            number += count
            # A bundle that fails is only ever seen again by its own worker here: what it called is known
            # to nobody else, which the class says.
            bundle(workers[who], asked, state, fails=fails and {w for w, _, _ in moves} == {who})
            assert sum(len(client.log) for client in pipelines.clients) <= limit
    finally:
        for worker in workers:
            worker.teardown()


def test_a_worker_that_keeps_its_shard_uses_all_of_the_budget():
    calls = make_settings(max_requests=30, batch_size=2, max_attempts=5, **SHARDED)
    worker = _GenerateShardFn(calls, pipelines.uneven_client, open_pacer)
    worker.setup()
    state = State()
    for number in range(40):
        bundle(worker, [make_question(f"q{number}")], state, fails=number % 7 == 3)
    worker.teardown()
    assert len(pipelines.clients[0].log) == 30


def test_nothing_stays_behind_in_reserve_when_a_shard_moves_away_and_comes_back():
    calls = make_settings(max_requests=16, batch_size=1, **SHARDED, pacing_shards=2)
    makers = (pipelines.shaky_client, pipelines.another_client)
    workers = [_GenerateShardFn(calls, client_of, open_pacer) for client_of in makers]
    for worker in workers:
        worker.setup()
    # Another bundle keeps the first worker busy all the time, so that it never settles its accounts.
    workers[0]._engine._backlog.add(1)
    state = State()
    bundle(workers[0], [make_question("10")], state)
    bundle(workers[1], [make_question(f"{n}0") for n in range(20, 30)], state)
    bundle(workers[0], [make_question(f"{n}0") for n in range(30, 40)], state)
    for worker in workers:
        worker.teardown()
    # Shard 0 has half of the budget, and three of that were set aside for the first question.
    assert [len(client.log) for client in pipelines.clients] == [1, 5]


# -- worker processes ------------------------------------------------------------------------------------


def run_in_processes(asked, calls, out):
    options = PipelineOptions.from_dictionary(
        {"direct_num_workers": 2, "direct_running_mode": "multi_processing"}
    )
    pipeline = beam.Pipeline(runner=FnApiRunner(), options=options)
    (
        pipeline
        | beam.Create(asked)
        | beam.Reshuffle()
        | GenerateAnswers(calls)
        | beam.Map(pipelines.described)
        | beam.io.WriteToText(str(out))
    )
    pipeline.run().wait_until_finish()
    lines = [line for path in out.parent.glob(f"{out.name}*") for line in path.read_text().splitlines()]
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("how", ["local", "sharded"])
def test_two_worker_processes_share_a_ledger(tmp_path, monkeypatch, how):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    log = tmp_path / "log"
    asked = questions(80) + [replace(question, origin="again") for question in questions(40)]
    with running_emulator("--answers=canned", f"--call_log={log}") as emulator:
        calls = make_settings(
            emulator.address,
            ledger=f"sqlite://{tmp_path}/ledger",
            max_requests=70,
            **({**SHARDED, "pacing_shards": 6} if how == "sharded" else {}),
        )
        ended = run_in_processes(asked, calls, tmp_path / "out")
    assert len(ended) == 120
    codes = Counter(code for _, code, _ in ended)
    assert codes["duplicate"] == 40
    assert codes["OK"] + codes["NOT_ATTEMPTED"] == 80
    assert 70 - 8 <= codes["OK"] <= 70
    assert Counter(call["prompt"] for call in read_log(log)).most_common(1)[0][1] == 1
    assert len(read_log(log)) == codes["OK"] == sum(calls for _, _, calls in ended)


def test_two_worker_processes_keep_a_budget_without_a_ledger(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    log = tmp_path / "log"
    asked = questions(90) + [replace(question, origin="again") for question in questions(30)]
    flags = ("--answers=canned", "--faults=unavailable:0.2", f"--call_log={log}")
    with running_emulator(*flags) as emulator:
        calls = make_settings(emulator.address, max_requests=50, **SHARDED, pacing_shards=5)
        ended = run_in_processes(asked, calls, tmp_path / "out")
    assert len(ended) == 120
    made = read_log(log)
    shards = Counter(shard_of(call["prompt"], 5) for call in made)
    assert set(shards.values()) == {10}
    assert len(made) == sum(calls for _, _, calls in ended) == 50
    # A question is on one worker only, so that its second coming is seen there.
    assert Counter(code for _, code, _ in ended)["duplicate"] == 30
