"""What the template launcher starts."""

import sys

from pipeline.launch import main

if __name__ == "__main__":
    sys.exit(main())
