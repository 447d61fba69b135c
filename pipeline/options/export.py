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

A condition is SQL over the exported columns, as DuckDB reads it. What --table=failures exports are records:
mend them, and ask them again with `groundrows run --append --input=FILE --output=OUTPUT_DIR`.
"""


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """An export as asked for.

    Attributes:
        directory: The `--output` of a run, local or `gs://`, without a slash at its end.
        file: Where the rows go, local or `gs://`.
        format: One of `FORMATS`, or empty to tell it from the file's name.
        table: Which table.
        flat: Whether an answer is one row with its sources and metadata.
        where: Conditions, all of which hold for a row that is exported.
        byte_order_mark: Whether a CSV file begins with one.
    """

    directory: str = run_directory()
    file: str = flag(
        "",
        Flag(
            "The file to write, local or gs://; an older one is replaced.",
            name="output",
            short="-o",
            metavar="FILE",
            empty="refused",
        ),
    )
    format: str = flag(
        "",
        Flag("The kind of file.", choices=FORMATS, default_said="by the end of the file's name"),
    )
    table: str = flag("answers", Flag("The table to export.", choices=tuple(TABLES)))
    flat: bool = flag(
        False,
        Flag("Write one row per answer, with its sources beside it and its metadata's fields as columns."),
    )
    where: tuple[str, ...] = flag(
        (),
        Flag(
            "Export only rows for which this SQL condition on the columns is true. Give it again for another "
            "condition that must be true, too.",
            metavar="CONDITION",
            repeated=True,
        ),
    )
    byte_order_mark: bool = flag(
        False, Flag("Begin a CSV file with a byte-order mark, by which Excel knows that it is UTF-8.")
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
    ends = ", ".join(f".{each}" for each in FORMATS)
    raise UsageError(f"--output={path} tells no kind of file: let it end in one of {ends}, or give --format.")
