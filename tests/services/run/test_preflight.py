"""What is looked up at a real server before a run calls anything."""

import grpc
import pytest

from groundrows.pipeline.run import preflight
from groundrows.pipeline.run.intended import Kind
from groundrows.schemas.errors import UsageError
from tests.support.services import redis_server
from tests.support.tools import is_one_sentence
from tests.support.topic_stand_in import topic_stand_in
from tests.unit.pipeline.run.test_preflight import intended, of_kind, with_topic

TOPIC = "projects/demo-project/topics/bad"
PUBLISH = "pubsub.topics.publish"


def test_a_topic_for_failures_is_looked_up(pubsub, monkeypatch):
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", pubsub.address)
    with pytest.raises(UsageError, match=f"{TOPIC} does not exist") as refused:
        preflight.check_failures_topic(with_topic(TOPIC))
    assert is_one_sentence(str(refused.value))
    pubsub.publisher.create_topic(name=TOPIC)
    preflight.check_failures_topic(with_topic(TOPIC))


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize(
    ("looked_up", "granted", "says"),
    [
        (None, [PUBLISH], None),
        (None, grpc.StatusCode.UNIMPLEMENTED, None),
        (None, [], "roles/pubsub.publisher"),
        (grpc.StatusCode.NOT_FOUND, [PUBLISH], "does not exist"),
        (grpc.StatusCode.PERMISSION_DENIED, [PUBLISH], None),
        (grpc.StatusCode.PERMISSION_DENIED, [], "roles/pubsub.publisher"),
        (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.PERMISSION_DENIED, None),
        (grpc.StatusCode.UNAVAILABLE, [PUBLISH], "can't be looked up"),
    ],
)
def test_the_topic_for_failures_is_judged_alike_whoever_carries_the_run_out(
    kind, looked_up, granted, says, tmp_path, monkeypatch
):
    with topic_stand_in(looked_up, granted) as address:
        monkeypatch.setenv("PUBSUB_EMULATOR_HOST", address)
        run = of_kind(kind, tmp_path, f"--failures_topic={TOPIC}")
        if says is None:
            preflight.check(run)
        else:
            with pytest.raises(UsageError, match=says) as refused:
                preflight.check(run)
            assert is_one_sentence(str(refused.value))
            assert f"--failures_topic={TOPIC}" in str(refused.value)
    assert not (tmp_path / "out").exists()


def job(tmp_path, *flags):
    always = ["--service=emulator", "--endpoint=127.0.0.1:9", f"--output={tmp_path / 'out'}"]
    return intended([*always, *flags], Kind.JOB)


def test_what_a_job_would_read_from_must_be_there(pubsub, tmp_path, monkeypatch):
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", pubsub.address)
    queue = pubsub.new_queue()
    for flag, name in (("--input_subscription", queue.subscription), ("--input_topic", queue.topic)):
        preflight.check(job(tmp_path, f"{flag}={name}"))
        with pytest.raises(UsageError, match=f"{flag}={name}x does not exist") as refused:
            preflight.check(job(tmp_path, f"{flag}={name}x"))
        assert is_one_sentence(str(refused.value))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("looked_up", "says"),
    [(grpc.StatusCode.PERMISSION_DENIED, None), (grpc.StatusCode.UNAVAILABLE, "can't be looked up")],
)
@pytest.mark.parametrize(
    "source",
    [
        "--input_subscription=projects/demo-project/subscriptions/questions",
        "--input_topic=projects/demo-project/topics/questions",
    ],
)
def test_who_submits_a_job_need_not_be_allowed_to_look(looked_up, says, source, tmp_path, monkeypatch):
    with topic_stand_in(looked_up, [PUBLISH], looked_up) as address:
        monkeypatch.setenv("PUBSUB_EMULATOR_HOST", address)
        if says is None:
            preflight.check(job(tmp_path, source))
        else:
            with pytest.raises(UsageError, match=says) as refused:
                preflight.check(job(tmp_path, source))
            assert is_one_sentence(str(refused.value))


@pytest.mark.parametrize("kind", [Kind.WORKER, Kind.JOB])
def test_a_topic_for_failures_that_feeds_the_run_is_refused(kind, pubsub, monkeypatch):
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", pubsub.address)
    queue, other = pubsub.new_queue(), pubsub.new_queue()
    always = ["--service=emulator", "--endpoint=127.0.0.1:9", "--output=/tmp/never/made"]
    always.append(f"--input_subscription={queue.subscription}")
    with pytest.raises(UsageError, match="would be asked again") as refused:
        preflight.check_loop(intended([*always, f"--failures_topic={queue.topic}"], kind))
    assert is_one_sentence(str(refused.value))
    preflight.check_loop(intended([*always, f"--failures_topic={other.topic}"], kind))


def test_a_topic_for_failures_that_is_the_source_is_refused():
    flags = [f"--input_topic={TOPIC}", f"--failures_topic={TOPIC}", "--output=gs://b/o"]
    with pytest.raises(UsageError, match="is the --input_topic"):
        preflight.check_loop(intended(["--service=emulator", "--endpoint=127.0.0.1:9", *flags], Kind.JOB))


@pytest.mark.parametrize("kind", Kind)
def test_a_limiter_that_refuses_the_password_is_found_before_the_directory_is_claimed(kind, tmp_path):
    with redis_server(None, "--requirepass", "right") as server:
        where = f"127.0.0.1:{server.port}/0"
        for password in (":wrong@", ""):
            flags = [f"--rate_limiter=redis://{password}{where}", "--requests_per_minute=60"]
            with pytest.raises(UsageError, match="refuses the user or the password") as refused:
                preflight.check(of_kind(kind, tmp_path, *flags))
            assert is_one_sentence(str(refused.value))
            assert "wrong" not in str(refused.value)
        flags = [f"--rate_limiter=redis://:right@{where}", "--requests_per_minute=60"]
        preflight.check(of_kind(kind, tmp_path, *flags))
    assert not (tmp_path / "out").exists()
