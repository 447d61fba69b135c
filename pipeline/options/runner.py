"""The flags of Beam's runner. They are passed on to Beam, but a misspelt one is refused."""

from __future__ import annotations

import re
from collections.abc import Sequence

from groundrows.pipeline.options.parser import FlagParser, stray_flag

# Names of the runner's flags whose values are secrets.
_SECRET = re.compile(r"secret|token|password|access_key|connection_string")


def check_runner_flags(parser: FlagParser, unknown: Sequence[str]) -> None:
    """Refuse flags that are neither ours nor the runner's. Beam would ignore a misspelt flag silently.

    Raises:
        UsageError: A flag is unknown, or a runner's flag has a wrong value.
    """
    if not unknown:
        return
    beams = beam_parser(parser.prog)
    _, stray = beams.parse_known_args(list(unknown))
    if stray:
        raise stray_flag(parser, stray[0], beams)


def beam_parser(prog: str) -> FlagParser:
    """Make a parser of every flag that Beam knows. Beam is imported only here, because that takes seconds."""
    import apache_beam.options.pipeline_options as beam_options

    class RunnerParser(FlagParser, beam_options._BeamArgumentParser):
        """Beam's parser, which knows Beam's types of flags, but with our error messages."""

    parser = RunnerParser(prog=prog, add_help=False, conflict_handler="resolve")
    for kind in beam_options.PipelineOptions.__subclasses__():
        kind._add_argparse_args(parser)
    return parser


def without_secrets(runner_flags: Sequence[str]) -> list[str]:
    """Return the runner's flags with `***` in place of secret values."""
    shown: list[str] = []
    hide_next = False
    for flag in runner_flags:
        name, separator, _ = flag.partition("=")
        secret = _SECRET.search(name) is not None and name.startswith("--")
        shown.append("***" if hide_next else f"{name}=***" if secret and separator else flag)
        hide_next = secret and not separator
    return shown
