"""`groundrows`: from the command line to what does the work."""

# Nothing heavy is imported before a command needs it.

from __future__ import annotations

import difflib
import logging
import os
import select
import sys
from collections.abc import Callable, Sequence

from groundrows.pipeline.run import stopping
from groundrows.schemas.errors import UsageError
from groundrows.schemas.wording import one_line

USAGE = """\
usage: groundrows COMMAND [FLAGS]

commands:
  run         ask every question of an archive and write the answers as rows
  plan        read an archive, call nothing, and say what a run would do, take and cost
  replay      ask again what failed in earlier runs
  report      show a run's answers, claims and health on one page
  sql         print views that make one row of doubles and join what belongs together
  ledger      show what a ledger holds, or export it
  emulator    serve the Grounded Generation API on this machine, for trying out and for tests
  completion  print what makes bash, zsh or tcsh complete commands and flags

`groundrows COMMAND --help` lists a command's flags, and `groundrows --version` says which version this is.
"""


class _ToStderr(logging.Handler):
    """Logs to whatever stderr is at the moment: the display of progress puts itself in its place."""

    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["emulator"]:  # it sees to signals and errors itself
        return _emulator(arguments[1:])
    logging.basicConfig(format="%(message)s", level=logging.WARNING, handlers=[_ToStderr()])
    with stopping.watched() as signals:
        try:
            code = _command(arguments)
            if sys.stdout is not None:
                sys.stdout.flush()
            return code
        except SystemExit:
            raise
        except BaseException as error:
            code = _ended_by(error, signals)
    if signals and argv is None:
        # Nothing is left to be done in order; threads of the runner would only hold the process up.
        sys.stderr.flush()
        os._exit(code)
    return code


def _command(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(USAGE, end="", file=sys.stdout if arguments else sys.stderr)
        return 0 if arguments else 2
    if arguments[0] in ("--version", "version"):
        from importlib.metadata import version

        print(f"groundrows {version('groundrows')}")
        return 0
    command = COMMANDS.get(arguments[0])
    if command is None:
        nearest = difflib.get_close_matches(arguments[0], COMMANDS, n=1)
        meant = f"did you mean {nearest[0]}?" if nearest else "`groundrows help` lists those there are."
        raise UsageError(f"There is no command {arguments[0]!r}: {meant}")
    return command(arguments[1:])


def _ended_by(error: BaseException, signals: list[int]) -> int:
    """Say what ended a command; returns the exit code."""
    if signals or isinstance(error, KeyboardInterrupt):
        print(stopping.SENTENCE, file=sys.stderr)
        return 1
    if isinstance(error, BrokenPipeError) and _nobody_reads():
        return 1
    if isinstance(error, UsageError):
        print(one_line(error), file=sys.stderr)
        return 2
    if os.environ.get("GROUNDROWS_TRACEBACK"):
        raise error
    from groundrows.pipeline.sentences import sentence_of

    print(one_line(sentence_of(error)), file=sys.stderr)
    return 1


def _nobody_reads() -> bool:
    """Whether stdout's reader is gone, as `head` goes; what is left to print is then dropped."""
    try:
        stdout = sys.stdout.fileno()
    except (AttributeError, OSError):
        return False
    poll = select.poll()
    poll.register(stdout, 0)
    if not any(event & select.POLLERR for _, event in poll.poll(0)):
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), stdout)
    return True


# Help needs no Beam, and comes at once without it.
def _wants_help(argv: list[str]) -> bool:
    return "-h" in argv or "--help" in argv


def _run(argv: list[str]) -> int:
    if _wants_help(argv):
        from groundrows.pipeline.options.run import run_parser

        run_parser().print_help()
        return 0
    from groundrows.pipeline.run.session import run

    return run(argv)


def _plan(argv: list[str]) -> int:
    if _wants_help(argv):
        from groundrows.pipeline.options.plan import plan_parser

        plan_parser().print_help()
        return 0
    from groundrows.pipeline.commands.plan import plan

    return plan(argv)


def _replay(argv: list[str]) -> int:
    if _wants_help(argv):
        from groundrows.pipeline.options.replay import replay_parser

        replay_parser().print_help()
        return 0
    from groundrows.pipeline.commands.replay import replay

    return replay(argv)


def _ledger(argv: list[str]) -> int:
    if _wants_help(argv):
        from groundrows.pipeline.options.ledger import ledger_parser

        ledger_parser().print_help()
        return 0
    from groundrows.pipeline.commands.ledger import ledger

    return ledger(argv)


def _report(argv: list[str]) -> int:
    if _wants_help(argv):
        from groundrows.pipeline.options.report import report_parser

        report_parser().print_help()
        return 0
    try:
        from groundrows.pipeline.commands.report import main as report
    except ModuleNotFoundError as missing:
        raise UsageError(
            f"A report needs the package {missing.name}: install groundrows[report], which brings it."
        ) from None
    return report(argv)


def _sql(argv: list[str]) -> int:
    if _wants_help(argv):
        from groundrows.pipeline.options.sql import sql_parser

        sql_parser().print_help()
        return 0
    from groundrows.pipeline.commands.sql import sql

    return sql(argv)


def _completion(argv: list[str]) -> int:
    from groundrows.pipeline.commands.completion import HELP, completion

    if _wants_help(argv):
        print(HELP, end="")
        return 0
    return completion(argv)


def _emulator(argv: list[str]) -> int:
    from groundrows.pipeline.emulator.__main__ import main as emulate

    return emulate(argv)


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "run": _run,
    "plan": _plan,
    "replay": _replay,
    "report": _report,
    "sql": _sql,
    "ledger": _ledger,
    "emulator": _emulator,
    "completion": _completion,
}
