"""Outgoing messages: stored first, then sent in the order of each chat, retried, and verified after
a crash."""

import asyncio
import logging
import random
import re
import secrets
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeVar

import msgspec

from hermes.config.settings.display import HumanDelaySettings
from hermes.core.errors import AttachmentRefused, HermesError, StoreError, UsageError
from hermes.core.ports import Attachments, Clock
from hermes.gateway.platforms.kit.compose import compose
from hermes.gateway.platforms.kit.contract import (
    Adapter,
    AdapterError,
    Button,
    Capabilities,
    ChatTarget,
    CredentialsRefused,
    DeliveryUnknown,
    Media,
    MediaKind,
    NotConnected,
    OutgoingMessage,
    PlatformManifest,
    SendLater,
    SendRefused,
    SendUnsure,
)
from hermes.gateway.platforms.kit.markdown import find_open_fence
from hermes.gateway.platforms.kit.media import guess_mime, media_kind, safe_filename
from hermes.gateway.platforms.kit.rate_limit import RateLimiter
from hermes.gateway.process import LeaseOwner
from hermes.store.records import OutboxItem, OutboxRow
from hermes.store.session_store import OutboxQueue

log = logging.getLogger(__name__)

PlatformAccount = tuple[str, str]
"""Name of a platform, and of our account on it."""


class PlatformConnection(msgspec.Struct, frozen=True, eq=False):
    adapter: Adapter
    buckets: RateLimiter
    recheck: Callable[[], None] = lambda: None
    """Makes the supervisor check the connection now, after a call failed."""

    @property
    def manifest(self) -> PlatformManifest:
        return self.adapter.manifest

    @property
    def capabilities(self) -> Capabilities:
        return self.adapter.manifest.capabilities


class ConnectionRegistry:
    """The connected platforms. Messages for other platforms wait in the outbox."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._up: dict[PlatformAccount, PlatformConnection] = {}
        self._buckets: dict[PlatformAccount, RateLimiter] = {}

    def add(self, adapter: Adapter, recheck: Callable[[], None] = lambda: None) -> None:
        account_key = (adapter.manifest.name, adapter.account)
        # Rate limits keep counting across a reconnection.
        capabilities = adapter.manifest.capabilities
        fresh = RateLimiter(capabilities.per_chat, capabilities.per_platform, self._clock)
        buckets = self._buckets.setdefault(account_key, fresh)
        self._up[account_key] = PlatformConnection(adapter, buckets, recheck)

    def remove(self, adapter: Adapter) -> None:
        self._up.pop((adapter.manifest.name, adapter.account), None)

    def accounts(self) -> tuple[PlatformAccount, ...]:
        """Return the accounts that messages can be sent from now."""
        return tuple(
            account_key for account_key, connection in self._up.items() if connection.manifest.chats
        )

    def get(self, platform: str, account: str = "") -> PlatformConnection | None:
        return self._up.get((platform, account))

    def for_target(self, target: ChatTarget) -> PlatformConnection | None:
        """Return the connection for a target; without an account, the first one of its platform."""
        if connection := self._up.get((target.platform, target.account)):
            return connection
        return next((each for each in self if each.manifest.name == target.platform), None)

    def __iter__(self) -> Iterator[PlatformConnection]:
        return iter(tuple(self._up.values()))


def lane(target: ChatTarget) -> str:
    """Return the key that keeps the messages of one chat in order."""
    return msgspec.json.encode(
        [target.platform, target.account, target.chat_id, target.thread_id]
    ).decode()


_targets, _messages = msgspec.json.Decoder(ChatTarget), msgspec.json.Decoder(OutgoingMessage)


def decode_target(data: bytes) -> ChatTarget:
    return _targets.decode(data)


def decode_message(data: bytes) -> OutgoingMessage:
    return _messages.decode(data)


T = TypeVar("T")
MirrorMessage = Callable[[ChatTarget, str, str], Awaitable[object]]
"""Receives the target of a sent message, its text and its key."""

MAX_ATTEMPTS = 30
MAX_EDITS = 8
"""Attempts to edit a message, about two minutes; then the reply is sent as a new message."""
STREAM_KINDS = ("stream", "progress")
"""Kinds of messages that are shown before they are complete."""
MAX_RETRY_SECONDS = 300.0
"""Longest pause in seconds between two attempts."""
CALL_SECONDS = 300.0
"""Seconds that a platform has for one message, including files."""
VERIFY_SECONDS = 60.0
SENDER_TIMEOUT_SECONDS = 900.0
"""Seconds after which a message in state `sending` is verified even if its sender may be alive on
another machine."""


class OutboxSender:
    def __init__(
        self, outbox: OutboxQueue, lines: ConnectionRegistry, clock: Clock, owner: LeaseOwner
    ) -> None:
        self._outbox, self._connections, self._clock, self._owner = outbox, lines, clock, owner
        self.in_flight: set[int] = set()
        """Ids of the rows that this process is sending."""
        self._opening_streams: set[str] = set()
        """Keys of streaming messages that are being sent for the first time."""
        self.mirror: MirrorMessage | None = None
        """Copies sent messages into the session of their chat. Called before the row is marked as
        sent: after a crash in between, the row is verified and mirrored again."""

    async def deliver(self, row: OutboxRow) -> str:
        """Send a pending row. Returns the platform's message id; "" if the message was not sent."""
        connection, decoded = (
            self._connections.get(row.platform, row.account),
            await self._decode(row),
        )
        if connection is None or decoded is None or row.id in self.in_flight:
            return ""
        target, message = decoded
        self.in_flight.add(row.id)
        try:
            await connection.buckets.acquire(target.chat_id)
            if row.platform_id:
                await _call_platform(connection.adapter.edit(target, row.platform_id, message))
                await self._outbox.mark_sent(row.id, row.platform_id, self._now())
                return row.platform_id
            by, newest = self._owner.name, _newest_id(connection, target)
            if not await self._outbox.mark_sending(row.id, newest, by=by, now=self._now()):
                return ""  # another process is sending it
            found = await _call_platform(connection.adapter.send(target, message, row.key))
            await self._mark_sent(row, found)
            return found
        except AdapterError as error:
            return await self._on_error(row, connection, target, error)
        finally:
            self.in_flight.discard(row.id)

    async def open_stream(self, draft: OutboxItem) -> OutboxRow | None:
        """Send the first version of a message that is edited as its text grows. Returns None if it
        could not be sent."""
        target, message = decode_target(draft.target), decode_message(draft.body)
        connection = self._connections.get(draft.platform, draft.account)
        if connection is None:
            return None
        await connection.buckets.acquire(target.chat_id)
        by, newest = self._owner.name, _newest_id(connection, target)
        self._opening_streams.add(draft.key)
        try:
            # The row is never visible as pending: another task would send it, or it would block
            # later rows.
            if not await self._outbox.enqueue_sending(draft, newest, by=by, now=self._now()):
                return None
            row = await self._outbox.get(draft.key)
            if row is None:
                return None
            try:
                found = await _call_platform(connection.adapter.send(target, message, row.key))
                await self._outbox.mark_streaming(row.id, found)
            except AdapterError as error:
                if not await self._on_error(row, connection, target, error):
                    return None
        finally:
            self._opening_streams.discard(draft.key)
        return await self._outbox.get(draft.key)

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
                return await self.settle(row) or ""
            case _ if row.kind in STREAM_KINDS and not row.platform_id:
                # The reply is sent anyway; it is only not shown while it grows.
                await self._outbox.give_up(row.id, "failed", str(error))
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
                await self._outbox.give_up(row.id, "failed", str(error))
        return ""

    async def abandoned_rows(self, rows: tuple[OutboxRow, ...]) -> list[OutboxRow]:
        """Return those of the rows in state `sending` whose sender does not exist any more."""
        others = tuple({row.error for row in rows} - {"", self._owner.name})
        dead = await asyncio.to_thread(self._owner.dead, others) if others else ()
        gone, old = {"", self._owner.name, *dead}, self._now() - SENDER_TIMEOUT_SECONDS
        return [
            row
            for row in rows
            if row.id not in self.in_flight
            and row.key not in self._opening_streams
            and (row.error in gone or row.due_at < old)
        ]

    async def settle(self, row: OutboxRow) -> str | None:
        """Ask the platform whether a message arrived, then mark it as sent, send it again, or give
        it up.

        A message is never sent twice. Returns its id, "" if it did not arrive, and None if the
        platform cannot be asked now.
        """
        connection = self._connections.get(row.platform, row.account)
        if connection is None:
            return None
        now = await self._outbox.get(row.key)
        if now is None or now.state != "sending":
            return now.platform_id if now else ""  # its sender has recorded the result meanwhile
        decoded = await self._decode(row)
        if decoded is None:
            return ""
        target, message = decoded
        try:
            found = await _call_platform(
                connection.adapter.was_delivered(row, target, message), seconds=VERIFY_SECONDS
            )
        except (DeliveryUnknown, SendRefused) as error:
            log.error(
                "it is unknown whether a message to %s was delivered: %s", row.platform, error
            )
            await self._outbox.give_up(row.id, "uncertain", str(error))
            return ""
        except AdapterError as error:
            log.info("%s cannot verify a delivery now: %s", row.platform, error)
            connection.recheck()
            return None  # the row stays in state `sending` until the platform can be asked
        await self._record_verification(row, found)
        return found or ""

    async def _decode(self, row: OutboxRow) -> tuple[ChatTarget, OutgoingMessage] | None:
        """Decode a row. Returns None for a damaged one, which is given up: otherwise it would block
        its lane forever."""
        try:
            return decode_target(row.target), decode_message(row.body)
        except msgspec.DecodeError as error:
            log.error("message %d to %s cannot be read: %s", row.id, row.platform, error)
            await self._outbox.give_up(row.id, "failed", "the stored message is damaged")
            return None

    async def _record_verification(self, row: OutboxRow, found: str | None) -> None:
        if row.kind in STREAM_KINDS:
            # The process that streamed it is gone. The reply takes the message over, unless the
            # reply is stored already.
            over = row.kind == "progress" or await self._outbox.get(f"reply:{row.inbox_id}:0")
            if found is None:
                await self._outbox.give_up(row.id, "failed", "it was not delivered")
            elif over:
                await self._outbox.mark_sent(row.id, found, self._now())
            else:
                await self._outbox.mark_streaming(row.id, found)
        elif found is None:
            await self._retry(row, "it was not delivered", 0.0)
        else:
            await self._mark_sent(row, found)

    async def _mark_sent(self, row: OutboxRow, found: str) -> None:
        if self.mirror is not None and (text := decode_message(row.body).mirrored):
            await self.mirror(decode_target(row.target), text, row.key)
        await self._outbox.mark_sent(row.id, found, self._now())

    async def _send_as_new(self, row: OutboxRow, error: str) -> None:
        """Handle a message that can no longer be edited: a reply is sent as a new message, other
        kinds stay as they are."""
        log.warning("%s: a message cannot be edited: %s", row.platform, error)
        if row.kind in STREAM_KINDS:
            await self._outbox.mark_sent(row.id, row.platform_id, self._now())
        else:
            await self._outbox.retry(row.id, self._now(), error, resend=True)

    async def _retry(self, row: OutboxRow, error: str, seconds: float) -> None:
        if row.attempts >= MAX_ATTEMPTS:
            log.error("a message to %s is given up: %s", row.platform, error)
            await self._outbox.give_up(row.id, "failed", error)
            return
        pause = min(max(seconds, 0.5 * 2 ** min(row.attempts, 12)), MAX_RETRY_SECONDS)
        spread = pause * random.uniform(1.0, 1.2) if row.attempts else seconds
        await self._outbox.retry(row.id, self._now() + spread, error)

    def _now(self) -> float:
        return self._clock.now().timestamp()


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


def _newest_id(connection: PlatformConnection, target: ChatTarget) -> str:
    newest = getattr(connection.adapter, "newest", None)
    return newest(target) if newest else ""


IDLE_SECONDS = 5.0
"""Seconds between two checks of the outbox without a wake-up."""
RETRY_SECONDS = 0.5
"""Seconds between two checks while rows may become due again."""
TROUBLE_SECONDS = 30.0
BATCH_SIZE = 100

Work = Callable[[OutboxRow], Awaitable[None]]

NATURAL_PAUSE_MS = (800, 2500)
"""Pause in milliseconds that a person makes between two messages."""


def reply_pause(settings: HumanDelaySettings) -> Callable[[], float]:
    """Return a function for the pause in seconds between the parts of one reply, by
    `human_delay`."""
    if settings.mode == "off":
        return lambda: 0.0
    custom = (settings.min_ms, max(settings.min_ms, settings.max_ms))
    least, most = NATURAL_PAUSE_MS if settings.mode == "natural" else custom
    return lambda: random.uniform(least, most) / 1000


class OutboxLoop:
    def __init__(
        self,
        outbox: OutboxQueue,
        lines: ConnectionRegistry,
        sender: OutboxSender,
        clock: Clock,
        pause: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`pause` returns the seconds to wait before each further part of a reply."""
        self._outbox, self._connections, self._sender, self._clock = outbox, lines, sender, clock
        self._pause = pause
        self._wake = asyncio.Event()
        self._sending: dict[str, asyncio.Task[None]] = {}
        """Running sends by lane."""
        self._verify_after: dict[int, float] = {}
        """Monotonic time of the next verification, by id of rows that could not be verified."""
        self._retry_soon_until = 0.0
        """Monotonic time until which the outbox is checked more often, after a failure."""

    def wake(self) -> None:
        """Check the outbox now."""
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
                try:
                    async with asyncio.timeout(pause):
                        await self._wake.wait()
                except TimeoutError:
                    continue
        finally:
            if self._sending:
                await asyncio.wait(set(self._sending.values()), timeout=IDLE_SECONDS)

    async def _round(self) -> float:
        """Start to send what is due. Returns the seconds until the next check."""
        accounts = self._connections.accounts()
        if not accounts:
            return IDLE_SECONDS
        await self._verify_abandoned(accounts)
        now = self._clock.now().timestamp()
        # Busy lanes may hold all of the first rows; other lanes must not wait for them.
        rows = await self._outbox.due(accounts, now, limit=BATCH_SIZE + len(self._sending))
        for row in rows:
            self._start(row, self._deliver)
        return (
            RETRY_SECONDS
            if rows or self._clock.monotonic() < self._retry_soon_until
            else IDLE_SECONDS
        )

    async def _verify_abandoned(self, accounts: tuple[PlatformAccount, ...]) -> None:
        """Start to verify the rows whose sender is gone."""
        rows = await self._sender.abandoned_rows(await self._outbox.in_doubt(accounts))
        now, before = self._clock.monotonic(), self._verify_after
        self._verify_after = {row.id: before[row.id] for row in rows if row.id in before}
        for row in rows:
            if self._verify_after.get(row.id, now) <= now:
                self._start(row, self._verify)

    def _start(self, row: OutboxRow, work: Work) -> None:
        if row.lane not in self._sending:
            self._sending[row.lane] = asyncio.create_task(self._run_task(row, work))

    async def settle(self, accounts: tuple[PlatformAccount, ...], seconds: float) -> bool:
        """Verify the messages whose sender died before it learned the result. Returns False if a
        platform could not be asked in time."""
        try:
            async with asyncio.timeout(seconds):
                rows = await self._sender.abandoned_rows(await self._outbox.in_doubt(accounts))
                found = [await self._sender.settle(row) for row in rows]
        except TimeoutError:
            return False
        return None not in found

    async def _verify(self, row: OutboxRow) -> None:
        now = self._clock.monotonic()
        if await self._sender.settle(row) is None:
            self._verify_after[row.id] = now + IDLE_SECONDS
        self._retry_soon_until = now + TROUBLE_SECONDS

    async def _deliver(self, row: OutboxRow) -> None:
        if row.kind == "reply" and not row.key.endswith(":0"):
            await self._clock.sleep(self._pause())
        if not await self._sender.deliver(row):
            self._retry_soon_until = self._clock.monotonic() + TROUBLE_SECONDS

    async def _run_task(self, row: OutboxRow, work: Work) -> None:
        """Run the work for one row. Its failure does not affect other rows."""
        try:
            await work(row)
        except StoreError as error:
            log.error("the result of a delivery cannot be stored: %s", error)
            await self._clock.sleep(1.0)
        except Exception:  # one broken row must not stop all sending
            log.exception("a message to %s cannot be processed", row.platform)
            await self._clock.sleep(IDLE_SECONDS)
        finally:
            self._sending.pop(row.lane, None)
            self._wake.set()


SIDE_LANE = "!"
"""Lane suffix of questions and of replies outside the chat order."""


class OutgoingMeta(msgspec.Struct, frozen=True):
    """Everything about an outgoing message except its text."""

    key: str
    """The parts of a long text get the keys `key:0`, `key:1`, …"""
    target: ChatTarget
    kind: str = "reply"
    inbox_id: int = 0
    reply_to: str = ""
    reply_to_all: bool = False
    """True if every part quotes the message, not only the first."""
    buttons: tuple[Button, ...] = ()
    silent: bool = False
    due_at: float = 0.0
    lane_suffix: str = ""
    """Gives the message its own lane, so that it does not wait for a message that is still growing.
    """
    mirrored: str = ""
    """See `OutgoingMessage.mirrored`; set on the first part."""


def compose_items(
    text: str, meta: OutgoingMeta, capabilities: Capabilities, files: Sequence[Media] = ()
) -> tuple[OutboxItem, ...]:
    """Split a text into as many messages as its platform needs; at least one if it has content."""
    parts = compose(text, capabilities, files)
    last = len(parts) - 1
    return tuple(
        draft(
            msgspec.structs.replace(
                part,
                reply_to=meta.reply_to if number == 0 or meta.reply_to_all else "",
                buttons=meta.buttons if number == last else (),
                silent=meta.silent,
                mirrored=meta.mirrored if number == 0 else "",
            ),
            meta,
            number,
        )
        for number, part in enumerate(parts)
    )


def draft(message: OutgoingMessage, meta: OutgoingMeta, number: int = 0) -> OutboxItem:
    target = meta.target
    return OutboxItem(
        key=f"{meta.key}:{number}",
        platform=target.platform,
        account=target.account,
        target=msgspec.json.encode(target),
        lane=f"{lane(target)}{meta.lane_suffix}",
        body=msgspec.json.encode(message),
        kind=meta.kind,
        inbox_id=meta.inbox_id,
        due_at=meta.due_at,
    )


MAX_FILES = 20
"""Maximum number of files in one message."""
MAX_WORDS = 12
"""Maximum words of a path with spaces; each word costs one lookup in the workspace."""
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
    rest: str
    """The rest of the line, starting with the path."""

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
        yield (
            line,
            [
                _Tag(line[end : match.start()], match["path"])
                for end, match in zip(ends, matches, strict=False)
            ],
        )


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


FindTarget = Callable[[str], ChatTarget]
"""Resolves a target as users write it; raises `UsageError`."""


class OutboxService:
    """Implements `core.ports.Outbox`: messages are stored at once and sent when their platform is
    connected."""

    def __init__(
        self,
        outbox: OutboxQueue,
        find: FindTarget,
        manifests: dict[str, PlatformManifest],
        clock: Clock,
        *,
        list_targets: Callable[[], list[str]],
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        """`manifests` are the configured platforms; `list_targets` describes the known targets."""
        self.refresh_names: Callable[[str], Awaitable[object]] | None = None
        """Asks the platform of a target for its current chats."""
        self._outbox, self._find, self._manifests = outbox, find, manifests
        self._clock = clock
        self._list_targets, self._wake = list_targets, wake

    async def find(self, target: str) -> ChatTarget:
        """Resolve a target. Raises `UsageError` if it is not known."""
        try:
            return self._find(target)
        except UsageError:
            if self.refresh_names is None:
                raise
        await self.refresh_names(target)  # the chat may be newer than the directory
        return self._find(target)

    async def send(
        self,
        target: str,
        text: str,
        *,
        key: str = "",
        kind: str = "send",
        attachments: Attachments | None = None,
    ) -> str:
        """Store a message for a target and return the key of the delivery.

        A message of `send_message` (kind `send`) is also copied into the session of the chat when
        it is sent. Raises `UsageError`.
        """
        account_key = await self.find(target)
        manifest = self._manifests.get(account_key.platform)
        if manifest is None or not manifest.chats:
            raise UsageError(
                f"{account_key.platform} is not set up",
                hint=f"`hermes gateway setup {account_key.platform}` does that",
            )
        name = key or f"{kind}:{secrets.token_hex(8)}"
        meta = OutgoingMeta(name, account_key, kind, mirrored=text if kind == "send" else "")
        files: tuple[Media, ...] = ()
        if attachments is not None:
            text, files = await attach_files(text, attachments, manifest.capabilities)
        items = compose_items(text, meta, manifest.capabilities, files)
        rows = await self._outbox.enqueue(items, self._clock.now().timestamp())
        if not rows:
            raise UsageError("the message is empty")
        self._wake()
        return name

    async def delivered(self, delivery: str) -> str:
        row = await self._outbox.get(f"{delivery}:0")
        if row is None:
            raise UsageError(f"there is no delivery {delivery}")
        # Parts are sent in order: if one fails, the rest is useless.
        number = 0
        while row is not None and row.state == "sent":
            number += 1
            row = await self._outbox.get(f"{delivery}:{number}")
        if row is None:
            return "sent"
        if row.state in ("failed", "uncertain"):
            return f"{row.state}: {row.error}"
        return "pending"

    async def targets(self) -> list[str]:
        return self._list_targets()
