import pytest

from groundrows.pipeline.report.failing import outlook
from groundrows.pipeline.report.figures import FailureGroup
from tests.support.tools import is_one_sentence


def group(count, retryable, answered_since, worth_asking, stage="generate"):
    return FailureGroup(stage, "CODE", count, retryable, answered_since, worth_asking, 0)


@pytest.mark.parametrize(
    ("failures", "said"),
    [
        (group(3, 3, 0, 3), "Asking again may go well."),
        (group(3, 3, 1, 2), "Asking again may go well. 1 was answered since."),
        (group(1, 1, 1, 0), "It was answered since."),
        (group(3, 0, 3, 0), "All were answered since."),
        (
            group(3, 2, 0, 2),
            "Asking again may go well for 2 of them; 1 record fails the same way again until mended.",
        ),
        (
            group(9, 5, 2, 3),
            "Asking again may go well for 3 of them; 4 records fail the same way again until mended. "
            "2 were answered since.",
        ),
        (
            group(2, 0, 0, 0),
            "The same record fails the same way again: mend the record in the archive, or the flags, and "
            "give the run's command again with --append.",
        ),
        (
            group(1, 1, 0, 1, stage="read"),
            "Mend the file in the archive, and give the run's command again with --append.",
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
