"""The contract between a platform adapter and the gateway.

An adapter only translates between the platform's protocol and these types. Ordering, retries, rate
limits, splitting, formatting, streaming, authorization and commands belong to the gateway.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from hermes.config.loader import Variable
from hermes.config.settings.base import PlatformBehaviour, PlatformConnectionSettings
from hermes.config.settings.platforms import Platform
from hermes.core.errors import HermesError
from hermes.util.extras import Extra

ChatType = Literal["dm", "group", "channel"]
MediaKind = Literal["image", "voice", "audio", "video", "document"]


class SessionSource(msgspec.Struct, frozen=True):
    """Where a message comes from and who wrote it, as the platform reports it. No field is ever
    taken from the text of a message."""

    platform: str
    chat_id: str  #: The id that the conversation is stored under.
    chat_type: ChatType = "dm"
    user_id: str = ""
    user_name: str = ""
    chat_name: str = ""
    thread_id: str = ""
    account: str = ""  #: The one of our accounts that received it; "" when there is only one.
    is_bot: bool = False  #: The writer is another program.
    proven: bool = True
    """False if the platform cannot confirm that `user_id` wrote it; the writer is a guest then."""
    roles: tuple[str, ...] = ()
    """Ids of the writer's roles in the chat, on platforms that have roles."""
    chat_now: str = ""
    """The current id of the chat, when the platform replaced the one in `chat_id`."""

    @property
    def target(self) -> "ChatTarget":
        """The chat, as a place to send to."""
        return ChatTarget(self.platform, self.chat_id, self.thread_id, self.account)


class Media(msgspec.Struct, frozen=True):
    """A file of an incoming or outgoing message."""

    kind: MediaKind
    name: str = ""
    mime: str = ""
    size: int = 0  #: Bytes; 0 when unknown.
    ref: str = ""  #: The adapter's reference to the file on the platform.
    path: str = ""  #: Path on this machine, once the file is there.


class MessageEvent(msgspec.Struct, frozen=True):
    source: SessionSource
    message_id: str
    """The platform's id, unique in the account. A second event with the same id is ignored."""
    text: str = ""
    media: tuple[Media, ...] = ()
    reply_to_id: str = ""
    reply_to_text: str = ""
    addressed: bool = False  #: The message mentions us, replies to us, or is in a private chat.
    sent_at: float = 0.0
    button: str = ""  #: The data of the pressed button; "" for a message.


class Button(msgspec.Struct, frozen=True):
    label: str
    data: str  #: Returned in `MessageEvent.button`; at most 60 bytes of ASCII.


class OutgoingMessage(msgspec.Struct, frozen=True):
    """One message within the platform's limits, in its own format."""

    text: str = ""  #: Text in the dialect of the manifest.
    plain: str = ""  #: The same text without formatting, used when the platform rejects `text`.
    media: tuple[Media, ...] = ()
    buttons: tuple[Button, ...] = ()
    reply_to: str = ""  #: Id of the message it replies to; "" for none.
    silent: bool = False  #: Send without a notification sound.
    subject: str = ""  #: Subject of a mail; "" keeps that of the thread.
    mirrored: str = ""
    """What the chat's conversation records once the message is delivered. Adapters do not show it.
    """


class ChatTarget(msgspec.Struct, frozen=True):
    """The chat a message is sent to."""

    platform: str
    chat_id: str
    thread_id: str = ""
    account: str = ""


TRUE_WORDS = frozenset({"true", "1", "yes", "on"})
FALSE_WORDS = frozenset({"false", "0", "no", "off"})
ALL_MEDIA: tuple[str, ...] = get_args(MediaKind)
WEB_SCHEMES = ("http://", "https://", "mailto:", "tel:")

Receive = Callable[[MessageEvent], Awaitable[bool]]
"""Passes a message to the gateway. True: the message is stored, so the adapter may acknowledge it
to the platform. False: it cannot be stored now and must be delivered again."""


def _quote_lines(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


class MessageDialect(msgspec.Struct, frozen=True, kw_only=True):
    """How a platform writes each element of Markdown. By default: as plain text.

    Functions get code and addresses as they are, and all other text already rendered.
    """

    text: Callable[[str], str] = str  #: Escapes what would be markup.
    strong: tuple[str, str] = ("", "")  #: Before and after bold text.
    em: tuple[str, str] = ("", "")  #: Before and after italic text.
    s: tuple[str, str] = ("", "")  #: Before and after struck text.
    code: Callable[[str], str] = str
    link: Callable[[str, str], str] = "{} ({})".format  #: Takes the label and the address.
    url: Callable[[str], str] = str  #: An address without a label.
    schemes: tuple[str, ...] = WEB_SCHEMES  #: Links to other addresses are written as text.
    line_break: str = "\n"
    paragraph: Callable[[str], str] = str
    """Also escapes marks that count only at the beginning of a line."""
    bare_paragraphs: bool = False
    """A paragraph that is alone, or first in the item of a list, is written without `paragraph`."""
    fence: Callable[[str, str], str] = lambda _language, code: code
    """Takes the language, "" if it is unknown, and the code."""
    heading: Callable[[int, str], str] = lambda _level, label: label
    quote: Callable[[str], str] = _quote_lines
    quotes_nest: bool = True
    bullet: str = "- "
    listing: Callable[[int | None, Sequence[str]], str] | None = None
    """Takes the first number, None for bullets, and the items; None for lines with `bullet`."""
    table: Callable[[Sequence[Sequence[str]]], str] | None = None
    """Takes the rows, the header first; None for a `fence` with aligned columns."""
    rule: str = "──────────"
    between: str = "\n\n"  #: Between two blocks.


class RateLimit(msgspec.Struct, frozen=True):
    """At most `count` calls in `seconds`."""

    count: int
    seconds: float


class Capabilities(msgspec.Struct, frozen=True):
    max_chars: int  #: Limit of one message, in the units of `counts`.
    counts: Literal["characters", "utf16", "bytes"] = "characters"
    dialect: MessageDialect | Literal["plain", "markdown"] = "plain"
    edits: bool = False
    typing: bool = False
    reactions: bool = False
    threads: bool = False
    buttons: bool = False
    media_in: tuple[str, ...] = ()
    media_out: tuple[str, ...] = ()
    max_upload_bytes: int = 20_000_000
    checks_delivery: bool = False
    """`was_delivered` gives a definite answer, or sending twice shows one message."""
    per_chat: RateLimit = RateLimit(20, 60.0)
    per_platform: RateLimit = RateLimit(30, 1.0)  #: Shared by sends and edits.


class CredentialField(msgspec.Struct, frozen=True):
    """An environment variable of the platform, requested by `hermes gateway setup`."""

    name: str
    label: str
    help: str = ""
    secret: bool = True
    required: bool = True
    rare: bool = False  #: Rarely needed: requested only with `--more`.


class UserIdFormat(msgspec.Struct, frozen=True):
    """The format of user ids on the platform. Display names are not ids."""

    pattern: str  #: Regular expression that matches a whole id.
    like: str  #: Example for people; completes the sentence "an id is …".
    ignore_case: bool = False  #: The platform itself ignores the case of ids.
    personal: bool = False
    """Ids are phone numbers or similar, which `privacy.redact_pii` hides from the model."""


class AddressFormat(msgspec.Struct, frozen=True):
    """How targets such as `telegram:-100123:17` name a chat and a thread of the platform."""

    thread_mark: str = ":"
    """Stands between the chat and the thread; "" when chats have no threads that people name. All
    after its first character belongs to the thread."""
    names: bool = True  #: Chats may be written by name: `#ops`, `@news`, `home/#ops`.
    public_names: str = ""
    """Regular expression of names that the platform resolves itself, also for chats that have
    never written."""


ANY_ID = UserIdFormat(".+", "what the platform calls a user")


class PlatformManifest(msgspec.Struct, frozen=True):
    name: str
    label: str  #: Display name: `Telegram`.
    adapter: str | Callable[["AdapterContext"], "Adapter"]
    """The class of the adapter, or `module:Class`, imported when the platform is configured."""
    capabilities: Capabilities
    credentials: tuple[CredentialField, ...] = ()
    needs: tuple[str, ...] = ()
    """Modules of its library. For a bundled platform, the extra of its name installs them."""
    env_prefix: str = ""  #: `TELEGRAM` of `TELEGRAM_ALLOWED_USERS`.
    home_variable: str = ""  #: When it is not `<env_prefix>_HOME_CHANNEL`.
    users: UserIdFormat = ANY_ID  #: `hermes gateway setup` rejects ids that do not match.
    addresses: AddressFormat = AddressFormat()
    chats: bool = True  #: False for platforms without chats to send to, such as the API server.
    knows_groups: bool = False
    """The adapter itself filters group messages; otherwise the gateway applies `GroupRules`."""
    checks_callers: bool = False
    """The platform authenticates its callers, by a signature for example: no allowlist, no pairing.
    """
    patience: float = 0.0
    """Minimum seconds that a question to the user stays open, for platforms that are read rarely.
    """
    setup_help: str = ""
    settings: type[PlatformBehaviour] | None = None
    """The section of config.yaml with the platform's name."""
    connection: type[PlatformConnectionSettings] = Platform  #: `platforms.<name>` of config.yaml.
    variables: tuple[Variable, ...] = ()  #: Environment variables that set keys of these sections.
    prompt_hint: str = ""  #: What the model is told about the platform.

    @property
    def extra(self) -> Extra | None:
        """For a bundled platform: the extra of its name, which installs `needs`."""
        next_step = f"hermes gateway setup {self.name}"
        return Extra(f"the platform {self.label}", next_step) if self.needs else None


class AdapterContext(msgspec.Struct, frozen=True):
    """Everything an adapter is constructed with."""

    manifest: PlatformManifest
    variable: Callable[[str], str | None]
    """Returns a variable of .env or of the process, such as TELEGRAM_BOT_TOKEN."""
    settings: Any  #: The section of config.yaml with the platform's name, if there is one.
    connection: Any  #: `platforms.<name>` of config.yaml.
    cache: Path  #: Folder for media.
    state: Path  #: Folder of the platform for state that survives a restart (sync tokens, keys).
    locks: Path  #: Folder of the token locks; shared by all profiles of the user.
    commands: Sequence[tuple[str, str]] = ()
    """Slash commands with their descriptions, for the platform's own menu."""
    extra: Mapping[str, Any] = {}
    unset: Callable[[str], tuple[str, ...]] = lambda _name: ()
    """Returns the unset variables that a missing credential refers to as `${NAME}`."""

    def text(self, name: str) -> str:
        """Return a variable without blanks around it; "" when it is not set."""
        return (self.variable(name) or "").strip()

    def require(self, name: str) -> str:
        """Return a variable that must be set. Raises `CredentialsRefused`."""
        if not (value := self.text(name)):
            raise CredentialsRefused(
                f"{self.manifest.label} needs {name}",
                hint=f"set it with `hermes gateway setup {self.manifest.name}`",
            )
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        """Return whether a variable is on; a word that means neither is the default."""
        word = self.text(name).lower()
        return word not in FALSE_WORDS if default else word in TRUE_WORDS

    def number(self, name: str, default: float, *, low: float, high: float) -> float:
        """Return a variable as a number in a range. Raises `CredentialsRefused`."""
        value = self.text(name)
        try:
            number = float(value or default)
        except ValueError:
            number = float("nan")
        if not low <= number <= high:
            raise CredentialsRefused(
                f"{name} is {value!r}", hint=f"use a number from {low:g} to {high:g}"
            )
        return number

    def choice(self, name: str, words: Sequence[str], default: str) -> str:
        """Return a variable that is one of the words. Raises `CredentialsRefused`."""
        word = self.text(name).lower() or default
        if word not in words:
            raise CredentialsRefused(f"{name} is {word!r}", hint=f"use one of: {', '.join(words)}")
        return word


class DeliveryQuery(msgspec.Struct, frozen=True):
    """An uncertain message that the gateway asks about with `Adapter.was_delivered`."""

    key: str  #: The key that the message was sent with.
    created_at: float  #: When the gateway made it, in seconds since 1970.
    after_id: str = ""  #: What `Adapter.newest` returned before it was sent.


class ChatInfo(msgspec.Struct, frozen=True):
    """A chat of the chat directory."""

    chat_id: str
    name: str
    chat_type: ChatType = "dm"
    thread_id: str = ""


class AdapterError(HermesError):
    """The platform did not do what was requested."""


class NotConnected(AdapterError):
    """The connection is lost; the supervisor opens a new one."""


class CredentialsRefused(AdapterError):
    """The platform rejects our credentials. Retrying does not help."""


class SendRefused(AdapterError):
    """The message will never be delivered: the chat is gone, we may not write, it is too large."""


class SendLater(AdapterError):
    """The message was certainly not delivered and may be sent again after `seconds`."""

    def __init__(self, message: str, *, seconds: float = 1.0) -> None:
        super().__init__(message)
        self.seconds = seconds


class SendUnsure(AdapterError):
    """The message may or may not have been delivered: the connection broke after it was sent."""


class DeliveryUnknown(AdapterError):
    """The platform cannot tell whether a message was delivered."""


class Adapter(ABC):
    """One platform. Does nothing before `connect`. A method that the platform lacks keeps its
    default, which does nothing or raises."""

    account = ""  #: Name of the connected account when there may be several; otherwise "".
    address = ""
    """The address it listens on, once it listens; "" for platforms that do not call us."""
    access_hint = ""  #: How clients get access, once it listens; "" for most platforms.
    notice = ""  #: What the owner should know when the gateway starts; "" for nothing.

    def __init__(self, context: AdapterContext) -> None:
        self.context, self.manifest = context, context.manifest

    @abstractmethod
    async def connect(self, receive: Receive) -> None:
        """Return when messages flow. Take the lock of the token first. Raises `CredentialsRefused`
        or `NotConnected`."""

    @abstractmethod
    async def disconnect(self) -> None:
        """Release every resource. May be called again, and while not connected."""

    @abstractmethod
    async def probe(self) -> None:
        """Call the platform cheaply. Raises `AdapterError` when messages would not flow."""

    @abstractmethod
    async def send(self, target: ChatTarget, message: OutgoingMessage, key: str) -> str:
        """Send and return the platform's id of the message. `key` identifies the message, for
        platforms that suppress duplicates. Raises `SendRefused`, `SendLater` or `SendUnsure`."""

    async def drain(self, seconds: float) -> None:  # noqa: B027 - most platforms have no turns of their own
        """Prepare for the end of the gateway: accept nothing new and give turns that use neither
        inbox nor outbox `seconds` to finish, then cancel them. Called again with 0 to hurry."""

    async def edit(self, target: ChatTarget, message_id: str, message: OutgoingMessage) -> None:  # noqa: ARG002 - for subclasses
        """Replace a sent message. Raises like `send`; an edit without changes is not an error."""
        raise SendRefused(f"{self.manifest.label} does not support edits")

    def newest(self, target: ChatTarget) -> str:  # noqa: ARG002 - likewise
        """Return the newest known message of the target, for `DeliveryQuery`; "" for none."""
        return ""

    async def was_delivered(
        self,
        query: DeliveryQuery,  # noqa: ARG002 - likewise
        target: ChatTarget,  # noqa: ARG002 - likewise
        message: OutgoingMessage,  # noqa: ARG002 - likewise
    ) -> str | None:
        """Return the platform's id of an uncertain message; None when it was certainly not
        delivered or when sending it again shows only one. Raises `DeliveryUnknown`; another error
        means: ask again later."""
        raise DeliveryUnknown(f"{self.manifest.label} cannot tell whether a message was sent")

    async def typing(self, target: ChatTarget) -> None:  # noqa: B027 - some platforms have none
        """Show the typing indicator for a few seconds."""

    async def react(  # noqa: B027 - likewise
        self, target: ChatTarget, message_id: str, emoji: str, *, on: bool = True
    ) -> None:
        """Add or remove a reaction of ours."""

    async def fetch(self, media: Media, limit: int) -> Media:  # noqa: ARG002 - likewise
        """Download the file to the cache, at most `limit` bytes. Raises `AdapterError`."""
        raise AdapterError(f"{self.manifest.label} does not support files")

    async def chats(self) -> Sequence[ChatInfo]:
        """Return the chats the adapter knows, for the chat directory."""
        return ()
