"""Messages to chats that nobody waits in: of the tool, of scheduled jobs, of background work."""

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

# The platforms we are on: each an adapter and its rate limits.

Place = tuple[str, str]
"""Platform and account."""


class PlatformConnection(msgspec.Struct, frozen=True, eq=False):
    adapter: Adapter
    buckets: RateLimiter
    doubt: Callable[[], None] = lambda: None
    """Has the connection looked at now: a call found it gone."""

    @property
    def manifest(self) -> PlatformManifest:
        return self.adapter.manifest

    @property
    def capabilities(self) -> Capabilities:
        return self.adapter.manifest.capabilities


class ConnectionRegistry:
    """Those that are connected at present. Messages for the others wait."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._up: dict[Place, PlatformConnection] = {}
        self._buckets: dict[Place, RateLimiter] = {}

    def up(self, adapter: Adapter, doubt: Callable[[], None] = lambda: None) -> None:
        place = (adapter.manifest.name, adapter.account)
        # What was sent before a reconnection still counts.
        can = adapter.manifest.capabilities
        fresh = RateLimiter(can.per_chat, can.per_platform, self._clock)
        buckets = self._buckets.setdefault(place, fresh)
        self._up[place] = PlatformConnection(adapter, buckets, doubt)

    def down(self, adapter: Adapter) -> None:
        self._up.pop((adapter.manifest.name, adapter.account), None)

    def places(self) -> tuple[Place, ...]:
        """Where messages can go now."""
        return tuple(place for place, line in self._up.items() if line.manifest.chats)

    def get(self, platform: str, account: str = "") -> PlatformConnection | None:
        return self._up.get((platform, account))

    def of(self, target: ChatTarget) -> PlatformConnection | None:
        """The line of a target; one without an account takes the first of its platform."""
        if line := self._up.get((target.platform, target.account)):
            return line
        return next((each for each in self if each.manifest.name == target.platform), None)

    def __iter__(self) -> Iterator[PlatformConnection]:
        return iter(tuple(self._up.values()))


def lane(target: ChatTarget) -> str:
    """What keeps the order of a chat's messages."""
    return msgspec.json.encode(
        [target.platform, target.account, target.chat_id, target.thread_id]
    ).decode()


_targets, _messages = msgspec.json.Decoder(ChatTarget), msgspec.json.Decoder(OutgoingMessage)


def target_of(data: bytes) -> ChatTarget:
    return _targets.decode(data)


def message_of(data: bytes) -> OutgoingMessage:
    return _messages.decode(data)


# The one way a message goes out: kept, taken, sent, noted. Whoever dies in between leaves a row
# that says where, and the next start asks the platform.

log = logging.getLogger(__name__)

T = TypeVar("T")
Mirroring = Callable[[ChatTarget, str, str], Awaitable[object]]
"""Where a message went, its text, and its own name."""

MOST_ATTEMPTS = 30
MOST_EDITS = 8
"""Tries to change a message, a minute or two; then the answer comes as a message of its own."""
GROWING = ("stream", "progress")
"""Kinds that are shown before they are finished."""
LONGEST_PAUSE = 300.0
"""Seconds between two attempts."""
LONGEST_CALL = 300.0
"""Seconds that a platform gets for one message, files and all."""
LONGEST_QUESTION = 60.0
LONGEST_DOUBT = 900.0
"""Seconds after which a message is asked about though its sender may live: on another machine."""


class OutboxSender:
    def __init__(
        self, outbox: OutboxQueue, lines: ConnectionRegistry, clock: Clock, owner: LeaseOwner
    ) -> None:
        self._outbox, self._lines, self._clock, self._owner = outbox, lines, clock, owner
        self.under_way: set[int] = set()
        """Rows that this process sends at the moment."""
        self._showing: set[str] = set()
        """The keys of those whose number is not known yet."""
        self.mirror: Mirroring | None = None
        """Hears of what is to be in the conversation of its chat, before it is noted as sent: after
        a crash in between it is asked about, and mirrored then."""

    async def deliver(self, row: OutboxRow) -> str:
        """Send a pending row; the platform's name for it, "" when it is not there."""
        line, opened = self._lines.get(row.platform, row.account), await self._opened(row)
        if line is None or opened is None or row.id in self.under_way:
            return ""
        target, message = opened
        self.under_way.add(row.id)
        try:
            await line.buckets.acquire(target.chat_id)
            if row.platform_id:
                await _called(line.adapter.edit(target, row.platform_id, message))
                await self._outbox.mark_sent(row.id, row.platform_id, self._now())
                return row.platform_id
            by, newest = self._owner.name, _newest(line, target)
            if not await self._outbox.mark_sending(row.id, newest, by=by, now=self._now()):
                return ""  # somebody else has it
            found = await _called(line.adapter.send(target, message, row.key))
            await self._sent(row, found)
            return found
        except AdapterError as error:
            return await self._failed(row, line, target, error)
        finally:
            self.under_way.discard(row.id)

    async def show(self, draft: OutboxItem) -> OutboxRow | None:
        """Send a message that is not over yet: it is changed as its text goes on. None when it is
        not there."""
        target, message = target_of(draft.target), message_of(draft.body)
        line = self._lines.get(draft.platform, draft.account)
        if line is None:
            return None
        await line.buckets.acquire(target.chat_id)
        by, newest = self._owner.name, _newest(line, target)
        self._showing.add(draft.key)
        try:
            # Nobody may see it waiting: it would be sent without us, or hold up what comes after.
            if not await self._outbox.enqueue_sending(draft, newest, by=by, now=self._now()):
                return None
            row = await self._outbox.get(draft.key)
            if row is None:
                return None
            try:
                found = await _called(line.adapter.send(target, message, row.key))
                await self._outbox.mark_streaming(row.id, found)
            except AdapterError as error:
                if not await self._failed(row, line, target, error):
                    return None
        finally:
            self._showing.discard(draft.key)
        return await self._outbox.get(draft.key)

    async def _failed(
        self, row: OutboxRow, line: PlatformConnection, target: ChatTarget, error: AdapterError
    ) -> str:
        if isinstance(error, NotConnected | CredentialsRefused | SendUnsure):
            line.doubt()
        match error:
            case SendUnsure() if row.platform_id:  # an edit may be made twice
                await self._again(row, str(error), 1.0)
            case SendUnsure():
                return await self.settle(row) or ""
            case _ if row.kind in GROWING and not row.platform_id:
                # The answer comes anyway; only that it is not seen growing.
                await self._outbox.give_up(row.id, "failed", str(error))
            case SendLater() | NotConnected() if row.platform_id and row.attempts >= MOST_EDITS:
                await self._sent_anew(row, str(error))
            case SendLater():
                line.buckets.pause(target.chat_id, error.seconds)
                await self._again(row, str(error), error.seconds)
            case NotConnected() | CredentialsRefused():
                # The supervisor tells what is wrong; what is to be said waits for it.
                await self._again(row, str(error), 1.0)
            case _ if row.platform_id:
                await self._sent_anew(row, str(error))
            case _:
                log.warning("a message to %s cannot be sent: %s", row.platform, error)
                await self._outbox.give_up(row.id, "failed", str(error))
        return ""

    async def doubtful(self, rows: tuple[OutboxRow, ...]) -> list[OutboxRow]:
        """Of rows that are being sent those that nobody sends any more."""
        others = tuple({row.error for row in rows} - {"", self._owner.name})
        dead = await asyncio.to_thread(self._owner.dead, others) if others else ()
        gone, old = {"", self._owner.name, *dead}, self._now() - LONGEST_DOUBT
        return [
            row
            for row in rows
            if row.id not in self.under_way
            and row.key not in self._showing
            and (row.error in gone or row.due_at < old)
        ]

    async def settle(self, row: OutboxRow) -> str | None:
        """Find out whether a message in doubt is there: it is noted, sent again, or given up. Never
        is it sent twice. None: the platform cannot be asked now."""
        line = self._lines.get(row.platform, row.account)
        if line is None:
            return None
        now = await self._outbox.get(row.key)
        if now is None or now.state != "sending":
            return now.platform_id if now else ""  # whoever sent it has heard of it meanwhile
        opened = await self._opened(row)
        if opened is None:
            return ""
        target, message = opened
        try:
            found = await _called(
                line.adapter.was_delivered(row, target, message), seconds=LONGEST_QUESTION
            )
        except (DeliveryUnknown, SendRefused) as error:
            log.error("nobody knows whether a message to %s is there: %s", row.platform, error)
            await self._outbox.give_up(row.id, "uncertain", str(error))
            return ""
        except AdapterError as error:
            log.info("%s cannot be asked now: %s", row.platform, error)
            line.doubt()
            return None  # it stays in doubt until the platform can be asked
        await self._found(row, found)
        return found or ""

    async def _opened(self, row: OutboxRow) -> tuple[ChatTarget, OutgoingMessage] | None:
        """None for a row that nobody will ever understand: it is given up, else it would hold up
        those behind it for ever."""
        try:
            return target_of(row.target), message_of(row.body)
        except msgspec.DecodeError as error:
            log.error("message %d to %s cannot be read: %s", row.id, row.platform, error)
            await self._outbox.give_up(row.id, "failed", "it cannot be read")
            return None

    async def _found(self, row: OutboxRow, found: str | None) -> None:
        if row.kind in GROWING:
            # Whoever let it grow is gone. The answer takes it over, unless that is kept already.
            over = row.kind == "progress" or await self._outbox.get(f"reply:{row.inbox_id}:0")
            if found is None:
                await self._outbox.give_up(row.id, "failed", "it was not there")
            elif over:
                await self._outbox.mark_sent(row.id, found, self._now())
            else:
                await self._outbox.mark_streaming(row.id, found)
        elif found is None:
            await self._again(row, "it was not there", 0.0)
        else:
            await self._sent(row, found)

    async def _sent(self, row: OutboxRow, found: str) -> None:
        if self.mirror is not None and (text := message_of(row.body).mirrored):
            await self.mirror(target_of(row.target), text, row.key)
        await self._outbox.mark_sent(row.id, found, self._now())

    async def _sent_anew(self, row: OutboxRow, error: str) -> None:
        """It cannot be changed any more: the answer comes as a message of its own. What is no
        answer stays as it was shown."""
        log.warning("%s: a message cannot be changed: %s", row.platform, error)
        if row.kind in GROWING:
            await self._outbox.mark_sent(row.id, row.platform_id, self._now())
        else:
            await self._outbox.retry(row.id, self._now(), error, resend=True)

    async def _again(self, row: OutboxRow, error: str, seconds: float) -> None:
        if row.attempts >= MOST_ATTEMPTS:
            log.error("a message to %s is given up: %s", row.platform, error)
            await self._outbox.give_up(row.id, "failed", error)
            return
        pause = min(max(seconds, 0.5 * 2 ** min(row.attempts, 12)), LONGEST_PAUSE)
        spread = pause * random.uniform(1.0, 1.2) if row.attempts else seconds
        await self._outbox.retry(row.id, self._now() + spread, error)

    def _now(self) -> float:
        return self._clock.now().timestamp()


async def _called(call: Awaitable[T], seconds: float = LONGEST_CALL) -> T:
    """What a platform answers. A fault of its library, or no answer, leaves us unsure: it must not
    stop all sending."""
    try:
        async with asyncio.timeout(seconds):
            return await call
    except HermesError:
        raise
    except TimeoutError as error:
        raise SendUnsure("the platform did not answer in time") from error
    except Exception as error:  # whatever a library raises
        log.exception("a call of a platform failed in an unknown way")
        raise SendUnsure(f"unexpected {type(error).__name__}") from error


def _newest(line: PlatformConnection, target: ChatTarget) -> str:
    newest = getattr(line.adapter, "newest", None)
    return newest(target) if newest else ""


# Sends what is kept for sending: the lanes side by side, each in its order.

IDLE = 5.0
"""Seconds between two looks when nobody says that there is something to send."""
SOON = 0.5
"""The same, when something may be due again."""
TROUBLE = 30.0
AT_A_TIME = 100

Work = Callable[[OutboxRow], Awaitable[None]]

NATURAL = (800, 2500)
"""Milliseconds a person needs between two messages."""


def human_pause(settings: HumanDelaySettings) -> Callable[[], float]:
    """Seconds between the parts of one answer, as `human_delay` has them."""
    if settings.mode == "off":
        return lambda: 0.0
    custom = (settings.min_ms, max(settings.min_ms, settings.max_ms))
    least, most = NATURAL if settings.mode == "natural" else custom
    return lambda: random.uniform(least, most) / 1000


class OutboxLoop:
    def __init__(
        self,
        outbox: OutboxQueue,
        lines: ConnectionRegistry,
        courier: OutboxSender,
        clock: Clock,
        pause: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`pause` is waited before each further part of an answer."""
        self._outbox, self._lines, self._courier, self._clock = outbox, lines, courier, clock
        self._pause = pause
        self._wake = asyncio.Event()
        self._sending: dict[str, asyncio.Task[None]] = {}
        """By lane."""
        self._ask_again: dict[int, float] = {}
        """When a platform is asked again about a row that it could not be asked about."""
        self._trouble_until = 0.0
        """Something could not be sent, so that it may soon be due again."""

    def wake(self) -> None:
        """There is something to send."""
        self._wake.set()

    async def run(self) -> None:
        """Until it is cancelled. A message on its way is finished first."""
        try:
            while True:
                self._wake.clear()
                try:
                    pause = await self._round()
                except StoreError as error:
                    log.error("the outbox cannot be read: %s", error)
                    pause = IDLE
                try:
                    async with asyncio.timeout(pause):
                        await self._wake.wait()
                except TimeoutError:
                    continue
        finally:
            if self._sending:
                await asyncio.wait(set(self._sending.values()), timeout=IDLE)

    async def _round(self) -> float:
        """Start what is due; how long there is nothing else to do."""
        places = self._lines.places()
        if not places:
            return IDLE
        await self._ask(places)
        now = self._clock.now().timestamp()
        # Lanes at work may have all the first rows; others must not wait for them.
        rows = await self._outbox.due(places, now, limit=AT_A_TIME + len(self._sending))
        for row in rows:
            self._start(row, self._deliver)
        return SOON if rows or self._clock.monotonic() < self._trouble_until else IDLE

    async def _ask(self, places: tuple[Place, ...]) -> None:
        """Begin to ask about rows in doubt."""
        rows = await self._courier.doubtful(await self._outbox.in_doubt(places))
        now, before = self._clock.monotonic(), self._ask_again
        self._ask_again = {row.id: before[row.id] for row in rows if row.id in before}
        for row in rows:
            if self._ask_again.get(row.id, now) <= now:
                self._start(row, self._settle)

    def _start(self, row: OutboxRow, work: Work) -> None:
        if row.lane not in self._sending:
            self._sending[row.lane] = asyncio.create_task(self._watched(row, work))

    async def settle(self, places: tuple[Place, ...], seconds: float) -> bool:
        """Ask the platforms about messages whose sender was gone before it heard of them. False
        when one could not be asked in time."""
        try:
            async with asyncio.timeout(seconds):
                rows = await self._courier.doubtful(await self._outbox.in_doubt(places))
                found = [await self._courier.settle(row) for row in rows]
        except TimeoutError:
            return False
        return None not in found

    async def _settle(self, row: OutboxRow) -> None:
        now = self._clock.monotonic()
        if await self._courier.settle(row) is None:
            self._ask_again[row.id] = now + IDLE
        self._trouble_until = now + TROUBLE

    async def _deliver(self, row: OutboxRow) -> None:
        if row.kind == "reply" and not row.key.endswith(":0"):
            await self._clock.sleep(self._pause())
        if not await self._courier.deliver(row):
            self._trouble_until = self._clock.monotonic() + TROUBLE

    async def _watched(self, row: OutboxRow, work: Work) -> None:
        """Whatever happens to one message, the others go on."""
        try:
            await work(row)
        except StoreError as error:
            log.error("what became of a message cannot be kept: %s", error)
            await self._clock.sleep(1.0)
        except Exception:  # a row that cannot be dealt with must not stop all sending
            log.exception("a message to %s cannot be dealt with", row.platform)
            await self._clock.sleep(IDLE)
        finally:
            self._sending.pop(row.lane, None)
            self._wake.set()


# From what the agent says to messages that are kept for sending.

AT_ONCE = "!"
"""The lane of answers to commands and of questions."""


class OutgoingMeta(msgspec.Struct, frozen=True):
    """Everything about a message but its text."""

    key: str
    """Parts of a long text are `key:0`, `key:1`, …"""
    target: ChatTarget
    kind: str = "reply"
    inbox_id: int = 0
    reply_to: str = ""
    reply_to_all: bool = False
    """Every part quotes the message, not only the first."""
    buttons: tuple[Button, ...] = ()
    silent: bool = False
    due_at: float = 0.0
    beside: str = ""
    """A lane of its own: does not wait for what is still being shown bit by bit."""
    mirrored: str = ""
    """See `OutgoingMessage`; the first part has it."""


def drafts(
    text: str, envelope: OutgoingMeta, capabilities: Capabilities, files: Sequence[Media] = ()
) -> tuple[OutboxItem, ...]:
    """As many messages as the text needs on its platform; at least one when it has any content."""
    parts = compose(text, capabilities, files)
    last = len(parts) - 1
    return tuple(
        draft(
            msgspec.structs.replace(
                part,
                reply_to=envelope.reply_to if number == 0 or envelope.reply_to_all else "",
                buttons=envelope.buttons if number == last else (),
                silent=envelope.silent,
                mirrored=envelope.mirrored if number == 0 else "",
            ),
            envelope,
            number,
        )
        for number, part in enumerate(parts)
    )


def draft(message: OutgoingMessage, envelope: OutgoingMeta, number: int = 0) -> OutboxItem:
    target = envelope.target
    return OutboxItem(
        key=f"{envelope.key}:{number}",
        platform=target.platform,
        account=target.account,
        target=msgspec.json.encode(target),
        lane=f"{lane(target)}{envelope.beside}",
        body=msgspec.json.encode(message),
        kind=envelope.kind,
        inbox_id=envelope.inbox_id,
        due_at=envelope.due_at,
    )


# Files that a text names by a tag `MEDIA:/absolute/path`.

MAX_FILES = 20
"""Files of one message."""
MAX_WORDS = 12
"""Words of a path with spaces. Each further word costs one look into the workplace."""
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
    """The line from the path on."""

    @property
    def paths(self) -> list[str]:
        """What the path may be, the longest first: it may contain spaces, and text may follow."""
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
"""From what people write to a target; raises `UsageError`."""


class OutboxService:
    """`core.ports.Outbox`. A message is kept at once and sent when its platform is there."""

    def __init__(
        self,
        outbox: OutboxQueue,
        find: FindTarget,
        manifests: dict[str, PlatformManifest],
        clock: Clock,
        *,
        known: Callable[[], list[str]],
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        """`manifests` are those of the platforms that are set up; `known` lists the targets."""
        self.learn: Callable[[str], Awaitable[object]] | None = None
        """Asks the platform of a target for the chats it has now."""
        self._outbox, self._find, self._manifests = outbox, find, manifests
        self._clock = clock
        self._known, self._wake = known, wake

    async def find(self, target: str) -> ChatTarget:
        """Raises `UsageError` for a target that is not there."""
        try:
            return self._find(target)
        except UsageError:
            if self.learn is None:
                raise
        await self.learn(target)  # the chat may be newer than what we know
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
        """What `send_message` sends is mirrored in the conversation of the chat; see `courier`."""
        place = await self.find(target)
        manifest = self._manifests.get(place.platform)
        if manifest is None or not manifest.chats:
            raise UsageError(
                f"{place.platform} is not set up",
                hint=f"`hermes gateway setup {place.platform}` does that",
            )
        name = key or f"{kind}:{secrets.token_hex(8)}"
        envelope = OutgoingMeta(name, place, kind, mirrored=text if kind == "send" else "")
        files: tuple[Media, ...] = ()
        if attachments is not None:
            text, files = await attach_files(text, attachments, manifest.capabilities)
        made = drafts(text, envelope, manifest.capabilities, files)
        rows = await self._outbox.enqueue(made, self._clock.now().timestamp())
        if not rows:
            raise UsageError("there is nothing in the message")
        self._wake()
        return name

    async def delivered(self, delivery: str) -> str:
        row = await self._outbox.get(f"{delivery}:0")
        if row is None:
            raise UsageError(f"there is no delivery {delivery}")
        # Parts of one message are sent in their order: when one fails, the rest is of no use.
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
        return self._known()
