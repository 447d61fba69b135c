"""Cutting a client's connection, which gRPC itself has no call for."""

from __future__ import annotations

import os
import socket


def cut_connection(peer: str) -> bool:
    """Shut down this process's TCP connection to a peer, and with it every call on it.

    gRPC keeps its sockets to itself, so they are looked for among the open files (on Linux only).

    Args:
        peer: The peer as gRPC names it, `ipv4:127.0.0.1:40000`.

    Returns:
        Whether a connection was found and cut.
    """
    port = int(peer.rsplit(":", 1)[1])
    try:
        files = [int(name) for name in os.listdir("/proc/self/fd")]
    except FileNotFoundError:
        return False
    for file in files:
        try:
            with socket.socket(fileno=os.dup(file)) as connection:
                internet = connection.family in (socket.AF_INET, socket.AF_INET6)
                if internet and connection.getpeername()[1] == port:
                    connection.shutdown(socket.SHUT_RDWR)
                    return True
        except OSError:
            continue  # no socket, or one that only listens
    return False
