"""Exports a run's rows as files for spreadsheets and other programs.

`sheet.py` declares what is exported. `files/` has a module for each file format.
"""
