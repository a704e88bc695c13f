"""What a platform is to the gateway. An adapter speaks one wire and nothing else: order, retries,
rate limits, splitting, formatting, streaming, authorisation and commands are the gateway's."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

import msgspec

from hermes.core.errors import HermesError
from hermes.store.records import OutboxRow

# What comes in from a platform and what goes out to it.

ChatType = Literal["dm", "group", "channel"]
MediaKind = Literal["image", "voice", "audio", "video", "document"]


class SessionSource(msgspec.Struct, frozen=True):
    """Where a message comes from and who wrote it, as the platform itself says. Nothing in here is
    ever taken from the text of a message."""

    platform: str
    chat_id: str
    """Under which its conversation is known."""
    chat_type: ChatType = "dm"
    user_id: str = ""
    user_name: str = ""
    chat_name: str = ""
    thread_id: str = ""
    account: str = ""
    """Which of our accounts got it; "" when there is only one."""
    is_bot: bool = False
    """Another program wrote it."""
    roles: tuple[str, ...] = ()
    """Ids of the roles the platform says the writer has there, where it has such a thing."""
    chat_now: str = ""
    """The id that the chat has now, when the platform gave it another one."""


class Media(msgspec.Struct, frozen=True):
    """A file that came with a message, or is to go with one."""

    kind: MediaKind
    name: str = ""
    mime: str = ""
    size: int = 0
    """Bytes, as far as known."""
    ref: str = ""
    """How the adapter finds it on the platform."""
    path: str = ""
    """Where it is on this machine, once it is."""


class MessageEvent(msgspec.Struct, frozen=True):
    source: SessionSource
    message_id: str
    """The platform's name for it, unique in the account: one that comes twice is taken once."""
    text: str = ""
    media: tuple[Media, ...] = ()
    reply_to_id: str = ""
    reply_to_text: str = ""
    addressed: bool = False
    """It mentions us, answers us, or is in a private chat."""
    sent_at: float = 0.0
    button: str = ""
    """The data of the button that was pressed, when it is no message."""


class Button(msgspec.Struct, frozen=True):
    label: str
    data: str
    """Comes back in `MessageEvent.button`; at most 60 bytes of ASCII."""


class OutgoingMessage(msgspec.Struct, frozen=True):
    """One message that fits the platform, in its own format."""

    text: str = ""
    """In the dialect of the manifest."""
    plain: str = ""
    """The same without formatting, for when the platform refuses `text`."""
    media: tuple[Media, ...] = ()
    buttons: tuple[Button, ...] = ()
    reply_to: str = ""
    """The message it answers; "" for none."""
    silent: bool = False
    """Nobody's telephone rings."""
    subject: str = ""
    """Of mail; "" keeps that of the thread."""
    mirrored: str = ""
    """What the conversation of the chat is to know of it once it is there; no adapter shows it."""


class ChatTarget(msgspec.Struct, frozen=True):
    """Where a message goes."""

    platform: str
    chat_id: str
    thread_id: str = ""
    account: str = ""


Dialect = Literal["plain", "markdown", "discord", "telegram", "slack", "matrix", "email"]
"""How text is formatted: `telegram` and `matrix` are HTML, `slack` is mrkdwn, the rest Markdown."""

ALL_MEDIA: tuple[str, ...] = get_args(MediaKind)

Receive = Callable[[MessageEvent], Awaitable[bool]]
"""Gives a message to the gateway. True once it is kept: only then may the adapter tell the platform
that it has it. False when it cannot be kept now; it must come again."""


class RateLimit(msgspec.Struct, frozen=True):
    """At most `count` calls in `seconds`."""

    count: int
    seconds: float


class Capabilities(msgspec.Struct, frozen=True):
    max_chars: int
    """Of one message, in the units the platform counts (see `counts`)."""
    counts: Literal["characters", "utf16", "bytes"] = "characters"
    dialect: Dialect = "plain"
    edits: bool = False
    typing: bool = False
    reactions: bool = False
    threads: bool = False
    buttons: bool = False
    media_in: tuple[str, ...] = ()
    media_out: tuple[str, ...] = ()
    max_upload_bytes: int = 20_000_000
    checks_delivery: bool = False
    """`was_delivered` can tell whether a message is there, or sending twice shows one message."""
    per_chat: RateLimit = RateLimit(20, 60.0)
    per_platform: RateLimit = RateLimit(30, 1.0)
    """Shared by sends and edits."""


class CredentialField(msgspec.Struct, frozen=True):
    """A variable the platform needs, asked for by `hermes gateway setup`."""

    name: str
    label: str
    help: str = ""
    secret: bool = True
    required: bool = True
    rare: bool = False
    """Hardly anybody needs it: asked for only with `--more`."""


class UserIdFormat(msgspec.Struct, frozen=True):
    """What the platform calls its users; names that are shown are none."""

    pattern: str
    """Expression for a whole id, as it is compared."""
    like: str
    """Behind the words "an id is"."""


ANY_ID = UserIdFormat(".+", "what the platform calls a user")


class PlatformManifest(msgspec.Struct, frozen=True):
    name: str
    label: str
    """As people write it: `Telegram`."""
    adapter: str
    """`module:Class`, imported when the platform is configured."""
    capabilities: Capabilities
    credentials: tuple[CredentialField, ...] = ()
    needs: tuple[str, ...] = ()
    """Modules of its library; they are in the extra of the same name, see `hermes.util.extras`."""
    env_prefix: str = ""
    """`TELEGRAM` of `TELEGRAM_ALLOWED_USERS`."""
    home_variable: str = ""
    """When it is not `<env_prefix>_HOME_CHANNEL`."""
    users: UserIdFormat = ANY_ID
    """`hermes gateway setup` refuses what can be no user."""
    chats: bool = True
    """False for what has no chats to send to, such as the API server."""
    knows_groups: bool = False
    """The adapter itself decides which messages of groups are for us; else `kit.mentions` does."""
    checks_callers: bool = False
    """It knows by itself who calls, by a signature say: no allowlist, no pairing."""
    patience: float = 0.0
    """Seconds a question to people there waits at least, where nobody looks every minute."""
    setup_help: str = ""


class AdapterContext(msgspec.Struct, frozen=True):
    """What an adapter is made with."""

    manifest: PlatformManifest
    variable: Callable[[str], str | None]
    """A variable of .env or of the process, such as TELEGRAM_BOT_TOKEN."""
    settings: Any
    """The section of config.yaml that has the platform's name, if there is one."""
    connection: Any
    """`platforms.<name>` of config.yaml."""
    cache: Path
    """Where media goes."""
    state: Path
    """A folder of its own for what must survive a restart (sync tokens, keys)."""
    locks: Path
    """Where token locks are; shared by all profiles of the user."""
    commands: Sequence[tuple[str, str]] = ()
    """Slash commands and what they do, for the platform's own menu."""
    extra: Mapping[str, Any] = {}
    unset: Callable[[str], tuple[str, ...]] = lambda _name: ()
    """What a credential that counts as missing refers to by `${NAME}`, and is not set."""


class ChatInfo(msgspec.Struct, frozen=True):
    """A chat of the directory."""

    chat_id: str
    name: str
    chat_type: ChatType = "dm"
    thread_id: str = ""


class AdapterError(HermesError):
    """The platform did not do what was asked."""


class NotConnected(AdapterError):
    """The connection is gone; the supervisor makes a new one."""


class CredentialsRefused(AdapterError):
    """The platform does not accept us. Trying again does not help."""


class SendRefused(AdapterError):
    """The message will never be there: the chat is gone, we may not write, it is too large."""


class SendLater(AdapterError):
    """The message is surely not there; it may be tried again."""

    def __init__(self, message: str, *, seconds: float = 1.0) -> None:
        super().__init__(message)
        self.seconds = seconds


class SendUnsure(AdapterError):
    """Nobody knows whether the message is there: the connection broke after it was sent."""


class DeliveryUnknown(AdapterError):
    """The platform cannot tell whether a message was sent."""


class Adapter(Protocol):
    """One platform. Made with an `AdapterContext`; nothing happens before `connect`."""

    manifest: PlatformManifest
    account: str
    """The account's name on the platform once connected, when several may be; else ""."""
    address: str
    """Where it listens, once it does; "" when nobody calls it."""

    async def connect(self, receive: Receive) -> None:
        """Returns when messages flow. Takes the lock of its token first. Raises
        `CredentialsRefused` or `NotConnected`."""
        ...

    async def drain(self, seconds: float) -> None:
        """Before the gateway ends: take nothing new, and give turns that pass neither inbox nor
        outbox so long to end; then stop them. Called again with 0 when somebody is in a hurry."""
        ...

    async def disconnect(self) -> None:
        """Let go of everything; may be called again, also when not connected."""
        ...

    async def probe(self) -> None:
        """Ask the platform something cheap. Raises `AdapterError` when messages would not flow."""
        ...

    async def send(self, target: ChatTarget, message: OutgoingMessage, key: str) -> str:
        """The platform's name for the message. `key` is unique to it, for platforms that can
        suppress a second sending. Raises `SendRefused`, `SendLater`, `SendUnsure`."""
        ...

    async def edit(self, target: ChatTarget, message_id: str, message: OutgoingMessage) -> None:
        """Same errors as `send`; an edit that changes nothing is no error."""
        ...

    async def was_delivered(
        self, row: OutboxRow, target: ChatTarget, message: OutgoingMessage
    ) -> str | None:
        """Whether a message in doubt is there: the platform's name for it, or None when it surely
        is not, or when sending it again shows only one. Raises `DeliveryUnknown`."""
        ...

    async def typing(self, target: ChatTarget) -> None:
        """Show that we write, for a few seconds."""
        ...

    async def react(
        self, target: ChatTarget, message_id: str, emoji: str, *, on: bool = True
    ) -> None: ...

    async def fetch(self, media: Media, limit: int) -> Media:
        """The file in the cache, at most `limit` bytes. Raises `AdapterError`."""
        ...

    async def chats(self) -> Sequence[ChatInfo]:
        """Chats it knows, for the directory; as far as the platform tells."""
        ...


class BaseAdapter:
    """What an adapter that cannot do these things does."""

    account = address = ""

    def __init__(self, context: AdapterContext) -> None:
        self.context, self.manifest = context, context.manifest

    async def drain(self, seconds: float) -> None:
        """It has no turns of its own."""

    async def typing(self, target: ChatTarget) -> None:
        """Nothing to show."""

    async def react(
        self, target: ChatTarget, message_id: str, emoji: str, *, on: bool = True
    ) -> None:
        """Nothing to show."""

    async def edit(self, target: ChatTarget, message_id: str, message: OutgoingMessage) -> None:  # noqa: ARG002 - the signature is that of Adapter
        raise SendRefused(f"{self.manifest.label} has no edits")

    async def was_delivered(
        self,
        row: OutboxRow,  # noqa: ARG002 - likewise
        target: ChatTarget,  # noqa: ARG002 - likewise
        message: OutgoingMessage,  # noqa: ARG002 - likewise
    ) -> str | None:
        raise DeliveryUnknown(f"{self.manifest.label} cannot tell whether a message was sent")

    async def fetch(self, media: Media, limit: int) -> Media:  # noqa: ARG002 - likewise
        raise AdapterError(f"{self.manifest.label} has no files")

    async def chats(self) -> Sequence[ChatInfo]:
        return ()
