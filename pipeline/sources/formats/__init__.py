"""Readers of archives: a byte stream in, records and failures out, one at a time."""
