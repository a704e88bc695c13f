"""Access to the Bot API: options, ids, errors, the HTTP client and the command menu.

A message number is unique only in its chat, so a message id is `chat:number`.
"""

import logging
import re
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
import msgspec
from telegram import Bot, BotCommand, Message
from telegram.constants import ChatType as TelegramChatType
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Conflict,
    EndPointNotFound,
    Forbidden,
    InvalidToken,
    NetworkError,
    TelegramError,
)
from telegram.request import HTTPXRequest

from hermes.sdk import LateTls, write_bytes
from hermes.sdk.platforms import (
    AdapterContext,
    AdapterError,
    ChatInfo,
    ChatTarget,
    ChatType,
    CredentialsRefused,
    NotConnected,
    SendLater,
    SendRefused,
    SendUnsure,
    translate_errors,
)

logger = logging.getLogger(__name__)
API = "https://api.telegram.org"
TOKEN_HINT = "Write /newbot or /token to @BotFather and set TELEGRAM_BOT_TOKEN."
_SECRET_PATTERN = re.compile(r"[A-Za-z0-9_-]{1,256}")
GENERAL_TOPIC = 1  #: The forum topic of every message without a topic.
NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)
"""The request did not leave this machine."""
REFUSED_TOKEN_SECONDS = 30.0
"""A message waits this long for a new token instead of being given up."""
POOL_SIZE = 32
CONNECT_SECONDS, READ_SECONDS, WRITE_SECONDS, UPLOAD_SECONDS = 10.0, 30.0, 30.0, 120.0
"""Time limits in seconds."""
MAX_COMMANDS = 100
MAX_DESCRIPTION = 256
MAX_MENU_BYTES = 7_000
"""Limit of the whole menu as JSON. Undocumented; Telegram rejects slightly more than this."""
DESCRIPTION_LIMITS = (MAX_DESCRIPTION, 100, 60, 40, 24)
"""Descriptions are truncated to these lengths in turn until the menu fits."""
_COMMAND_NAME = re.compile(r"[a-z0-9_]{1,32}")
MAX_ALBUM_PARTS = 200
TopicNames = dict[tuple[int, int], str]  #: Topic names by chat and thread.
CHAT_TYPES: Mapping[str, ChatType] = {
    TelegramChatType.PRIVATE: "dm",
    TelegramChatType.GROUP: "group",
    TelegramChatType.SUPERGROUP: "group",
    TelegramChatType.CHANNEL: "channel",
}


class TopicConfig(msgspec.Struct, frozen=True):
    name: str
    thread_id: int | None = None
    icon_color: int | None = None


class ChatTopics(msgspec.Struct, frozen=True):
    chat_id: int
    topics: tuple[TopicConfig, ...] = ()


class TelegramOptions(msgspec.Struct, frozen=True):
    token: str
    base_url: str = API  #: Address of the Bot API; TELEGRAM_API_BASE_URL sets a server of your own.
    proxy: str = ""
    fallback_ips: tuple[str, ...] = ()
    webhook_url: str = ""  #: Empty means long polling.
    webhook_port: int = 8443
    webhook_secret: str = ""
    reactions: bool = False
    dm_topics: tuple[ChatTopics, ...] = ()
    group_topics: tuple[ChatTopics, ...] = ()


def read_options(context: AdapterContext) -> TelegramOptions:
    """Read the options. Raises `CredentialsRefused` for a missing token or an invalid value."""
    extra = getattr(context.connection, "extra", None)
    token = getattr(context.connection, "token", "") or context.variable("TELEGRAM_BOT_TOKEN")
    if not token:
        raise CredentialsRefused("Telegram has no bot token", hint=TOKEN_HINT)
    secret = context.text("TELEGRAM_WEBHOOK_SECRET")
    if secret and not _SECRET_PATTERN.fullmatch(secret):
        raise CredentialsRefused(
            "TELEGRAM_WEBHOOK_SECRET has characters that Telegram does not accept",
            hint="use up to 256 letters, digits, _ and -",
        )
    base = context.extra.get("base_url") or context.variable("TELEGRAM_API_BASE_URL") or API
    return TelegramOptions(
        token=token.strip(),
        base_url=str(base).rstrip("/"),
        proxy=getattr(context.settings, "proxy_url", "") or context.text("TELEGRAM_PROXY"),
        fallback_ips=tuple(getattr(extra, "fallback_ips", ())),
        webhook_url=context.text("TELEGRAM_WEBHOOK_URL"),
        webhook_port=int(context.number("TELEGRAM_WEBHOOK_PORT", 8443, low=0, high=65535)),
        webhook_secret=secret,
        reactions=bool(getattr(context.settings, "reactions", False)),
        dm_topics=_read_topics("dm_topics", getattr(extra, "dm_topics", ())),
        group_topics=_read_topics("group_topics", getattr(extra, "group_topics", ())),
    )


def format_message_id(chat_id: int, number: int) -> str:
    return f"{chat_id}:{number}"


def message_number(name: str) -> int:
    """Return the number of a message id or a bare number; 0 for anything else."""
    digits = name.rpartition(":")[2]
    return int(digits) if digits.isascii() and digits.isdecimal() else 0


def chat_of_message(name: str) -> int | None:
    """Return the chat of a message id; None for a bare number."""
    chat = name.rpartition(":")[0]
    return int(chat) if chat.removeprefix("-").isdecimal() and chat.isascii() else None


def send_thread(thread_id: str) -> int | None:
    """Return the topic for sending: Telegram rejects the number of the general topic."""
    number = message_number(thread_id)
    return number if number > GENERAL_TOPIC else None


def typing_thread(thread_id: str) -> int | None:
    """Return the topic for `sendChatAction`, which needs the number of the general topic."""
    return message_number(thread_id) or None


class TelegramRateLimited(TelegramError):
    """HTTP 429. Replaces the library's `RetryAfter`, which logs a warning each time."""

    def __init__(self, seconds: float) -> None:
        super().__init__("Too Many Requests")
        self.seconds = seconds


def map_error(error: TelegramError) -> AdapterError:
    """Map errors of `send` and `edit`."""
    if _is_foreign_answer(error):
        return SendUnsure(f"a server in front of Telegram answered: {type(error).__name__}")
    match error:
        case TelegramRateLimited():
            return SendLater("Telegram asks us to wait", seconds=error.seconds)
        case Forbidden() | ChatMigrated():
            return SendRefused(f"Telegram does not let us write there: {error.message}")
        case InvalidToken():
            return SendLater(
                "Telegram does not accept the bot token", seconds=REFUSED_TOKEN_SECONDS
            )
        case BadRequest():
            return SendRefused(f"Telegram refused the message: {error.message}")
        case NetworkError():
            return _map_network_error(error)
        case _:
            return SendUnsure(f"Telegram's answer cannot be read: {type(error).__name__}")


def map_connect_error(error: TelegramError) -> AdapterError:
    """Map errors of `connect`, `probe` and the long poll."""
    if _is_foreign_answer(error):
        return NotConnected("a server in front of Telegram answers in its place")
    match error:
        case InvalidToken() | EndPointNotFound():
            return CredentialsRefused("Telegram does not accept the bot token", hint=TOKEN_HINT)
        case Conflict():
            return NotConnected(
                "another program receives the messages of this Telegram bot",
                hint="stop it, or give it a bot of its own",
            )
        case _:
            return NotConnected(f"Telegram cannot be reached: {_reason(error)}")


translate_send_errors = partial(translate_errors, map_error, (TelegramError,))
translate_connect_errors = partial(translate_errors, map_connect_error, (TelegramError,))
"""Context managers for calls that write to a chat, and for all others."""


def error_mentions(error: TelegramError, *phrases: str) -> bool:
    """True if Telegram's error text contains one of the phrases."""
    message = error.message.lower()
    return any(phrase in message for phrase in phrases)


def make_bot(options: TelegramOptions) -> Bot:
    """Create the client. Raises `NotConnected` for a proxy that cannot be used."""
    # Both libraries log addresses, which contain the token.
    for library in ("httpx", "telegram"):
        logging.getLogger(library).setLevel(logging.WARNING)
    more: dict[str, Any] = {"verify": LateTls()}
    if options.fallback_ips and not options.proxy:
        more["transport"] = FallbackTransport(options.fallback_ips)
    try:
        request = BotRequest(
            connection_pool_size=POOL_SIZE,
            connect_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
            write_timeout=WRITE_SECONDS,
            media_write_timeout=UPLOAD_SECONDS,
            pool_timeout=CONNECT_SECONDS,
            proxy=options.proxy or None,
            httpx_kwargs=more,
        )
    except (RuntimeError, ValueError, httpx.InvalidURL) as error:
        raise NotConnected(
            f"the proxy to Telegram cannot be used: {type(error).__name__}",
            hint="telegram.proxy_url is http://host:port, or socks5:// with the package socksio",
        ) from None
    return Bot(
        options.token,
        base_url=f"{options.base_url}/bot",
        base_file_url=f"{options.base_url}/file/bot",
        request=request,
        get_updates_request=request,
    )


class BotRequest(HTTPXRequest):
    async def do_request(self, *args: Any, **options: Any) -> tuple[int, bytes]:
        """Send a request. Raises `TelegramRateLimited` for 429."""
        status, body = await super().do_request(*args, **options)
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            try:
                refusal = msgspec.json.decode(body, type=_Refusal)
            except msgspec.MsgspecError:
                refusal = _Refusal()
            raise TelegramRateLimited(refusal.parameters.retry_after)
        return status, body


class FallbackTransport(httpx.AsyncBaseTransport):
    """Tries further addresses of the same host when its name cannot be resolved or its first
    address is unreachable. Certificates are still checked against the name."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._inner = httpx.AsyncHTTPTransport(verify=LateTls())
        self._addresses: list[str | None] = [None, *addresses]

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        failure: httpx.TransportError = httpx.ConnectError("no address")
        for address in tuple(self._addresses):
            try:
                response = await self._inner.handle_async_request(_redirect(request, address))
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                failure = error
            else:
                # Try the working address first from now on.
                self._addresses.remove(address)
                self._addresses.insert(0, address)
                return response
        raise failure

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Parameters(msgspec.Struct, frozen=True):
    retry_after: float = 5.0


class _Refusal(msgspec.Struct, frozen=True):
    parameters: _Parameters = _Parameters()


class MovedEntry(msgspec.Struct, frozen=True, tag="moved"):
    """A group became a supergroup."""

    chat_id: int
    to: int


class MergedEntry(msgspec.Struct, frozen=True, tag="merged"):
    """Updates of an album that were delivered as one message."""

    updates: tuple[int, ...]


class TopicEntry(msgspec.Struct, frozen=True, tag="topic"):
    """A topic that we created."""

    chat_id: int
    name: str
    thread_id: int


StateEntry = MovedEntry | MergedEntry | TopicEntry
_state_decoder: msgspec.json.Decoder[StateEntry] = msgspec.json.Decoder(StateEntry)


class TelegramState:
    """Moved groups, created topics and delivered albums, across restarts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.moved: dict[int, int] = {}  #: Supergroup of each moved group.
        self.origins: dict[int, int] = {}  #: Original group of each supergroup.
        self.merged: deque[int] = deque(maxlen=MAX_ALBUM_PARTS)
        self.topics: dict[tuple[int, str], int] = {}

    def open(self) -> None:
        """Read the file. Raises OSError when it cannot be read or written."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        for line in self._path.read_bytes().splitlines() if self._path.exists() else ():
            try:
                self._apply(_state_decoder.decode(line))
            except msgspec.MsgspecError:
                continue  # torn by a power cut, or written by an earlier version
        self._write()

    def current_chat(self, chat_id: int) -> int:
        """Return the current id of a chat."""
        return self.moved.get(chat_id, chat_id)

    def record(self, entry: StateEntry) -> None:
        """Record what already happened: a full disk must not stop us."""
        if isinstance(entry, MovedEntry):
            if self.moved.get(entry.chat_id) == entry.to:
                return
            logger.info(
                "the Telegram group %d became the supergroup %d; its conversation continues",
                entry.chat_id,
                entry.to,
            )
        self._apply(entry)
        try:
            self._write()
        except OSError as error:
            logger.error("%s cannot be written: %s", self._path.name, error.strerror)

    def _apply(self, entry: StateEntry) -> None:
        match entry:
            case MovedEntry(chat_id, to):
                self.moved[chat_id], self.origins[to] = to, chat_id
            case MergedEntry(updates):
                self.merged.extend(updates)
            case TopicEntry(chat_id, name, thread_id):
                self.topics[chat_id, name] = thread_id

    def _write(self) -> None:
        entries: list[StateEntry] = [MovedEntry(*each) for each in self.moved.items()]
        entries += [TopicEntry(c, name, thread) for (c, name), thread in self.topics.items()]
        entries.append(MergedEntry(tuple(self.merged)))
        lines = b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries)
        write_bytes(self._path, lines, mode=0o600)


class TelegramChats:
    """Resolves targets to chat ids: a number, or the public name of a channel or group."""

    def __init__(self, bot: Bot, state: TelegramState) -> None:
        self._bot, self._state = bot, state
        self._ids_by_name: dict[str, int] = {}
        self.found: dict[str, ChatInfo] = {}  #: Chats that were resolved by name.

    def lookup(self, target: ChatTarget) -> int | None:
        """Return the current chat id; None for a name not yet resolved or an invalid target."""
        digits = target.chat_id.removeprefix("-")
        number = int(target.chat_id) if digits.isascii() and digits.isdecimal() else 0
        number = number or self._ids_by_name.get(target.chat_id.lower(), 0)
        return self._state.current_chat(number) if number else None

    async def resolve(self, target: ChatTarget) -> int:
        """Return the current chat id. Raises `SendRefused` for an invalid target, and `SendLater`
        when Telegram cannot be reached."""
        if (known := self.lookup(target)) is not None:
            return known
        name = target.chat_id.lower()
        if not name.startswith("@"):
            raise SendRefused(f"{target.chat_id!r} is not a Telegram chat")
        with translate_send_errors(repeatable=True):
            chat = await self._bot.get_chat(name)
        self._ids_by_name[name] = chat.id
        kind = CHAT_TYPES.get(chat.type, "group")
        self.found[name] = ChatInfo(str(chat.id), name, kind)
        return self._state.current_chat(chat.id)


def known_topics(options: TelegramOptions, state: TelegramState) -> TopicNames:
    """Return the topics of config.yaml and those we created."""
    names = {(chat_id, thread): name for (chat_id, name), thread in state.topics.items()}
    for chat in (*options.group_topics, *options.dm_topics):
        for topic in chat.topics:
            if topic.thread_id is not None:
                names[chat.chat_id, topic.thread_id] = topic.name
    return names


async def create_topics(bot: Bot, state: TelegramState, wanted: Sequence[ChatTopics]) -> None:
    """Create missing topics of private chats. A topic that Telegram rejects is logged and tried
    again at the next start."""
    topics = [(chat.chat_id, topic) for chat in wanted for topic in chat.topics]
    for chat_id, topic in topics:
        if topic.thread_id is not None or (chat_id, topic.name) in state.topics:
            continue
        try:
            made = await bot.create_forum_topic(chat_id, topic.name, icon_color=topic.icon_color)
        except TelegramError as error:
            logger.warning("the topic %r cannot be created: %s", topic.name, map_error(error))
        else:
            state.record(TopicEntry(chat_id, topic.name, made.message_thread_id))


def learn_topic_name(message: Message, names: TopicNames) -> None:
    """Learn a topic name from the topic's first message or a reply to it."""
    thread = message.message_thread_id
    if thread is None:
        return
    first = message if message.forum_topic_created else message.reply_to_message
    if first is not None and first.forum_topic_created:
        names.setdefault((message.chat.id, thread), first.forum_topic_created.name)
    if message.forum_topic_edited and message.forum_topic_edited.name:
        names[message.chat.id, thread] = message.forum_topic_edited.name


def build_menu(commands: Sequence[tuple[str, str]]) -> list[BotCommand]:
    """Return as many commands as Telegram accepts. Names that it would reject are omitted."""
    shown: dict[str, str] = {}
    for name, description in commands:
        telegram_name = _telegram_name(name)
        if _COMMAND_NAME.fullmatch(telegram_name):
            shown.setdefault(telegram_name, description.strip() or name)
    named = list(shown.items())[:MAX_COMMANDS]
    made: list[BotCommand] = []
    for most in DESCRIPTION_LIMITS:
        made = [
            BotCommand(name, does if len(does) <= most else f"{does[: most - 1].rstrip()}…")
            for name, does in named
        ]
        if len(msgspec.json.encode([each.to_dict() for each in made])) <= MAX_MENU_BYTES:
            break
    return made


async def set_menu(bot: Bot, commands: Sequence[tuple[str, str]]) -> None:
    """Set the command menu, shortening it while Telegram rejects it as too large: otherwise it
    would keep showing the old menu. Raises `TelegramError`."""
    shown = build_menu(commands)
    while shown:
        try:
            await bot.set_my_commands(shown)
        except BadRequest as error:
            if not error_mentions(error, "bot_commands_too_much") or len(shown) == 1:
                raise
            shown = shown[: len(shown) * 3 // 4]
        else:
            return


def command_names(commands: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Map the names in Telegram's menu, which have no hyphens, to our command names."""
    names: dict[str, str] = {}
    for name, _ in commands:
        names.setdefault(_telegram_name(name), name.removeprefix("/"))
    return names


def command_name(word: str, names: Mapping[str, str]) -> str:
    """Return `/reload-mcp` for `/reload_mcp`; other commands stay unchanged."""
    return f"/{names.get(word[1:].lower(), word[1:])}"


def _read_topics(name: str, value: Any) -> tuple[ChatTopics, ...]:
    try:
        return msgspec.convert(value, tuple[ChatTopics, ...], strict=False)
    except msgspec.ValidationError as error:
        raise CredentialsRefused(
            f"platforms.telegram.extra.{name}: {error}",
            hint="each entry has a chat_id and topics, each of which has a name",
        ) from None


def _is_foreign_answer(error: TelegramError) -> bool:
    """True for an answer that is not Telegram's, such as the page of a proxy. It is not a final
    refusal."""
    return type(error.__cause__) is TelegramError


def _map_network_error(error: NetworkError) -> AdapterError:
    """Without a cause the Bot API itself answered and did not accept the message. A page of a
    server in front of it (502) does not tell."""
    if error.__cause__ is None:
        if error_mentions(error, "entity too large"):
            return SendRefused("the file is too large for Telegram")
        return SendLater(f"Telegram reports an error: {error.message}")
    if isinstance(error.__cause__, NEVER_SENT):
        return SendLater(f"Telegram cannot be reached: {_reason(error)}")
    return SendUnsure(f"the connection to Telegram broke: {_reason(error)}")


def _reason(error: TelegramError) -> str:
    """Return a short reason without addresses, because they contain the token."""
    cause = error.__cause__
    if isinstance(cause, httpx.HTTPError):
        return type(cause).__name__
    return type(error).__name__ if cause else error.message


def _redirect(request: httpx.Request, address: str | None) -> httpx.Request:
    """Return the request for another address. Nothing was sent yet, so its body is complete."""
    if address is None:
        return request
    return httpx.Request(
        request.method,
        request.url.copy_with(host=address),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": request.url.host},
    )


def _telegram_name(name: str) -> str:
    return name.removeprefix("/").lower().replace("-", "_")
