"""One run, from its flags to its summary."""
