"""The commands of `groundrows`. Each has its own file in this folder.

`COMMANDS` holds the names of the functions, which are imported when they are called. So help appears at once:
it does not import Beam.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from groundrows.schemas.errors import UsageError


@dataclass(frozen=True, slots=True)
class Command:
    """One command.

    Attributes:
        summary: A description for the list of commands.
        parser: Makes the parser of its flags. The help, the completion and the reference use it.
        run: Runs the command with its arguments; returns the exit code.
        has_own_handlers: Whether it handles signals, errors and `--help` itself.
    """

    summary: str
    parser: Callable[[], argparse.ArgumentParser]
    run: Callable[[list[str]], int]
    has_own_handlers: bool = False


def _late(where: str, extra: str | None = None) -> Callable[..., Any]:
    """Return a function that imports another function when it is called, and calls it.

    Args:
        where: `MODULE:FUNCTION`; the module is below `groundrows.pipeline`.
        extra: The extra of the package that installs the module's dependencies, if there is one.
    """
    module, _, name = where.partition(":")

    def call(*arguments: Any) -> Any:
        try:
            function = getattr(importlib.import_module(f"groundrows.pipeline.{module}"), name)
        except ModuleNotFoundError as missing:
            if extra is None:
                raise
            raise UsageError(
                f"This command needs the package {missing.name}: install groundrows[{extra}]."
            ) from None
        return function(*arguments)

    return call


COMMANDS: dict[str, Command] = {
    "run": Command(
        "ask every question of an archive or a subscription, and write the answers as rows",
        _late("options.run:run_parser"),
        _late("commands.run:run"),
    ),
    "plan": Command(
        "read an archive, make no call, and estimate the calls, time and cost of a run",
        _late("options.plan:plan_parser"),
        _late("commands.plan:plan"),
    ),
    "replay": Command(
        "ask the records again that failed in earlier runs",
        _late("options.replay:replay_parser"),
        _late("commands.replay:replay"),
    ),
    "report": Command(
        "show a run's figures, failures and most doubtful answers on one page",
        _late("options.report:report_parser"),
        _late("commands.report:report", extra="report"),
    ),
    "browse": Command(
        "read, search and judge all answers of a run in a browser",
        _late("options.browse:browse_parser"),
        _late("commands.browse:browse", extra="report"),
    ),
    "export": Command(
        "write a run's rows as CSV, an Excel workbook, Parquet or JSON Lines",
        _late("options.export:export_parser"),
        _late("commands.export:export", extra="report"),
    ),
    "sql": Command(
        "print SQL views that show every row once and join the tables",
        _late("options.sql:sql_parser"),
        _late("commands.sql:sql"),
    ),
    "ledger": Command(
        "show what a ledger (the store of answers) holds, or export it",
        _late("options.ledger:ledger_parser"),
        _late("commands.ledger:ledger"),
    ),
    "expire": Command(
        "remove links, suggestions and passages of Google Search from old answers",
        _late("options.expire:expire_parser"),
        _late("commands.expire:expire"),
    ),
    "emulator": Command(
        "serve an emulated API on this machine, to try things out and for tests",
        _late("commands.emulator:emulator_parser"),
        _late("commands.emulator:emulator"),
        has_own_handlers=True,
    ),
    "completion": Command(
        "print a script that lets bash, zsh or tcsh complete commands and flags",
        _late("commands.completion:completion_parser"),
        _late("commands.completion:completion"),
    ),
}
"""The commands by name, in the order in which help lists them."""
