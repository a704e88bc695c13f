"""A proxy in front of the homeserver that forwards calls until a test stops it."""

import asyncio
from typing import Any

import aiohttp
from aiohttp import web

from tests.fakes.serving import Site, cut

REFUSALS: dict[str, tuple[int, dict[str, Any]]] = {
    "rate_limited": (
        429,
        {"errcode": "M_LIMIT_EXCEEDED", "error": "Too Many Requests", "retry_after_ms": 50},
    ),
    "server_error": (500, {"errcode": "M_UNKNOWN", "error": "Internal server error"}),
    "chat_gone": (403, {"errcode": "M_FORBIDDEN", "error": "User not in room"}),
}


class Proxy(Site):
    def __init__(self, target: str) -> None:
        self._target = target
        self.troubles: list[str] = []  #: Of the next sends.
        self.calls: list[str] = []  #: Method and path of each call that came in.
        self._syncs: list[bytes] = []
        self._replay: asyncio.Future[bytes] | None = None

    async def open(self) -> None:
        self._session = aiohttp.ClientSession()
        self._replay = asyncio.get_running_loop().create_future()
        await self.serve([web.route("*", "/{path:.*}", self._handle)], handler_cancellation=True)

    async def close(self) -> None:
        await self.stop()
        await self._session.close()

    def again(self, event_id: str) -> None:
        """The answer that had this event comes once more."""
        assert self._replay
        self._replay.set_result(next(each for each in self._syncs if event_id.encode() in each))

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.calls.append(f"{request.method} {request.path}")
        sends = request.method == "PUT" and "/send/m.room." in request.path
        trouble = self.troubles.pop(0) if sends and self.troubles else ""
        if trouble in REFUSALS:
            status, said = REFUSALS[trouble]
            return web.json_response(said, status=status)
        if trouble == "cut_before":
            return cut(request)
        answer = await self._pass_on(request)
        return cut(request) if trouble == "cut_after" else answer

    async def _pass_on(self, request: web.Request) -> web.Response:
        passing = asyncio.ensure_future(self._upstream(request, await request.read()))
        if not request.path.endswith("/sync") or self._replay is None:
            return await passing
        try:
            await asyncio.wait({passing, self._replay}, return_when=asyncio.FIRST_COMPLETED)
            if not self._replay.done():
                answer = await passing
                self._syncs.append(answer.body)
                return answer
            body, self._replay = self._replay.result(), asyncio.Future()
            return web.Response(body=body, content_type="application/json")
        finally:
            passing.cancel()

    async def _upstream(self, request: web.Request, body: bytes) -> web.Response:
        kept = ("Authorization", "Content-Type")
        headers = {name: request.headers[name] for name in kept if name in request.headers}
        url = f"{self._target}{request.raw_path}"
        async with self._session.request(request.method, url, data=body, headers=headers) as answer:
            kind = {"Content-Type": answer.headers.get("Content-Type", "application/json")}
            return web.Response(status=answer.status, body=await answer.read(), headers=kind)
