from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from groundrows.pipeline.emulator.__main__ import main
from groundrows.pipeline.emulator.options import EmulatorOptions, add_flags, from_args
from groundrows.pipeline.emulator.pace import Latency


def parse(*flags: str) -> EmulatorOptions:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_flags(parser)
    return from_args(parser.parse_args(flags))


def test_no_flags_are_the_defaults() -> None:
    assert parse() == EmulatorOptions()


def test_every_flag_is_read() -> None:
    assert parse(
        "--port=7000",
        "--rest_port=0",
        "--answers=canned",
        "--latency=lognormal:1,2",
        "--requests_per_minute=0",
        "--check_requests_per_minute=3",
        "--tokens_per_minute=50000",
        "--no_retry_info",
        "--limits_file=l.json",
        "--faults=hang:0.5",
        "--seed=9",
        "--candidates=2",
        "--images=3",
        "--videos=4",
        "--corpus=c",
        "--call_log=calls.jsonl",
        "--exit_with_parent",
    ) == EmulatorOptions(
        port=7000,
        rest_port=0,
        answers="canned",
        latency=Latency(1.0, 2.0),
        requests_per_minute=0,
        check_requests_per_minute=3,
        tokens_per_minute=50_000,
        retry_info=False,
        limits_file=Path("l.json"),
        faults=(("hang", 0.5),),
        seed=9,
        candidates=2,
        images=3,
        videos=4,
        corpus=Path("c"),
        call_log=Path("calls.jsonl"),
        exit_with_parent=True,
    )


@pytest.mark.parametrize(
    ("flag", "named"),
    [
        ("--port=65536", "--port"),
        ("--port=-1", "--port"),
        ("--port=x", "--port"),
        ("--rest_port=65536", "--rest_port"),
        ("--rest_port=", "--rest_port"),
        ("--check_requests_per_minute=x", "--check_requests_per_minute"),
        ("--port=1_0", "--port"),
        ("--port=", "--port"),
        ("--answers=invented", "--answers"),
        ("--latency=soon", "--latency"),
        ("--requests_per_minute=1.5", "--requests_per_minute"),
        ("--requests_per_minute=-1", "--requests_per_minute"),
        ("--faults=gremlin:1", "--faults"),
        ("--seed=x", "--seed"),
        ("--candidates=0", "--candidates"),
        ("--candidates=9", "--candidates"),
        ("--images=-1", "--images"),
        ("--videos=x", "--videos"),
        ("--ports=1", "--ports"),
        ("--port", "--port"),
    ],
)
def test_a_bad_flag_is_one_sentence_on_stderr_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], flag: str, named: str
) -> None:
    assert main([flag]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    [line] = said.err.splitlines()
    assert named in line
    assert line.endswith(".")
