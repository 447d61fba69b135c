"""What of the warehouse needs no server: names, and what is said of a row that was refused."""

from __future__ import annotations

import logging
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from groundrows.pipeline.options.resources import Dataset, dataset_of
from groundrows.pipeline.sinks.views import views
from groundrows.pipeline.sinks.warehouse import (
    InsertFn,
    RefusedRow,
    WriteToWarehouse,
    _ByTableFn,
    _InsertFn,
    _RefusedFn,
)
from groundrows.schemas.errors import RefusedError, RowError, UsageError
from tests.support.table_rows import answer, chunk
from tests.support.tools import is_one_sentence


@pytest.mark.parametrize(
    ("text", "project", "name"),
    [
        ("my-project.answers", "my-project", "answers"),
        ("my-project:answers_2", "my-project", "answers_2"),
        ("example.com:my-project.answers", "example.com:my-project", "answers"),
        ("example.com:my-project:answers", "example.com:my-project", "answers"),
    ],
)
def test_datasets(text: str, project: str, name: str) -> None:
    assert dataset_of(text) == Dataset(project, name)
    assert str(dataset_of(text)) == f"{project}.{name}"
    assert dataset_of(str(dataset_of(text))) == dataset_of(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "answers",
        "my-project.",
        ".answers",
        "my-project.ans-wers",
        "my-project.answers.table",
        "my-project.answers` --",
        "My-Project.answers",
        "my-project/answers",
        "my-project.antworten\n",
        "my-project.réponses",
    ],
)
def test_what_is_no_dataset(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        dataset_of(text)
    assert is_one_sentence(str(raised.value).replace("\n", ""))
    for refuse in (views, WriteToWarehouse):
        with pytest.raises(UsageError):
            refuse(text)


# -- rows --------------------------------------------------------------------------------------------------


def test_a_row_that_does_not_fit_is_refused_without_being_quoted() -> None:
    bad = answer(question="secret", attempts=None)
    for json in (False, True):
        with pytest.raises(RowError, match=r"answers.attempts must be") as raised:
            list(_ByTableFn(json).process([chunk(), bad]))
        assert "secret" not in str(raised.value)


def refused(fatal: bool, *errors: Any) -> list[RefusedRow]:
    """What becomes of rows of answers that were refused for these reasons."""
    row = {"answer_id": "a", "answered_at": "2025-03-01", "question": "secret"}
    step = _RefusedFn("answers", fatal)
    step.start_bundle()
    return [one for error in errors for one in step.process(("my-project:d.answers", row, error))]


INVALID = [
    {"reason": "invalid", "location": "question", "message": "bad value secret", "debugInfo": "secret"}
]
STOPPED = [{"reason": "stopped", "location": "", "message": ""}]


def test_a_stream_tells_once_of_rows_refused_for_the_same_reason(caplog: pytest.LogCaptureFixture) -> None:
    found = refused(False, INVALID, INVALID, STOPPED, "Received row with size 10MB: secret")
    reasons = [("invalid at question",), ("invalid at question",), ("stopped",), ("tooLarge",)]
    assert found == [RefusedRow("answers", "a/2025-03-01", reason) for reason in reasons]
    assert len(caplog.records) == 3
    assert "refused a row of my-project:d.answers, invalid at question;" in caplog.text
    assert "secret" not in caplog.text
    assert all(is_one_sentence(record.getMessage()) for record in caplog.records)


@pytest.mark.parametrize(
    ("fatal", "error"),
    [(True, INVALID), (True, "too large"), (False, [{"reason": "Not Found", "message": "secret"}])],
)
def test_a_batch_ends_and_so_does_a_bundle_whose_table_is_gone(fatal: bool, error: Any) -> None:
    with pytest.raises(RefusedError) as raised:
        refused(fatal, error)
    assert is_one_sentence(str(raised.value))
    assert "secret" not in str(raised.value)


def test_beam_s_own_words_on_refused_rows_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        _InsertFn(batch_size=None).setup()
    logger = logging.getLogger(InsertFn.__module__)
    logger.error("There were errors inserting to BigQuery. Will not retry. Errors were secret")
    logger.error("Something else")
    assert [record.getMessage() for record in caplog.records] == ["Something else"]


def test_loading_needs_cloud_storage() -> None:
    pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([]))
    pipeline | beam.Create([(answer(),)]) | WriteToWarehouse("my-project.d", tables=["answers"])
    with pytest.raises(ValueError, match="Invalid GCS location"):
        pipeline.run()
