"""JSON-RPC 2.0 over two streams: one JSON object a line, and either side may ask."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import msgspec

MAX_LINE = 64 * 1024 * 1024
METHOD_NOT_FOUND = -32601

_log = logging.getLogger(__name__)


class RpcError(Exception):
    """The other side answered with an error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.data = code, data


class RpcMessage(msgspec.Struct):
    """Whatever a line may hold."""

    id: int | str | None = None
    method: str = ""
    params: Any = None
    result: Any = None
    error: Any = None


class RpcConnection:
    """`heard` gets the notifications. `asked` gets the requests of the other side and gives the
    result; it raises `RpcError` to refuse."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        heard: Callable[[str, Any], None],
        asked: Callable[[str, Any], Any],
    ) -> None:
        self._reader, self._writer = reader, writer
        self._heard, self._asked = heard, asked
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._last_id = 0
        self._lost: Callable[[], Exception] | None = None

    async def listen(self) -> None:
        """Take what comes until the stream ends. Raises `ValueError` for an endless line.

        Lines that are no messages are skipped: programs print what they should not.
        """
        while line := await self._reader.readline():
            try:
                message = _decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                if line.strip():
                    _log.debug("not a message: %.200r", line)
                continue
            self._take(message)

    async def request(self, method: str, params: Any) -> Any:
        """The result. Raises `RpcError`, or what `lose` said when the connection is lost."""
        return await self.begin(method, params)

    def begin(self, method: str, params: Any) -> asyncio.Future[Any]:
        """Ask without waiting; a future that is cancelled is forgotten."""
        if self._lost is not None:
            raise self._lost()
        number = self._post(method, params)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        future.add_done_callback(lambda _: self._forget(number))
        return future

    def ask_in_passing(self, method: str, params: Any) -> None:
        """Ask, and do not care for the answer."""
        self._post(method, params)

    def notify(self, method: str, params: Any) -> None:
        self._write({"method": method, "params": params})

    def lose(self, why: Callable[[], Exception]) -> None:
        """Nothing comes any more: everybody who waits gets the error that `why` makes."""
        self._lost = why
        for future in list(self._waiting.values()):
            if not future.done():
                future.set_exception(why())

    def _forget(self, number: int) -> None:
        future = self._waiting.pop(number)
        if not future.cancelled():
            future.exception()  # whoever went away in the meantime need not hear of it

    def _post(self, method: str, params: Any) -> int:
        self._last_id += 1
        self._write({"id": self._last_id, "method": method, "params": params})
        return self._last_id

    def _write(self, message: dict[str, Any]) -> None:
        line = msgspec.json.encode({"jsonrpc": "2.0", **message}) + b"\n"
        if self._lost is None and not self._writer.is_closing():
            self._writer.write(line)

    def _take(self, message: RpcMessage) -> None:
        if message.method and message.id is None:
            self._heard(message.method, message.params)
        elif message.method:
            self._answer(message)
        elif isinstance(message.id, int) and message.id in self._waiting:
            self._settle(self._waiting[message.id], message)

    def _answer(self, message: RpcMessage) -> None:
        try:
            answer = {"result": self._asked(message.method, message.params)}
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
