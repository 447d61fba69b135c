"""`groundrows emulator`: serves an emulated API on this machine."""

from __future__ import annotations

import argparse

from groundrows.pipeline.emulator.__main__ import main
from groundrows.pipeline.emulator.options import add_flags


def emulator_parser() -> argparse.ArgumentParser:
    """Make a parser of the emulator's flags for completion. The emulator parses its flags itself."""
    parser = argparse.ArgumentParser(prog="groundrows emulator", allow_abbrev=False)
    add_flags(parser)
    return parser


def emulator(argv: list[str]) -> int:
    """Run the command until a signal stops it; return the exit code."""
    return main(argv)
