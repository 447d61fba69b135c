"""A stand-in for Dataflow: takes jobs as the service does, and carries them out on this machine if asked to.

The runner talks to it over HTTP, and stages what it always stages. A job is carried out from that alone: the
graph as it was staged, in worker processes that have the staged package and what the package declares.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_provision_api_pb2, beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.portability.fn_api_runner.fn_runner import ExtendedProvisionInfo
from google.protobuf import json_format, struct_pb2
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.cloud import PROJECT, CloudStorage

PACKAGE = "workflow.tar.gz"
"""What workers know the staged package as."""

JOB_SECONDS = 150.0
INSTALL_SECONDS = 100.0

_JOBS = re.compile(r"/v1b3/projects/[^/]+/locations/[^/]+/jobs(?:/([^/:]+)(?:/(metrics|messages))?)?")
# There are no credentials to find here, and looking for them takes Beam half a minute.
_WORKER = (
    "import runpy; from apache_beam.internal.gcp import auth; auth._Credentials._credentials_init = True; "
    "runpy.run_module('apache_beam.runners.worker.sdk_worker_main', run_name='__main__')"
)

Counters = dict[tuple[str, str, str], int]
"""Counters by step, namespace and name."""


@dataclass
class Job:
    """A job as it was submitted.

    Attributes:
        request: What the runner asked for, as JSON.
        id: The service's name for it.
        state: What the service says of it.
        counters: What its steps have counted.
        error: What made it fail.
    """

    request: dict[str, Any]
    id: str
    state: str = "JOB_STATE_RUNNING"
    counters: Counters = field(default_factory=dict)
    error: str | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The pipeline's options, as workers get them."""
        options: dict[str, Any] = self.request["environment"]["sdkPipelineOptions"]["options"]
        return options

    def shown(self) -> dict[str, Any]:
        """The job as the service shows it."""
        said = {name: self.request[name] for name in ("name", "type", "clientRequestId")}
        return {**said, "id": self.id, "currentState": self.state}


Work = Callable[["Dataflow", Job], Counters]


class Dataflow:
    """A running stand-in.

    Args:
        storage: Where runners stage.
        work: What becomes of a job; None leaves each running for ever.

    Attributes:
        endpoint: Its address.
        jobs: The jobs, in the order of their submission.
    """

    def __init__(self, storage: CloudStorage, work: Work | None) -> None:
        self.endpoint = ""
        self.jobs: list[Job] = []
        self._storage = storage
        self._work = work
        self._threads: list[threading.Thread] = []

    def flags(self) -> list[str]:
        """The runner's flags that lead here."""
        return [
            "--runner=DataflowRunner",
            f"--project={PROJECT}",
            "--region=europe-west1",
            f"--dataflow_endpoint={self.endpoint}",
            "--no_auth",
            f"--staging_location={self._storage.url('staging')}",
            f"--temp_location={self._storage.url('temp')}",
        ]

    def staged(self, url: str) -> bytes:
        """The bytes of a staged object."""
        return self._storage.get(url.removeprefix(f"{self._storage.url()}/"))

    def graph(self, job: Job) -> Any:
        """The graph that was staged for a job."""
        return beam_runner_api_pb2.Pipeline.FromString(self.staged(job.options["pipelineUrl"]))

    def artifacts(self, job: Job) -> dict[str, str]:
        """The URLs of what a job's workers fetch, by the names it has there."""
        found = {}
        for environment in self.graph(job).components.environments.values():
            for artifact in environment.dependencies:
                role = beam_runner_api_pb2.ArtifactStagingToRolePayload.FromString(artifact.role_payload)
                kept = beam_runner_api_pb2.ArtifactUrlPayload.FromString(artifact.type_payload)
                found[role.staged_name] = kept.url
        return found

    def answer(self, method: str, path: str, body: bytes) -> dict[str, Any] | None:
        """The response to a request; None when there is none."""
        match = _JOBS.fullmatch(path)
        if match is None:
            return None
        if match[1] is None:
            if method == "POST":
                return self._submitted(json.loads(body)).shown()
            return {"jobs": [job.shown() for job in self.jobs]}
        (job,) = [job for job in self.jobs if job.id == match[1]]
        if match[2] == "metrics":
            return {"metrics": list(_metrics(job.counters))}
        if match[2] == "messages":
            return {"jobMessages": list(_messages(job))}
        return job.shown()

    def _submitted(self, request: dict[str, Any]) -> Job:
        job = Job(request, f"2026-01-01_00_00_00-{len(self.jobs)}")
        self.jobs.append(job)
        if self._work is not None:
            self._threads.append(
                threading.Thread(target=self._carry_out, args=(job, self._work), daemon=True)
            )
            self._threads[-1].start()
        return job

    def _carry_out(self, job: Job, work: Work) -> None:
        try:
            job.counters = work(self, job)
            job.state = "JOB_STATE_DONE"
        except Exception:
            job.error = traceback.format_exc()
            job.state = "JOB_STATE_FAILED"

    def join(self) -> None:
        """Wait for what is under way."""
        for thread in self._threads:
            thread.join()


def _metrics(counters: Counters) -> Iterator[dict[str, Any]]:
    for (step, namespace, name), value in counters.items():
        about: dict[str, Any]
        for about in ({}, {"tentative": "true"}):
            context = {"step": step, "namespace": namespace, **about}
            yield {"name": {"origin": "user", "name": name, "context": context}, "scalar": value}


def _messages(job: Job) -> Iterator[dict[str, Any]]:
    if job.error is not None:
        time = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        yield {"id": "1", "time": time, "messageText": job.error, "messageImportance": "JOB_MESSAGE_ERROR"}


@contextmanager
def dataflow(storage: CloudStorage, work: Work | None = None) -> Iterator[Dataflow]:
    """A Dataflow that serves while the block lasts, and has finished its work when it ends.

    Args:
        storage: Where runners stage.
        work: What becomes of a job, as `carry_out`; by default nothing.
    """
    service = Dataflow(storage, work)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, service))
    # By this very name the runner knows that it has no TLS.
    service.endpoint = f"http://localhost:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield service
    finally:
        service.join()
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, service: Dataflow, *args: Any) -> None:
        self._service = service
        super().__init__(*args)

    def _respond(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        said = self._service.answer(self.command, urlsplit(self.path).path, body)
        data = json.dumps({} if said is None else said).encode()
        self.send_response(404 if said is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = _respond  # noqa: N815 - names that the server looks for

    def log_message(self, *_: Any) -> None:
        pass


# -- carrying a job out --------------------------------------------------------------------------------------


def carry_out(python: Callable[[bytes], str], workers: int, service: Dataflow, job: Job) -> Counters:
    """Run a batch job as it was staged, in worker processes; returns its counters.

    Args:
        python: Gives the Python of an environment that has the staged package, whose bytes it gets.
        workers: How many processes.
        service: Where the job was submitted.
        job: The job.
    """
    interpreter = python(service.staged(service.artifacts(job)[PACKAGE]))
    graph = service.graph(job)
    for environment in graph.components.environments.values():
        environment.urn = "beam:env:harness_subprocess_python:v1"
        # -I: nothing of this directory and no variable of this process may help.
        environment.payload = f'{interpreter} -I -c "{_WORKER}"'.encode()
        del environment.dependencies[:]
    with tempfile.TemporaryDirectory() as directory:
        files = [Path(directory, name) for name in ("pipeline.pb", "options.json", "counters.json")]
        files[0].write_bytes(graph.SerializeToString())
        files[1].write_text(json.dumps(job.options))
        _run(
            [sys.executable, "-m", "tests.support.dataflow_stand_in", str(workers), *map(str, files)],
            JOB_SECONDS,
        )
        return {tuple(key): value for key, value in json.loads(files[2].read_text())}


def _run_graph(workers: int, graph: Path, options: Path, counters: Path) -> None:
    """Run a graph whose environments are commands, and write its counters down.

    In a process of its own: when a worker dies the runner waits for it for ever.
    """
    # Whole numbers have become fractions on the way through JSON, and flags do not take those.
    said = {
        name: str(int(value)) if isinstance(value, float) and value.is_integer() else value
        for name, value in json.loads(options.read_text()).items()
    }
    told = json_format.ParseDict({"options": said}, struct_pb2.Struct())
    info = beam_provision_api_pb2.ProvisionInfo(retrieval_token="none", pipeline_options=told)
    runner = FnApiRunner(provision_info=ExtendedProvisionInfo(info))
    runner._num_workers = workers  # otherwise taken from the flags of whoever builds the graph
    result = runner.run_via_runner_api(
        beam_runner_api_pb2.Pipeline.FromString(graph.read_bytes()), PipelineOptions([])
    )
    found = [
        ((counter.key.step, counter.key.metric.namespace, counter.key.metric.name), counter.result)
        for counter in result.metrics().query()["counters"]
    ]
    counters.write_text(json.dumps(found))


@contextmanager
def fresh_environment() -> Iterator[Callable[[bytes], str]]:
    """Gives a function that makes an environment of a package: the package, what it declares, and no more.

    The package is installed by pip. What it declares is linked from this environment, where pip has put it by
    the same constraints: that takes two seconds instead of two minutes. `pip check` has the last word.
    """
    with tempfile.TemporaryDirectory(dir=sys.prefix, prefix="staged-worker-") as directory:
        yield partial(_environment_of, Path(directory))


def _environment_of(directory: Path, package: bytes) -> str:
    archive = directory / PACKAGE
    archive.write_bytes(package)
    home = Path(tempfile.mkdtemp(dir=directory))
    _run([sys.executable, "-m", "venv", "--without-pip", str(home)])
    python = str(home / "bin" / "python")
    (site,) = home.glob("lib/python*/site-packages")
    pip = [sys.executable, "-m", "pip", "--python", python]
    _run([*pip, "install", "--quiet", "--no-deps", str(archive)])
    (own,) = metadata.distributions(name="groundrows", path=[str(site)])
    for distribution in _needed(own.requires or ()):
        _link(distribution, site)
    _run([*pip, "check"])
    return python


def _needed(requirements: Iterable[str]) -> Iterable[metadata.Distribution]:
    """Everything that requirements lead to, extras that are not asked for left out."""
    found: dict[tuple[str, frozenset[str]], metadata.Distribution] = {}
    waiting = list(_that_apply(requirements, ()))
    while waiting:
        wanted = waiting.pop()
        key = (canonicalize_name(wanted.name), frozenset(wanted.extras))
        if key not in found:
            found[key] = metadata.distribution(wanted.name)
            waiting += _that_apply(found[key].requires or (), wanted.extras)
    return {name: distribution for (name, _), distribution in found.items()}.values()


def _that_apply(requirements: Iterable[str], extras: Iterable[str]) -> Iterator[Requirement]:
    for requirement in map(Requirement, requirements):
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield requirement


def _link(distribution: metadata.Distribution, site: Path) -> None:
    for file in distribution.files or ():
        source, target = str(distribution.locate_file(file)), site / file
        if ".." in file.parts or not os.path.exists(source):  # commands, which nobody here runs
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(source, target)
        except OSError:
            shutil.copy2(source, target)


def _run(command: list[str], seconds: float = INSTALL_SECONDS) -> None:
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        said, _ = child.communicate(timeout=seconds)
    except BaseException:
        os.killpg(child.pid, signal.SIGKILL)  # its own children, too
        child.communicate()
        raise
    if child.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {said}")


if __name__ == "__main__":
    _run_graph(int(sys.argv[1]), *map(Path, sys.argv[2:]))
