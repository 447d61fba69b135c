"""Every flag of a run: what it takes, and the sentence that refuses it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from groundrows.pipeline.options.calling import DEFAULT_REQUESTS_PER_MINUTE
from groundrows.pipeline.options.run import RunOptions, parse_run, run_parser
from groundrows.pipeline.options.service import Endpoint
from groundrows.schemas.errors import UsageError
from tests.support.tools import is_one_sentence

LEAST = ["--service=emulator", "--input=a.jsonl", "--output=out"]
REAL = ["--service=discoveryengine", "--location=projects/p/locations/global", "--input=a", "--output=out"]
STREAM = ["--service=emulator", "--input_subscription=projects/p/subscriptions/sub", "--output=out"]
SECRET = "hunter2"


def refusal(*argv: str) -> str:
    with pytest.raises(UsageError) as raised:
        parse_run(argv)
    said = str(raised.value)
    assert is_one_sentence(said), said
    assert SECRET not in said
    return said


def test_little_has_to_be_said() -> None:
    assert parse_run(LEAST) == RunOptions(
        inputs=("a.jsonl",),
        output="out",
        service="emulator",
        endpoint=None,
        location="projects/emulated/locations/global",
        api_version="v1",
        transport="grpc",
        emulator_flags=(),
        question_field="question",
        id_field="id",
        question_template=(),
        request_defaults=None,
        requests_per_minute=None,
        max_in_flight=64,
        batch_size=32,
        rate_limiter=None,
        pacing_shards=None,
        expected_latency_seconds=5.0,
        deadline_seconds=60.0,
        max_attempts=5,
        max_requests=None,
        ledger=None,
        share_identical=False,
        keep_response=False,
        overwrite=False,
        append=False,
        max_failure_share=1.0,
        quiet=False,
        runner_flags=(),
    )


def test_the_real_service_is_asked_slowly_and_over_tls() -> None:
    options = parse_run(REAL)
    assert options.endpoint == Endpoint("discoveryengine.googleapis.com:443", secure=True)
    assert options.requests_per_minute == DEFAULT_REQUESTS_PER_MINUTE == 60


@pytest.mark.parametrize(
    ("flag", "attribute", "value"),
    [
        ("--input=a.jsonl,b/*.csv,,gs://c/d.avro", "inputs", ("a.jsonl", "b/*.csv", "gs://c/d.avro")),
        ("--output=gs://bucket/dir/", "output", "gs://bucket/dir"),
        ("--output=/", "output", "/"),
        ("--output=a b/[ü]*//", "output", "a b/[ü]*"),
        ("--question_field=ask", "question_field", "ask"),
        ("--id_field=key", "id_field", "key"),
        ("--reference_field=answer", "reference_field", "answer"),
        ("--question_template=What is {thing}?", "question_template", ("What is {thing}?",)),
        ("--transport=rest", "transport", "rest"),
        ("--stream_answers", "stream_answers", True),
        ("--check_grounding", "check_grounding", True),
        ("--mode=check", "mode", "check"),
        ("--failures_topic=projects/p/topics/bad", "failures_topic", "projects/p/topics/bad"),
        ("--bigquery_dataset=my-project:rows", "bigquery_dataset", "my-project.rows"),
        ("--request_defaults=d.json", "request_defaults", "d.json"),
        ("--location=projects/123/locations/eu", "location", "projects/123/locations/eu"),
        (
            "--location=projects/example.com:p-1/locations/us",
            "location",
            "projects/example.com:p-1/locations/us",
        ),
        ("--api_version=v1beta", "api_version", "v1beta"),
        ("--transport=grpc", "transport", "grpc"),
        (
            "--emulator_flags=--answers=canned --corpus='my texts'",
            "emulator_flags",
            ("--answers=canned", "--corpus=my texts"),
        ),
        ("--requests_per_minute=0.5", "requests_per_minute", 0.5),
        ("--requests_per_minute=1e3", "requests_per_minute", 1000.0),
        ("--max_in_flight=1", "max_in_flight", 1),
        ("--batch_size=1", "batch_size", 1),
        ("--rate_limiter=local", "rate_limiter", "local"),
        ("--rate_limiter=sharded", "rate_limiter", "sharded"),
        ("--rate_limiter=envoy://h:8081", "rate_limiter", "envoy://h:8081"),
        ("--rate_limiter=envoy://h:8081/domain?key=value", "rate_limiter", "envoy://h:8081/domain?key=value"),
        ("--pacing_shards=3", "pacing_shards", 3),
        ("--expected_latency_seconds=0.2", "expected_latency_seconds", 0.2),
        ("--deadline_seconds=1", "deadline_seconds", 1.0),
        ("--max_attempts=1", "max_attempts", 1),
        ("--max_requests=7", "max_requests", 7),
        ("--ledger=none", "ledger", "none"),
        ("--ledger=sqlite:///tmp/l.sqlite", "ledger", "sqlite:///tmp/l.sqlite"),
        ("--ledger=redis://h:6379/0", "ledger", "redis://h:6379/0"),
        ("--ledger=rediss://:pw@h:6379/0", "ledger", "rediss://:pw@h:6379/0"),
        ("--share_identical", "share_identical", True),
        ("--keep_response", "keep_response", True),
        ("--overwrite", "overwrite", True),
        ("--append", "append", True),
        ("--max_failure_share=0", "max_failure_share", 0.0),
        ("--max_failure_share=1", "max_failure_share", 1.0),
        ("--quiet", "quiet", True),
        ("--direct_num_workers=2", "runner_flags", ("--direct_num_workers=2",)),
        ("--runner=DataflowRunner", "runner_flags", ("--runner=DataflowRunner",)),
    ],
)
def test_what_a_flag_takes(flag: str, attribute: str, value: Any) -> None:
    options = parse_run([*LEAST, flag])
    assert getattr(options, attribute) == value
    # It says nothing about anything else.
    assert dataclasses.replace(options, **{attribute: getattr(parse_run(LEAST), attribute)}) == parse_run(
        LEAST
    )


def test_every_flag_has_its_attribute() -> None:
    flags = {action.dest for action in run_parser()._actions} - {"help"}
    attributes = {field.name for field in dataclasses.fields(RunOptions)}
    assert flags - attributes == {"input"}
    assert attributes - flags == {"inputs", "runner_flags"}


def test_a_stream_has_flags_of_its_own() -> None:
    options = parse_run(
        [
            *STREAM,
            "--id_attribute=key",
            "--timestamp_attribute=at",
            "--stop_when_idle=5",
            "--window_seconds=10",
            "--output_shards=3",
        ]
    )
    assert options.inputs == ()
    assert options.input_subscription == "projects/p/subscriptions/sub"
    assert (options.id_attribute, options.timestamp_attribute, options.stop_when_idle) == ("key", "at", 5)
    assert (options.window_seconds, options.output_shards) == (10, 3)


def test_templates_are_turns_in_order() -> None:
    options = parse_run([*LEAST, "--question_template={a}?", "--question_template=And {b}?"])
    assert options.question_template == ("{a}?", "And {b}?")


def test_v1alpha_is_for_rest() -> None:
    assert parse_run([*LEAST, "--api_version=v1alpha", "--transport=rest"]).api_version == "v1alpha"


def test_checks_have_a_limit_of_their_own() -> None:
    limits = ["--check_grounding", "--check_requests_per_minute=5", "--citation_threshold=0.7"]
    options = parse_run([*REAL, *limits])
    assert options.check_requests_per_minute == 5
    assert options.requests_per_minute == DEFAULT_REQUESTS_PER_MINUTE
    assert options.citation_threshold == 0.7
    assert parse_run([*REAL, "--check_grounding"]).check_requests_per_minute == DEFAULT_REQUESTS_PER_MINUTE


def test_a_limiter_on_redis_with_its_limit() -> None:
    options = parse_run([*LEAST, "--rate_limiter=redis://:pw@h:6379/0", "--requests_per_minute=60"])
    assert options.rate_limiter == "redis://:pw@h:6379/0"
    assert parse_run([*REAL, "--rate_limiter=redis://h:6379/0"]).requests_per_minute == 60


@pytest.mark.parametrize(
    ("argv", "names"),
    [
        ([], "--input"),
        (["--service=emulator", "--output=o"], "--input=FILE"),
        ([*LEAST, "--input="], "--input=FILE"),
        ([*LEAST, "--input=,,"], "--input=FILE"),
        ([*LEAST, "--input_topic=t"], "exactly one"),
        ([*LEAST, "--input_subscription=s"], "exactly one"),
        (["--service=emulator", "--output=o", "--input_topic=t", "--input_subscription=s"], "exactly one"),
        (["--service=emulator", "--output=o", "--input_topic=t"], "projects/PROJECT/topics/NAME"),
        (
            ["--service=emulator", "--output=o", "--input_subscription=s"],
            "projects/PROJECT/subscriptions/NAME",
        ),
        ([*LEAST, "--window_seconds=5"], "--input_subscription"),
        ([*LEAST, "--output_shards=2"], "--input_subscription"),
        ([*LEAST, "--id_attribute=key"], "--input_subscription"),
        ([*LEAST, "--stop_when_idle=5"], "--input_subscription"),
        ([*STREAM, "--stop_when_idle=0"], "--stop_when_idle=0"),
        ([*STREAM, "--window_seconds=nan"], "--window_seconds"),
        ([*STREAM, "--output_shards=0"], "--output_shards=0"),
        ([*LEAST, "--failures_topic=t"], "projects/PROJECT/topics/NAME"),
        ([*LEAST, "--bigquery_dataset=d"], "PROJECT.DATASET"),
        ([*LEAST, "--bigquery_dataset=p.d.t"], "PROJECT.DATASET"),
        ([*LEAST, "--citation_threshold=0.5"], "--check_grounding"),
        ([*LEAST, "--check_requests_per_minute=5"], "--check_grounding"),
        ([*LEAST, "--check_grounding", "--citation_threshold=1.5"], "--citation_threshold=1.5"),
        ([*LEAST, "--check_grounding", "--citation_threshold=nan"], "--citation_threshold"),
        ([*LEAST, "--check_grounding", "--check_requests_per_minute=0"], "--check_requests_per_minute=0"),
        ([*LEAST, "--mode=check", "--check_grounding"], "--check_grounding"),
        ([*LEAST, "--mode=check", "--stream_answers"], "--stream_answers"),
        ([*LEAST, "--mode=check", "--question_template={a}"], "--question_template"),
        ([*LEAST, "--mode=check", "--request_defaults=f"], "--request_defaults"),
        ([*LEAST, "--mode=check", "--append"], "--append"),
        ([*LEAST, "--mode=ask"], "check"),
        ([*LEAST, "--answer_field=reply"], "--mode=check"),
        ([*LEAST, "--check_grounding", "--answer_field=reply"], "--mode=check"),
        ([*LEAST, "--answer_field="], "--answer_field"),
        ([*LEAST, "--mode=check", "--answer_field="], "--answer_field"),
        (["--service=emulator", "--input=a"], "--output=DIR"),
        ([*LEAST, "--output="], "--output=DIR"),
        (["--input=a", "--output=o"], "--service=discoveryengine"),
        ([*LEAST, "--service=vertex"], "--service"),
        ([*LEAST, "--ouput=x"], "--output?"),
        ([*LEAST, "stray"], "'stray'"),
        ([*LEAST, "--quiet=yes"], "--quiet"),
        ([*LEAST, "--output"], "--output"),
        ([*LEAST, "--api_version=v2"], "v1beta"),
        ([*LEAST, "--api_version=v1alpha"], "--transport=rest"),
        ([*LEAST, "--transport=http"], "rest"),
        ([*LEAST, "--overwrite", "--append"], "only one"),
        ([*LEAST, "--emulator_flags='--corpus=x"], "quote"),
        ([*LEAST, "--emulator_flags=--seed=1 --port=80"], "--port"),
        ([*LEAST, "--endpoint=127.0.0.1:9", "--emulator_flags=--seed=1"], "--emulator_flags"),
        ([*REAL, "--emulator_flags=--seed=1"], "--emulator_flags"),
        (["--service=discoveryengine", "--input=a", "--output=o"], "--location=projects/PROJECT"),
    ],
)
def test_what_is_missing_or_too_much(argv: list[str], names: str) -> None:
    assert names in refusal(*argv)


def test_the_answer_field_is_for_answers_to_be_checked_and_its_default_for_all() -> None:
    assert parse_run([*LEAST, "--mode=check", "--answer_field=reply"]).answer_field == "reply"
    assert parse_run([*LEAST, "--answer_field=answer"]).answer_field == "answer"


@pytest.mark.parametrize(
    "flag",
    [
        *[
            f"--requests_per_minute={value}"
            for value in ("0", "-1", "nan", "inf", "-inf", "x", "", "1e-9", "1e99")
        ],
        *[f"--deadline_seconds={value}" for value in ("0", "-3", "nan", "inf", "soon", "1e300")],
        *[f"--expected_latency_seconds={value}" for value in ("0", "nan", "inf", "x")],
        *[f"--max_in_flight={value}" for value in ("0", "-1", "1.5", "many", "", "9" * 30)],
        *[f"--batch_size={value}" for value in ("0", "x")],
        *[f"--max_attempts={value}" for value in ("0", "x")],
        *[f"--max_requests={value}" for value in ("0", "-5", "x", "9" * 19)],
        *[f"--pacing_shards={value}" for value in ("0", "x")],
        *[f"--max_failure_share={value}" for value in ("-0.1", "1.1", "nan", "x", "5%")],
    ],
)
def test_a_number_that_is_none_or_makes_no_sense(flag: str) -> None:
    assert flag.split("=")[0] in refusal(*LEAST, flag)


def test_a_negative_number_of_its_own_word() -> None:
    assert "--requests_per_minute=-1 " in refusal(*LEAST, "--requests_per_minute", "-1")


@pytest.mark.parametrize(
    "location",
    [
        "",
        "global",
        "projects/p",
        "projects/p/locations/",
        "projects/p/locations/global/",
        "projects//locations/global",
        "projects/p/locations/Global",
        "projects/p/locations/eu/collections/c",
        "projects/a b/locations/eu",
        "projects/p\n/locations/eu",
        "projects/\udcff/locations/eu",
        "/projects/p/locations/eu",
    ],
)
def test_a_location_that_is_none(location: str) -> None:
    with pytest.raises(
        UsageError, match=r"is not a valid location: write projects/PROJECT/locations/global\.$"
    ):
        parse_run([*LEAST, f"--location={location}"])


@pytest.mark.parametrize(
    ("location", "address"),
    [
        ("global", "discoveryengine.googleapis.com:443"),
        ("us", "us-discoveryengine.googleapis.com:443"),
        ("eu", "eu-discoveryengine.googleapis.com:443"),
    ],
)
def test_the_location_picks_the_endpoint(location: str, address: str) -> None:
    options = parse_run([*REAL, f"--location=projects/p/locations/{location}"])
    assert options.endpoint == Endpoint(address, secure=True)


def test_a_region_without_an_endpoint() -> None:
    elsewhere = "--location=projects/p/locations/us-central1"
    said = refusal(*REAL, elsewhere)
    assert "us-central1" in said
    assert "global, us, eu" in said
    # A server that is named has whatever regions it has.
    assert parse_run([*REAL, elsewhere, "--endpoint=https://h.example"]).location.endswith("us-central1")
    assert parse_run([*LEAST, elsewhere]).endpoint is None


@pytest.mark.parametrize(
    ("text", "address", "secure"),
    [
        ("127.0.0.1:8080", "127.0.0.1:8080", False),
        ("127.1.2.3:8080", "127.1.2.3:8080", False),
        ("localhost:1", "localhost:1", False),
        ("LOCALHOST:65535", "LOCALHOST:65535", False),
        ("[::1]:8080", "[::1]:8080", False),
        ("http://[::1]:8080", "[::1]:8080", False),
        ("http://localhost:80/", "localhost:80", False),
        ("https://localhost", "localhost:443", True),
        ("https://127.0.0.1:8443", "127.0.0.1:8443", True),
        ("service.example", "service.example:443", True),
        ("service.example:8443", "service.example:8443", True),
        ("https://service.example/", "service.example:443", True),
        ("10.0.0.1:8443", "10.0.0.1:8443", True),
        ("[2001:db8::1]:8443", "[2001:db8::1]:8443", True),
    ],
)
def test_an_endpoint(text: str, address: str, secure: bool) -> None:
    assert parse_run([*REAL, f"--endpoint={text}"]).endpoint == Endpoint(address, secure)


@pytest.mark.parametrize(
    "text",
    [
        "http://service.example:80",
        "http://10.0.0.1:80",
        "http://[2001:db8::1]:80",
        "http://localhost.example:80",
        "http://127.0.0.1.example:80",
    ],
)
def test_nothing_leaves_this_machine_without_tls(text: str) -> None:
    assert "without TLS" in refusal(*REAL, f"--endpoint={text}")


@pytest.mark.parametrize(
    "text", ["service.example:443", "https://service.example", "10.0.0.1:8080", "[::2]:80"]
)
def test_no_emulator_is_elsewhere(text: str) -> None:
    assert "is not on this machine" in refusal(*LEAST, f"--endpoint={text}")


@pytest.mark.parametrize("text", ["localhost", "127.0.0.1", "[::1]", "http://localhost/"])
def test_a_server_on_this_machine_has_a_port(text: str) -> None:
    assert "names no port" in refusal(*LEAST, f"--endpoint={text}")


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":8080",
        "127.0.0.1:0",
        "127.0.0.1:65536",
        "127.0.0.1:x",
        "127.0.0.1:80:90",
        "127.0.0.1:80/v1",
        "127.0.0.1:80?x=1",
        "127.0.0.1:80#x",
        "[::1",
        "::1:8080",
        "[::1]x:80",
        "ftp://127.0.0.1:80",
        "https://",
        "a b:80",
        "h\u212a:80",
        "\udcff:80",
    ],
)
def test_an_endpoint_that_is_no_address(text: str) -> None:
    assert "is not an address: write HOST:PORT." in refusal(*REAL, f"--endpoint={text}")


@pytest.mark.parametrize(
    "text", [f"u:{SECRET}@127.0.0.1:80", f"https://{SECRET}@h.example", f"{SECRET}@[::1"]
)
def test_an_endpoint_with_a_user_is_refused_without_showing_it(text: str) -> None:
    assert "user" in refusal(*REAL, f"--endpoint={text}")


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (["--rate_limiter=nonsense"], "envoy://HOST:PORT"),
        (["--rate_limiter="], "envoy://HOST:PORT"),
        (["--rate_limiter=Local"], "local, sharded"),
        ([f"--rate_limiter=redisx://:{SECRET}@h:1"], "redisx://h:1"),
        (["--rate_limiter=redis://", "--requests_per_minute=60"], "redis://[USER:PASSWORD@]HOST:PORT/DB"),
        (["--rate_limiter=redis://h:x/0", "--requests_per_minute=60"], "HOST:PORT/DB"),
        ([f"--rate_limiter=redis://:{SECRET}@h:x/0", "--requests_per_minute=60"], "HOST:PORT/DB"),
        ([f"--rate_limiter=redis://h:1/0?password={SECRET}", "--requests_per_minute=60"], "HOST:PORT/DB"),
        (["--rate_limiter=redis://h:6379/0"], "--requests_per_minute"),
        (["--rate_limiter=rediss://h:6379/0"], "--requests_per_minute"),
        ([f"--rate_limiter=rediss://:{SECRET}@h:x/0", "--requests_per_minute=60"], "HOST:PORT/DB"),
        ([f"--rate_limiter=redis://:{SECRET}@h:6379/0"], "--requests_per_minute"),
        (["--rate_limiter=envoy://"], "envoy://HOST:PORT"),
        (["--rate_limiter=envoy://h"], "envoy://HOST:PORT"),
        ([f"--rate_limiter=envoy://u:{SECRET}@h:1"], "envoy://HOST:PORT"),
        (["--rate_limiter=local", "--pacing_shards=2"], "leave one of them out"),
        (
            [f"--rate_limiter=redis://:{SECRET}@h:1/0", "--requests_per_minute=9", "--pacing_shards=2"],
            "redis://h:1/0",
        ),
        (["--ledger=nonsense"], "sqlite:///PATH"),
        (["--ledger="], "sqlite:///PATH"),
        (["--ledger=sqlite://relative"], "sqlite:///PATH"),
        (["--ledger=sqlite:///"], "sqlite:///PATH"),
        ([f"--ledger=redisx://u:{SECRET}@h:1/0"], "redisx://h:1/0"),
        (["--ledger=none", "--share_identical"], "--share_identical"),
    ],
)
def test_limiters_and_ledgers(flags: list[str], names: str) -> None:
    assert names in refusal(*LEAST, *flags)


FLAGS = [option for action in run_parser()._actions for option in action.option_strings] + [
    "--runner",
    "--direct_num_workers",
    "--experiments",
    "--nothing",
    "-x",
    "--",
    "-",
]
VALUES = st.one_of(
    st.sampled_from(
        [
            "",
            "0",
            "1",
            "-1",
            "nan",
            "emulator",
            "discoveryengine",
            "projects/p/locations/eu",
            "127.0.0.1:80",
            "https://[::1",
            "redis://h:1/0",
            "sqlite:///x",
            "none",
            "--",
            "@",
            "%s %(prog)s {}",
        ]
    ),
    st.text(max_size=20),
    st.text(st.characters(codec=None), max_size=8),  # lone surrogates, as from bytes that are no UTF-8
)
WORDS = st.one_of(st.builds("{}={}".format, st.sampled_from(FLAGS), VALUES), st.sampled_from(FLAGS), VALUES)


@settings(max_examples=80, deadline=None)
@given(st.lists(WORDS, max_size=6), st.booleans())
@example(["--endpoint=https://[::1"], True)
@example(["--emulator_flags=\\"], True)
@example(["--emulator_flags=--"], True)
@example(["--max_in_flight=--"], True)
def test_no_command_line_gives_anything_but_options_or_a_sentence(words: list[str], with_least: bool) -> None:
    ended: BaseException | None = None
    try:
        options = parse_run([*LEAST, *words] if with_least else words)
    except (UsageError, SystemExit) as error:
        ended = error
    if ended is None:
        assert options.inputs
        assert options.output
        assert options.endpoint is None or options.endpoint.address.rpartition(":")[2].isdigit()
    elif isinstance(ended, UsageError):
        assert str(ended).strip()
    else:
        assert ended.code == 0
        assert {"-h", "--help"} & set(words)


@pytest.mark.parametrize(
    ("text", "meant"),
    [("semicolon", ";"), (";", ";"), ("tab", "\t"), ("\t", "\t"), ("pipe", "|"), ("^", "^")],
)
def test_delimiters_by_name_and_as_they_are(text: str, meant: str) -> None:
    assert parse_run([*LEAST, f"--csv_delimiter={text}"]).csv_delimiter == meant


@pytest.mark.parametrize("text", ["", ";;", '"', "\n", "semi"])
def test_what_is_no_delimiter_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"csv_delimiter"):
        parse_run([*LEAST, f"--csv_delimiter={text}"])


@pytest.mark.parametrize(
    ("text", "meant"), [("latin-1", "iso8859-1"), ("cp1252", "cp1252"), ("UTF-16", "utf-16")]
)
def test_encodings_that_python_knows(text: str, meant: str) -> None:
    assert parse_run([*LEAST, f"--encoding={text}"]).encoding == meant


@pytest.mark.parametrize("text", ["base64", "klingon", "a\0b"])
def test_what_is_no_encoding_of_text_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not an encoding that Python knows"):
        parse_run([*LEAST, f"--encoding={text}"])


def test_how_files_are_read_is_said_for_files_alone() -> None:
    with pytest.raises(UsageError, match="csv_delimiter"):
        parse_run([*STREAM, "--csv_delimiter=;"])


# -- a part of an archive ----------------------------------------------------------------------------------


def test_a_part_of_the_archives() -> None:
    assert (parse_run(LEAST).limit, parse_run(LEAST).sample, parse_run(LEAST).seed) == (None, None, 0)
    assert parse_run([*LEAST, "--limit=20"]).limit == 20
    options = parse_run([*LEAST, "--sample=20", "--seed=7"])
    assert (options.sample, options.seed) == (20, 7)


@pytest.mark.parametrize(
    "flag", ["--limit=0", "--limit=-1", "--sample=0", "--limit=x", "--sample=1.5", "--seed=-1"]
)
def test_a_part_is_at_least_one_record(flag: str) -> None:
    with pytest.raises(UsageError, match=flag.split("=")[0]):
        parse_run([*LEAST, "--sample=1", flag] if "seed" in flag else [*LEAST, flag])


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--limit=1", "--sample=1"], "give only one of them"),
        (["--seed=1"], "give --sample=N, too"),
        (["--limit=1", "--seed=1"], "give --sample=N, too"),
    ],
)
def test_parts_that_contradict_each_other(flags: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_run([*LEAST, *flags])


@pytest.mark.parametrize("flag", ["--limit=20", "--sample=20", "--seed=3"])
def test_a_stream_has_no_first_records_and_no_sample(flag: str) -> None:
    with pytest.raises(UsageError, match=f"{flag.split('=')[0]} is for questions from files"):
        parse_run([*STREAM, flag])


GEMINI = ["--service=gemini", "--endpoint=emulator", "--model=m", "--input=a.jsonl", "--output=out"]


def test_limits_in_tokens_and_searches_and_prices_are_for_a_service_that_reports_them() -> None:
    flags = ["--tokens_per_minute=600", "--max_tokens=9000000000", "--max_searches=7", "--prices=p.json"]
    options = parse_run([*GEMINI, *flags])
    assert (options.tokens_per_minute, options.max_tokens) == (600.0, 9_000_000_000)
    assert (options.max_searches, options.prices) == (7, "p.json")
    for flag in flags:
        with pytest.raises(UsageError, match="discoveryengine does not report them") as refused:
            parse_run([*REAL, flag])
        assert is_one_sentence(str(refused.value))
        assert flag.partition("=")[0] in str(refused.value)


def test_a_limit_in_tokens_is_shared_through_redis_alone_and_not_through_envoy() -> None:
    shared = [*GEMINI, "--tokens_per_minute=600"]
    assert parse_run([*shared, "--rate_limiter=redis://h:1/0"]).requests_per_minute is None
    with pytest.raises(UsageError, match="envoy") as refused:
        parse_run([*shared, "--rate_limiter=envoy://h:1"])
    assert is_one_sentence(str(refused.value))
