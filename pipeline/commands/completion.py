"""`groundrows completion SHELL`: prints a script that lets a shell complete commands and flags."""

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

# Bash splits --flag=value into three words, which the generated function does not expect. This wrapper joins
# them. When the function has no suggestion, bash completes file names.
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
        description="Print a script that lets a shell complete commands and flags.",
        epilog=EXAMPLE,
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell that you use")
    return parser


def completion(argv: Sequence[str]) -> int:
    """Run the command; return the exit code.

    Raises:
        UsageError: The shell is not one of `SHELLS`.
    """
    if len(argv) != 1 or argv[0] not in SHELLS:
        raise UsageError(
            f"The shell is missing: write `groundrows completion SHELL` with one of {', '.join(SHELLS)}."
        )
    import shtab

    print(shtab.complete(whole_parser(), shell=argv[0]))
    if argv[0] == "bash":
        print(_BASH, end="")
    return 0


def whole_parser() -> argparse.ArgumentParser:
    """Make one parser of all commands and flags."""
    parser = argparse.ArgumentParser(prog="groundrows")
    commands = parser.add_subparsers()
    for name, command in COMMANDS.items():
        # shtab hides a command without a help text.
        commands.add_parser(name, help=command.summary, parents=[command.parser()], add_help=False)
    return parser
