import pytest

from groundrows.pipeline.options.report import ReportOptions, parse_report, report_parser
from groundrows.schemas.errors import UsageError
from tests.support.tools import is_one_sentence


def test_a_directory_is_enough():
    assert parse_report(["out/first/"]) == ReportOptions("out/first", None, "report.html", 50, None)


def test_everything():
    flags = ["a", "b", "-o", "gs://x/y.html", "--answers=3", "--price_per_1000_requests=2.5"]
    assert parse_report(flags) == ReportOptions("a", "b", "gs://x/y.html", 3, 2.5)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([], "OUTPUT_DIR"),
        (["a", "-o", "run.json"], "run.json"),
        (["a", "-o", "a/answers/x.avro"], "x.avro"),
        (["a", "--answers=-1"], "--answers=-1"),
        (["a", "--answers=1001"], "--answers=1001"),
        (["a", "--answers=few"], "few"),
        (["a", "--price_per_1000_requests=-1"], "--price_per_1000_requests=-1"),
        (["a", "--price_per_1000_requests=inf"], "--price_per_1000_requests=inf"),
        (["a", "--nonsense"], "--nonsense"),
        (["a", "b", "c"], "c"),
    ],
)
def test_what_makes_no_sense_is_said_in_a_sentence(flags, said):
    with pytest.raises(UsageError, match=said) as raised:
        parse_report(flags)
    assert is_one_sentence(str(raised.value))


def test_help_names_every_flag():
    text = report_parser().format_help()
    for name in ("OUTPUT_DIR", "OTHER_DIR", "--output", "--answers", "--price_per_1000_requests"):
        assert name in text
