"""The views over the tables, a statement a file."""
