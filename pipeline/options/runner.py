"""The flags of the runner, which are Beam's: passed through, but not when they are misspelt."""

from __future__ import annotations

import re
from collections.abc import Sequence

from groundrows.pipeline.options.parser import FlagParser, stray_flag

# Names of the runner's flags whose values are secrets.
_SECRET = re.compile(r"secret|token|password|access_key|connection_string")


def check_runner_flags(parser: FlagParser, unknown: Sequence[str]) -> None:
    """Refuse what is neither ours nor the runner's: Beam would drop a misspelt flag without a word.

    Raises:
        UsageError: It names the flag and the one that was meant, or what is wrong with a runner's flag.
    """
    if not unknown:
        return
    beams = beam_parser(parser.prog)
    _, stray = beams.parse_known_args(list(unknown))
    if stray:
        raise stray_flag(parser, stray[0], beams)


def beam_parser(prog: str) -> FlagParser:
    """A parser of every flag that Beam knows. Beam is imported here and no sooner: that takes seconds."""
    import apache_beam.options.pipeline_options as beam_options

    class RunnerParser(FlagParser, beam_options._BeamArgumentParser):
        """Beam's parser, which knows Beam's kinds of flags, but with our errors."""

    parser = RunnerParser(prog=prog, add_help=False, conflict_handler="resolve")
    for kind in beam_options.PipelineOptions.__subclasses__():
        kind._add_argparse_args(parser)
    return parser


def without_secrets(runner_flags: Sequence[str]) -> list[str]:
    """The runner's flags as they may be shown: `***` stands for the value of one that is a secret."""
    shown: list[str] = []
    hide_next = False
    for flag in runner_flags:
        name, separator, _ = flag.partition("=")
        secret = _SECRET.search(name) is not None and name.startswith("--")
        shown.append("***" if hide_next else f"{name}=***" if secret and separator else flag)
        hide_next = secret and not separator
    return shown
