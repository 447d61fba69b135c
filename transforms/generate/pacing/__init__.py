"""Pacers decide when the next call may start, so that calls stay below a rate limit.

There is one interface with four implementations, which differ in how several processes share the limit.
"""
