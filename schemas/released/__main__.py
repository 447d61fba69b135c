"""`python -m groundrows.schemas.released VERSION`: note the schemas of today as those of a version."""

from __future__ import annotations

import sys

from groundrows.schemas.errors import ReleaseError
from groundrows.schemas.released import release


def main(argv: list[str]) -> int:
    """Release the schemas; returns the exit code."""
    if len(argv) != 1:
        print(
            "Give the version that is released: python -m groundrows.schemas.released 1.2.3.", file=sys.stderr
        )
        return 2
    try:
        print(release(argv[0]))
    except ReleaseError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
