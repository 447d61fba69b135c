"""Ports on the loopback interface that cannot be had."""

from __future__ import annotations


class PortInUseError(Exception):
    """A port cannot be had; the message is one sentence.

    Args:
        flag: The flag that named it.
        port: The port.
    """

    def __init__(self, flag: str, port: int) -> None:
        super().__init__(f"--{flag}={port} cannot be opened on 127.0.0.1: free it, or use 0 for a free one.")
