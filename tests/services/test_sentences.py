"""One sentence for whatever ended a run."""

from __future__ import annotations

from groundrows.pipeline.sentences import sentence_of
from tests.support.failing_steps import disk_full, raised_in_a_run


def test_an_error_from_a_worker_in_a_process_of_its_own() -> None:
    two = ["--direct_running_mode=multi_processing", "--direct_num_workers=1"]
    assert sentence_of(raised_in_a_run(disk_full, *two)) == (
        "The run failed at step 'Step/inner': [Errno 28] No space left on device; fix that and run the "
        "same command again to continue."
    )
