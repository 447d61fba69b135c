"""`python -m pipeline` is `groundrows run`."""

import sys

from pipeline.cli import main

sys.exit(main(["run", *sys.argv[1:]]))
