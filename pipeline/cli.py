"""The program `groundrows`: runs a command, and turns an error into a sentence and an exit code.

A command imports what it needs when it runs, so this module stays fast to import.
"""

from __future__ import annotations

import difflib
import logging
import os
import select
import sys
from collections.abc import Sequence
from contextlib import suppress

from groundrows.pipeline.commands import COMMANDS
from groundrows.pipeline.run import stopping
from groundrows.pipeline.run.saying import drop
from groundrows.schemas.errors import UsageError
from groundrows.schemas.wording import one_line


def _usage() -> str:
    lines = [f"  {name:<11} {command.summary}" for name, command in COMMANDS.items()]
    return f"""\
usage: groundrows COMMAND [FLAGS]

commands:
{chr(10).join(lines)}

`groundrows COMMAND --help` lists a command's flags, and `groundrows --version` says which version this is.
"""


USAGE = _usage()


class _ToStderr(logging.Handler):
    """Logs to the current `sys.stderr`, which the progress display replaces while it runs."""

    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    command = COMMANDS.get(arguments[0]) if arguments else None
    if command is not None and command.has_own_handlers:
        return command.run(arguments[1:])
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
        # All work is done. Waiting for the runner's threads would only delay the end of the process.
        with suppress(OSError):
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
    if "-h" in arguments or "--help" in arguments:
        command.parser().print_help()
        return 0
    return command.run(arguments[1:])


def _ended_by(error: BaseException, signals: list[int]) -> int:
    """Print what ended a command; return the exit code."""
    if signals or isinstance(error, KeyboardInterrupt):
        with suppress(OSError):  # the terminal may have closed
            print(stopping.said(), file=sys.stderr, flush=True)
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
    """Whether stdout's reader has ended early, as `head` does. If so, the rest of the output is dropped."""
    try:
        stdout = sys.stdout.fileno()
    except (AttributeError, OSError):
        return False
    poll = select.poll()
    poll.register(stdout, 0)
    if not any(event & select.POLLERR for _, event in poll.poll(0)):
        return False
    drop(sys.stdout)
    return True
