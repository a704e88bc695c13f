"""Slack's Web API, as far as a bot needs it, with its errors and limits."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from tests.fakes.serving import cut
from tests.fakes.slack.sockets import Sockets
from tests.fakes.slack.uploading import Uploading
from tests.fakes.slack.world import Json, Team, World, public

Call = Callable[[Team, Json], Awaitable[Json]]

SENDS = frozenset({"chat.postMessage", "chat.update", "files.completeUploadExternal"})
LIMITED = "ratelimited"
RETRY_AFTER = "0.05"  #: Seconds; whole ones of the real Slack.
MOST_TEXT, MOST_EDITED = 40_000, 4_000
EMOJI = {"eyes": "👀", "+1": "👍", "thumbsup": "👍", "white_check_mark": "✅", "x": "❌"}


class Refused(Exception):
    def __init__(self, error: str, **more: str) -> None:
        self.error, self.more = error, more


class WebApi:
    def __init__(self, world: World, sockets: Sockets, app_token: str) -> None:
        self.world, self.sockets, self.app_token = world, sockets, app_token
        self.calls: list[tuple[str, Json]] = []
        self.troubles: list[str] = []
        self.refusals: dict[str, list[str]] = {}  #: Errors of the next calls of a method.
        self.stuck: dict[str, asyncio.Event] = {}  #: Methods that do not answer before that.
        self.page = 1000  #: Most things in one answer.
        self.statuses: list[tuple[str, str, str]] = []
        self.uploading = Uploading(world)
        self._methods: dict[str, Call] = {
            "auth.test": self._auth, "chat.postMessage": self._post, "chat.update": self._update,
            "conversations.history": self._history, "conversations.replies": self._replies,
            "conversations.info": self._info, "conversations.open": self._open,
            "users.conversations": self._conversations, "conversations.list": self._conversations,
            "users.info": self._user, "reactions.add": self._react,
            "reactions.remove": self._unreact, "assistant.threads.setStatus": self._status,
            "files.getUploadURLExternal": self.uploading.begin,
            "files.completeUploadExternal": self._complete, "files.info": self.uploading.info,
        }  # fmt: skip

    def count(self, method: str) -> int:
        return Counter(name for name, _ in self.calls)[method]

    async def handle(self, request: web.Request) -> web.Response:
        method = request.match_info["method"]
        given = await arguments(request)
        self.calls.append((method, given))
        if method in self.stuck:
            await self.stuck[method].wait()
        trouble = self.troubles.pop(0) if method in SENDS and self.troubles else ""
        if (early := self._early(request, method, trouble)) is not None:
            return early
        try:
            answer = await self._answer(request, method, given)
        except Refused as error:
            answer = {"ok": False, "error": error.error, **error.more}
        if trouble == "cut_after":
            cut(request)
        return web.json_response(answer)

    def _early(self, request: web.Request, method: str, trouble: str) -> web.Response | None:
        waiting = self.refusals.get(method)
        error = waiting.pop(0) if waiting else ""
        if trouble == "rate_limited" or error == LIMITED:
            body = {"ok": False, "error": LIMITED}
            return web.json_response(body, status=429, headers={"Retry-After": RETRY_AFTER})
        if trouble == "server_error":
            return web.Response(status=503, text="<html>down</html>", content_type="text/html")
        if trouble == "cut_before":
            return cut(request)
        errors = {"chat_gone": "channel_not_found", "format_refused": "invalid_blocks"}
        error = errors.get(trouble, error)
        return web.json_response({"ok": False, "error": error}) if error else None

    async def _answer(self, request: web.Request, method: str, given: Json) -> Json:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if method == "apps.connections.open":
            if token != self.app_token:
                raise Refused("invalid_auth")
            return {"ok": True, "url": self.sockets.ticket()}
        team = next((each for each in self.world.teams.values() if each.token == token), None)
        if team is None:
            raise Refused("invalid_auth")
        if method not in self._methods:
            raise Refused("unknown_method")
        return {"ok": True, **await self._methods[method](team, given)}

    async def _auth(self, team: Team, given: Json) -> Json:
        return {
            "url": "https://example.slack.com/",
            "team": team.name,
            "user": "hermes",
            "team_id": team.id,
            "user_id": team.me,
            "bot_id": team.bot_id,
            **({"enterprise_id": team.enterprise} if team.enterprise else {}),
        }

    # messages

    def _place(self, team: Team, channel: str) -> Json:
        place = self.world.channels.get(channel)
        if place is None or place["context_team_id"] != team.id:
            raise Refused("channel_not_found")
        return place

    def _writable(self, team: Team, channel: str) -> Json:
        place = self._place(team, channel)
        if place["is_archived"]:
            raise Refused("is_archived")
        if not place["is_member"]:
            raise Refused("not_in_channel")
        return place

    async def _post(self, team: Team, given: Json) -> Json:
        channel = self._writable(team, given["channel"])["id"]
        check(given, MOST_TEXT)
        thread = given.get("thread_ts")
        if thread and self.world.find(channel, thread) is None:
            raise Refused("thread_not_found")
        assert given.get("unfurl_links") is False
        metadata = given.get("metadata")
        assert metadata is None or {*metadata} == {"event_type", "event_payload"}
        message = self.world.message(
            channel,
            team.me,
            given.get("text", ""),
            bot_id=team.bot_id,
            thread_ts=thread,
            subtype="thread_broadcast" if given.get("reply_broadcast") else None,
            blocks=given.get("blocks"),
            metadata=metadata,
            _mrkdwn=given.get("mrkdwn", True),
        )
        await self.announce(team.id, channel, message)
        return {"channel": channel, "ts": message["ts"], "message": public(message)}

    async def announce(self, team: str, channel: str, message: Json, **more: Any) -> None:
        kind = self.world.kind(channel)
        event = {**public(message), "channel": channel, "channel_type": kind}
        event |= {"event_ts": message["ts"], **more}
        await self.sockets.dispatch("events_api", self.callback(team, event))

    def callback(self, team: str, event: Json) -> Json:
        ours = self.world.teams.get(team)
        return {
            "token": "verification",
            "team_id": team,
            "api_app_id": self.world.app,
            "event": event,
            "type": "event_callback",
            "event_id": self.world.number("Ev"),
            "event_time": int(float(self.world.ts())),
            "authorizations": [{"team_id": team, "user_id": ours.me, "is_bot": True}]
            if ours
            else [],
        }

    async def _update(self, team: Team, given: Json) -> Json:
        channel = self._writable(team, given["channel"])["id"]
        message = self.world.find(channel, given["ts"])
        if message is None:
            raise Refused("message_not_found")
        if message["user"] != team.me:
            raise Refused("cant_update_message")
        check(given, MOST_EDITED)
        new = {"text": given.get("text", ""), "blocks": given.get("blocks") or []}
        if (message["text"], message.get("blocks") or []) != (new["text"], new["blocks"]):
            message["_edits"] = message.get("_edits", 0) + 1
        message |= new
        changed = {"subtype": "message_changed", "message": public(message), "hidden": True}
        tell = {"type": "message", "ts": self.world.ts(), **changed}
        await self.announce(team.id, channel, tell)
        return {"channel": channel, "ts": message["ts"], "text": message["text"]}

    async def _history(self, team: Team, given: Json) -> Json:
        """Newest first, without what is in threads."""
        channel = self._place(team, given["channel"])["id"]
        shown = [
            message
            for message in self.world.messages[channel]
            if message.get("thread_ts") in (None, message["ts"])
            or message.get("subtype") == "thread_broadcast"
        ]
        return self._paged("messages", between(shown, given)[::-1], given)

    async def _replies(self, team: Team, given: Json) -> Json:
        """The first message, which is always there, then the others, oldest first."""
        channel = self._place(team, given["channel"])["id"]
        root = self.world.find(channel, given["ts"])
        if root is None:
            raise Refused("thread_not_found")
        there = self.world.messages[channel]
        replies = [
            message for message in there if message.get("thread_ts") == root["ts"] != message["ts"]
        ]
        return self._paged("messages", [root, *between(replies, given)], given)

    def _paged(self, name: str, found: list[Json], given: Json) -> Json:
        start = int(given.get("cursor") or 0)
        end = start + min(int(given.get("limit") or 100), self.page)
        more = end < len(found)
        metadata = str(given.get("include_all_metadata", "")).lower() in {"1", "true"}
        return {
            name: [public(each, metadata=metadata) for each in found[start:end]],
            "has_more": more,
            "response_metadata": {"next_cursor": str(end) if more else ""},
        }

    # places and people

    async def _info(self, team: Team, given: Json) -> Json:
        return {"channel": public(self._place(team, given["channel"]))}

    async def _open(self, team: Team, given: Json) -> Json:
        user = given["users"]
        if user not in self.world.users:
            raise Refused("user_not_found")
        return {"channel": {"id": self.private(team.id, user)["id"]}}

    def private(self, team: str, user: str) -> Json:
        for channel in self.world.channels.values():
            if channel.get("user") == user and channel["context_team_id"] == team:
                return channel
        return self.world.channel(team, is_im=True, user=user)

    async def _conversations(self, team: Team, given: Json) -> Json:
        kinds = given["types"].split(",")
        names = {"im": "im", "mpim": "mpim", "group": "private_channel"}
        found = [
            channel
            for number, channel in self.world.channels.items()
            if channel["context_team_id"] == team.id
            and channel["is_member"]
            and names.get(self.world.kind(number), "public_channel") in kinds
        ]
        return self._paged("channels", found, given)

    async def _user(self, team: Team, given: Json) -> Json:
        if given["user"] not in self.world.users:
            raise Refused("user_not_found")
        return {"user": public(self.world.users[given["user"]])}

    async def _react(self, team: Team, given: Json) -> Json:
        there = self._reactions(team, given)
        if given["name"] in there:
            raise Refused("already_reacted")
        there.append(given["name"])
        return {}

    async def _unreact(self, team: Team, given: Json) -> Json:
        there = self._reactions(team, given)
        if given["name"] not in there:
            raise Refused("no_reaction")
        there.remove(given["name"])
        return {}

    def _reactions(self, team: Team, given: Json) -> list[str]:
        channel = self._place(team, given["channel"])["id"]
        if self.world.find(channel, given["timestamp"]) is None:
            raise Refused("message_not_found")
        if given["name"] not in EMOJI:
            raise Refused("invalid_name")
        return self.world.reactions.setdefault((channel, given["timestamp"]), [])

    async def _status(self, team: Team, given: Json) -> Json:
        channel = self._writable(team, given["channel_id"])["id"]
        if self.world.find(channel, given["thread_ts"]) is None:
            raise Refused("invalid_thread_ts")
        self.statuses.append((channel, given["thread_ts"], given["status"]))
        return {}

    async def _complete(self, team: Team, given: Json) -> Json:
        channel = self._writable(team, given["channel_id"])["id"]
        files = self.uploading.complete(given)
        if files is None:
            raise Refused("file_not_found")
        message = self.world.message(
            channel,
            team.me,
            given.get("initial_comment", ""),
            bot_id=team.bot_id,
            subtype="file_share",
            thread_ts=given.get("thread_ts"),
            blocks=given.get("blocks") if not given.get("initial_comment") else None,
            files=files,
        )
        self.uploading.share(files, channel, message)
        await self.announce(team.id, channel, message)
        return {"files": [{"id": file["id"], "title": file["title"]} for file in files]}


async def arguments(request: web.Request) -> Json:
    given: Json = dict(request.query)
    if request.content_type == "application/json" and request.can_read_body:
        given |= await request.json()
    elif request.can_read_body:
        form = await request.post()
        given |= {key: value for key, value in form.items() if isinstance(value, str)}
    for name in ("blocks", "metadata", "files"):
        if isinstance(given.get(name), str):
            given[name] = json.loads(given[name])
    return given


def between(messages: list[Json], given: Json) -> list[Json]:
    oldest = float(given.get("oldest") or 0)
    return [message for message in messages if float(message["ts"]) > oldest]


def check(given: Json, most: int) -> None:
    """What Slack says to a message that cannot be."""
    text, blocks = given.get("text") or "", given.get("blocks") or []
    if not text.strip() and not blocks:
        raise Refused("no_text")
    if len(text) > most:
        raise Refused("msg_too_long")
    buttons = [button for block in blocks for button in block.get("elements", ())]
    sections = [block["text"]["text"] for block in blocks if block["type"] == "section"]
    names = [button["action_id"] for button in buttons]
    right = all(0 < len(section) <= 3000 for section in sections) and len(buttons) <= 25
    right = right and all(1 <= len(button["text"]["text"]) <= 75 for button in buttons)
    right = right and all(len(button["value"]) <= 2000 for button in buttons)
    if not right or len(set(names)) != len(names) or len(blocks) > 50:
        raise Refused("invalid_blocks")


def visible(message: Json) -> str:
    """A message as people read it."""
    blocks = message.get("blocks") or []
    texts = [block["text"]["text"] for block in blocks if block["type"] == "section"]
    raw = "\n".join(texts) or message["text"]
    raw = re.sub(r"<([^<>|]*)\|([^<>]*)>", r"\2", raw)
    raw = re.sub(r"<([^<>|]*)>", r"\1", raw)
    return raw.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
