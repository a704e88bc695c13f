"""What the tools do: conversations, messages, files, events and approvals of the store.

A conversation is a chat of the gateway, named by its session key, or another session, named by its
id. Results are JSON-ready, without secrets, and of limited size; a cursor continues them.
"""

import asyncio
import base64
import binascii
import logging
import re
import secrets
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from hermes.config.home import Home
from hermes.config.loader import Loaded
from hermes.core.errors import SessionNotFound, UsageError
from hermes.core.messages import Assistant, Image, Message, Text, ToolResult, User
from hermes.core.ports import Clock, SessionInfo
from hermes.gateway import (
    ChatDirectory,
    GatewayOutbox,
    SharedApproval,
    SharedResolution,
    TargetResolver,
    configured_platforms,
    media_folder,
    parse_answer,
    running_gateway,
)
from hermes.sdk.platforms import ChatTarget, SessionSource, guess_mime
from hermes.security import Redactor
from hermes.store import (
    HIDDEN_SOURCES,
    ApprovalRow,
    ChatRow,
    LogEntry,
    LoggedMessage,
    SessionFilter,
    SessionStore,
)
from hermes.util.processes import is_process_gone, process_name

log = logging.getLogger(__name__)

Json = dict[str, Any]

MAX_LIMIT = 200  #: Entries of one result.
READ_ROWS = 100  #: Messages that are read at once for a result.
MAX_TEXT = 20_000  #: Characters of one message; `attachments_fetch` returns longer ones in pieces.
MAX_PAGE = 100_000  #: Characters of the messages of one result, after the first message.
MAX_PIECE = 1_000_000  #: Bytes of one piece of an attachment.
MAX_MESSAGE = 100_000  #: Characters of a message to send.
MAX_WAIT_MS = 300_000
POLL_SECONDS = 0.5  #: Seconds between two looks at the store while waiting.
DELIVERY_SECONDS = 5.0  #: Seconds that `messages_send` waits for the delivery.
ANSWER_SECONDS = 10.0  #: Seconds that `permissions_respond` waits for the gateway.
LOG_ROWS = 500  #: Messages of all sessions that are looked at in one step.
MAX_STEPS = 20  #: Steps of one poll; a cursor continues.
NO_GATEWAY = (
    "no gateway runs on this machine: the message is sent when one is started, for example with"
    " `hermes gateway start`"
)
UNKNOWN_CHAT = "no message ever came from this chat, so the platform may refuse it"
EXPIRED = msgspec.json.encode(SharedResolution("expired"))
IDS = frozenset({"id", "session_key", "session_id", "cursor", "next_cursor", "target", "delivery"})
"""Fields that are not redacted, because clients send them back."""

_CURSOR = re.compile(r"(\d{1,18})(?:\.(\d{1,18}))?", re.ASCII)
_FILE = re.compile(r"^\[(image|voice|audio|video|document): (/[^\n]+)\]$", re.MULTILINE)
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w=.-]+)*;base64,", re.ASCII)


class MessageAttachment(NamedTuple):
    kind: str  #: `image`, another kind of file, or `text` for a message that was cut.
    name: str
    mime_type: str
    url: str = ""  #: Where it is, if not here.
    path: Path | None = None
    data: bytes = b""

    def describe(self, index: int) -> Json:
        size = self.path.stat().st_size if self.path else len(self.data)
        facts = {"index": index, "kind": self.kind, "name": self.name, "mime_type": self.mime_type}
        return {**facts, "url": self.url} if self.url else {**facts, "size": size}

    def read(self) -> bytes:
        return self.path.read_bytes() if self.path else self.data


class FetchedAttachment(NamedTuple):
    facts: Json
    data: bytes = b""  #: The piece that was asked for.


class ConversationService:
    """The operations behind the tools. Methods raise `UsageError` and other `HermesError`s."""

    def __init__(
        self, home: Home, loaded: Loaded, store: SessionStore, clock: Clock, redactor: Redactor
    ) -> None:
        self._home, self._loaded, self._store, self._clock = home, loaded, store, clock
        self._redactor = redactor
        self.redact = redactor.redact

    # Conversations

    async def conversations_list(self, platform: str, search: str, limit: int, cursor: str) -> Json:
        """Return chats, the most recently active first, then other sessions, the newest first."""
        limit, offset = _limit(limit), _offset(cursor)
        wanted, chats = search.casefold().split(), await self._chats()
        bound = {row.session_id for row, _ in chats}
        matching = [
            (row, source)
            for row, source in chats
            if platform in ("", source.platform)
            and all(word in _chat_words(row, source) for word in wanted)
        ]
        found: list[Json] = []
        for row, source in matching[offset : offset + limit]:
            info = await self._info(row.session_id)
            if info is not None:
                found.append(self._conversation(info, row, source))
        next_offset = offset + limit
        if (missing := limit - len(matching[offset : offset + limit])) > 0:
            sessions = await self._store.sessions(
                SessionFilter(
                    sources=(platform,) if platform else (),
                    exclude_sources=HIDDEN_SOURCES,
                    has_messages=True,
                    title=search,
                    limit=missing + 1,
                    offset=max(offset - len(matching), 0),
                )
            )
            found += [
                self._conversation(info) for info in sessions[:missing] if info.id not in bound
            ]
            next_offset = next_offset if len(sessions) > missing else 0
        return self._clean({"conversations": found, **_next(next_offset)})

    async def conversation_get(self, session_key: str) -> Json:
        info, row = await self._find(session_key)
        source = _source(row) if row else None
        facts = self._conversation(info, row, source)
        facts |= {
            "model": info.model,
            "message_count": info.message_count,
            "tool_call_count": info.tool_call_count,
            "input_tokens": info.usage.input,
            "output_tokens": info.usage.output,
            "cost_usd": info.cost_usd,
            "ended_at": _time(info.ended_at),
            "end_reason": info.end_reason,
            "continues": info.parent_id,
        }
        return self._clean(facts)

    async def messages_read(
        self, session_key: str, limit: int, before: int | None, after: int | None, *, tools: bool
    ) -> Json:
        """Return messages of the conversation, oldest first: the last ones, those before a message
        id or those after one."""
        info, row = await self._find(session_key)
        key = row.session_key if row else info.id
        limit, shown = _limit(limit), list[Json]()
        async for facts in self._read(info.id, before, after, tools=tools):
            shown.append(facts)
            if sum(each["id"] is not None for each in shown) > limit:
                break
        page = _fit(shown, limit)
        # A page ends with a message of the log, whose id continues it. A summary has none.
        while len(page) < len(shown) and page[-1]["id"] is None:
            page.append(shown[len(page)])
        name = "next_before" if after is None else "next_after"
        more: Json = {name: page[-1]["id"]} if len(page) < len(shown) else {}
        ordered = page if after is not None else page[::-1]
        return self._clean({"session_key": key, "session_id": info.id, "messages": ordered, **more})

    async def _read(
        self, session_id: str, before: int | None, after: int | None, *, tools: bool
    ) -> AsyncIterator[Json]:
        """Yield the messages of a conversation that are shown: after an id the oldest first, else
        the newest first."""
        ids: list[int] | None = None
        while entries := await self._store.page(session_id, READ_ROWS, before=before, after=after):
            is_first, ids = ids is None, _ids(entries)
            if not ids and not is_first:  # a summary that the page before has as well
                return
            for entry in entries if after is not None else reversed(entries):
                if isinstance(entry, LoggedMessage):
                    facts = self._message(entry.message, entry.id, entry.timestamp, tools=tools)
                else:  # the summary of a compaction
                    facts = self._message(entry, None, None, tools=tools)
                if facts is not None:
                    yield facts
            if not ids:
                return
            before, after = (ids[0], None) if after is None else (before, ids[-1])

    # Attachments

    async def attachments_fetch(
        self, session_key: str, message_id: int, index: int | None, offset: int
    ) -> FetchedAttachment:
        """Return the list of the attachments of a message or, with `index`, a piece of one."""
        info, _row = await self._find(session_key)
        entries, _ = await self._store.log_since(message_id - 1, float("inf"), limit=1)
        family = {info.id, *(each.id for each in await self._store.ancestors(info.id))}
        entry = next((each for each in entries if each.logged.id == message_id), None)
        if entry is None or entry.session_id not in family:
            raise UsageError(
                f"this conversation has no message {message_id}", hint="messages_read shows the ids"
            )
        found = self._attachments(entry.logged.message)
        if index is None:
            listed = [each.describe(at) for at, each in enumerate(found)]
            return FetchedAttachment(self._clean({"id": message_id, "attachments": listed}))
        if not 0 <= index < len(found):
            raise UsageError(f"message {message_id} has {len(found)} attachments, from 0")
        chosen = found[index]
        facts = chosen.describe(index)
        if chosen.url:
            return FetchedAttachment(self._clean(facts))
        try:
            data = await asyncio.to_thread(chosen.read)
        except OSError as error:
            raise UsageError(f"{chosen.name} cannot be read: {error.strerror}") from error
        if chosen.mime_type.startswith("text/"):
            data = self._redactor.redact(data.decode("utf-8", "replace")).encode()
        piece = data[offset : offset + MAX_PIECE]
        facts |= {"size": len(data), "offset": offset}
        if offset + len(piece) < len(data):
            facts["next_offset"] = offset + len(piece)
        return FetchedAttachment(self._clean(facts), piece)

    def _attachments(self, message: Message) -> list[MessageAttachment]:
        """Return the attachments: images, files in the media folder, and a text that was cut.

        People write the text of a message, so a path in it is never followed elsewhere.
        """
        found: list[MessageAttachment] = []
        text = _text(message)
        if isinstance(message, User):
            images = [part for part in message.parts if isinstance(part, Image)]
            for number, part in enumerate(images, 1):
                if data := _DATA_URL.match(part.url):
                    mime = data[1] or "application/octet-stream"
                    content = _decode(part.url[data.end() :])
                    found.append(MessageAttachment("image", f"image {number}", mime, data=content))
                else:
                    found.append(MessageAttachment("image", f"image {number}", "", part.url))
            folder = media_folder(self._home.root).resolve()
            for kind, name in _FILE.findall(text):
                path = Path(name).resolve()
                inside = folder in path.parents and path.is_file()
                if inside and not (kind == "image" and images):
                    mime = guess_mime(path.name)
                    found.append(MessageAttachment(kind, path.name, mime, path=path))
        if len(text) > MAX_TEXT:
            found.append(MessageAttachment("text", "text", "text/plain", data=text.encode()))
        return found

    # Sending

    async def messages_send(self, target: str, message: str, key: str) -> Json:
        """Store a message for the gateway and report its delivery. With a `key`, a call that is
        repeated stores nothing more."""
        if len(message) > MAX_MESSAGE:
            raise UsageError(f"the message is longer than {MAX_MESSAGE} characters")
        targets, chats = self._targets(), await self._chats()
        named = (source.target for row, source in chats if row.session_key == target)
        where = next(named, None) or targets.resolve(target)
        if where.platform not in targets.manifests:
            raise UsageError(f"{where.platform} is not set up", hint="hermes gateway setup")
        outbox = GatewayOutbox(self._store.outbox, targets, self._clock)
        name = f"mcp:{key}" if key else f"mcp:{secrets.token_hex(8)}"
        delivery = await outbox.send(where, message, key=name)
        running = await asyncio.to_thread(running_gateway, self._home.root) is not None
        deadline = self._clock.monotonic() + (DELIVERY_SECONDS if running else 0)
        while (state := await outbox.delivered(delivery)) == "pending":
            if self._clock.monotonic() >= deadline:
                break
            await self._clock.sleep(POLL_SECONDS / 5)
        facts: Json = {"delivery": delivery, "target": _target(where), "state": state}
        facts["gateway_running"] = running
        notes = [NO_GATEWAY] if state == "pending" and not running else []
        places = {(each.target.platform, each.target.chat_id) for _, each in chats}
        places |= {(where.platform, chat.id) for chat in self._directory().chats(where.platform)}
        if (where.platform, where.chat_id) not in places and where not in targets.homes().values():
            notes.append(UNKNOWN_CHAT)
        if notes:
            facts["note"] = "; ".join(notes)
        return self._clean(facts)

    async def channels_list(self, platform: str, limit: int, cursor: str) -> Json:
        """Return where messages can be sent: home channels and known chats."""
        targets, limit, offset = self._targets(), _limit(limit), _offset(cursor)
        homes, directory = targets.homes(), self._directory()
        found: list[Json] = []
        for name, manifest in targets.manifests.items():
            if not manifest.chats or platform not in ("", name):
                continue
            home = homes.get(name)
            if home is not None and not any(
                (chat.id, chat.thread_id, chat.account)
                == (home.chat_id, home.thread_id, home.account)
                for chat in directory.chats(name)
            ):
                found.append({"target": _target(home), "platform": name, "name": "", "home": True})
            for chat in directory.chats(name):
                place = ChatTarget(name, chat.id, chat.thread_id, chat.account)
                facts = {"target": _target(place), "platform": name, "name": chat.name}
                found.append({**facts, "type": chat.type, "home": place == home})
        page = found[offset : offset + limit]
        more = _next(offset + limit if len(found) > offset + limit else 0)
        return self._clean({"channels": page, "platforms": list(targets.manifests), **more})

    # Events

    async def events_poll(self, after_cursor: str, session_key: str, limit: int) -> Json:
        """Return the events after a cursor. Without one, only the cursor of now is returned."""
        if not after_cursor:
            newest = (
                await self._store.newest_message_id(),
                await self._store.approvals.newest_id(),
            )
            return {"events": [], "next_cursor": "{}.{}".format(*newest)}
        message_id, approval_id = _parse_cursor(after_cursor)
        limit = _limit(limit)
        sessions = await self._family(session_key) if session_key else frozenset[str]()
        keys: dict[str, str] | None = None
        events: list[Json] = []
        await self._expire_approvals()
        for _step in range(MAX_STEPS):
            now = self._now()
            entries, last_message = await self._store.log_since(message_id, now, LOG_ROWS)
            rows = await self._store.approvals.since(approval_id, now, LOG_ROWS)
            if last_message == message_id and not rows:
                break
            if keys is None:
                keys = {row.session_id: row.session_key for row, _ in await self._chats()}
            for item in _merge(entries, rows):
                if isinstance(item, LogEntry):
                    message_id = item.logged.id
                    event = self._message_event(item, keys, sessions)
                else:
                    approval_id = item.id
                    event = await self._approval_event(item, session_key)
                if event is not None:
                    events.append({**event, "cursor": f"{message_id}.{approval_id}"})
                if len(events) >= limit:
                    break
            else:
                message_id = last_message
                continue
            break
        return self._clean({"events": events, "next_cursor": f"{message_id}.{approval_id}"})

    async def events_wait(
        self, after_cursor: str, session_key: str, limit: int, timeout_ms: int
    ) -> Json:
        """Return the events after a cursor as soon as there is one, or none after the time."""
        if not 0 <= timeout_ms <= MAX_WAIT_MS:
            raise UsageError(f"timeout_ms is a number from 0 to {MAX_WAIT_MS}")
        deadline = self._clock.monotonic() + timeout_ms / 1000
        if not after_cursor:
            after_cursor = (await self.events_poll("", session_key, 1))["next_cursor"]
        while True:
            found = await self.events_poll(after_cursor, session_key, limit)
            left = deadline - self._clock.monotonic()
            if found["events"] or left <= 0:
                return found
            after_cursor = found["next_cursor"]
            await self._clock.sleep(min(POLL_SECONDS, left))

    def _message_event(
        self, entry: LogEntry, keys: dict[str, str], sessions: frozenset[str]
    ) -> Json | None:
        if entry.source in HIDDEN_SOURCES or (sessions and entry.session_id not in sessions):
            return None
        logged = entry.logged
        facts = self._message(logged.message, logged.id, logged.timestamp, tools=False)
        if facts is None:
            return None
        key = keys.get(entry.session_id, entry.session_id)
        about = {"session_key": key, "session_id": entry.session_id, "platform": entry.source}
        return {"type": "message", **about, "message": facts}

    async def _approval_event(self, row: ApprovalRow, session_key: str) -> Json | None:
        if row.kind == "asked":
            approval = _approval(row)
            if approval is None or session_key not in ("", approval["session_key"]):
                return None
            return {"type": "approval_requested", **approval}
        if row.kind != "resolved":
            return None
        asked = (await self._store.approvals.get(row.token)).get("asked")
        approval = _approval(asked) if asked else None
        if approval is None or session_key not in ("", approval["session_key"]):
            return None
        key = approval["session_key"]
        outcome = _resolution(row)
        about = {"id": row.token, "session_key": key, "resolved_at": _time(row.created_at)}
        return {"type": "approval_resolved", **about, **outcome}

    # Approvals

    async def permissions_list_open(self) -> Json:
        await self._expire_approvals()
        rows, now = await self._store.approvals.unresolved(), self._now()
        waiting = [_approval(row) for row in rows if row.valid_until > now]
        return self._clean({"approvals": [each for each in waiting if each]})

    async def decisions(self, token: str) -> tuple[str, dict[str, tuple[str, str]]]:
        """Return the text of an open approval, and decision and scope by their label for the user.

        Both are empty if it is not open. A scope that needs a second confirmation is not offered.
        """
        waiting = (await self.permissions_list_open())["approvals"]
        found = next((each for each in waiting if each["id"] == token), None)
        if found is None:
            return "", {}
        return found["text"], _labels(found["scopes"])

    async def permissions_choose(self, token: str, label: str) -> Json:
        """Answer an approval with a label of `decisions`."""
        _text, labels = await self.decisions(token)
        if labels and label not in labels:
            raise UsageError(f"{label[:100]!r} is not one of the decisions of the form")
        # Without labels it was answered elsewhere meanwhile, which is reported.
        decision, scope = labels.get(label, ("deny", ""))
        return await self.permissions_respond(token, decision, scope, confirm=False)

    async def permissions_respond(
        self, token: str, decision: str, scope: str, *, confirm: bool
    ) -> Json:
        """Answer an open approval with the rights of an owner, and report what became of it."""
        await self._expire_approvals()
        known = await self._store.approvals.get(token)
        if "asked" not in known:
            raise UsageError(
                f"there is no approval {token[:50]!r}", hint="permissions_list_open shows them"
            )
        if "resolved" not in known and "answer" not in known:
            shared = msgspec.json.decode(known["asked"].body, type=SharedApproval)
            value = decision.removeprefix("allow-")
            # A scope is one word; more words would be other arguments.
            parts = (value, *scope.split()[:1], *(("confirm",) if confirm else ()))
            words = " ".join(parts if value in ("session", "always") else parts[:1])
            parse_answer(shared.question, "owner", words)
            stored = await self._store.approvals.answer(
                token, words.encode(), process_name(), self._now()
            )
        else:
            stored = False
        known = await self._store.approvals.get(token)
        deadline = self._clock.monotonic() + ANSWER_SECONDS
        while stored and "resolved" not in known and self._clock.monotonic() < deadline:
            await self._clock.sleep(POLL_SECONDS / 5)
            known = await self._store.approvals.get(token)
        if "resolved" in known:
            outcome = _resolution(known["resolved"])
            if stored:
                return {"id": token, "accepted": outcome.get("by") == "mcp", **outcome}
            if outcome["answer"] != "expired":
                raise UsageError(f"the approval {token} was answered already: {outcome['answer']}")
        elif "answer" in known and not stored:
            raise UsageError(f"the approval {token} was answered already")
        if not stored:
            raise UsageError(f"the approval {token} has expired, and was not answered")
        note = "the answer is stored; the gateway has not applied it yet"
        return {"id": token, "accepted": False, "answer": "", "note": note}

    async def _expire_approvals(self) -> None:
        """Resolve the questions of processes that are gone."""
        rows = await self._store.approvals.unresolved()
        if not rows:
            return
        owners, now = {row.owner for row in rows}, self._now()
        gone = await asyncio.to_thread(lambda: {each: is_process_gone(each) for each in owners})
        for row in rows:
            # Of a process on another machine, only the time is known.
            if gone[row.owner] or (gone[row.owner] is None and row.valid_until <= now):
                await self._store.approvals.resolve(row.token, EXPIRED, process_name(), now)

    # Common parts

    def _now(self) -> float:
        return self._clock.now().timestamp()

    def _targets(self) -> TargetResolver:
        platforms = configured_platforms(self._loaded)
        if not any(each.chats for each in platforms.values()):
            raise UsageError("no platform with chats is set up", hint="hermes gateway setup")
        return TargetResolver(platforms, self._loaded.variable, self._directory())

    def _directory(self) -> ChatDirectory:
        return ChatDirectory(self._home.root / "channel_directory.json")

    async def _chats(self) -> list[tuple[ChatRow, SessionSource]]:
        """Return the chats that have a session, the most recently active first."""
        rows = sorted(await self._store.chats.select(), key=lambda row: -row.last_active)
        sources = ((row, _source(row)) for row in rows if row.session_id)
        return [(row, source) for row, source in sources if source is not None]

    async def _find(self, session_key: str) -> tuple[SessionInfo, ChatRow | None]:
        """Return the session of a conversation, and its chat if it has one."""
        row = await self._store.chats.get(session_key)
        session_id = row.session_id if row and row.session_id else session_key
        info = await self._info(session_id)
        if info is None or info.source in HIDDEN_SOURCES:
            raise UsageError(
                f"there is no conversation {session_key[:200]!r}",
                hint="conversations_list shows them",
            )
        if row is None:
            chats = await self._chats()
            row = next((each for each, _ in chats if each.session_id == info.id), None)
        return info, row

    async def _info(self, session_id: str) -> SessionInfo | None:
        try:
            return await self._store.info(session_id)
        except SessionNotFound:
            return None

    async def _family(self, session_key: str) -> frozenset[str]:
        """Return the sessions of a conversation: its own, and those that it continues."""
        info, _row = await self._find(session_key)
        return frozenset({info.id, *(each.id for each in await self._store.ancestors(info.id))})

    def _conversation(
        self, info: SessionInfo, row: ChatRow | None = None, source: SessionSource | None = None
    ) -> Json:
        facts: Json = {
            "session_key": row.session_key if row else info.id,
            "session_id": info.id,
            "platform": source.platform if source else info.source,
            "title": info.title,
            "preview": info.preview,
            "started_at": _time(info.started_at),
            "last_active": _time(max(info.last_active, row.last_active if row else 0.0)),
        }
        if source is not None:
            facts |= {
                "target": _target(source.target),
                "chat_type": source.chat_type,
                "chat_name": source.chat_name,
                "user_name": source.user_name,
            }
        return facts

    def _message(
        self, message: Message, number: int | None, moment: float | None, *, tools: bool
    ) -> Json | None:
        """Return a message for a client; None if it is not shown."""
        text = _text(message)
        facts: Json = {"id": number, "role": message.role, "at": _time(moment)}
        if isinstance(message, ToolResult):
            if not tools:
                return None
            facts |= {"tool": message.name, "failed": message.failed}
        elif isinstance(message, Assistant) and tools and message.calls:
            facts["tool_calls"] = [call.name for call in message.calls]
        attachments = self._attachments(message) if isinstance(message, User) else []
        if not text and not attachments and "tool_calls" not in facts:
            return None
        # Before it is cut: half a key is not recognised.
        text = self._redactor.redact(text)
        facts["text"] = text[:MAX_TEXT]
        if len(text) > MAX_TEXT:
            facts |= {"truncated": True, "length": len(text)}
        if attachments:
            facts["attachments"] = [each.describe(at) for at, each in enumerate(attachments)]
        return facts

    def _clean(self, facts: Json) -> Json:
        """Return the facts with secrets redacted in their texts."""
        return {name: each if name in IDS else self._redacted(each) for name, each in facts.items()}

    def _redacted(self, value: Any) -> Any:
        match value:
            case str():
                return self._redactor.redact(value)
            case dict():
                return self._clean(value)
            case list():
                return [self._redacted(each) for each in value]
        return value


def _ids(entries: Iterable[LoggedMessage | Message]) -> list[int]:
    return [entry.id for entry in entries if isinstance(entry, LoggedMessage)]


def _limit(limit: int) -> int:
    if not 1 <= limit <= MAX_LIMIT:
        raise UsageError(f"limit is a number from 1 to {MAX_LIMIT}")
    return limit


def _offset(cursor: str) -> int:
    if cursor and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 10):
        raise UsageError("the cursor is not one of this server", hint="leave it out to start again")
    return int(cursor or 0)


def _next(offset: int) -> Json:
    return {"next_cursor": str(offset)} if offset else {}


def _parse_cursor(cursor: str) -> tuple[int, int]:
    found = _CURSOR.fullmatch(cursor)
    if found is None:
        raise UsageError(
            "the cursor is not one of this server", hint="events_poll without one returns one"
        )
    return int(found[1]), int(found[2] or 0)


def _fit(messages: Sequence[Json], limit: int) -> list[Json]:
    """Return the first messages: at most `limit`, and not many more than `MAX_PAGE` characters."""
    page: list[Json] = []
    size = 0
    for each in messages[:limit]:
        size += len(each["text"])
        if page and size > MAX_PAGE:
            break
        page.append(each)
    return page


def _merge(
    entries: Iterable[LogEntry], rows: Iterable[ApprovalRow]
) -> list[LogEntry | ApprovalRow]:
    """Return both in the order of time; each kind stays in the order of its ids."""
    made: list[LogEntry | ApprovalRow] = []
    waiting = list(rows)
    for entry in entries:
        while waiting and waiting[0].created_at <= entry.logged.timestamp:
            made.append(waiting.pop(0))
        made.append(entry)
    return [*made, *waiting]


def _text(message: Message) -> str:
    if isinstance(message, User):
        parts = (part.text for part in message.parts if type(part) is Text)
        return "\n".join(parts)
    return message.text


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except binascii.Error:
        return b""


def _time(moment: float | None) -> str | None:
    if moment is None:
        return None
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")


def _source(row: ChatRow) -> SessionSource | None:
    """Return where the messages of a chat come from; None for a background task."""
    try:
        return msgspec.json.decode(row.origin, type=SessionSource)
    except msgspec.DecodeError:
        return None


def _target(target: ChatTarget) -> str:
    account = f"@{target.account}" if target.account else ""
    thread = f":{target.thread_id}" if target.thread_id else ""
    return f"{target.platform}{account}:{target.chat_id}{thread}"


def _chat_words(row: ChatRow, source: SessionSource) -> str:
    names = (source.chat_name, source.user_name, source.chat_id, row.session_key)
    return " ".join(names).casefold()


def _approval(row: ApprovalRow) -> Json | None:
    try:
        shared = msgspec.json.decode(row.body, type=SharedApproval)
    except msgspec.DecodeError as error:
        log.warning("an approval cannot be read: %s", error)
        return None
    question = shared.question
    return {
        "id": row.token,
        "session_key": shared.session_key,
        "asked_in": _target(shared.target),
        "asked_at": _time(row.created_at),
        "tool": question.tool,
        "effect": question.effect,
        "text": shared.text,
        "decisions": ["once", *(("session", "always") if question.scopes else ()), "deny"],
        "scopes": [
            {"scope": each.value, "allows": each.label, "confirm": each.confirm}
            for each in question.scopes
        ],
    }


def _labels(scopes: Iterable[Json]) -> dict[str, tuple[str, str]]:
    labels = {"Allow once": ("once", "")}
    for each in scopes:
        if not each["confirm"]:  # of two with one label, the first is the narrower one
            scope, allows = each["scope"], each["allows"]
            labels.setdefault(f"Allow in this session: {allows}", ("session", scope))
            labels.setdefault(f"Always allow: {allows}", ("always", scope))
    return {**labels, "Deny": ("deny", "")}


def _resolution(row: ApprovalRow) -> Json:
    try:
        found: Json = msgspec.to_builtins(msgspec.json.decode(row.body, type=SharedResolution))
    except msgspec.DecodeError:
        return {"answer": "expired"}
    return found
