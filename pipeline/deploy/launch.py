"""The launcher of a Flex Template: turns a job's parameters into flags of `groundrows run`, and submits it.

The job counts as launched when this program ends, so it ends as soon as the job is submitted.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Sequence

from groundrows.pipeline.options.run import run_flags
from groundrows.schemas.errors import UsageError
from groundrows.schemas.service import DISCOVERY_ENGINE
from groundrows.schemas.wording import one_line


def flags_of(parameters: Iterable[str]) -> list[str]:
    """Return the flags for a template's parameters.

    A template writes a switch as `--overwrite=true`. It can't repeat a parameter, so several question
    templates are lines of one text. A job that names no service calls the Grounded Generation API.
    """
    known = {flag.name: flag for flag in run_flags()}
    given_parameters = list(parameters)
    names = {parameter.partition("=")[0] for parameter in given_parameters}
    flags = [] if "--service" in names else [f"--service={DISCOVERY_ENGINE}"]
    for parameter in given_parameters:
        name, given, value = parameter.partition("=")
        flag = known.get(name.removeprefix("--"))
        if given and flag is not None and flag.is_switch:
            flags += _switch(name, value)
        elif given and flag is not None and flag.repeated:
            flags += [f"{name}={line}" for line in value.splitlines() if line.strip()]
        elif given and flag is not None and not value:
            continue  # the form's field was left empty
        else:
            flags.append(parameter)
    return flags


def _switch(name: str, value: str) -> list[str]:
    if value.lower() not in ("true", "false"):
        raise UsageError(f"{name}={value} is neither true nor false.")
    return [name] if value.lower() == "true" else []


def main(argv: Sequence[str] | None = None) -> int:
    """Submit the job that the parameters describe; return the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    from groundrows.pipeline.options.run import parse_run
    from groundrows.pipeline.run.session import submit

    try:
        submit(parse_run(flags_of(sys.argv[1:] if argv is None else argv)))
    except UsageError as error:
        print(one_line(error), file=sys.stderr)
        return 2
    return 0
