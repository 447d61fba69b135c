"""The graph: what may come before the calls, and where everything ends up."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from pipeline.graph import Plan, build
from pipeline.output import Output
from pipeline.sources import Archive
from schemas.question import RecordSettings
from tests.transforms.generate.support import make_settings
from transforms.flatten import FlattenSettings

GROUPING = {"beam:transform:group_by_key:v1", "beam:transform:reshuffle:v1"}


def built(tmp_path: Path, *, spread: bool, **calls: Any) -> Any:
    """The transforms of the graph, by their full names."""
    pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([]))
    plan = Plan(
        archives=[Archive(str(tmp_path / f"{name}.jsonl"), "jsonlines", "none") for name in "ab"],
        records=RecordSettings(),
        calls=make_settings(**calls),
        rows=FlattenSettings("run"),
        output=Output(str(tmp_path / "out"), "run", (), datetime.now(UTC)),
        spread=spread,
    )
    build(pipeline, plan)
    assert list(tmp_path.iterdir()) == []  # building opens nothing
    components = pipeline.to_runner_api().components
    return {transform.unique_name: transform for transform in components.transforms.values()}


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


def test_no_rows_are_left_without_a_sink(tmp_path: Path) -> None:
    transforms = built(tmp_path, spread=False)
    read = {name for transform in transforms.values() for name in transform.inputs.values()}
    unread = {
        (transform.unique_name, tag)
        for transform in transforms.values()
        if not transform.subtransforms
        for tag, output in transform.outputs.items()
        if output not in read
    }
    ends = ("/Publish", "Quantiles/Save")
    assert {name for name, _ in unread if not name.endswith(ends)} == set()
