"""JSON-RPC 2.0 over two streams: one JSON object per line, requests in both directions."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import msgspec

MAX_LINE = 64 * 1024 * 1024
METHOD_NOT_FOUND = -32601

_log = logging.getLogger(__name__)


class RpcError(Exception):
    """The other side responded with an error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.data = code, data


class RpcMessage(msgspec.Struct):
    """Any message: request, notification or response."""

    id: int | str | None = None
    method: str = ""
    params: Any = None
    result: Any = None
    error: Any = None


class RpcConnection:
    """One connection.

    `on_notification` receives notifications. `on_request` receives requests of the other side and
    returns the result; it raises `RpcError` to refuse.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        on_notification: Callable[[str, Any], None],
        on_request: Callable[[str, Any], Any],
    ) -> None:
        self._reader, self._writer = reader, writer
        self._on_notification, self._on_request = on_notification, on_request
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._last_id = 0
        self._loss: Callable[[], Exception] | None = None

    async def listen(self) -> None:
        """Handle messages until the stream ends. Raises `ValueError` for a line that is too long.

        Lines that are not messages are skipped: some programs print to standard output.
        """
        while line := await self._reader.readline():
            try:
                message = _decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                if line.strip():
                    _log.debug("not a message: %.200r", line)
                continue
            self._dispatch(message)

    async def request(self, method: str, params: Any) -> Any:
        """Return the result. Raises `RpcError`, or the error of `fail_all` when the connection is
        lost."""
        return await self.start_request(method, params)

    def start_request(self, method: str, params: Any) -> asyncio.Future[Any]:
        """Send a request without waiting; a cancelled future is forgotten."""
        if self._loss is not None:
            raise self._loss()
        number = self._send_request(method, params)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        future.add_done_callback(lambda _: self._forget(number))
        return future

    def request_and_forget(self, method: str, params: Any) -> None:
        """Send a request and ignore the response."""
        self._send_request(method, params)

    def notify(self, method: str, params: Any) -> None:
        self._write({"method": method, "params": params})

    def fail_all(self, why: Callable[[], Exception]) -> None:
        """Mark the connection as lost: all pending requests raise the error that `why` makes."""
        self._loss = why
        for future in list(self._waiting.values()):
            if not future.done():
                future.set_exception(why())

    def _forget(self, number: int) -> None:
        future = self._waiting.pop(number)
        if not future.cancelled():
            future.exception()  # marks it as retrieved, in case the waiting task is gone

    def _send_request(self, method: str, params: Any) -> int:
        self._last_id += 1
        self._write({"id": self._last_id, "method": method, "params": params})
        return self._last_id

    def _write(self, message: dict[str, Any]) -> None:
        line = msgspec.json.encode({"jsonrpc": "2.0", **message}) + b"\n"
        if self._loss is None and not self._writer.is_closing():
            self._writer.write(line)

    def _dispatch(self, message: RpcMessage) -> None:
        if message.method and message.id is None:
            self._on_notification(message.method, message.params)
        elif message.method:
            self._answer(message)
        elif isinstance(message.id, int) and message.id in self._waiting:
            self._settle(self._waiting[message.id], message)

    def _answer(self, message: RpcMessage) -> None:
        try:
            answer = {"result": self._on_request(message.method, message.params)}
        except RpcError as refusal:
            answer = {"error": {"code": refusal.code, "message": str(refusal)}}
        self._write({"id": message.id, **answer})

    def _settle(self, future: asyncio.Future[Any], message: RpcMessage) -> None:
        if future.done():
            return
        if message.error is None:
            future.set_result(message.result)
            return
        error = message.error if isinstance(message.error, dict) else {"message": message.error}
        code = error.get("code")
        future.set_exception(
            RpcError(
                code if isinstance(code, int) else 0,
                str(error.get("message") or "no reason given"),
                error.get("data"),
            )
        )


_decoder = msgspec.json.Decoder(RpcMessage)
