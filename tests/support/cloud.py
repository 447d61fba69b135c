"""Stand-ins for Cloud Storage and BigQuery, started on free loopback ports and stopped again.

Cloud Storage runs in this process and keeps its objects as files, where BigQuery's load jobs find them.
BigQuery runs from a virtual environment of its own, since it needs another DuckDB than ours; the first test
that asks for it builds that, once, in about a minute.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import google.auth
from apache_beam.internal.gcp import auth as beam_auth
from apache_beam.io.gcp.internal.clients.bigquery.bigquery_v2_client import BigqueryV2
from gcp_storage_emulator.server import create_server
from gcp_storage_emulator.settings import STORAGE_DIR
from google.api_core.exceptions import GoogleAPICallError
from google.auth.credentials import AnonymousCredentials
from google.cloud import bigquery, storage

from tests.support.paths import ROOT
from tests.support.services import free_port

REQUIREMENTS = ROOT / "tests" / "support" / "bqemulator_requirements.txt"
VENV = ROOT / ".venv" / "bqemulator"
PROJECT = "demo-project"
START_SECONDS = 30.0


@dataclass(frozen=True)
class CloudStorage:
    """A running Cloud Storage with one bucket.

    Attributes:
        root: The directory that holds a directory for each bucket.
        bucket: The bucket's name.
    """

    root: Path
    bucket: str

    def url(self, *names: str) -> str:
        """`gs://` and the bucket, then the names."""
        return "/".join((f"gs://{self.bucket}", *names))

    def put(self, name: str, data: bytes) -> str:
        """Make an object; returns its `gs://` path."""
        self._bucket().blob(name).upload_from_string(data)
        return self.url(name)

    def get(self, name: str) -> bytes:
        """An object's bytes."""
        data: bytes = self._bucket().blob(name).download_as_bytes()
        return data

    def names(self, prefix: str = "") -> list[str]:
        """The objects whose names begin so, sorted."""
        return sorted(blob.name for blob in self._bucket().list_blobs(prefix=prefix))

    def delete(self, name: str) -> None:
        """Delete an object."""
        self._bucket().delete_blob(name)

    def _bucket(self) -> Any:
        return storage.Client.create_anonymous_client().bucket(self.bucket)


@contextmanager
def without_credentials() -> Iterator[None]:
    """Keep clients from looking for credentials, which takes Beam half a minute where there are none."""
    nobody = AnonymousCredentials()
    adapter = beam_auth._ApitoolsCredentialsAdapter(nobody)
    with (
        patch.object(google.auth, "default", lambda *_, **__: (nobody, PROJECT)),
        patch.multiple(beam_auth._Credentials, _credentials_init=True, _credentials=adapter),
    ):
        yield


@contextmanager
def cloud_storage(root: Path, bucket: str = "groundrows-tests") -> Iterator[CloudStorage]:
    """A Cloud Storage that every client of this process uses while the block lasts.

    Args:
        root: An empty directory for the objects.
        bucket: The bucket there is at first.
    """
    port = free_port()
    server = create_server("127.0.0.1", port, data_dir=str(root), default_bucket=bucket)
    server.start()
    try:
        with (
            without_credentials(),
            patch.dict(os.environ, STORAGE_EMULATOR_HOST=f"http://127.0.0.1:{port}"),
        ):
            yield CloudStorage(root / STORAGE_DIR, bucket)
    finally:
        server.stop()


@dataclass(frozen=True)
class BigQuery:
    """A running BigQuery.

    Attributes:
        client: Google's client, connected to it.
    """

    client: bigquery.Client

    def new_dataset(self) -> str:
        """Make an empty dataset; returns `PROJECT.DATASET`."""
        name = f"{PROJECT}.d{uuid.uuid4().hex}"
        self.client.create_dataset(name)
        return name

    def query(self, sql: str) -> list[dict[str, Any]]:
        """Run a statement; its rows as dictionaries."""
        return [dict(row.items()) for row in self.client.query_and_wait(sql)]


@contextmanager
def big_query(objects: Path) -> Iterator[BigQuery]:
    """A BigQuery that every client of this process uses while the block lasts.

    Args:
        objects: Where load jobs find `gs://` objects: `CloudStorage.root`.
    """
    python = _build_venv()
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [python, "-m", "bqemulator", "start", "--rest-port", str(port), "--grpc-port", "0"]
    environment = {**os.environ, "HOME": str(VENV / "home"), "BQEMU_GCS_LOCAL_ROOT": str(objects)}
    process = subprocess.Popen(
        [*command, "--project", PROJECT, "--log-level", "error"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with (
            without_credentials(),
            patch.dict(os.environ, BIGQUERY_EMULATOR_HOST=url),
            patch.object(BigqueryV2, "BASE_URL", f"{url}/bigquery/v2/"),
        ):
            client = bigquery.Client(PROJECT, AnonymousCredentials())
            _wait_until_ready(client, process)
            yield BigQuery(client)
            client.close()
    finally:
        process.kill()
        process.wait()


def _wait_until_ready(client: bigquery.Client, process: subprocess.Popen[bytes]) -> None:
    give_up = time.monotonic() + START_SECONDS
    while True:
        try:
            list(client.list_datasets(retry=None, timeout=1))
            return
        except (GoogleAPICallError, OSError):
            if process.poll() is not None or time.monotonic() > give_up:
                raise RuntimeError("the BigQuery stand-in did not start") from None
        time.sleep(0.05)


def _build_venv() -> str:
    """The Python of the stand-in's environment, which is built when it is missing or made for other pins."""
    python, stamp = VENV / "bin" / "python", VENV / ".installed"
    wanted = REQUIREMENTS.read_text(encoding="utf-8")
    VENV.parent.mkdir(exist_ok=True)
    with VENV.with_suffix(".lock").open("w") as lock:
        # Two test runs may ask at once.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
            shutil.rmtree(VENV, ignore_errors=True)
            _run([sys.executable, "-m", "venv", str(VENV)])
            _run([str(python), "-m", "pip", "install", "--quiet", "-r", str(REQUIREMENTS)])
            _copy_extensions(VENV.glob("lib/python*/site-packages/duckdb_extension_*/extensions/*/*"))
            stamp.write_text(wanted, encoding="utf-8")
    return str(python)


def _copy_extensions(files: Iterable[Path]) -> None:
    """Put DuckDB's extensions where it looks for them before it would load them from the network."""
    from platform import machine

    kind = {"x86_64": "linux_amd64", "aarch64": "linux_arm64"}[machine()]
    for file in files:
        directory = VENV / "home" / ".duckdb" / "extensions" / file.parent.name / kind
        directory.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, directory)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr}")
