"""Directories and files, local or on `gs://`."""
