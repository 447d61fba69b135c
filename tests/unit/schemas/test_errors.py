"""One tree of errors, in one file."""

import ast
import builtins
import inspect
import pickle

import pytest

import groundrows
from groundrows.schemas import errors
from tests.support.paths import ROOT

KINDS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, Exception)]
ARGUMENTS = {
    errors.LostWorkerError: (137,),
    errors.PortInUseError: ("port", 80),
    errors.RuleError: ("CODE", "a sentence"),
    errors.RecordError: ("CODE", "a sentence", "parse", "q", None),
    errors.CallError: ("UNAVAILABLE", "a sentence", 2.0),
    errors.RowError: ("answers", "role", "must be a string"),
}
# Signals between two modules (two of them), the CSV reader's own, and the encoder's own.
ELSEWHERE = {"Halted", "ConflictError", "_RowTooLongError", "MisfitError"}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_has_the_common_base(kind):
    assert issubclass(kind, groundrows.GroundrowsError)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_survives_the_way_between_processes(kind):
    error = kind(*ARGUMENTS.get(kind, ("a sentence",)))
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (kind, str(error), vars(error))


def test_no_error_is_declared_anywhere_else():
    exceptions = {name for name in dir(builtins) if name.endswith(("Error", "Exception"))}
    known = exceptions | {kind.__name__ for kind in KINDS} | {"Exception", "BaseException"}
    declared = set()
    for folder in ("groundrows", "schemas", "transforms", "pipeline", "templates"):
        for path in (ROOT / folder).rglob("*.py"):
            if path == ROOT / "schemas" / "errors.py":
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef) and any(ast.unparse(base) in known for base in node.bases):
                    declared.add(node.name)
    assert declared == ELSEWHERE


def test_an_error_is_still_what_python_calls_it():
    assert issubclass(errors.BrokenStreamError, OSError)
    assert issubclass(errors.RowError, ValueError)
    assert issubclass(errors.RefusedError, RuntimeError)


def test_the_front_door_has_the_errors_users_catch():
    for name in ("CallError", "LedgerError", "RecordError", "RowError", "SetupError", "UsageError"):
        assert getattr(groundrows, name) is getattr(errors, name)
