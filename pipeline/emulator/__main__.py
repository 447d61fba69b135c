"""`python -m groundrows.pipeline.emulator`: the emulator as a process of its own."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from typing import NoReturn

from groundrows.pipeline.emulator.options import add_flags, from_args

EXAMPLE = """\
example:
  groundrows emulator --port=8000 --rest_port=8001 --latency=lognormal:1,10 --requests_per_minute=600
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message[:1].upper()}{message[1:]}; see --help.")


def main(argv: list[str]) -> int:
    """Run the emulator until it is told to stop.

    Takes the process over: it sets signal handlers.

    Args:
        argv: The flags, without the program's name.

    Returns:
        0 after it was stopped; 2 when the flags, a file they name or the port are of no use, with one
        sentence on stderr.
    """
    parser = _Parser(
        prog="groundrows emulator",
        description="Serve the Grounded Generation API on this machine, until SIGTERM or Ctrl-C.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_flags(parser)
    try:
        options = from_args(parser.parse_args(argv))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2

    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # gRPC's own log would stand between the sentences
    from groundrows.pipeline.emulator.server import serve
    from groundrows.pipeline.emulator.service import Service
    from groundrows.schemas.errors import PortInUseError

    try:
        asyncio.run(serve(options, Service(options)))
    except (ValueError, PortInUseError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
