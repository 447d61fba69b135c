"""`groundrows completion SHELL`: prints what makes the shell complete commands and flags."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from groundrows.pipeline.commands import COMMANDS
from groundrows.pipeline.options.parser import FlagParser
from groundrows.schemas.errors import UsageError

SHELLS = ("bash", "zsh", "tcsh")
EXAMPLE = """\
example:
  source <(groundrows completion bash)
"""

# Bash takes a flag, its = and its value for three words, which the generated function does not expect. Where
# that function knows nothing, bash completes file names.
_BASH = """
_groundrows() {
  local -a words=()
  local i count=$COMP_CWORD
  for i in "${!COMP_WORDS[@]}"; do
    if [[ ${COMP_WORDS[i]} != "=" ]]; then
      words+=("${COMP_WORDS[i]}")
    elif ((i < COMP_CWORD)); then
      ((count--))
    else
      words+=("")
    fi
  done
  COMP_WORDS=("${words[@]}") COMP_CWORD=$count
  _shtab_groundrows "$1" "${words[count]}" "${words[count - 1]}"
}
complete -o default -F _groundrows groundrows
"""


def completion_parser() -> FlagParser:
    """The parser of the command's argument."""
    parser = FlagParser(
        prog="groundrows completion",
        description="Print the script by which a shell completes commands and flags.",
        epilog=EXAMPLE,
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell that you use")
    return parser


def completion(argv: Sequence[str]) -> int:
    """Run the command; returns the exit code.

    Raises:
        UsageError: The shell is none of `SHELLS`.
    """
    if len(argv) != 1 or argv[0] not in SHELLS:
        raise UsageError(
            f"Which shell is it? Write `groundrows completion SHELL`, one of {', '.join(SHELLS)}."
        )
    import shtab

    print(shtab.complete(whole_parser(), shell=argv[0]))
    if argv[0] == "bash":
        print(_BASH, end="")
    return 0


def whole_parser() -> argparse.ArgumentParser:
    """One parser of every command and flag."""
    parser = argparse.ArgumentParser(prog="groundrows")
    commands = parser.add_subparsers()
    for name, command in COMMANDS.items():
        # Without a help text shtab takes a command for a hidden one.
        commands.add_parser(name, help=command.summary, parents=[command.parser()], add_help=False)
    return parser
