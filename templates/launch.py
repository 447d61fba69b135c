"""The program that Dataflow's template launcher starts."""

import sys

from groundrows.pipeline.deploy.launch import main

if __name__ == "__main__":
    sys.exit(main())
