"""Makes `python -m groundrows` the same as the program `groundrows`."""

import sys

from groundrows.pipeline.cli import main

sys.exit(main())
