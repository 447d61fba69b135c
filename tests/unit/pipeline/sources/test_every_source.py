"""What holds for every source that is listed."""

import pytest

from groundrows.pipeline.options.flag import flags_of
from groundrows.pipeline.options.run import parse_run
from groundrows.pipeline.options.source import SOURCES, SourceKind, SourceOptions
from groundrows.pipeline.sources.seam import source_of

EXAMPLES = {
    "input": "a.jsonl,gs://b/c.csv",
    "input_subscription": "projects/demo-project/subscriptions/questions",
    "input_topic": "projects/demo-project/topics/questions",
}


@pytest.mark.parametrize("kind", SOURCES, ids=lambda kind: kind.flag)
def test_a_source_is_made_from_its_flag(kind: SourceKind) -> None:
    options = parse_run(["--service=emulator", "--output=o", f"--{kind.flag}={EXAMPLES[kind.flag]}"])
    assert options.source_kind is kind
    assert options.is_stream is not kind.bounded
    source = source_of(options)
    assert source.bounded is kind.bounded
    assert list(source.paths) == list(options.inputs)


def test_a_replay_lacks_every_flag_that_names_a_source() -> None:
    naming = {(flag.name, flag.attribute) for flag in flags_of(SourceOptions) if flag.names_source}
    # --limit and --sample choose among the records of a source, which a replay has no use for either.
    assert {(kind.flag, kind.attribute) for kind in SOURCES} <= naming
