"""How rows are stored in files: `seam.py` says what a format does, and `known.py` lists the formats."""
