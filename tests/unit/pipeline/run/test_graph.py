"""The graph: what may come before the calls, and where everything ends up."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from groundrows.pipeline.run.graph import build
from groundrows.pipeline.run.settings import RunSettings, StreamFiles
from groundrows.pipeline.sources.archive_source import Archives
from groundrows.pipeline.sources.archives import Archive
from groundrows.pipeline.sources.messages import Messages
from groundrows.pipeline.storage.output import Output
from groundrows.schemas.question import RecordSettings
from groundrows.transforms.rows.flatten import FlattenSettings
from tests.support.engines import make_settings

GROUPING = {"beam:transform:group_by_key:v1", "beam:transform:reshuffle:v1"}
KEYS = {"beam:coder:varint:v1", "beam:coder:string_utf8:v1"}


SUBSCRIPTION = "projects/some-project/subscriptions/questions"
TOPIC = "projects/some-project/topics/failures"


def settings_for(tmp_path: Path, *, spread: bool = False, **calls: Any) -> RunSettings:
    return RunSettings(
        source=Archives(
            (), known=tuple(Archive(str(tmp_path / f"{name}.jsonl"), "jsonlines", "none") for name in "ab")
        ),
        records=RecordSettings(),
        calls=make_settings(**calls),
        rows=FlattenSettings("run"),
        output=Output(str(tmp_path / "out"), "run", (), datetime.now(UTC)),
        spread=spread,
    )


def components_of(settings: RunSettings, *flags: str) -> Any:
    """The graph as a runner gets it."""
    pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions(list(flags)))
    build(pipeline, settings)
    return pipeline.to_runner_api().components


def by_name(components: Any) -> Any:
    """The transforms of the graph, by their full names."""
    return {transform.unique_name: transform for transform in components.transforms.values()}


def built(tmp_path: Path, *, spread: bool, **calls: Any) -> Any:
    components = components_of(settings_for(tmp_path, spread=spread, **calls))
    assert list(tmp_path.iterdir()) == []  # building opens nothing
    return by_name(components)


def before(transforms: Any, name: str) -> Iterator[str]:
    """The names of every transform whose output reaches this one."""
    makers = {}
    for transform in transforms.values():
        for output in transform.outputs.values():
            makers.setdefault(output, []).append(transform)
    waiting, seen = [transforms[name]], set()
    while waiting:
        for made in waiting.pop().inputs.values():
            for maker in makers[made]:
                if maker.unique_name not in seen:
                    seen.add(maker.unique_name)
                    waiting.append(maker)
                    yield maker.unique_name


def groups_before_the_calls(transforms: Any, call: str = "Generate/Call") -> list[str]:
    return [name for name in before(transforms, call) if transforms[name].spec.urn in GROUPING]


def test_one_process_shuffles_nothing_before_the_calls(tmp_path: Path) -> None:
    transforms = built(tmp_path, spread=False)
    assert groups_before_the_calls(transforms) == []
    assert {name.split("/")[0] for name in before(transforms, "Generate/Call")} == {"Read", "Parse"}


def test_several_share_the_questions_out(tmp_path: Path) -> None:
    transforms = built(tmp_path, spread=True)
    groups = {name.split("/")[0] for name in groups_before_the_calls(transforms)}
    assert groups == {"Read", "Spread"}


def test_shards_share_them_out_already(tmp_path: Path) -> None:
    transforms = built(tmp_path, spread=True, rate_limiter="sharded", pacing_shards=2)
    assert "Spread" not in {name.split("/")[0] for name in transforms}
    assert "Generate/CallGroups" in transforms


def test_rows_are_published_after_all_of_them_are_written(tmp_path: Path) -> None:
    transforms = built(tmp_path, spread=False)
    earlier = set(before(transforms, "Write/Publish"))
    assert "Write/Write" in earlier
    assert "Generate/Call" in earlier
    assert any(transforms[name].spec.urn in GROUPING for name in earlier)


def test_failures_of_every_place_are_written(tmp_path: Path) -> None:
    transforms = built(tmp_path, spread=False)
    sinks = {name.removesuffix("/Publish") for name in transforms if re.fullmatch(r"[^/]+/Publish", name)}
    assert sinks == {"Write", "Write read failures", "Write parse failures"}
    # They are no question's, so that nothing waits for a call to write them.
    for place in ("read", "parse"):
        assert "Generate/Call" not in set(before(transforms, f"Write {place} failures/Publish"))


def unread(transforms: Any) -> set[str]:
    """The names of the transforms whose output nobody takes."""
    read = {name for transform in transforms.values() for name in transform.inputs.values()}
    return {
        transform.unique_name
        for transform in transforms.values()
        if not transform.subtransforms
        for output in transform.outputs.values()
        if output not in read
    }


def test_no_rows_are_left_without_a_sink(tmp_path: Path) -> None:
    ends = ("/Publish", "Quantiles/Save")
    assert {name for name in unread(built(tmp_path, spread=False)) if not name.endswith(ends)} == set()


def test_failures_of_every_place_are_published_where_asked(tmp_path: Path) -> None:
    transforms = by_name(components_of(replace(settings_for(tmp_path), failures_topic=TOPIC)))
    assert {name for name in transforms if re.fullmatch(r"Publish[^/]*", name)} == {
        "Publish",
        "Publish read failures",
        "Publish parse failures",
    }
    assert "Generate/Call" in set(before(transforms, "Publish/Messages"))
    assert "Generate/Call" not in set(before(transforms, "Publish parse failures/Messages"))


# -- a stream ------------------------------------------------------------------------------------------------


def stream_of(tmp_path: Path, source: Messages | None = None, **calls: Any) -> Any:
    """The graph of a stream, as for many workers."""
    settings = settings_for(tmp_path, spread=True, **calls)
    settings = replace(settings, source=source or Messages(SUBSCRIPTION), stream=StreamFiles(shards=3))
    return components_of(replace(settings, failures_topic=TOPIC), "--streaming")


STEPS = {
    "Read",
    "Read/Messages",
    "Read/Records",
    "Parse",
    "Parse/ParDo(_Parse)",
    "Generate",
    "Generate/Call",
    "Flatten",
    "Flatten/ParDo(_FlattenFn)",
    "Rows of parse failures",
    "Rows of parse failures/ParDo(_FailureFn)",
    "Each parse failure",
    "Together",
    "Write",
    "Write/Shard",
    "Write/Unwindow",
    "Write/Gather",
    "Write/Write",
    "Write/Settle",
    "Write/Together",
    "Write/Publish",
    "Publish",
    "Publish/Messages",
    "Publish/Publish",
}


def test_a_streams_steps_keep_their_names(tmp_path: Path) -> None:
    # A running job is updated step by step, by name: a name that changes loses what the step holds.
    def steps(components: Any) -> set[str]:
        names = by_name(components)
        return {name for name in names if name.count("/") < 2 and not name.startswith("ref_")}  # the root

    assert steps(stream_of(tmp_path)) == STEPS
    sharded = stream_of(tmp_path, rate_limiter="sharded", pacing_shards=2)
    assert steps(sharded) == STEPS - {"Generate/Call"} | {"Generate/KeyByShard", "Generate/CallByShard"}


def test_a_stream_is_read_by_the_runner(tmp_path: Path) -> None:
    source = Messages(SUBSCRIPTION, id_attribute="uid", timestamp_attribute="at")
    (read,) = [
        beam_runner_api_pb2.PubSubReadPayload.FromString(transform.spec.payload)
        for transform in stream_of(tmp_path, source).transforms.values()
        if transform.spec.urn == "beam:transform:pubsub_read:v1"
    ]
    assert (read.subscription, read.id_attribute, read.timestamp_attribute) == (SUBSCRIPTION, "uid", "at")
    assert read.with_attributes


def test_a_stream_has_one_sink_for_all_rows(tmp_path: Path) -> None:
    transforms = by_name(stream_of(tmp_path))
    assert {name for name in before(transforms, "Write/Shard") if "/" not in name} >= {"Together"}
    for step in ("Generate/Call", "Rows of parse failures/ParDo(_FailureFn)"):
        assert step in set(before(transforms, "Write/Publish"))
        assert step in set(before(transforms, "Publish/Messages"))
    # Between the two a runner settles which attempt at a file counts.
    assert "Write/Write" in set(before(transforms, "Write/Together"))
    assert "Write/Together" in set(before(transforms, "Write/Publish"))
    ends = ("Write/Publish", "Publish/Publish/ParDo(_PubSubWriteDoFn)")
    assert {name for name in unread(transforms) if name not in ends} == set()


def test_a_message_is_in_the_sources_care_until_it_has_an_outcome(tmp_path: Path) -> None:
    assert groups_before_the_calls(by_name(stream_of(tmp_path))) == []


def test_every_group_of_a_stream_is_in_the_one_window_that_nothing_is_late_for(tmp_path: Path) -> None:
    components = stream_of(tmp_path, rate_limiter="sharded", pacing_shards=2)
    for collection in components.pcollections.values():
        strategy = components.windowing_strategies[collection.windowing_strategy_id]
        assert strategy.window_fn.urn == "beam:window_fn:global_windows:v1"
    groups = [each for each in components.transforms.values() if each.spec.urn in GROUPING]
    assert {each.unique_name for each in groups} == {"Write/Together"}


@pytest.mark.parametrize("limiter", [{}, {"rate_limiter": "sharded", "pacing_shards": 2}])
def test_keys_look_the_same_on_every_worker(tmp_path: Path, limiter: dict[str, Any]) -> None:
    components = stream_of(tmp_path, **limiter)
    keyed = set()
    for transform in components.transforms.values():
        payload = beam_runner_api_pb2.ParDoPayload()
        if transform.spec.urn == "beam:transform:pardo:v1":
            payload.ParseFromString(transform.spec.payload)
        if transform.spec.urn in GROUPING or payload.state_specs:
            (collection,) = transform.inputs.values()
            pair = components.coders[components.pcollections[collection].coder_id]
            assert pair.spec.urn == "beam:coder:kv:v1"
            # Of Beam's own: what pickle gives may differ from worker to worker.
            assert components.coders[pair.component_coder_ids[0]].spec.urn in KEYS
            keyed.add(transform.unique_name.split("/")[1])
    assert keyed == {"Gather", "Together"} | ({"CallByShard"} if limiter else set())
