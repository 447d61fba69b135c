"""Declares every flag and checks the values. Beam is not imported for this, because that takes seconds."""
