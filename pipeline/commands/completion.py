"""`groundrows completion SHELL`: prints what makes the shell complete commands and flags."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from groundrows.pipeline.emulator.options import add_flags
from groundrows.pipeline.options.parsers import PARSERS
from groundrows.schemas.errors import UsageError

SHELLS = ("bash", "zsh", "tcsh")
HELP = """\
usage: groundrows completion bash|zsh|tcsh

Print the script by which a shell completes commands and flags.

example:
  source <(groundrows completion bash)
"""

# In bash a flag, its = and its value are three words, which the generated function does not expect. Where it
# knows nothing, names of files are what is left to complete.
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
    # A command without a help text would be taken for a hidden one.
    parser = argparse.ArgumentParser(prog="groundrows")
    commands = parser.add_subparsers()
    for name, parser_of in PARSERS.items():
        commands.add_parser(name, help=name, parents=[parser_of()], add_help=False)
    add_flags(commands.add_parser("emulator", help="emulator"))
    commands.add_parser("completion", help="completion").add_argument("shell", choices=SHELLS)
    return parser
