"""The flags of `groundrows export`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from groundrows.pipeline.options.checks import values_of
from groundrows.pipeline.options.directory import run_directory
from groundrows.pipeline.options.flag import Flag, flag, flags_of
from groundrows.pipeline.options.parser import FlagParser
from groundrows.schemas.errors import UsageError
from groundrows.schemas.tables import TABLES

FORMATS = ("csv", "xlsx", "parquet", "jsonl")

EXAMPLE = """\
examples:
  groundrows export out/first -o answers.xlsx --flat
  groundrows export out/first -o doubtful.csv --flat --where='grounding_score < 0.5'
  groundrows export out/first -o failed.jsonl --table=failures

A condition is SQL over the exported columns, in DuckDB's dialect. --table=failures exports records:
correct them, and ask them again with `groundrows run --append --input=FILE --output=OUTPUT_DIR`.
"""


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """The values of the flags.

    Attributes:
        directory: The `--output` of a run, local or `gs://`, without a slash at its end.
        file: The file to write, local or `gs://`.
        format: One of `FORMATS`.
        table: The table to export.
        flat: Whether to write one row per answer, with its sources and metadata.
        where: SQL conditions. Only rows for which all of them are true are exported.
        byte_order_mark: Whether a CSV file begins with a byte-order mark.
    """

    directory: str = run_directory()
    file: str = flag(
        "",
        Flag(
            "The file to write, local or gs://. An existing file is replaced.",
            name="output",
            short="-o",
            metavar="FILE",
            empty="refused",
        ),
    )
    format: str = flag(
        "",
        Flag("The format of the file.", choices=FORMATS, default_said="the end of the file's name decides"),
    )
    table: str = flag("answers", Flag("The table to export.", choices=tuple(TABLES)))
    flat: bool = flag(
        False,
        Flag("Write one row per answer, with its sources and the fields of its metadata as columns."),
    )
    where: tuple[str, ...] = flag(
        (),
        Flag(
            "Export only rows for which this SQL condition on the columns is true. Repeat the flag for "
            "another condition that must be true, too.",
            metavar="CONDITION",
            repeated=True,
        ),
    )
    byte_order_mark: bool = flag(
        False, Flag("Begin a CSV file with a byte-order mark, so that Excel reads it as UTF-8.")
    )


def export_parser() -> FlagParser:
    """The parser of the command's flags."""
    return FlagParser(
        prog="groundrows export",
        description="Write a run's rows as a file for spreadsheets and other programs. The run's directory\n"
        "is only read.",
        epilog=EXAMPLE,
        flags=flags_of(ExportOptions),
    )


def parse_export(argv: Sequence[str]) -> ExportOptions:
    """Check the flags.

    Raises:
        UsageError: One sentence about the first thing that is wrong.
    """
    values = values_of(flags_of(ExportOptions), export_parser().parse_args(list(argv)))
    options = ExportOptions(**{**values, "format": values["format"] or _format_of(values["file"])})
    if options.flat and options.table != "answers":
        raise UsageError(f"--flat is for answers and not for --table={options.table}: leave out one of them.")
    if options.byte_order_mark and options.format != "csv":
        raise UsageError(f"--byte_order_mark is for CSV and not for {options.format}: leave it out.")
    return options


def _format_of(path: str) -> str:
    if not path:
        raise UsageError("--output is missing: name the file to write, such as -o answers.xlsx.")
    for each in FORMATS:
        if path.lower().endswith(f".{each}"):
            return each
    ends = " or ".join(f".{each}" for each in FORMATS)
    raise UsageError(f"The format of --output={path} is unknown: end it with {ends}, or give --format.")
