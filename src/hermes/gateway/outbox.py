"""Outgoing messages: stored, sent in the order of each chat, retried, verified after a crash."""

import asyncio
import contextlib
import logging
import random
import re
import secrets
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeVar

import msgspec

from hermes.config.settings import HumanDelaySettings
from hermes.core.errors import AttachmentRefused, HermesError, StoreError, UsageError
from hermes.core.ports import Attachments, Clock
from hermes.gateway.directory import TargetResolver
from hermes.gateway.supervisor import ConnectionRegistry, PlatformAccount, PlatformConnection
from hermes.sdk.platforms import (
    AdapterError,
    Button,
    Capabilities,
    ChatTarget,
    CredentialsRefused,
    DeliveryQuery,
    DeliveryUnknown,
    Media,
    MediaKind,
    NotConnected,
    OutgoingMessage,
    SendLater,
    SendRefused,
    SendUnsure,
    compose,
    find_open_fence,
    guess_mime,
    measure,
    media_kind,
    safe_filename,
)
from hermes.store import OutboxItem, OutboxQueue, OutboxRow
from hermes.util.processes import is_process_gone, process_name

log = logging.getLogger(__name__)


decode_target = msgspec.json.Decoder(ChatTarget).decode
decode_message = msgspec.json.Decoder(OutgoingMessage).decode


SIDE_LANE = "!"  #: Lane suffix of questions and of replies outside the chat order.
REPEAT_MARK = "(sent again after an interruption)"
"""The first line of a message that may have been delivered before. It has no formatting, so it is
the same in every dialect."""


class OutgoingMeta(msgspec.Struct, frozen=True):
    """Everything about an outgoing message except its text."""

    key: str  #: The parts of a long text get the keys `key:0`, `key:1`, …
    target: ChatTarget
    kind: str = "reply"
    inbox_id: int = 0
    reply_to: str = ""
    reply_to_all: bool = False  #: True if every part quotes the message, not only the first.
    buttons: tuple[Button, ...] = ()
    silent: bool = False
    lane_suffix: str = ""
    """Gives the message its own lane: it does not wait for one that is still growing."""
    mirrored: str = ""  #: See `OutgoingMessage.mirrored`; set on the first part.


def mark_repeated(message: OutgoingMessage, able: Capabilities) -> bytes:
    """Return the stored form of a message that may be shown a second time."""
    marked = f"{REPEAT_MARK}\n{message.text}".rstrip()
    if not message.text.startswith(REPEAT_MARK) and measure(marked, able.counts) <= able.max_chars:
        plain = message.plain and f"{REPEAT_MARK}\n{message.plain}"
        message = msgspec.structs.replace(message, text=marked, plain=plain)
    return msgspec.json.encode(message)


def compose_items(
    text: str, meta: OutgoingMeta, capabilities: Capabilities, files: Sequence[Media] = ()
) -> tuple[OutboxItem, ...]:
    """Split a text into as many messages as its platform needs; at least one if it has content."""
    parts, target = compose(text, capabilities, files), meta.target
    # The messages of one lane are sent in order.
    place = [target.platform, target.account, target.chat_id, target.thread_id]
    lane = f"{msgspec.json.encode(place).decode()}{meta.lane_suffix}"
    items = []
    for number, part in enumerate(parts):
        message = msgspec.structs.replace(
            part,
            reply_to=meta.reply_to if number == 0 or meta.reply_to_all else "",
            buttons=meta.buttons if number == len(parts) - 1 else (),
            silent=meta.silent,
            mirrored=meta.mirrored if number == 0 else "",
        )
        items.append(
            OutboxItem(
                key=f"{meta.key}:{number}",
                platform=target.platform,
                account=target.account,
                target=msgspec.json.encode(target),
                lane=lane,
                body=msgspec.json.encode(message),
                kind=meta.kind,
                inbox_id=meta.inbox_id,
            )
        )
    return tuple(items)


MAX_FILES = 20  #: Maximum number of files in one message.
MAX_WORDS = 12  #: Maximum words of a path with spaces; each word costs one lookup in the workspace.
_TAG = re.compile(r"[`\"'(*<]*MEDIA:\s?(?P<path>[/~](?:(?!MEDIA:)[^\n])*)")
_AFTER_PATH = " \t\r`\"'()*<>.,;"


async def attach_files(
    text: str, attachments: Attachments, capabilities: Capabilities
) -> tuple[str, tuple[Media, ...]]:
    """Copy the files that a text names, as far as the conversation may send them.

    Returns the text without the tags, and the copies. A file that is not sent is named in the text
    with the reason. Tags inside code fences are text.
    """
    found: dict[str, Media] = {}
    lines: list[str] = []
    for line, tags in _tags(text):
        parts: list[str] = []
        for tag in tags:
            try:
                if len(found) >= MAX_FILES:
                    raise AttachmentRefused(f"is one file too many: at most {MAX_FILES} are sent")
                path, media, note = await _attach(tag, attachments, capabilities)
                found.setdefault(path, media)
            except AttachmentRefused as error:
                path = tag.path
                note = f"file not sent: {_printable(path)} {error}"
            after = tag.rest[len(path) :].lstrip("`\"')*>").rstrip("`\"'(*<").strip()
            parts += (part for part in (tag.before.strip(), note, after) if part)
        if parts or not tags:
            lines.append(" ".join(parts) if tags else line)
    return "\n".join(lines), tuple(found.values())


def hide_tags(text: str) -> str:
    """Replace the tags in a text that is still being written by the names of the files."""
    return "\n".join(
        " ".join(f"{tag.before}📎 {_printable(tag.path.rpartition('/')[2])}" for tag in tags)
        if tags
        else line
        for line, tags in _tags(text)
    )


class _Tag(msgspec.Struct, frozen=True):
    before: str
    rest: str  #: The rest of the line, starting with the path.

    @property
    def paths(self) -> list[str]:
        """Possible paths, longest first: a path may contain spaces, and text may follow it."""
        words = self.rest.split(" ")[:MAX_WORDS]
        ends = (" ".join(words[:count]).rstrip(_AFTER_PATH) for count in range(len(words), 0, -1))
        return list(dict.fromkeys(ends))

    @property
    def path(self) -> str:
        """The path to report when no file was found: a tag that begins a line has it to itself."""
        alone = not self.before.strip() and len(self.rest.split(" ")) <= MAX_WORDS
        return self.rest.rstrip(_AFTER_PATH) if alone else self.paths[-1]


def _tags(text: str) -> Iterator[tuple[str, list[_Tag]]]:
    """Yield each line of the text with its tags outside of code."""
    opened = None
    for line in text.split("\n"):
        inside = opened is not None
        opened = find_open_fence(line, opened) if "MEDIA:" in text else None
        matches = [] if inside else list(_TAG.finditer(line))
        ends = [0, *(match.end() for match in matches)]
        found = zip(ends, matches, strict=False)
        yield line, [_Tag(line[end : match.start()], match["path"]) for end, match in found]


async def _attach(
    tag: _Tag, attachments: Attachments, capabilities: Capabilities
) -> tuple[str, Media, str]:
    """Return the path, the copy, and what the reader must know about it.

    Raises the last refusal, or the first one that is not about a file that does not exist.
    """
    refusal = AttachmentRefused("does not exist", missing=True)
    for path in tag.paths:
        try:
            kind: MediaKind = media_kind("", path)
            if kind not in capabilities.media_out:
                kind = "document"
            if kind not in capabilities.media_out:
                raise AttachmentRefused("cannot be sent: this platform takes no such files")
            copy = await attachments.attach(path, capabilities.max_upload_bytes)
        except AttachmentRefused as error:
            if refusal.missing:
                refusal = error
            continue
        name = safe_filename(copy.name)
        note = f"keys and passwords were removed from {name}" if copy.redacted else ""
        return path, Media(kind, name, guess_mime(name), copy.size, path=copy.path), note
    raise refusal


def _printable(path: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in path)


T = TypeVar("T")
MirrorMessage = Callable[[ChatTarget, str, str], Awaitable[object]]
"""Receives the target of a sent message, its text and its key."""

MAX_ATTEMPTS = 30
MAX_EDITS = 8
"""Attempts to edit a message, about two minutes; then the reply is sent as a new message."""
STREAM_KINDS = ("stream", "progress")  #: Kinds of messages that are shown before they are complete.
MAX_RETRY_SECONDS = 300.0  #: Longest pause in seconds between two attempts.
CALL_SECONDS = 300.0  #: Seconds that a platform has for one message, including files.
VERIFY_SECONDS = 60.0
SENDER_TIMEOUT_SECONDS = 900.0
"""Seconds after which a message in state `sending` is verified even if its sender may be alive on
another machine."""
IDLE_SECONDS = 5.0  #: Seconds between two checks of the outbox without a wake-up.
RETRY_SECONDS = 0.5  #: Seconds between two checks while rows may become due again.
TROUBLE_SECONDS = 30.0
BATCH_SIZE = 100
NATURAL_PAUSE_MS = (800, 2500)  #: Pause in milliseconds that a person makes between two messages.


class GatewayOutbox:
    """Implements `core.ports.Outbox`. Messages are stored at once. While `run` runs, those of each
    lane are sent in order once their platform is connected; those of a dead sender are verified."""

    def __init__(
        self,
        queue: OutboxQueue,
        targets: TargetResolver,
        clock: Clock,
        connections: ConnectionRegistry | None = None,
        *,
        human_delay: HumanDelaySettings | None = None,
        is_dead: Callable[[str], bool | None] = is_process_gone,
        mirror: MirrorMessage | None = None,
    ) -> None:
        """Without `connections`, messages are only stored. `is_dead` returns whether a process that
        was sending a message has ended. `mirror` copies a sent message into the session of its
        chat. It is called before the row is marked as sent: after a crash in between, the row is
        verified and mirrored again."""
        self.queue, self._targets, self.clock = queue, targets, clock
        self._connections = connections or ConnectionRegistry(clock)
        self._human_delay = human_delay or HumanDelaySettings()
        self._mirror, self._owner, self._is_dead = mirror, process_name(), is_dead
        self._in_flight: set[int] = set()  #: Ids of the rows that this process is sending.
        self._opening_streams: set[str] = set()
        """Keys of streaming messages that are being sent for the first time."""
        self._wake = asyncio.Event()
        self._sending: dict[str, asyncio.Task[None]] = {}  #: Running sends by lane.
        self._verify_after: dict[int, float] = {}
        """Monotonic time of the next verification, by id of rows that could not be verified."""
        self._retry_soon_until = 0.0
        """Monotonic time until which the outbox is checked more often, after a failure."""

    async def send(
        self,
        target: str | ChatTarget,
        text: str,
        *,
        key: str = "",
        kind: str = "send",
        attachments: Attachments | None = None,
    ) -> str:
        """Store a message and return the key of the delivery. A `send` (of `send_message`) is
        copied into the session of the chat when it is sent. Raises `UsageError`."""
        found = target if isinstance(target, ChatTarget) else await self._targets.find(target)
        name = key or f"{kind}:{secrets.token_hex(8)}"
        meta = OutgoingMeta(name, found, kind, mirrored=text if kind == "send" else "")
        if not await self._enqueue(text, meta, attachments):
            raise UsageError("the message is empty")
        return name

    async def notify(
        self,
        target: ChatTarget,
        text: str,
        kind: str = "notice",
        buttons: tuple[Button, ...] = (),
        key: str = "",
        attachments: Attachments | None = None,
    ) -> None:
        """Store a message that waits for no other: a question or a notice. Raises `UsageError` if
        the platform is not configured any more."""
        manifest = self._targets.manifests.get(target.platform)
        if manifest is None:
            raise UsageError(f"{target.platform} is not configured any more")
        name = key or f"{kind}:{target.chat_id}:{self.now():.6f}"
        buttons = buttons if manifest.capabilities.buttons else ()
        meta = OutgoingMeta(name, target, kind, buttons=buttons, lane_suffix=SIDE_LANE)
        await self._enqueue(text, meta, attachments)

    async def _enqueue(
        self, text: str, meta: OutgoingMeta, attachments: Attachments | None
    ) -> tuple[int, ...]:
        files: tuple[Media, ...] = ()
        if attachments is not None:
            able = self._targets.manifests[meta.target.platform].capabilities
            text, files = await attach_files(text, attachments, able)
        rows = await self.queue.enqueue(self.compose(text, meta, files), self.now())
        self.wake()
        return rows

    def compose(
        self, text: str, meta: OutgoingMeta, files: tuple[Media, ...] = ()
    ) -> tuple[OutboxItem, ...]:
        """Split a text into as many messages as its platform needs."""
        manifest = self._targets.manifests[meta.target.platform]
        return compose_items(text, meta, manifest.capabilities, files)

    async def delivered(self, delivery: str) -> str:
        row = await self.queue.get(f"{delivery}:0")
        if row is None:
            raise UsageError(f"there is no delivery {delivery}")
        # Parts are sent in order: if one fails, the rest is useless.
        number = 0
        while row is not None and row.state == "sent":
            number += 1
            row = await self.queue.get(f"{delivery}:{number}")
        if row is None:
            return "sent"
        return f"{row.state}: {row.error}" if row.state in ("failed", "uncertain") else "pending"

    async def targets(self) -> list[str]:
        return self._targets.describe()

    def now(self) -> float:
        return self.clock.now().timestamp()

    def wake(self) -> None:
        self._wake.set()

    async def run(self) -> None:
        """Send messages until cancelled. Messages in flight are finished first."""
        try:
            while True:
                self._wake.clear()
                try:
                    pause = await self._round()
                except StoreError as error:
                    log.error("the outbox cannot be read: %s", error)
                    pause = IDLE_SECONDS
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._wake.wait()
        finally:
            if self._sending:
                await asyncio.wait(set(self._sending.values()), timeout=IDLE_SECONDS)

    async def _round(self) -> float:
        """Start to send what is due. Returns the seconds until the next check."""
        accounts = self._connections.accounts()
        if not accounts:
            return IDLE_SECONDS
        abandoned = await self.abandoned_rows(accounts)
        now, before = self.clock.monotonic(), self._verify_after
        self._verify_after = {row.id: before[row.id] for row in abandoned if row.id in before}
        for row in abandoned:
            if self._verify_after.get(row.id, now) <= now:
                self._start(row, self._verify)
        # Busy lanes may hold all of the first rows; other lanes must not wait for them.
        limit = BATCH_SIZE + len(self._sending)
        rows = await self.queue.due(accounts, self.now(), limit=limit)
        for row in rows:
            self._start(row, self._deliver_part)
        soon = rows or self.clock.monotonic() < self._retry_soon_until
        return RETRY_SECONDS if soon else IDLE_SECONDS

    def _start(self, row: OutboxRow, work: Callable[[OutboxRow], Awaitable[None]]) -> None:
        if row.lane not in self._sending:
            self._sending[row.lane] = asyncio.create_task(self._run_task(row, work))

    async def _run_task(self, row: OutboxRow, work: Callable[[OutboxRow], Awaitable[None]]) -> None:
        try:
            await work(row)
        except StoreError as error:
            log.error("the result of a delivery cannot be stored: %s", error)
            await self.clock.sleep(1.0)
        except Exception:  # one broken row must not stop all sending
            log.exception("a message to %s cannot be processed", row.platform)
            await self.clock.sleep(IDLE_SECONDS)
        finally:
            self._sending.pop(row.lane, None)
            self._wake.set()

    async def _verify(self, row: OutboxRow) -> None:
        now = self.clock.monotonic()
        if await self.verify(row) is None:
            self._verify_after[row.id] = now + IDLE_SECONDS
        self._retry_soon_until = now + TROUBLE_SECONDS

    async def _deliver_part(self, row: OutboxRow) -> None:
        delay = self._human_delay
        if row.kind == "reply" and not row.key.endswith(":0") and delay.mode != "off":
            custom = (delay.min_ms, max(delay.min_ms, delay.max_ms))
            least, most = NATURAL_PAUSE_MS if delay.mode == "natural" else custom
            await self.clock.sleep(random.uniform(least, most) / 1000)
        if not await self._deliver(row):
            self._retry_soon_until = self.clock.monotonic() + TROUBLE_SECONDS

    async def _deliver(self, row: OutboxRow) -> str:
        """Send a pending row. Returns the platform's message id; "" if the message was not sent."""
        connection = self._connections.get(row.platform, row.account)
        decoded = await self._decode(row)
        if connection is None or decoded is None or row.id in self._in_flight:
            return ""
        target, message = decoded
        self._in_flight.add(row.id)
        try:
            await connection.buckets.acquire(target.chat_id)
            if row.platform_id:
                await _call_platform(connection.adapter.edit(target, row.platform_id, message))
                await self.queue.mark_sent(row.id, row.platform_id, self.now())
                return row.platform_id
            newest = connection.adapter.newest(target)
            if not await self.queue.mark_sending(row.id, newest, by=self._owner, now=self.now()):
                return ""  # another process is sending it
            found = await _call_platform(connection.adapter.send(target, message, row.key))
            await self._mark_sent(row, found)
            return found
        except AdapterError as error:
            return await self._on_error(row, connection, target, error)
        finally:
            self._in_flight.discard(row.id)

    async def open_stream(self, item: OutboxItem) -> OutboxRow | None:
        """Send the first version of a growing message. Returns None if it could not be sent."""
        target, message = decode_target(item.target), decode_message(item.body)
        connection = self._connections.get(item.platform, item.account)
        if connection is None:
            return None
        await connection.buckets.acquire(target.chat_id)
        newest = connection.adapter.newest(target)
        self._opening_streams.add(item.key)
        try:
            # The row is never visible as pending: another task would send it, or it would block
            # later rows.
            if not await self.queue.enqueue_sending(item, newest, by=self._owner, now=self.now()):
                return None
            row = await self.queue.get(item.key)
            if row is None:
                return None
            try:
                found = await _call_platform(connection.adapter.send(target, message, row.key))
                await self.queue.mark_streaming(row.id, found)
            except AdapterError as error:
                if not await self._on_error(row, connection, target, error):
                    return None
        finally:
            self._opening_streams.discard(item.key)
        return await self.queue.get(item.key)

    async def _on_error(
        self,
        row: OutboxRow,
        connection: PlatformConnection,
        target: ChatTarget,
        error: AdapterError,
    ) -> str:
        if isinstance(error, NotConnected | CredentialsRefused | SendUnsure):
            connection.recheck()
        match error:
            case SendUnsure() if row.platform_id:  # repeating an edit is harmless
                await self._retry(row, str(error), 1.0)
            case SendUnsure():
                return await self.verify(row) or ""
            case _ if row.kind in STREAM_KINDS and not row.platform_id:
                # The reply is sent anyway; it is only not shown while it grows.
                await self.queue.give_up(row.id, "failed", str(error))
            case SendLater() | NotConnected() if row.platform_id and row.attempts >= MAX_EDITS:
                await self._send_as_new(row, str(error))
            case SendLater():
                connection.buckets.pause(target.chat_id, error.seconds)
                await self._retry(row, str(error), error.seconds)
            case NotConnected() | CredentialsRefused():
                # The supervisor reports the problem; the message waits until the platform is back.
                await self._retry(row, str(error), 1.0)
            case _ if row.platform_id:
                await self._send_as_new(row, str(error))
            case _:
                log.warning("a message to %s cannot be sent: %s", row.platform, error)
                await self.queue.give_up(row.id, "failed", str(error))
        return ""

    async def _retry(self, row: OutboxRow, error: str, seconds: float, body: bytes = b"") -> None:
        if row.attempts >= MAX_ATTEMPTS:
            log.error("a message to %s is given up: %s", row.platform, error)
            await self.queue.give_up(row.id, "failed", error)
            return
        pause = min(max(seconds, 0.5 * 2 ** min(row.attempts, 12)), MAX_RETRY_SECONDS)
        spread = pause * random.uniform(1.0, 1.2) if row.attempts else seconds
        await self.queue.retry(row.id, self.now() + spread, error, body=body)

    async def _send_as_new(self, row: OutboxRow, error: str) -> None:
        """Handle a message that can no longer be edited: a reply is sent as a new message, other
        kinds stay as they are."""
        log.warning("%s: a message cannot be edited: %s", row.platform, error)
        if row.kind in STREAM_KINDS:
            await self.queue.mark_sent(row.id, row.platform_id, self.now())
        else:
            await self.queue.retry(row.id, self.now(), error, resend=True)

    async def _mark_sent(self, row: OutboxRow, found: str) -> None:
        if self._mirror is not None and (text := decode_message(row.body).mirrored):
            await self._mirror(decode_target(row.target), text, row.key)
        await self.queue.mark_sent(row.id, found, self.now())

    async def _decode(self, row: OutboxRow) -> tuple[ChatTarget, OutgoingMessage] | None:
        """Decode a row. A damaged one is given up, so that it does not block its lane: None."""
        try:
            return decode_target(row.target), decode_message(row.body)
        except msgspec.DecodeError as error:
            log.error("message %d to %s cannot be read: %s", row.id, row.platform, error)
            await self.queue.give_up(row.id, "failed", "the stored message is damaged")
            return None

    async def settle(self, accounts: tuple[PlatformAccount, ...], seconds: float) -> bool:
        """Verify the messages whose sender died before it learned the result. Returns False if a
        platform could not be asked in time."""
        try:
            async with asyncio.timeout(seconds):
                found = [await self.verify(row) for row in await self.abandoned_rows(accounts)]
        except TimeoutError:
            return False
        return None not in found

    async def flush(self, seconds: float) -> None:
        """Wait for at most `seconds` until every message that is due was sent."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while await self.queue.due(self._connections.accounts(), self.now()):
                    self.wake()
                    await asyncio.sleep(0.05)

    async def abandoned_rows(self, accounts: tuple[PlatformAccount, ...]) -> list[OutboxRow]:
        """Return the rows in state `sending` whose sender does not exist any more."""
        rows = await self.queue.in_doubt(accounts)
        others = {row.error for row in rows} - {"", self._owner}
        dead = await asyncio.to_thread(lambda: set(filter(self._is_dead, others)))
        gone, old = {"", self._owner} | dead, self.now() - SENDER_TIMEOUT_SECONDS
        return [
            row
            for row in rows
            if row.id not in self._in_flight
            and row.key not in self._opening_streams
            and (row.error in gone or row.due_at < old)
        ]

    async def verify(self, row: OutboxRow) -> str | None:
        """Ask the platform whether a message arrived, then mark it as sent, send it again, or give
        it up.

        On a platform that keeps neither keys nor a history, it is sent again with `REPEAT_MARK`.
        Returns its id, "" if it did not arrive, and None if the platform cannot be asked now.
        """
        connection = self._connections.get(row.platform, row.account)
        if connection is None:
            return None
        now = await self.queue.get(row.key)
        if now is None or now.state != "sending":
            return now.platform_id if now else ""  # its sender has recorded the result meanwhile
        if now.error != self._owner and not await self.queue.take_sending(
            row.id, now.error, self._owner, self.now()
        ):
            return None  # another process verifies it
        decoded = await self._decode(row)
        if decoded is None:
            return ""
        try:
            query = DeliveryQuery(row.key, row.created_at, row.after_id)
            asked = connection.adapter.was_delivered(query, *decoded)
            found = await _call_platform(asked, seconds=VERIFY_SECONDS)
        except (DeliveryUnknown, SendRefused) as error:
            able = connection.capabilities
            if isinstance(error, DeliveryUnknown) and not able.checks_delivery:
                log.info("%s; it is sent again with a mark", error)
                await self._record_verification(row, None, mark_repeated(decoded[1], able))
                return ""
            log.error("it is unknown whether a message to %s arrived: %s", row.platform, error)
            await self.queue.give_up(row.id, "uncertain", str(error))
            return ""
        except AdapterError as error:
            log.info("%s cannot verify a delivery now: %s", row.platform, error)
            connection.recheck()
            return None  # the row stays in state `sending` until the platform can be asked
        await self._record_verification(row, found)
        return found or ""

    async def _record_verification(
        self, row: OutboxRow, found: str | None, body: bytes = b""
    ) -> None:
        if row.kind in STREAM_KINDS:
            # The process that streamed it is gone. The reply takes the message over, unless the
            # reply is stored already.
            over = row.kind == "progress" or await self.queue.get(f"reply:{row.inbox_id}:0")
            if found is None:
                await self.queue.give_up(row.id, "failed", "it was not delivered")
            elif over:
                await self.queue.mark_sent(row.id, found, self.now())
            else:
                await self.queue.mark_streaming(row.id, found)
        elif found is None:
            await self._retry(row, "it was not delivered", 0.0, body)
        else:
            await self._mark_sent(row, found)


async def _call_platform(call: Awaitable[T], seconds: float = CALL_SECONDS) -> T:
    """Call a platform. An unexpected exception or a timeout becomes `SendUnsure`, so that one
    message cannot stop all sending."""
    try:
        async with asyncio.timeout(seconds):
            return await call
    except HermesError:
        raise
    except TimeoutError as error:
        raise SendUnsure("the platform did not answer in time") from error
    except Exception as error:  # libraries raise anything
        log.exception("a platform call raised an unexpected exception")
        raise SendUnsure(f"unexpected {type(error).__name__}") from error
