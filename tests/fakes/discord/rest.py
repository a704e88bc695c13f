"""Discord's HTTP API, as far as a bot needs it, with its errors and limits."""

import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from tests.fakes.discord.sockets import Gateway
from tests.fakes.discord.world import DM, FORUM, REPLY, THREAD, Json, World, public, shape
from tests.fakes.serving import cut

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

UNAUTHORIZED = (401, 0, "401: Unauthorized")
FORBIDDEN = (403, 50013, "Missing Permissions")
NO_ACCESS = (403, 50001, "Missing Access")
UNKNOWN_CHANNEL = (404, 10003, "Unknown Channel")
UNKNOWN_MESSAGE = (404, 10008, "Unknown Message")
EMPTY = (400, 50006, "Cannot send an empty message")
INVALID = (400, 50035, "Invalid Form Body")
NO_HISTORY = (400, 160002, "Cannot reply without permission to read message history")
THREAD_EXISTS = (400, 160004, "A thread has already been created for this message")
FREE = re.compile(r"/(cdn|ws)/|/interactions/|/webhooks/")  #: What asks for no token.


class Refused(Exception):
    def __init__(self, why: tuple[int, int, str]) -> None:
        self.status, self.code, self.message = why


class Rest:
    def __init__(self, world: World, gateway: Gateway) -> None:
        self.world, self.gateway = world, gateway
        self.calls: list[str] = []
        self.troubles: list[str] = []
        self.remaining: dict[str, int] = {}
        """How often a method and path may still be called before its bucket is empty."""
        self.reset_after = 0.05
        self.nonces: dict[str, str] = {}  #: Messages by nonce; cleared, the few minutes are over.
        self.typings: list[int] = []
        self.reactions: dict[str, list[str]] = {}
        self.commands: list[Json] = []
        self.acknowledged: dict[str, Json] = {}
        self.forgotten: list[str] = []
        self.forbidden: set[int] = set()  #: Channels that we may not look into.
        self.no_history: set[int] = set()  #: Channels that we may not read the history of.
        self.sessions_left = 999
        self.members: dict[tuple[int, int], Json] = {}

    def routes(self) -> list[web.RouteDef]:
        message, api = "/channels/{channel}/messages/{message}", "/api/v10"
        table: list[tuple[str, str, Handler]] = [
            ("GET", "/users/@me", self._me),
            ("GET", "/oauth2/applications/@me", self._application),
            ("GET", "/gateway/bot", self._gateway),
            ("GET", "/channels/{channel}", self._channel),
            ("GET", "/channels/{channel}/messages", self._history),
            ("POST", "/channels/{channel}/messages", self._send),
            ("GET", message, self._message),
            ("PATCH", message, self._edit),
            ("POST", f"{message}/threads", self._open_thread),
            ("POST", "/channels/{channel}/threads", self._post),
            ("POST", "/channels/{channel}/typing", self._typing),
            ("PUT", f"{message}/reactions/{{emoji}}/@me", self._react),
            ("DELETE", f"{message}/reactions/{{emoji}}/@me", self._react),
            ("GET", "/guilds/{server}/members/{user}", self._member),
            ("GET", "/applications/{application}/commands", self._commands),
            ("PUT", "/applications/{application}/commands", self._set_commands),
            ("POST", "/interactions/{id}/{token}/callback", self._callback),
            ("DELETE", "/webhooks/{id}/{token}/messages/@original", self._forget),
            ("POST", "/attachments/refresh-urls", self._refresh),
        ]
        routes = [web.route(method, api + path, handler) for method, path, handler in table]
        return [*routes, web.get("/cdn/attachments/{a}/{number}/{name}", self._file)]

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self.calls.append(f"{request.method} {request.path.removeprefix('/api/v10')}")
        if not FREE.search(request.path) and not self._known(request):
            return refusal(UNAUTHORIZED)
        sends = request.method in {"POST", "PATCH"} and re.search(
            r"/messages(/\d+)?$", request.path
        )
        trouble = self.troubles.pop(0) if sends and self.troubles else ""
        if early := await self._early(request, trouble):
            return early
        try:
            response = await handler(request)
        except Refused as error:
            return refusal((error.status, error.code, error.message))
        if trouble == "cut_after":
            cut(request)
        self._count(request, response)
        return response

    def _known(self, request: web.Request) -> bool:
        return request.headers.get("Authorization") == f"Bot {self.gateway.token}"

    async def _early(self, request: web.Request, trouble: str) -> web.StreamResponse | None:
        if trouble == "cut_before":
            return cut(request)
        if trouble == "server_error":
            return web.Response(status=503, text="upstream connect error")
        if trouble == "bad_gateway":
            return web.Response(status=502, text="<html>cloudflare</html>")
        if trouble in ("rate_limited", "global_limit"):
            body = {"message": "You are being rate limited.", "retry_after": self.reset_after}
            body["global"] = trouble == "global_limit"
            return answer(body, status=429, headers={"Via": "1.1 google"})
        if trouble == "blocked_page":
            return web.Response(status=403, text="<html>Access denied</html>")
        if trouble == "blocked_for_long":
            headers = {"Retry-After": "30"}
            return web.Response(status=429, text="<html>1015</html>", headers=headers)
        if trouble in ("chat_gone", "forbidden"):
            return refusal({"chat_gone": UNKNOWN_CHANNEL, "forbidden": FORBIDDEN}[trouble])
        return None

    def _count(self, request: web.Request, response: web.StreamResponse) -> None:
        key = f"{request.method} {request.path.removeprefix('/api/v10')}"
        left = self.remaining[key] = self.remaining.get(key, 1000) - 1
        response.headers["X-RateLimit-Limit"] = "1000"
        response.headers["X-RateLimit-Remaining"] = str(max(left, 0))
        response.headers["X-RateLimit-Reset-After"] = str(self.reset_after)
        response.headers["X-RateLimit-Bucket"] = "abcd1234"
        if left <= 0:
            del self.remaining[key]

    # about us

    async def _me(self, request: web.Request) -> web.Response:
        return answer(self.world.me)

    async def _application(self, request: web.Request) -> web.Response:
        body = shape("application", id=str(self.world.application), owner=self.world.me)
        return answer(body)

    async def _gateway(self, request: web.Request) -> web.Response:
        limit = shape("session_start_limit", remaining=self.sessions_left)
        body = {"url": self.gateway.url, "shards": 1, "session_start_limit": limit}
        return answer(body)

    # channels and messages

    def _place(self, request: web.Request) -> int:
        channel = int(request.match_info["channel"])
        if channel not in self.world.channels:
            raise Refused(UNKNOWN_CHANNEL)
        if channel in self.forbidden:
            raise Refused(NO_ACCESS)
        return channel

    def _found(self, request: web.Request) -> Json:
        message = self.world.find(self._place(request), request.match_info["message"])
        if message is None:
            raise Refused(UNKNOWN_MESSAGE)
        return message

    async def _channel(self, request: web.Request) -> web.Response:
        return answer(self.world.channels[self._place(request)])

    async def _message(self, request: web.Request) -> web.Response:
        return answer(public(self._found(request), old=True))

    async def _history(self, request: web.Request) -> web.Response:
        """The oldest ones after `after`, newest first, as Discord has it."""
        query, there = request.query, self.world.messages[self._place(request)]
        after, limit = int(query.get("after", 0)), int(query.get("limit", 50))
        assert 1 <= limit <= 100
        found = [public(each, old=True) for each in there if int(each["id"]) > after][:limit]
        return answer(found[::-1])

    async def _send(self, request: web.Request) -> web.Response:
        channel = self._place(request)
        payload, files = await body_of(request)
        nonce = payload.get("nonce")
        if nonce and payload.get("enforce_nonce") and nonce in self.nonces:
            there = self.world.find(channel, self.nonces[nonce])
            if there is None:
                raise Refused(UNKNOWN_MESSAGE)
            return answer(public(there))
        message = await self._create(channel, payload, files)
        return answer(public(message))

    async def _create(self, channel: int, payload: Json, files: list[Json]) -> Json:
        check(payload, files)
        if self.world.channels[channel]["type"] == FORUM:
            raise Refused((400, 50008, "Cannot send messages in a non-text channel"))
        more: Json = {"attachments": files, "components": payload.get("components", [])}
        if reference := payload.get("message_reference"):
            if channel in self.no_history:
                raise Refused(NO_HISTORY)
            answered = self.world.find(channel, reference["message_id"])
            if answered is None and reference.get("fail_if_not_exists", True):
                raise Refused(INVALID)
            if answered is not None:
                more |= {"message_reference": {**reference, "channel_id": str(channel)}}
                more |= {"referenced_message": public(answered, old=True), "type": REPLY}
        more |= {"_allowed": payload.get("allowed_mentions"), "_flags": payload.get("flags", 0)}
        if nonce := payload.get("nonce"):
            assert len(nonce) <= 25
            more["nonce"] = nonce
        message = self.world.message(channel, self.world.me, payload.get("content", ""), **more)
        if nonce:
            self.nonces[nonce] = message["id"]
        server = self.world.channels[channel].get("guild_id")
        where = {"guild_id": server} if server else {}
        await self.gateway.dispatch("MESSAGE_CREATE", {**public(message), **where})
        return message

    async def _edit(self, request: web.Request) -> web.Response:
        message = self._found(request)
        if message["author"]["id"] != self.world.me["id"]:
            raise Refused((403, 50005, "Cannot edit a message authored by another user"))
        payload, files = await body_of(request)
        check(payload, [*files, *message["attachments"]])
        changed = {key: payload[key] for key in ("content", "components") if key in payload}
        if any(message[key] != value for key, value in changed.items()):
            message["_edits"] = message.get("_edits", 0) + 1
        message |= changed
        await self.gateway.dispatch("MESSAGE_UPDATE", public(message, old=True))
        return answer(public(message, old=True))

    async def _open_thread(self, request: web.Request) -> web.Response:
        message = self._found(request)
        payload, _ = await body_of(request)
        if int(message["id"]) in self.world.channels:
            raise Refused(THREAD_EXISTS)
        thread = await self._thread(request, payload["name"], int(message["id"]))
        return answer(self.world.channels[thread], status=201)

    async def _post(self, request: web.Request) -> web.Response:
        """A post of a forum: a thread whose first message is in it and has its id."""
        payload, files = await body_of(request)
        if self.world.channels[self._place(request)]["type"] != FORUM:
            raise Refused(INVALID)
        thread = await self._thread(request, payload["name"], 0)
        message = await self._create(thread, payload["message"], files)
        message["id"] = str(thread)
        return answer({**self.world.channels[thread], "message": public(message)})

    async def _thread(self, request: web.Request, name: str, number: int) -> int:
        if not 1 <= len(name) <= 100:
            raise Refused(INVALID)
        parent = self._place(request)
        server = int(self.world.channels[parent]["guild_id"])
        owner = {"owner_id": self.world.me["id"], "parent_id": str(parent)}
        thread = self.world.channel(THREAD, name, server, id=number, **owner)
        await self.gateway.dispatch("THREAD_CREATE", self.world.channels[thread])
        return thread

    async def _typing(self, request: web.Request) -> web.Response:
        self.typings.append(self._place(request))
        return web.Response(status=204)

    async def _react(self, request: web.Request) -> web.Response:
        there = self.reactions.setdefault(self._found(request)["id"], [])
        emoji = request.match_info["emoji"]
        if request.method == "PUT" and emoji not in there:
            there.append(emoji)
        elif request.method == "DELETE" and emoji in there:
            there.remove(emoji)
        return web.Response(status=204)

    async def _member(self, request: web.Request) -> web.Response:
        key = (int(request.match_info["server"]), int(request.match_info["user"]))
        if key not in self.members:
            raise Refused((404, 10007, "Unknown Member"))
        return answer(self.members[key])

    # commands, buttons, files

    async def _commands(self, request: web.Request) -> web.Response:
        return answer(self.commands)

    async def _set_commands(self, request: web.Request) -> web.Response:
        new: Any = await request.json()
        names = [command["name"] for command in new]
        if len(names) > 100 or len(set(names)) != len(names):
            raise Refused(INVALID)
        if any(not re.fullmatch(r"[-_\w]{1,32}", name) or name != name.lower() for name in names):
            raise Refused(INVALID)
        self.commands = [{**each, "id": each.get("id", str(self.world.id()))} for each in new]
        return answer(self.commands)

    async def _callback(self, request: web.Request) -> web.Response:
        number = request.match_info["id"]
        if number in self.acknowledged:
            raise Refused((400, 40060, "Interaction has already been acknowledged."))
        self.acknowledged[number] = await request.json()
        return web.Response(status=204)

    async def _forget(self, request: web.Request) -> web.Response:
        self.forgotten.append(request.match_info["token"])
        return web.Response(status=204)

    async def _refresh(self, request: web.Request) -> web.Response:
        urls = (await request.json())["attachment_urls"]
        fresh = [{"original": url, "refreshed": url.replace("hm=old", "hm=new")} for url in urls]
        return answer({"refreshed_urls": fresh})

    async def _file(self, request: web.Request) -> web.Response:
        assert "Authorization" not in request.headers
        number = request.match_info["number"]
        if number not in self.world.files or request.query["hm"] in self.expired:
            return web.Response(status=404)
        return web.Response(body=self.world.files[number])

    expired: frozenset[str] = frozenset()  #: Signatures of addresses that are not good any more.


def answer(data: Any, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    body = json.dumps(data).encode()
    kind = "application/json"  # and nothing after it: the library compares
    return web.Response(body=body, status=status, content_type=kind, headers=headers)


def refusal(why: tuple[int, int, str]) -> web.Response:
    status, code, message = why
    return answer({"code": code, "message": message}, status=status)


def check(payload: Json, files: list[Json]) -> None:
    """What Discord says to a message that cannot be."""
    content = payload.get("content") or ""
    if not content.strip() and not files:
        raise Refused(EMPTY)
    if len(content) > 2000:
        raise Refused(INVALID)
    rows = payload.get("components") or []
    buttons = [button for row in rows for button in row["components"]]
    right = len(rows) <= 5 and all(len(row["components"]) <= 5 for row in rows)
    names = [button["custom_id"] for button in buttons]
    right = right and all(1 <= len(button["label"]) <= 80 for button in buttons)
    if not right or any(len(name) > 100 for name in names) or len(set(names)) != len(names):
        raise Refused(INVALID)


async def body_of(request: web.Request) -> tuple[Json, list[Json]]:
    """The message, and its files."""
    if not request.content_type.startswith("multipart/"):
        return await request.json(), []
    payload: Json = {}
    files: list[Json] = []
    async for part in await request.multipart():
        if part.name == "payload_json":
            payload = json.loads(await part.text())
        else:
            data = await part.read()
            files.append({"id": str(len(files)), "filename": part.filename, "size": len(data)})
            files[-1] |= {"url": "http://cdn.invalid", "proxy_url": "http://cdn.invalid"}
    return payload, files


__all__ = ["DM", "Rest"]
