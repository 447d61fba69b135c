"""`python -m groundrows` is `groundrows`."""

import sys

from groundrows.pipeline.cli import main

sys.exit(main())
