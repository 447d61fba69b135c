"""A run's rows as files for spreadsheets and other programs.

`sheet.py` says what is exported, and `files/` has a module for each kind of file.
"""
