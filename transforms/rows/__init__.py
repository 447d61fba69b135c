"""Responses into rows."""
