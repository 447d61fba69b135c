"""Makes `python -m pipeline` the same as `groundrows run`."""

import sys

from groundrows.pipeline.cli import main

sys.argv.insert(1, "run")
sys.exit(main())
