"""The kinds of files that rows are exported to, one module each; `known.py` lists them."""
