"""A small HTTP server on this machine that records its requests and can misbehave on request."""

import json
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec


class Request(msgspec.Struct, frozen=True):
    method: str
    path: str
    params: dict[str, str]
    headers: dict[str, str]
    """Their names in lower case."""
    body: Any


class Refused(Exception):
    """What a fake service answers instead."""

    def __init__(self, status: int, body: Any = None) -> None:
        self.status, self.body = status, body


Service = Callable[[Request], Any]
"""The answer, to be sent as JSON; None for an empty one. May raise `Refused`."""


class Fault(msgspec.Struct, frozen=True):
    """The response to every request, in place of the service."""

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = {}
    hangs: bool = False
    times: int = 1_000_000


class Site:
    def __init__(self, service: Service, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[Request] = []
        self.surprises: list[str] = []
        """What the service was asked that it does not know."""
        self._fault: Fault | None = None
        self._faults_left = 0
        self._service = service
        self._lock = threading.Lock()
        self._released = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._scheme = "http"
        if tls is not None:
            self._scheme = "https"
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._server.server_port}"

    def misbehave(self, fault: Fault) -> None:
        self._fault, self._faults_left = fault, fault.times

    def recover(self) -> None:
        self._fault = None

    def calls(self) -> list[tuple[str, str]]:
        return [(request.method, request.path) for request in self.requests]

    def close(self) -> None:
        self._released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, request: Request) -> tuple[int, dict[str, str], bytes]:
        with self._lock:
            self.requests.append(request)
            fault = self._fault if self._faults_left > 0 else None
            self._faults_left -= 1
        if fault is not None:
            if fault.hangs:
                self._released.wait()
            return fault.status, fault.headers, fault.body
        try:
            with self._lock:
                answer = self._service(request)
        except Refused as refused:
            return refused.status, {}, json.dumps(refused.body).encode()
        except (KeyError, LookupError, TypeError, AssertionError) as error:
            self.surprises.append(f"{request.method} {request.path} {request.body}: {error!r}")
            return 400, {}, b'{"error": "not understood"}'
        return (200, {}, json.dumps(answer).encode()) if answer is not None else (204, {}, b"")

    def _handler(site) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - the handler has a self too
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # an answer in one piece

            def answer(self) -> None:
                address = urlsplit(self.path)
                length = int(self.headers.get("Content-Length") or 0)
                data = self.rfile.read(length)
                request = Request(
                    self.command,
                    unquote(address.path),
                    dict(parse_qsl(address.query)),
                    {name.lower(): value for name, value in self.headers.items()},
                    json.loads(data) if data else None,
                )
                status, headers, body = site.answer(request)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                if status != 204:
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815 - as it must be

            def log_message(self, *_args: Any) -> None:
                pass

        return Handler
