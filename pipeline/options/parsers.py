"""The parser of every command that has declared flags, by the command's name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from groundrows.pipeline.options.ledger import ledger_parser
from groundrows.pipeline.options.parser import FlagParser
from groundrows.pipeline.options.plan import plan_parser
from groundrows.pipeline.options.replay import replay_parser
from groundrows.pipeline.options.report import report_parser
from groundrows.pipeline.options.run import run_parser
from groundrows.pipeline.options.sql import sql_parser

PARSERS: Mapping[str, Callable[[], FlagParser]] = {
    "run": run_parser,
    "plan": plan_parser,
    "replay": replay_parser,
    "report": report_parser,
    "sql": sql_parser,
    "ledger": ledger_parser,
}
