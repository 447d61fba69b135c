"""What is looked up at a real server before a run calls anything."""

import pytest

from groundrows.pipeline.run import preflight
from groundrows.schemas.errors import UsageError
from tests.support.tools import is_one_sentence
from tests.unit.pipeline.run.test_preflight import with_topic

TOPIC = "projects/demo-project/topics/bad"


def test_a_topic_for_failures_is_looked_up(pubsub, monkeypatch):
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", pubsub.address)
    with pytest.raises(UsageError, match=f"{TOPIC} does not exist") as refused:
        preflight.check_topic(with_topic(TOPIC))
    assert is_one_sentence(str(refused.value))
    pubsub.publisher.create_topic(name=TOPIC)
    preflight.check_topic(with_topic(TOPIC))
