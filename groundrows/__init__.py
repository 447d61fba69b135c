"""Groundrows: questions in, grounded rows out.

This is the public library. Import from here only: the modules below may move.

    import groundrows as gr

    record -> gr.ParseQuestions -> gr.GenerateAnswers -> gr.FlattenAnswers -> rows
                                                      -> gr.CheckAnswers -> gr.FlattenChecks -> rows

A name is imported when it is first used, so that `import groundrows` does not import Beam.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from groundrows.pipeline.emulator.process import EmulatorProcess as EmulatorProcess
    from groundrows.pipeline.emulator.process import running_emulator as running_emulator
    from groundrows.schemas.check import CheckSettings as CheckSettings
    from groundrows.schemas.errors import CallError as CallError
    from groundrows.schemas.errors import GroundrowsError as GroundrowsError
    from groundrows.schemas.errors import LedgerError as LedgerError
    from groundrows.schemas.errors import NoLedgerError as NoLedgerError
    from groundrows.schemas.errors import RecordError as RecordError
    from groundrows.schemas.errors import RowError as RowError
    from groundrows.schemas.errors import RuleError as RuleError
    from groundrows.schemas.errors import SetupError as SetupError
    from groundrows.schemas.errors import StoppedError as StoppedError
    from groundrows.schemas.errors import UndecodableError as UndecodableError
    from groundrows.schemas.errors import UsageError as UsageError
    from groundrows.schemas.outcome import Answer as Answer
    from groundrows.schemas.outcome import Failure as Failure
    from groundrows.schemas.outcome import Outcome as Outcome
    from groundrows.schemas.question import Question as Question
    from groundrows.schemas.question import RecordSettings as RecordSettings
    from groundrows.schemas.record import Record as Record
    from groundrows.transforms.check import CheckAnswers as CheckAnswers
    from groundrows.transforms.generate.settings import CallSettings as CallSettings
    from groundrows.transforms.generate.stage import GenerateAnswers as GenerateAnswers
    from groundrows.transforms.parse import ParseChecks as ParseChecks
    from groundrows.transforms.parse import ParseQuestions as ParseQuestions
    from groundrows.transforms.rows.flatten import FlattenAnswers as FlattenAnswers
    from groundrows.transforms.rows.flatten import FlattenSettings as FlattenSettings
    from groundrows.transforms.rows.flatten_checks import FlattenChecks as FlattenChecks

_HOMES = {
    "Answer": "schemas.outcome",
    "CallError": "schemas.errors",
    "CallSettings": "transforms.generate.settings",
    "CheckAnswers": "transforms.check",
    "CheckSettings": "schemas.check",
    "EmulatorProcess": "pipeline.emulator.process",
    "Failure": "schemas.outcome",
    "FlattenAnswers": "transforms.rows.flatten",
    "FlattenChecks": "transforms.rows.flatten_checks",
    "FlattenSettings": "transforms.rows.flatten",
    "GenerateAnswers": "transforms.generate.stage",
    "GroundrowsError": "schemas.errors",
    "LedgerError": "schemas.errors",
    "NoLedgerError": "schemas.errors",
    "Outcome": "schemas.outcome",
    "ParseChecks": "transforms.parse",
    "ParseQuestions": "transforms.parse",
    "Question": "schemas.question",
    "Record": "schemas.record",
    "RecordError": "schemas.errors",
    "RecordSettings": "schemas.question",
    "RowError": "schemas.errors",
    "RuleError": "schemas.errors",
    "SetupError": "schemas.errors",
    "StoppedError": "schemas.errors",
    "UndecodableError": "schemas.errors",
    "UsageError": "schemas.errors",
    "running_emulator": "pipeline.emulator.process",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
