"""`groundrows`: from the command line to what does the work."""

# Nothing heavy is imported before a command needs it.

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from pipeline.errors import UsageError

USAGE = """\
usage: groundrows COMMAND [FLAGS]

commands:
  run       ask every question of an archive and write the answers as rows
  plan      read an archive, call nothing, and say what a run would do, take and cost
  replay    ask again what failed in earlier runs
  ledger    show what a ledger holds, or export it
  emulator  serve the Grounded Generation API on this machine, for trying out and for tests

`groundrows COMMAND --help` lists a command's flags.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(USAGE, end="")
        return 0 if arguments else 2
    command = COMMANDS.get(arguments[0])
    if command is None:
        print(f"groundrows has no command {arguments[0]!r}; `groundrows help` lists them.", file=sys.stderr)
        return 2
    try:
        return command(arguments[1:])
    except UsageError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Stopped; the same command run again takes it up where it is.", file=sys.stderr)
        return 1
    except BrokenPipeError:
        return 1
    except Exception as error:
        if os.environ.get("GROUNDROWS_TRACEBACK"):
            raise
        print(_one_sentence(error), file=sys.stderr)
        return 1


def _one_sentence(error: Exception) -> str:
    """The last line of what a runner wraps around an exception is the exception itself."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = lines[-1] if lines else type(error).__name__
    return f"The run failed: {said} (GROUNDROWS_TRACEBACK=1 shows where)."


# Help needs no Beam, and comes at once without it.
def _wants_help(argv: list[str]) -> bool:
    return "-h" in argv or "--help" in argv


def _run(argv: list[str]) -> int:
    if _wants_help(argv):
        from pipeline.options import run_parser

        run_parser().print_help()
        return 0
    from pipeline.main import run

    return run(argv)


def _plan(argv: list[str]) -> int:
    if _wants_help(argv):
        from pipeline.plan_options import plan_parser

        plan_parser().print_help()
        return 0
    from pipeline.plan import plan

    return plan(argv)


def _replay(argv: list[str]) -> int:
    if _wants_help(argv):
        from pipeline.replay_options import replay_parser

        replay_parser().print_help()
        return 0
    from pipeline.replay import replay

    return replay(argv)


def _ledger(argv: list[str]) -> int:
    if _wants_help(argv):
        from pipeline.ledger_options import ledger_parser

        ledger_parser().print_help()
        return 0
    from pipeline.ledger_report import ledger

    return ledger(argv)


def _emulator(argv: list[str]) -> int:
    from pipeline.emulator.__main__ import main as emulate

    return emulate(argv)


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "run": _run,
    "plan": _plan,
    "replay": _replay,
    "ledger": _ledger,
    "emulator": _emulator,
}
