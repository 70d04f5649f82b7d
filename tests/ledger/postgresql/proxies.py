"""A network between a ledger and its server that tests can break."""

from __future__ import annotations

import select
import socket
import threading
from contextlib import suppress
from pathlib import Path


class Proxy:
    """Forwards connections on a port of this machine to a server's Unix socket."""

    def __init__(self, server: Path) -> None:
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.swallows = False  # whatever is sent is accepted, and comes to nobody
        self.swallows_answers = False  # the server gets it, and its answer gets lost
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, place: str) -> str:
        """A place as it is reached through this network."""
        return place.replace(f"host={self._server.parent}", f"host=127.0.0.1&port={self.port}")

    def cut(self) -> None:
        """End all connections that are open now."""
        for pair in self._pairs:
            for end in pair:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
        self._pairs.clear()

    def close(self) -> None:
        """End everything."""
        self._closed = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(str(self._server))
            self._pairs.append((client, server))
            threading.Thread(target=self._forward, args=(client, server), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        try:
            while not self._closed:
                ready, _, _ = select.select([client, server], [], [], 0.1)
                for end in ready:
                    data = end.recv(65536)
                    if not data:
                        return
                    lost = self.swallows or (self.swallows_answers and end is server)
                    if not lost:
                        (server if end is client else client).sendall(data)
        except (OSError, ValueError):
            return
        finally:
            client.close()
            server.close()
