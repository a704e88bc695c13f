"""The HTTP side: tokens, long polling, webhooks, file downloads, and trouble on request."""

import asyncio
import contextlib
import json
from collections import deque
from typing import Any

from aiohttp import ClientError, ClientSession, web

from tests.fakes.serving import Site, cut
from tests.fakes.telegram.api import MEDIA, Api, Upload
from tests.fakes.telegram.world import Chat, Json, Refused, World

TOKEN = "7000001:AAFakeFakeFakeFakeFakeFakeFakeFake_00"
SENDS = frozenset(MEDIA) | {"sendMessage", "editMessageText", "editMessageCaption"}
CONFLICT = (
    "Conflict: terminated by other getUpdates request; make sure that only one bot instance is "
    "running"
)
WEBHOOK_ACTIVE = (
    "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete "
    "the webhook first"
)
REFUSALS = {
    "rate_limited": Refused(429, "Too Many Requests: retry after 1", retry_after=0.05),
    "server_error": Refused(500, "Internal Server Error"),
    "chat_gone": Refused(403, "Forbidden: bot was blocked by the user"),
    "voice_forbidden": Refused(400, "Bad Request: VOICE_MESSAGES_FORBIDDEN"),
    "no_picture": Refused(400, "Bad Request: PHOTO_INVALID_DIMENSIONS"),
    "conflict": Refused(409, CONFLICT),
    "format_refused": Refused(
        400, "Bad Request: can't parse entities: Unsupported start tag at byte offset 0"
    ),
}
PAGES = {"bad_gateway": 502, "forbidden_page": 403, "not_found_page": 404}
"""What a server before Telegram says."""
REDELIVERY = 0.05  #: Seconds until a webhook that did not answer 200 is called again.


class FakeTelegram(Site):
    """Change `troubles` to have sends and edits go wrong."""

    def __init__(self) -> None:
        self.world = World()
        self.api = Api(self.world)
        self.token = TOKEN
        self.troubles: deque[str] = deque()
        self.poll_troubles: deque[str] = deque()
        self.webhook: Json = {}
        self.polls: list[float] = []  #: How long each poll was to wait.
        self._news = asyncio.Condition()
        self._waiting: asyncio.Event | None = None
        self._pusher: asyncio.Task[None] | None = None

    async def start(self) -> None:
        download = web.get("/file/bot{token}/{path:.+}", self._download)
        await self.serve([download, web.route("*", "/bot{token}/{method}", self._request)])

    async def stop(self) -> None:
        if self._pusher is not None:
            self._pusher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._pusher
            self._pusher = None
        if self._waiting is not None:
            self._waiting.set()
        await super().stop()

    async def push(self, kind: str, content: Json) -> Json:
        """A new update for the bot."""
        update = self.world.update(kind, content)
        async with self._news:
            self._news.notify_all()
        return update

    async def moves(self, old: Chat, new: Chat) -> None:
        """A group becomes a supergroup; both tell of it."""
        told = [(old, {"migrate_to_chat_id": new.id}), (new, {"migrate_from_chat_id": old.id})]
        for place, content in told:
            await self.push("message", self.world.post(place, content, None))
        old.moved_to = new.id

    async def _request(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        waiting = {"getUpdates": self.poll_troubles}.get(method, self.troubles)
        wanted = method in SENDS or method == "getUpdates"
        trouble = waiting.popleft() if waiting and wanted else ""
        if trouble == "cut_before":
            return cut(request)
        given = await _parameters(request)
        try:
            if request.match_info["token"] != self.token:
                raise Refused(401, "Unauthorized")
            if trouble in PAGES:
                return web.Response(status=PAGES[trouble], text="<html>a page</html>")
            if trouble in REFUSALS and (trouble != "format_refused" or given.get("parse_mode")):
                raise REFUSALS[trouble]
            result = await self._result(method, given)
        except Refused as refused:
            return _refusal(refused)
        if trouble == "cut_after":
            cut(request)
        return web.json_response({"ok": True, "result": result})

    async def _result(self, method: str, given: Json) -> Any:
        match method:
            case "getUpdates":
                return await self._updates(given)
            case "setWebhook":
                return self._set_webhook(given)
            case "deleteWebhook":
                return self._set_webhook({"url": ""})
            case "getWebhookInfo":
                waiting = {"pending_update_count": len(self.world.updates)}
                return {"url": "", "has_custom_certificate": False, **self.webhook, **waiting}
            case _:
                return self.api.call(method, given)

    async def _updates(self, given: Json) -> list[Json]:
        if self.webhook:
            raise Refused(409, WEBHOOK_ACTIVE)
        self.polls.append(float(given.get("timeout") or 0))
        if self._waiting is not None:
            self._waiting.set()
        offset, limit = int(given.get("offset") or 0), int(given.get("limit") or 100)
        self.world.updates = [u for u in self.world.updates if u["update_id"] >= offset]
        if not self.world.updates:
            await self._wait(float(given.get("timeout") or 0))
        wanted = json.loads(given.get("allowed_updates") or "[]")
        fitting = [u for u in self.world.updates if not wanted or set(wanted) & set(u)]
        return fitting[:limit]

    async def _wait(self, seconds: float) -> None:
        """Until there is an update, the time is over, or another program asks."""
        ended = self._waiting = asyncio.Event()
        tasks = [asyncio.ensure_future(self._until_news()), asyncio.ensure_future(ended.wait())]
        try:
            await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            if self._waiting is ended:
                self._waiting = None
        if ended.is_set():
            raise Refused(409, CONFLICT)

    async def _until_news(self) -> None:
        async with self._news:
            await self._news.wait_for(lambda: bool(self.world.updates))

    def _set_webhook(self, given: Json) -> bool:
        if self._pusher is not None:
            self._pusher.cancel()
            self._pusher = None
        self.webhook = {"url": given["url"]} if given["url"] else {}
        if given["url"]:
            secret = given.get("secret_token", "")
            self._pusher = asyncio.ensure_future(self._deliver(given["url"], secret))
        return True

    async def _deliver(self, url: str, secret: str) -> None:
        """Updates one after the other, each until it is answered with 200."""
        headers = {"X-Telegram-Bot-Api-Secret-Token": secret} if secret else {}
        async with ClientSession() as session:
            while True:
                await self._until_news()
                update = self.world.updates[0]
                with contextlib.suppress(ClientError):
                    async with session.post(url, json=update, headers=headers) as answer:
                        if answer.status == 200:
                            self.world.updates.remove(update)
                            continue
                await asyncio.sleep(REDELIVERY)

    async def _download(self, request: web.Request) -> web.Response:
        if request.match_info["token"] != self.token:
            return _refusal(Refused(401, "Unauthorized"))
        for path, data in self.world.files.values():
            if path == request.match_info["path"]:
                return web.Response(body=data)
        return _refusal(Refused(404, "Not Found"))


async def _parameters(request: web.Request) -> Json:
    given: Json = dict(request.query)
    if request.content_type == "application/json":
        return given | await request.json()
    for name, value in (await request.post()).items():
        if isinstance(value, web.FileField):
            given[name] = Upload(value.filename, value.file.read())
        else:
            given[name] = value
    return given


def _refusal(refused: Refused) -> web.Response:
    body: Json = {"ok": False, "error_code": refused.code, "description": refused.description}
    if refused.parameters:
        body["parameters"] = refused.parameters
    return web.json_response(body, status=refused.code)
