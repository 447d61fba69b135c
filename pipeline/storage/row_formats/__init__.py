"""Formats of row files: `seam.py` declares the interface of a format, and `known.py` lists the formats."""
