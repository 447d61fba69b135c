"""The scripts that complete commands and flags, tried in a real shell."""

import subprocess

import pytest

from groundrows.pipeline.cli import COMMANDS
from groundrows.pipeline.commands.completion import SHELLS, completion, whole_parser
from groundrows.schemas.errors import UsageError

# Sources the script on stdin, then completes the words given, the last of which is being typed.
BASH = """
source /dev/stdin
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"
_groundrows groundrows
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def script():
    from contextlib import redirect_stdout
    from io import StringIO

    with redirect_stdout(StringIO()) as printed:
        assert completion(["bash"]) == 0
    return printed.getvalue()


def completed(script, *words):
    shell = subprocess.run(
        ["bash", "-c", BASH, "bash", "groundrows", *words],
        input=script,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert shell.returncode == 0, shell.stderr
    return shell.stdout.split()


def test_a_command(script):
    assert completed(script, "re") == ["replay", "report"]


def test_a_flag(script):
    assert completed(script, "run", "--max_req") == ["--max_requests"]
    assert completed(script, "replay", "--only") == ["--only_retryable"]


def test_a_value(script):
    assert completed(script, "run", "--transport", "r") == ["rest"]


def test_a_value_behind_an_equals_sign_which_is_a_word_to_bash(script):
    assert completed(script, "run", "--service", "=", "em") == ["emulator"]
    assert completed(script, "run", "--transport", "=") == ["grpc", "rest"]
    assert completed(script, "run", "--service", "=", "emulator", "--max_req") == ["--max_requests"]


def test_where_nothing_is_known_files_are_completed(script, tmp_path):
    (tmp_path / "questions.jsonl").touch()
    assert completed(script, "run", "--input", "=", f"{tmp_path}/que") == []  # which leaves it to the shell
    shell = subprocess.run(
        ["bash", "-c", "source /dev/stdin; complete -p groundrows"],
        input=script,
        capture_output=True,
        text=True,
    )
    assert "-o default" in shell.stdout


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_has_a_script(shell, capsys):
    assert completion([shell]) == 0
    assert "max_requests" in capsys.readouterr().out


def test_every_command_is_there():
    (commands,) = [action for action in whole_parser()._actions if action.choices]
    assert set(commands.choices) == set(COMMANDS)


@pytest.mark.parametrize("argv", [[], ["fish"], ["bash", "zsh"]])
def test_another_shell(argv):
    with pytest.raises(UsageError, match="one of bash, zsh, tcsh"):
        completion(argv)
