"""Jobs for Dataflow: what is submitted, that it is all its workers need, and what becomes of it."""

from __future__ import annotations

import base64
import bz2
import json
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from apache_beam.portability.api import beam_runner_api_pb2

from groundrows.pipeline.cli import main
from groundrows.pipeline.deploy import launch
from groundrows.pipeline.emulator.process import EmulatorProcess, running_emulator
from groundrows.pipeline.options.run import parse_run
from groundrows.pipeline.run.graph import add_steps
from groundrows.pipeline.run.session import submit
from groundrows.pipeline.run.settings import RunSettings, StreamFiles
from groundrows.pipeline.sources.messages import Messages
from groundrows.pipeline.storage.output import Output
from groundrows.schemas.question import RecordSettings
from groundrows.schemas.record import Record
from groundrows.transforms.rows.flatten import FlattenSettings
from tests.support.cloud import CloudStorage, cloud_storage
from tests.support.dataflow_stand_in import PACKAGE, Dataflow, Job, carry_out, dataflow, fresh_environment
from tests.support.engines import make_settings
from tests.support.gemini import MODEL
from tests.support.runs import GOOGLE_SEARCH, comparable, rows, summary
from tests.support.streams import Come, play
from tests.support.topic_stand_in import topic_stand_in
from tests.system.test_main_job import questions

SUBSCRIPTION = "projects/demo-project/subscriptions/questions"
LOCATION = "projects/demo-project/locations/global"
STREAM = "groundrows-questions"
# Of Beam's own: what pickle makes of a key may differ from worker to worker.
KEY_CODERS = {"beam:coder:varint:v1", "beam:coder:string_utf8:v1", "beam:coder:bytes:v1"}
GROUP_BY_KEY = "beam:transform:group_by_key:v1"
# How Beam packs what it pickles.
PICKLED = re.compile(rb"QlpoO[A-Za-z0-9+/]+=*")


@dataclass(frozen=True)
class Place:
    """Where jobs are submitted from and to.

    Attributes:
        storage: Holds the archives, the rows and what is staged.
        emulator: Answers.
        call_log: What it was asked.
        python: Makes the environment that the workers of every job get, once; returns its Python.
    """

    storage: CloudStorage
    emulator: EmulatorProcess
    call_log: Path
    python: Callable[[bytes], str]

    def flags(self) -> list[str]:
        """Whom to ask."""
        address = self.emulator.address
        return ["--service=emulator", f"--endpoint={address}", f"--location={LOCATION}", "--quiet"]

    def directory(self, name: str) -> Path:
        """A directory of the bucket, on this machine."""
        return self.storage.root / self.storage.bucket / name


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("dataflow")
    log = folder / "calls.jsonl"
    with (
        cloud_storage(folder / "objects") as storage,
        running_emulator("--port=0", "--rest_port=0", "--latency=0.05", f"--call_log={log}") as emulator,
        fresh_environment() as make,
        topic_stand_in(None, []) as pubsub,
        pytest.MonkeyPatch.context() as patched,
    ):
        patched.setenv("PUBSUB_EMULATOR_HOST", pubsub)
        made: list[str] = []

        def python(package: bytes) -> str:
            if not made:
                made.append(make(package))
            return made[0]

        yield Place(storage, emulator, log, python)


def archive(count: int) -> bytes:
    """Questions, conversations of two turns, and a line that is none."""
    records = [*questions(count), *({"id": f"c{n}", "turns": [f"What is {n}?", "Why?"]} for n in range(6))]
    return b"".join(json.dumps(record).encode() + b"\n" for record in records) + b'{"question": 1\n'


@dataclass(frozen=True)
class Submitted:
    """A job, and where it was submitted."""

    service: Dataflow
    job: Job

    @property
    def components(self) -> Any:
        return self.service.graph(self.job).components

    def steps(self) -> set[str]:
        """The names that we gave, to steps and to what they consist of."""
        names = {transform.unique_name for transform in self.components.transforms.values()}
        return {name for name in names if "/" in name and name.count("/") < 2}


@pytest.fixture(scope="module")
def backfill(place: Place) -> Iterator[Submitted]:
    """A backfill that has run as `groundrows run`, by four workers, and left its rows in `rows/`."""
    for number in range(3):
        place.storage.put(f"archive/{number}.jsonl", archive(40).replace(b'"id": "', b'"id": "%d-' % number))
    place.storage.put("defaults.json", json.dumps(GOOGLE_SEARCH).encode())
    work = partial(carry_out, place.python, 4)
    with dataflow(place.storage, work) as service:
        code = main(
            ["run", *backfill_flags(place), f"--output={place.storage.url('rows')}", *service.flags()]
        )
        (job,) = service.jobs
        assert (code, job.error) == (0, None)
        yield Submitted(service, job)


def backfill_flags(place: Place) -> list[str]:
    return [
        *place.flags(),
        f"--input={place.storage.url('archive/*.jsonl')}",
        f"--request_defaults={place.storage.url('defaults.json')}",
        "--requests_per_minute=6000",
    ]


@pytest.fixture(scope="module")
def stream(place: Place) -> Iterator[Submitted]:
    """A stream that was submitted, and is said to run."""
    with dataflow(place.storage) as service:
        flags = [
            *place.flags(),
            f"--input_subscription={SUBSCRIPTION}",
            "--id_attribute=uid",
            "--timestamp_attribute=asked_at",
            "--requests_per_minute=600",
            "--output_shards=2",
            f"--output={place.storage.url('stream')}",
        ]
        submit(parse_run([*flags, *service.flags(), f"--job_name={STREAM}"]))
        (job,) = service.jobs
        yield Submitted(service, job)


@pytest.fixture(params=["backfill", "stream"])
def either(request: pytest.FixtureRequest) -> Submitted:
    """Each of the two jobs."""
    submitted: Submitted = request.getfixturevalue(request.param)
    return submitted


# -- what is submitted ---------------------------------------------------------------------------------------


def test_a_backfill_is_a_batch_job(backfill: Submitted) -> None:
    assert backfill.job.request["type"] == 1  # JOB_TYPE_BATCH
    assert backfill.job.request["environment"]["version"]["job_type"] == "FNAPI_BATCH"
    assert not backfill.job.options.get("streaming")


def test_a_stream_is_a_streaming_job(stream: Submitted) -> None:
    assert stream.job.request["type"] == 2  # JOB_TYPE_STREAMING
    assert stream.job.request["environment"]["version"]["job_type"] == "FNAPI_STREAMING"
    assert stream.job.options["streaming"]
    assert "enable_streaming_engine" in stream.job.request["environment"]["experiments"]


def test_the_package_is_staged_and_no_session_of_whoever_submits(either: Submitted) -> None:
    assert set(either.service.artifacts(either.job)) == {PACKAGE, "submission_environment_dependencies.txt"}
    assert not either.job.options.get("save_main_session")
    assert either.job.options["pickle_library"] in ("default", "cloudpickle")


def test_nothing_of_the_main_module_is_pickled(either: Submitted) -> None:
    graph = either.service.staged(either.job.options["pipelineUrl"])
    pickles = [bz2.decompress(base64.b64decode(found)) for found in PICKLED.findall(graph)]
    assert any(b"groundrows.transforms.generate" in pickle for pickle in pickles)
    assert [pickle for pickle in pickles if b"__main__" in pickle] == []


def keyed(components: Any) -> Iterator[Any]:
    """The steps that bring what has the same key together, on one worker at a time."""
    for transform in components.transforms.values():
        payload = beam_runner_api_pb2.ParDoPayload()
        if transform.spec.urn == "beam:transform:pardo:v1":
            payload.ParseFromString(transform.spec.payload)
        if transform.spec.urn == GROUP_BY_KEY or payload.state_specs or payload.timer_family_specs:
            yield transform


def test_every_key_has_the_same_bytes_on_every_worker(either: Submitted) -> None:
    components = either.components
    coders = {}
    for transform in keyed(components):
        (collection,) = transform.inputs.values()
        pair = components.coders[components.pcollections[collection].coder_id]
        assert pair.spec.urn == "beam:coder:kv:v1"
        coders[transform.unique_name] = components.coders[pair.component_coder_ids[0]].spec.urn
    # What is combined from everything has None for its key, which every worker writes alike.
    for name in list(coders):
        if name.startswith("Quantiles/Sketch/"):
            del coders[name]
    assert len(coders) >= 3
    assert {name: coder for name, coder in coders.items() if coder not in KEY_CODERS} == {}


def test_many_workers_share_the_limit_by_shards(backfill: Submitted, stream: Submitted) -> None:
    assert {"Generate/KeyByShard", "Generate/GroupByShard", "Generate/CallGroups"} <= backfill.steps()
    assert {"Generate/KeyByShard", "Generate/CallByShard"} <= stream.steps()


def test_dataflow_itself_reads_the_subscription(stream: Submitted) -> None:
    (read,) = [
        transform
        for transform in stream.components.transforms.values()
        if transform.spec.urn == "beam:transform:pubsub_read:v1"
    ]
    assert read.unique_name == "Read/Messages/Read"
    payload = beam_runner_api_pb2.PubSubReadPayload.FromString(read.spec.payload)
    assert payload.subscription == SUBSCRIPTION
    assert (payload.id_attribute, payload.timestamp_attribute) == ("uid", "asked_at")
    assert payload.with_attributes


STREAM_STEPS = {
    "Read/Messages",
    "Read/Records",
    "Parse/ParDo(_Parse)",
    "Generate/KeyByShard",
    "Generate/CallByShard",
    "Flatten/ParDo(_FlattenFn)",
    "Rows of parse failures/ParDo(_FailureFn)",
    "Write/Shard",
    "Write/Unwindow",
    "Write/Gather",
    "Write/Write",
    "Write/Settle",
    "Write/Together",
    "Write/Publish",
}


def test_a_streams_steps_keep_their_names(stream: Submitted) -> None:
    # A job is updated in place step by step, by name: with another name goes what the step holds.
    assert stream.steps() == STREAM_STEPS


# -- a job that is submitted again ---------------------------------------------------------------------------


def test_a_template_updates_a_running_stream_and_leaves_its_rows_alone(
    place: Place, stream: Submitted
) -> None:
    written = place.storage.put("stream/answers/answers-1.avro", b"rows")
    waiting = place.storage.put("stream/.groundrows/staging/answers-2.avro", b"rows")
    parameters = [
        f"--input_subscription={SUBSCRIPTION}",
        "--id_attribute=uid",
        f"--output={place.storage.url('stream')}",
        f"--location={LOCATION}",
        "--keep_response=true",
        "--sdk_container_image=example.invalid/groundrows:1",
        "--update",
        f"--job_name={STREAM}",
    ]
    assert launch.main([*parameters, *stream.service.flags()]) == 0
    first, update = stream.service.jobs
    assert update.request["replaceJobId"] == first.id
    assert Submitted(stream.service, update).steps() == STREAM_STEPS
    # The image holds the package.
    assert PACKAGE not in stream.service.artifacts(update)
    (pool,) = update.request["environment"]["workerPools"]
    assert pool["workerHarnessContainerImage"] == "example.invalid/groundrows:1"
    assert {place.storage.url(name) for name in place.storage.names("stream/")} >= {written, waiting}


def test_a_templates_launcher_finds_the_job_where_it_looks_for_it(place: Place, stream: Submitted) -> None:
    # A launcher does not submit: it names a file, and hands what it finds there to the service.
    before = len(stream.service.jobs)
    found = "staging/template_launches/1/job_object"
    parameters = [
        f"--input={place.storage.put('launched/questions.jsonl', archive(1))}",
        f"--output={place.storage.url('launched/rows')}",
        f"--location={LOCATION}",
        "--sdk_container_image=example.invalid/groundrows:1",
        f"--template_location={place.storage.url(found)}",
    ]
    assert launch.main([*parameters, *stream.service.flags()]) == 0
    job = json.loads(place.storage.get(found))
    assert job["type"] == "JOB_TYPE_BATCH"
    graph = stream.service.staged(job["environment"]["sdkPipelineOptions"]["options"]["pipelineUrl"])
    assert b"Generate/CallGroups" in graph
    assert len(stream.service.jobs) == before


# -- what becomes of it --------------------------------------------------------------------------------------


def test_a_backfill_gives_the_rows_of_a_run_on_this_machine(
    place: Place, backfill: Submitted, tmp_path: Path
) -> None:
    there = place.directory("rows")
    assert main(["run", *backfill_flags(place), f"--output={tmp_path / 'here'}"]) == 0
    assert comparable(there) == comparable(tmp_path / "here")
    assert len(rows(there, "answers")) == 3 * (40 + 2 * 6)
    # Each worker writes files of its own.
    assert len(list((there / "answers").glob("*.avro"))) > 1


def test_a_backfill_accounts_for_every_record_by_the_jobs_counters(place: Place, backfill: Submitted) -> None:
    said = summary(place.directory("rows"))
    assert said["balanced"]
    assert (said["records_read"], said["answered"], said["failed"]) == (141, 138, 3)
    assert said["failures_by_code"] == {"INVALID_JSON": 3}
    assert said["calls"] == 3 * (40 + 2 * 6)
    assert said["quantiles"]["latency_ms"]["min"] >= 50


def test_a_backfill_asks_gemini_too(place: Place, tmp_path: Path) -> None:
    place.storage.put("gemini.jsonl", archive(20))
    place.storage.put("gemini-defaults.json", json.dumps(GOOGLE_SEARCH).encode())
    flags = [
        "--service=gemini",
        f"--model={MODEL}",
        f"--endpoint={place.emulator.rest_address}",
        f"--location={LOCATION}",
        f"--input={place.storage.url('gemini.jsonl')}",
        f"--request_defaults={place.storage.url('gemini-defaults.json')}",
        "--requests_per_minute=6000",
        "--quiet",
    ]
    with dataflow(place.storage, partial(carry_out, place.python, 2)) as service:
        done = main(["run", *flags, f"--output={place.storage.url('gemini')}", *service.flags()])
        (job,) = service.jobs
        assert (done, job.error) == (0, None)
    assert main(["run", *flags, f"--output={tmp_path / 'here'}"]) == 0
    there = place.directory("gemini")
    assert comparable(there) == comparable(tmp_path / "here")
    assert summary(there)["balanced"]
    assert {row["service"] for row in rows(there, "answers")} == {"gemini"}
    assert all(row["total_tokens"] for row in rows(there, "answers"))


LOADS = """
import sys
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pipeline import Pipeline
from apache_beam.portability.api import beam_runner_api_pb2

graph = beam_runner_api_pb2.Pipeline.FromString(open(sys.argv[1], "rb").read())
Pipeline.from_runner_api(graph, None, PipelineOptions([]))
import groundrows.pipeline
print(groundrows.pipeline.__file__)
"""


def test_workers_that_have_only_the_package_can_load_every_step(
    place: Place, either: Submitted, tmp_path: Path
) -> None:
    python = place.python(either.service.staged(either.service.artifacts(either.job)[PACKAGE]))
    graph = tmp_path / "pipeline.pb"
    graph.write_bytes(either.service.staged(either.job.options["pipelineUrl"]))
    done = subprocess.run([python, "-I", "-c", LOADS, str(graph)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().startswith(str(Path(python).parents[1]))


# -- the end of a stream -------------------------------------------------------------------------------------


def test_a_drained_stream_leaves_nothing_behind(place: Place) -> None:
    # What a drain does: no message comes any more, and the watermark goes to its end.
    with tempfile.TemporaryDirectory() as directory:
        where = Output(f"{directory}/out", "run", (), datetime.now(UTC))
        asked = make_settings(place.emulator.address, rate_limiter="sharded", pacing_shards=3)
        plan = RunSettings(
            source=Messages(SUBSCRIPTION),
            records=RecordSettings(),
            calls=asked,
            rows=FlattenSettings("run"),
            output=where,
            spread=True,
            stream=StreamFiles(window_seconds=3600, shards=2),
        )

        def record(number: int) -> Record:
            body = b'{"question": 1}' if number % 4 == 3 else b'{"question": "What is %d?"}' % number
            return Record(body, f"{SUBSCRIPTION}:{number}")

        play([Come(tuple(range(12)))], record, lambda records: add_steps(records, None, plan))
        out = Path(where.path)
        answered = {row["question"] for row in rows(out, "answers")}
        assert answered == {f"What is {number}?" for number in range(12) if number % 4 != 3}
        origins = {row["origin"] for row in rows(out, "failures")}
        assert origins == {f"{SUBSCRIPTION}:{number}" for number in (3, 7, 11)}
        assert list((out / ".groundrows" / "staging").iterdir()) == []
