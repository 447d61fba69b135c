"""A whole run whose rows go to Cloud Storage and to BigQuery: the same in both, and in the views."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest
from apache_beam.io.gcp import bigquery_file_loads

from groundrows.pipeline.cli import main
from groundrows.pipeline.sinks.views import views
from groundrows.schemas.tables import TABLES
from tests.support.cloud import BigQuery, CloudStorage, big_query, cloud_storage
from tests.support.gemini import MODEL
from tests.support.runs import GOOGLE_SEARCH
from tests.support.services import PubSub

RECORDS: list[dict[str, Any]] = [
    {"id": "painting", "question": "Who painted The Starry Night?"},
    {
        "id": "tin",
        "question": "When does tin melt?",
        "facts": ["Tin melts at 232 degrees."],
        "grounding_spec": {},
    },
    {"id": "none"},
]


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CloudStorage]:
    with cloud_storage(tmp_path_factory.mktemp("objects")) as running:
        yield running


@pytest.fixture(scope="module")
def server(storage: CloudStorage) -> Iterator[BigQuery]:
    with big_query(storage.root) as running:
        yield running


@pytest.fixture(autouse=True)
def _quick_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """A load job here is done at once; Beam would look after ten seconds."""
    monkeypatch.setattr(bigquery_file_loads, "_SLEEP_DURATION_BETWEEN_POLLS", 0.1)


@pytest.mark.parametrize(
    "service",
    [
        ("--service=emulator",),
        ("--service=gemini", f"--model={MODEL}", "--endpoint=emulator"),
    ],
    ids=["discoveryengine", "gemini"],
)
def test_a_run_into_the_warehouse(
    storage: CloudStorage, server: BigQuery, service: tuple[str, ...], tmp_path: Path
) -> None:
    folder = tmp_path.name
    dataset = server.new_dataset()
    body = b"".join(json.dumps(record).encode() + b"\n" for record in RECORDS)
    flags = [
        *service,
        f"--input={storage.put(f'{folder}/questions.jsonl', body)}",
        f"--request_defaults={storage.put(f'{folder}/defaults.json', json.dumps(GOOGLE_SEARCH).encode())}",
        f"--output={storage.url(folder, 'rows')}",
        f"--bigquery_dataset={dataset}",
        "--check_grounding",
        "--keep_response",
        "--quiet",
    ]
    assert main(["run", *flags]) == 0
    figures = json.loads(storage.get(f"{folder}/rows/run.json"))
    assert figures["balanced"]
    for table in TABLES:
        files = [
            dict(row)
            for name in storage.names(f"{folder}/rows/{table}/")
            for row in fastavro.reader(BytesIO(storage.get(name)))
        ]
        loaded = server.query(f"SELECT * FROM `{dataset}.{table}`")
        assert len(files) == len(loaded) == figures["rows"][table]
        keys = ("question_id", "run_id", "turn_index")
        assert sorted(tuple(row[key] for key in keys) for row in files) == sorted(
            tuple(row[key] for key in keys) for row in loaded
        )
    assert figures["rows"]["failures"] == 1
    for statement in views(dataset).values():
        server.query(statement)
    assert len(server.query(f"SELECT * FROM `{dataset}.answers_latest`")) == 2
    # What is loaded lies beside the rows only as long as the run goes on.
    assert [name for name in storage.names(f"{folder}/rows/") if "loads" in name] == []
    # The same again, from the ledger or anew: each row is there twice, and once in the view.
    assert main(["run", *flags, "--overwrite"]) == 0
    assert len(server.query(f"SELECT * FROM `{dataset}.answers`")) == 4
    assert len(server.query(f"SELECT * FROM `{dataset}.answers_latest`")) == 2


def test_without_a_place_for_what_is_loaded(
    tmp_path, server: BigQuery, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = tmp_path / "questions.jsonl"
    archive.write_text('{"question": "Why?"}\n')
    flags = [
        "--service=emulator",
        f"--input={archive}",
        f"--output={tmp_path / 'out'}",
        f"--bigquery_dataset={server.new_dataset()}",
    ]
    assert main(["run", *flags]) == 2
    assert "--temp_location" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_dataset_that_is_not_there(
    storage: CloudStorage, server: BigQuery, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = storage.put("one.jsonl", b'{"question": "Why?"}\n')
    flags = [
        "--service=emulator",
        f"--input={archive}",
        f"--output={storage.url('nowhere')}",
        "--bigquery_dataset=demo-project.missing",
    ]
    assert main(["run", *flags]) == 2
    assert "demo-project.missing" in capsys.readouterr().err
    assert storage.names("nowhere") == []


def test_a_worker_into_the_warehouse(
    tmp_path: Path, server: BigQuery, pubsub: PubSub, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = server.new_dataset()
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", pubsub.address)
    queue = pubsub.new_queue()
    bodies = [b'{"id": "q%d", "question": "When does metal %d melt?"}' % (n, n) for n in range(20)]
    pubsub.publish(queue, [*bodies, b"no JSON"])
    flags = [
        "--service=emulator",
        f"--input_subscription={queue.subscription}",
        f"--output={tmp_path / 'out'}",
        f"--bigquery_dataset={dataset}",
        "--stop_when_idle=3",
        "--quiet",
    ]
    assert main(["run", *flags]) == 0
    assert len(server.query(f"SELECT * FROM `{dataset}.answers`")) == 20
    (failure,) = server.query(f"SELECT * FROM `{dataset}.failures`")
    assert failure["record"] == b"no JSON"
