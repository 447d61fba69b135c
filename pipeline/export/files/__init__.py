"""The file formats for exports. Each has a module, and `known.py` lists them."""
