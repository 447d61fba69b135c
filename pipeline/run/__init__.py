"""Everything that one run does, from reading its flags to writing its summary."""
