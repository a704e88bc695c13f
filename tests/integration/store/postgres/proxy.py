"""A TCP proxy before a PostgreSQL server that makes trouble at chosen moments."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum

COMMIT = b"COMMIT\x00"


class Cut(Enum):
    """When to cut the client off, once."""

    NEVER = "never"
    BEFORE_COMMIT = "the server never sees COMMIT and notices that the client is gone"
    LEFT_BEHIND = "the server never sees COMMIT and waits for the client"
    AFTER_COMMIT = "the server has done the COMMIT, its answer is lost"
    AT_COMMIT = "the server gets COMMIT at the moment the client is cut off"


class Proxy:
    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.cut = Cut.NEVER
        self.busy_answers = 0
        """To so many connections the answer is that the server is starting up."""
        self.replace = (b"", b"")
        """Bytes of the server that are to look otherwise."""
        self.connections = 0
        self._swallow = False
        self._swallowed = threading.Event()
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()
        self.drop()

    def drop(self) -> None:
        """Cut every connection."""
        for one in self._open:
            _end(one)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.connections += 1
                if self.busy_answers:
                    self.busy_answers -= 1
                    _refuse(client)
                    continue
                server = socket.create_connection(("127.0.0.1", self._target))
                self._open += [client, server]
                for work in (self._upstream, self._downstream):
                    threading.Thread(target=work, args=(client, server), daemon=True).start()

    def _upstream(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(65536):
                if self.cut is not Cut.NEVER and COMMIT in data:
                    self._cut(client, server, data)
                    return
                server.sendall(data)
        _end(server)

    def _cut(self, client: socket.socket, server: socket.socket, data: bytes) -> None:
        how, self.cut = self.cut, Cut.NEVER
        if how is Cut.AFTER_COMMIT:
            self._swallow = True
            server.sendall(data)
            self._swallowed.wait(30)
        elif how is Cut.AT_COMMIT:
            server.sendall(data)
        _end(client)
        if how is not Cut.LEFT_BEHIND:
            _end(server)

    def _downstream(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(65536):
                if self._swallow:
                    self._swallow = False
                    self._swallowed.set()
                    return
                client.sendall(data.replace(*self.replace) if self.replace[0] else data)
        _end(client)


@contextmanager
def proxy_before(port: int) -> Iterator[Proxy]:
    made = Proxy(port)
    try:
        yield made
    finally:
        made.close()


def _end(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()


def _refuse(client: socket.socket) -> None:
    """The answer of a server that is starting up."""
    client.recv(65536)
    fields = b"SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0"
    client.sendall(b"E" + struct.pack("!i", len(fields) + 4) + fields)
    _end(client)
