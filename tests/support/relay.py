"""A relay between a client and a server on this machine, which swallows or holds up what is sent when told to."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Relay:
    """Listens on a port of its own and passes everything on, both ways.

    Attributes:
        address: Where it listens, `HOST:PORT`.
        swallowing: When set, nothing that clients send reaches the server any more.
        passing: While it is not set, nothing passes either way; what was sent meanwhile passes later, as it
            does when a network has been away.
    """

    def __init__(self, server: str) -> None:
        self._server = server
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self.swallowing = threading.Event()
        self.passing = threading.Event()
        self.passing.set()
        self._open: list[socket.socket] = [self._listening]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        host, _, port = self._server.rpartition(":")
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection((host, int(port)))
                self._open += [client, server]
                threading.Thread(target=self._pass_on, args=(client, server, True), daemon=True).start()
                threading.Thread(target=self._pass_on, args=(server, client, False), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, of_client: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                self.passing.wait()
                if not (of_client and self.swallowing.is_set()):
                    target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """End every connection."""
        self.passing.set()
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


@contextmanager
def relay_to(server: str) -> Iterator[Relay]:
    """A relay to `server`, `HOST:PORT`, which ends with the block."""
    relay = Relay(server)
    try:
        yield relay
    finally:
        relay.close()
