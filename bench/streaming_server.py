"""A model server that sends numbered words at a steady pace and records when."""

import contextlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class WordServer:
    """Answers each request with `words` words, `pace` per second: `w0000 w0001 …`."""

    def __init__(self, words: int, pace: float) -> None:
        self.sent: dict[str, float] = {}
        """The `time.perf_counter` value at which each word was sent."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Connection", "close")
                self.end_headers()
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    self._stream()
                self.close_connection = True

            def _stream(self) -> None:
                began = time.perf_counter()
                for number in range(words):
                    time.sleep(max(0.0, began + number / pace - time.perf_counter()))
                    word = f"w{number:04}"
                    self._event({"content": f"{word} " + ("\n\n" if number % 20 == 19 else "")})
                    outer.sent[word] = time.perf_counter()
                self._event({}, "stop")
                self.wfile.write(b"data: [DONE]\n\n")

            def do_GET(self) -> None:
                body = b'{"data": []}'
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def _event(self, delta: dict[str, str], finish: str | None = None) -> None:
                choice = {"index": 0, "delta": delta, "finish_reason": finish}
                event = {"id": "x", "model": "lab-model", "choices": [choice]}
                self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
                self.wfile.flush()

            def log_message(self, *_details: Any) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
