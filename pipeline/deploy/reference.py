"""The reference pages, derived from the flags and the `.avsc` files: `docs/flags.md` and `docs/tables.md`.

`python -m groundrows.pipeline.deploy.reference` renews them. A test compares them with what is committed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from groundrows.pipeline.commands.sql import sql_parser
from groundrows.pipeline.emulator.options import add_flags
from groundrows.pipeline.options.flags import FlagParser, beam_parser
from groundrows.pipeline.options.ledger import ledger_parser
from groundrows.pipeline.options.plan import plan_parser
from groundrows.pipeline.options.replay import replay_parser
from groundrows.pipeline.options.report import report_parser
from groundrows.pipeline.options.run import run_parser
from groundrows.schemas.tables import TABLES

DOCS = Path(__file__).resolve().parents[2] / "docs"

_RUN: Callable[[], FlagParser] = run_parser
_OTHERS: tuple[Callable[[], FlagParser], ...] = (
    plan_parser,
    replay_parser,
    report_parser,
    sql_parser,
    ledger_parser,
)


def flags_page() -> str:
    """Every flag of every command, those of a run first and the others' own after them."""
    run = _RUN()
    lines = [
        "# Flags",
        "",
        "`groundrows run` and `python -m pipeline` take these; so does every flag of Beam.",
    ]
    lines += ["", *_groups(run, frozenset())]
    of_run = frozenset(action.dest for action in run._actions)
    for parser_of in _OTHERS:
        parser = parser_of()
        shared = of_run & {action.dest for action in parser._actions} - {"help"}
        lines += ["", f"# `{parser.prog}`", "", " ".join((parser.description or "").split())]
        if shared:
            lines += ["", "Beside the flags of a run:"]
        lines += ["", *_groups(parser, shared)]
    return "\n".join(lines) + "\n"


def whole_set_of_flags() -> set[str]:
    """The names of all flags: ours, whatever the command, and Beam's."""
    emulator = argparse.ArgumentParser()
    add_flags(emulator)
    parsers = [_RUN(), *(parser_of() for parser_of in _OTHERS), emulator, beam_parser("")]
    return {name for parser in parsers for action in parser._actions for name in action.option_strings}


def _groups(parser: argparse.ArgumentParser, left_out: frozenset[str]) -> list[str]:
    lines: list[str] = []
    for group in parser._action_groups:
        actions = [
            action
            for action in group._group_actions
            if action.dest not in left_out and action.help != argparse.SUPPRESS and action.dest != "help"
        ]
        if not actions:
            continue
        if lines:
            lines.append("")
        lines += [
            f"## {(group.title or '').capitalize()}",
            "",
            "| flag | meaning | default |",
            "|---|---|---|",
        ]
        lines += [
            f"| `{_spelling(action)}` | {_cell(action.help or '')} | {_default(action)} |"
            for action in actions
        ]
    return lines


def _spelling(action: argparse.Action) -> str:
    name = action.option_strings[-1] if action.option_strings else str(action.metavar or action.dest)
    if action.nargs == 0 or not action.option_strings:
        return _cell(name)
    value = action.metavar or ("|".join(map(str, action.choices)) if action.choices else action.dest.upper())
    return _cell(f"{name}={value}")


def _default(action: argparse.Action) -> str:
    return "" if action.default in (None, False, "", [], argparse.SUPPRESS) else f"`{action.default}`"


def tables_page() -> str:
    """Every table and column, with what its schema says of it."""
    lines = [
        "# Tables",
        "",
        "Each is a directory of Avro files below `--output`, and a table below `--bigquery_dataset`.",
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
    """The records that a type holds, each with the path of its fields."""
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
