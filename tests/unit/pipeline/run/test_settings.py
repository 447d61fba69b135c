from datetime import UTC, datetime
from pathlib import Path

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from groundrows.pipeline.options.run import parse_run
from groundrows.pipeline.options.service import Endpoint
from groundrows.pipeline.run import settings
from groundrows.pipeline.storage.output import Output


def pacing(*flags: str) -> tuple[str, int]:
    options = parse_run(["--service=emulator", "--input=a", "--output=o", *flags])
    return settings.pacing_of(options, PipelineOptions(list(options.runner_flags)))


TWO = ["--direct_running_mode=multi_processing", "--direct_num_workers=2"]
DATAFLOW = ["--runner=DataflowRunner"]


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ([], ("local", 1)),
        (["--runner=directrunner"], ("local", 1)),
        (["--direct_num_workers=2"], ("local", 1)),  # threads of one process
        (["--direct_running_mode=multi_processing", "--direct_num_workers=1"], ("local", 1)),
        ([*TWO, "--requests_per_minute=60"], ("sharded", 1)),
        ([*TWO, "--rate_limiter=local", "--requests_per_minute=60"], ("local", 1)),
        ([*DATAFLOW, "--requests_per_minute=60"], ("sharded", 1)),
        (
            [*DATAFLOW, "--requests_per_minute=60000", "--expected_latency_seconds=2", "--max_in_flight=100"],
            ("sharded", 20),
        ),
        ([*DATAFLOW, "--pacing_shards=3", "--requests_per_minute=60"], ("sharded", 3)),
        (["--pacing_shards=3", "--requests_per_minute=60"], ("sharded", 3)),
        (["--pacing_shards=30", "--requests_per_minute=60"], ("sharded", 30)),
        (["--pacing_shards=3"], ("sharded", 3)),
        (["--rate_limiter=envoy://h:80"], ("envoy://h:80", 1)),
        ([*TWO, "--rate_limiter=redis://h:80/0", "--requests_per_minute=6"], ("redis://h:80/0", 1)),
    ],
)
def test_how_the_limit_is_kept(flags: list[str], expected: tuple[str, int]) -> None:
    assert pacing(*flags) == expected


def ledger(*flags: str) -> str:
    options = parse_run(["--service=emulator", "--input=a", *flags])
    return settings.ledger_of(options, PipelineOptions(list(options.runner_flags)))


def test_which_ledger(tmp_path: Path) -> None:
    assert ledger(f"--output={tmp_path}") == f"sqlite://{tmp_path}/.groundrows/ledger.sqlite"
    assert ledger("--output=gs://b/out") == "none"
    assert ledger(f"--output={tmp_path}", *DATAFLOW) == "none"
    assert ledger(f"--output={tmp_path}", "--ledger=none") == "none"
    assert ledger("--output=gs://b/out", "--ledger=redis://h:1/0") == "redis://h:1/0"


@pytest.mark.parametrize(
    ("source", "released"),
    [("--input=a", False), ("--input_subscription=projects/p/subscriptions/sub", True)],
)
def test_what_failed_may_come_again_in_a_stream(source: str, released: bool, tmp_path: Path) -> None:
    options = parse_run(["--service=emulator", source, f"--output={tmp_path}", "--check_grounding"])
    where = Output(str(tmp_path), "run", (), datetime.now(UTC))
    calls = settings.call_settings(options, Endpoint("h:1", secure=False), where, ("local", 1), "none")
    assert calls.release_failed is released
    checks = settings.check_settings(options, calls)
    assert checks is not None
    assert checks.release_failed is released
