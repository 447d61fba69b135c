import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from groundrows.pipeline.run.runner import worker_processes


@pytest.mark.parametrize(
    ("flags", "processes"),
    [
        ([], 1),
        (["--direct_num_workers=4"], 1),
        (["--direct_running_mode=multi_processing", "--direct_num_workers=2"], 2),
        (["--direct_running_mode=multi_threading", "--direct_num_workers=4"], 1),
        (["--runner=DataflowRunner"], None),
    ],
)
def test_how_many_processes_work(flags: list[str], processes: int | None) -> None:
    assert worker_processes(PipelineOptions(flags)) == processes


def test_as_many_processes_as_there_are_processors() -> None:
    all_of_them = ["--direct_running_mode=multi_processing", "--direct_num_workers=0"]
    found = worker_processes(PipelineOptions(all_of_them))
    assert found is not None
    assert found >= 1
