import pytest

from groundrows.pipeline.report.failing import outlook
from groundrows.pipeline.report.figures import FailureGroup
from tests.support.tools import is_one_sentence


def group(count, retryable, answered_since, worth_asking, stage="generate"):
    return FailureGroup(stage, "CODE", count, retryable, answered_since, worth_asking, 0)


@pytest.mark.parametrize(
    ("failures", "said"),
    [
        (group(3, 3, 0, 3), "Asking again may succeed."),
        (group(3, 3, 1, 2), "Asking again may succeed. 1 has been answered since."),
        (group(1, 1, 1, 0), "It has been answered since."),
        (group(3, 0, 3, 0), "All have been answered since."),
        (
            group(3, 2, 0, 2),
            "Asking again may succeed for 2 of them; 1 record will fail in the same way again until corrected.",
        ),
        (
            group(9, 5, 2, 3),
            "Asking again may succeed for 3 of them; 4 records will fail in the same way again until corrected. "
            "2 have been answered since.",
        ),
        (
            group(2, 0, 0, 0),
            "The same record will fail in the same way again: correct the record in the archive, or the flags, "
            "then run the same command again with --append.",
        ),
        (
            group(1, 1, 0, 1, stage="read"),
            "Repair the file in the archive, then run the same command again with --append.",
        ),
    ],
)
def test_what_may_be_done(failures, said):
    assert outlook(failures, finished=True) == said
    assert is_one_sentence(said)


@pytest.mark.parametrize("stage", ["read", "parse"])
def test_a_run_that_has_not_finished_takes_no_append(stage):
    said = outlook(group(1, 0, 0, 0, stage=stage), finished=False)
    assert "--append" not in said
    assert "first." in said
