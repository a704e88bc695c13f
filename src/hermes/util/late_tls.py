"""A TLS context that reads its certificates at the first handshake.

Reading them takes longer than starting the program; a model on this machine or a cached answer
never needs them. Until then this context trusts nobody, so nothing can slip through.
"""

import ssl
from collections.abc import Iterable
from threading import Lock
from typing import Self

import httpx2


class LateTls(ssl.SSLContext):
    """Stands for `httpx2.create_ssl_context()`, which does the work once it is made."""

    def __new__(cls) -> Self:
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self) -> None:
        self._made: ssl.SSLContext | None = None
        # Handshakes run in threads, several at a time.
        self._making = Lock()
        self._alpn: list[str] = []

    def set_alpn_protocols(self, alpn_protocols: Iterable[str]) -> None:
        self._alpn = list(alpn_protocols)

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        return self._ready().wrap_bio(incoming, outgoing, server_side, server_hostname, session)

    def _ready(self) -> ssl.SSLContext:
        with self._making:
            if self._made is None:
                self._made = httpx2.create_ssl_context()
            if self._alpn:
                self._made.set_alpn_protocols(self._alpn)
            return self._made
