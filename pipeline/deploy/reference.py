"""Makes the reference pages `docs/flags.md` and `docs/tables.md` from the flags and the `.avsc` files.

`python -m groundrows.pipeline.deploy.reference` renews them. A test compares them with the committed pages.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from groundrows.pipeline.commands import COMMANDS
from groundrows.pipeline.options.flag import Flag
from groundrows.pipeline.options.parser import FlagParser
from groundrows.pipeline.options.runner import beam_parser
from groundrows.schemas.tables import TABLES

DOCS = Path(__file__).resolve().parents[2] / "docs"


def flags_page() -> str:
    """Return the page of all flags: first those of `run`, then the flags of other commands."""
    lines = [
        "# Flags",
        "",
        "`groundrows run` and `python -m pipeline` take these; so does every flag of Beam.",
    ]
    of_run: frozenset[Flag] = frozenset()
    for name, command in COMMANDS.items():
        parser = command.parser()
        if not isinstance(parser, FlagParser) or not parser.flags:  # the emulator is a program of its own
            continue
        own = [flag for flag in parser.flags if flag not in of_run]
        if name == "run":
            of_run = frozenset(own)
        else:
            lines += ["", f"# `{parser.prog}`", "", " ".join((parser.description or "").split())]
            if len(own) < len(parser.flags):
                whole = len(parser.flags) - len(own) == len(of_run)
                left_out = "" if whole else " except those about its source"
                lines += ["", f"It takes the flags of a run{left_out}, and these:"]
        lines += ["", *_tables_of(own)]
    return "\n".join(lines) + "\n"


def whole_set_of_flags() -> set[str]:
    """Return the names of all flags: those of all our commands, and Beam's."""
    parsers = [*(command.parser() for command in COMMANDS.values()), beam_parser("")]
    return {name for parser in parsers for action in parser._actions for name in action.option_strings}


def _tables_of(flags: Sequence[Flag]) -> list[str]:
    """Return a table for each group of flags."""
    lines: list[str] = []
    for group in dict.fromkeys(flag.group for flag in flags):
        lines += [""] if lines else []
        lines += [f"## {group.capitalize()}", ""] if group else []
        lines += ["| flag | meaning | default |", "|---|---|---|"]
        lines += [
            f"| `{_spelling(flag)}` | {_cell(flag.help)} | {_default(flag)} |"
            for flag in flags
            if flag.group == group
        ]
    return lines


def _spelling(flag: Flag) -> str:
    if flag.positional != "no":
        return _cell(flag.metavar or flag.name)
    if flag.is_switch:
        return f"--{flag.name}"
    return _cell(f"--{flag.name}={flag.metavar or '|'.join(flag.choices) or flag.name.upper()}")


def _default(flag: Flag) -> str:
    if flag.default_said:
        return _cell(flag.default_said)
    return f"`{flag.shown_default}`" if flag.shown_default else ""


def tables_page() -> str:
    """Return the page of all tables and columns, with the descriptions from their schemas."""
    lines = [
        "# Tables",
        "",
        "Each is a directory of Avro files in `--output`, and a BigQuery table in `--bigquery_dataset`.",
    ]
    for table in TABLES:
        schema = TABLES[table].schema
        lines += ["", f"## {table}", "", schema["doc"], "", "| column | type | meaning |", "|---|---|---|"]
        lines += _columns(schema, "")
    return "\n".join(lines) + "\n"


def _columns(schema: Mapping[str, Any], path: str) -> list[str]:
    lines: list[str] = []
    for field in schema["fields"]:
        name = f"{path}{field['name']}"
        lines.append(f"| `{name}` | {_type(field['type'])} | {_cell(field.get('doc', ''))} |")
        for record, inside in _records(field["type"], name):
            lines += _columns(record, inside)
    return lines


def _records(kind: Any, path: str) -> list[tuple[Mapping[str, Any], str]]:
    """Return the records within a type, each with the path of its fields."""
    if isinstance(kind, list):
        return [found for branch in kind for found in _records(branch, path)]
    if not isinstance(kind, dict):
        return []
    if kind["type"] == "array":
        return _records(kind["items"], f"{path}[]")
    return [(kind, f"{path}.")] if kind["type"] == "record" and "fields" in kind else []


def _type(kind: Any) -> str:
    if isinstance(kind, list):
        others = [_type(branch) for branch in kind if branch != "null"]
        return " or ".join(others) + (", nullable" if "null" in kind else "")
    if isinstance(kind, str):
        return kind.rpartition(".")[2]
    if "logicalType" in kind:
        return str(kind["logicalType"])
    if kind["type"] == "array":
        return f"array of {_type(kind['items'])}"
    if kind["type"] == "map":
        return f"map of {_type(kind['values'])}"
    return "record" if kind["type"] == "record" else _type(kind["type"])


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


PAGES: Mapping[str, Callable[[], str]] = {"flags.md": flags_page, "tables.md": tables_page}


def main() -> int:
    """Write the pages."""
    DOCS.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
