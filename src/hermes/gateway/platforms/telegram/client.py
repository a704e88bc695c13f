"""What the adapter is told by config.yaml and by variables."""

import logging
import re
from collections.abc import Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any

import httpx
import msgspec
from telegram import Bot, BotCommand
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

from hermes.gateway.platforms.kit.connection import translate_errors
from hermes.gateway.platforms.kit.contract import (
    AdapterContext,
    AdapterError,
    ChatType,
    CredentialsRefused,
    NotConnected,
    SendLater,
    SendRefused,
    SendUnsure,
)
from hermes.util.late_tls import LateTls

API = "https://api.telegram.org"
TOKEN_HINT = "Write /newbot or /token to @BotFather and set TELEGRAM_BOT_TOKEN."
_SECRET = re.compile(r"[A-Za-z0-9_-]{1,256}")


class Topic(msgspec.Struct, frozen=True):
    name: str
    thread_id: int | None = None
    icon_color: int | None = None


class ChatTopics(msgspec.Struct, frozen=True):
    chat_id: int
    topics: tuple[Topic, ...] = ()


class Options(msgspec.Struct, frozen=True):
    token: str
    base_url: str = API
    """Where the Bot API is; TELEGRAM_API_BASE_URL names one's own server."""
    proxy: str = ""
    fallback_ips: tuple[str, ...] = ()
    webhook_url: str = ""
    """Empty is long polling."""
    webhook_port: int = 8443
    webhook_secret: str = ""
    reactions: bool = False
    dm_topics: tuple[ChatTopics, ...] = ()
    group_topics: tuple[ChatTopics, ...] = ()


def options_from(context: AdapterContext) -> Options:
    """Raises `CredentialsRefused` without a token, or for values that cannot be."""
    extra = getattr(context.connection, "extra", None)
    token = getattr(context.connection, "token", "") or context.variable("TELEGRAM_BOT_TOKEN")
    if not token:
        raise CredentialsRefused("Telegram has no bot token", hint=TOKEN_HINT)
    base = context.extra.get("base_url") or context.variable("TELEGRAM_API_BASE_URL") or API
    return Options(
        token=token.strip(),
        base_url=str(base).rstrip("/"),
        proxy=getattr(context.settings, "proxy_url", "")
        or context.variable("TELEGRAM_PROXY")
        or "",
        fallback_ips=tuple(getattr(extra, "fallback_ips", ())),
        webhook_url=context.variable("TELEGRAM_WEBHOOK_URL") or "",
        webhook_port=_port(context.variable("TELEGRAM_WEBHOOK_PORT")),
        webhook_secret=_secret(context.variable("TELEGRAM_WEBHOOK_SECRET") or ""),
        reactions=bool(getattr(context.settings, "reactions", False)),
        dm_topics=_topics("dm_topics", getattr(extra, "dm_topics", ())),
        group_topics=_topics("group_topics", getattr(extra, "group_topics", ())),
    )


def _port(value: str | None) -> int:
    if not value:
        return Options.webhook_port
    if not value.isascii() or not value.isdecimal() or int(value) > 65535:
        raise CredentialsRefused(f"TELEGRAM_WEBHOOK_PORT is no port: {value}", hint="8443 is usual")
    return int(value)


def _secret(value: str) -> str:
    if value and not _SECRET.fullmatch(value):
        raise CredentialsRefused(
            "TELEGRAM_WEBHOOK_SECRET has characters that Telegram does not take",
            hint="use up to 256 letters, digits, _ and -",
        )
    return value


def _topics(name: str, value: Any) -> tuple[ChatTopics, ...]:
    try:
        return msgspec.convert(value, tuple[ChatTopics, ...], strict=False)
    except msgspec.ValidationError as error:
        raise CredentialsRefused(
            f"platforms.telegram.extra.{name}: {error}",
            hint="each entry has a chat_id and topics, each of which has a name",
        ) from None


# Names of messages, chats and threads.
#
# A message's number is unique in its chat only, so its name is `chat:number`. Private chats and
# basic
# groups of a bot share one row of numbers; each supergroup and channel has its own.

PRIVATE = "private"
"""The row of numbers that private chats and basic groups share."""
GENERAL = 1
"""The topic of a forum that every message without a topic is in."""
_FIRST_SUPERGROUP = -1_000_000_000_000


def message_name(chat_id: int, number: int) -> str:
    return f"{chat_id}:{number}"


def number_of(name: str) -> int:
    """The number of a message name, or of a bare number; 0 when it is neither."""
    digits = name.rpartition(":")[2]
    return int(digits) if digits.isascii() and digits.isdecimal() else 0


def chat_in(name: str) -> int | None:
    """The chat of a message name; None for a bare number."""
    chat = name.rpartition(":")[0]
    return int(chat) if chat.removeprefix("-").isdecimal() and chat.isascii() else None


def row_of(chat_id: int) -> str:
    """Which row of numbers the messages of a chat are in."""
    return str(chat_id) if chat_id < _FIRST_SUPERGROUP else PRIVATE


def send_thread(thread_id: str) -> int | None:
    """The topic as sending needs it: Telegram refuses the number of the general one."""
    number = number_of(thread_id)
    return number if number > GENERAL else None


def typing_thread(thread_id: str) -> int | None:
    """The topic as `sendChatAction` needs it: the general one only with its number."""
    return number_of(thread_id) or None


# What Telegram's answers and broken connections mean to the gateway.

NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)
"""The request did not leave this machine."""
REFUSED_TOKEN_PAUSE = 30.0
"""Seconds; a message waits for a new token and is not given up."""


class TooOften(TelegramError):
    """429. Stands for the library's `RetryAfter`, which warns about itself each time."""

    def __init__(self, seconds: float) -> None:
        super().__init__("Too Many Requests")
        self.seconds = seconds


def of_call(error: TelegramError) -> AdapterError:
    """Errors of `send` and `edit`."""
    if _is_page(error):
        return SendUnsure(f"a server before Telegram answered: {type(error).__name__}")
    match error:
        case TooOften():
            return SendLater("Telegram wants us to wait", seconds=error.seconds)
        case Forbidden() | ChatMigrated():
            return SendRefused(f"Telegram does not let us write there: {error.message}")
        case InvalidToken():
            return SendLater("Telegram does not accept the bot token", seconds=REFUSED_TOKEN_PAUSE)
        case BadRequest():
            return SendRefused(f"Telegram refused the message: {error.message}")
        case NetworkError():
            return _of_network(error)
        case _:
            return SendUnsure(f"Telegram's answer cannot be read: {type(error).__name__}")


def of_connecting(error: TelegramError) -> AdapterError:
    """Errors of `connect`, `probe` and the long poll."""
    if _is_page(error):
        return NotConnected("a server before Telegram answers in its place")
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


told = partial(translate_errors, of_connecting, (TelegramError,))
"""Errors of calls that are neither sends nor edits."""


def says(error: TelegramError, *phrases: str) -> bool:
    """Whether Telegram's words have one of these phrases."""
    message = error.message.lower()
    return any(phrase in message for phrase in phrases)


def _is_page(error: TelegramError) -> bool:
    """An answer that is not Telegram's, such as the page of a proxy, refuses nothing for good."""
    return type(error.__cause__) is TelegramError


def _of_network(error: NetworkError) -> AdapterError:
    """Without a cause it is an answer of the Bot API itself, which did not take the message. A page
    of a server in front of it (502) says nothing about that."""
    if error.__cause__ is None:
        if says(error, "entity too large"):
            return SendRefused("the file is too large for Telegram")
        return SendLater(f"Telegram has a fault: {error.message}")
    if isinstance(error.__cause__, NEVER_SENT):
        return SendLater(f"Telegram cannot be reached: {_reason(error)}")
    return SendUnsure(f"the connection to Telegram broke: {_reason(error)}")


def _reason(error: TelegramError) -> str:
    """In a word, without addresses: they have the token in them."""
    cause = error.__cause__
    if isinstance(cause, httpx.HTTPError):
        return type(cause).__name__
    return type(error).__name__ if cause else error.message


# The library's client: addresses, proxy, time limits, and other ways to Telegram.

CONNECTIONS = 32
CONNECT, READ, WRITE, UPLOAD = 10.0, 30.0, 30.0, 120.0
"""Seconds."""


def bot_of(options: Options) -> Bot:
    """Raises `NotConnected` for a proxy that cannot be used."""
    # Both tell the log addresses, and the token is in them.
    for library in ("httpx", "telegram"):
        logging.getLogger(library).setLevel(logging.WARNING)
    more: dict[str, Any] = {"verify": LateTls()}
    if options.fallback_ips and not options.proxy:
        more["transport"] = FallbackTransport(options.fallback_ips)
    try:
        request = Request(
            connection_pool_size=CONNECTIONS,
            connect_timeout=CONNECT,
            read_timeout=READ,
            write_timeout=WRITE,
            media_write_timeout=UPLOAD,
            pool_timeout=CONNECT,
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


class Request(HTTPXRequest):
    async def do_request(self, *args: Any, **options: Any) -> tuple[int, bytes]:
        """Raises `TooOften` for 429."""
        status, body = await super().do_request(*args, **options)
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            raise TooOften(_retry_after(body))
        return status, body


class FallbackTransport(httpx.AsyncBaseTransport):
    """Other addresses of the same host, for when its name cannot be looked up or its first address
    not be reached. The name stays what certificates are checked against."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._inner = httpx.AsyncHTTPTransport(verify=LateTls())
        self._addresses: list[str | None] = [None, *addresses]

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        failure: httpx.TransportError = httpx.ConnectError("no address")
        for address in tuple(self._addresses):
            try:
                response = await self._inner.handle_async_request(_to(request, address))
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                failure = error
            else:
                # What works comes first from now on.
                self._addresses.remove(address)
                self._addresses.insert(0, address)
                return response
        raise failure

    async def aclose(self) -> None:
        await self._inner.aclose()


def _retry_after(body: bytes) -> float:
    try:
        return msgspec.json.decode(body, type=_Refusal).parameters.retry_after
    except msgspec.MsgspecError:
        return _Parameters().retry_after


class _Parameters(msgspec.Struct, frozen=True):
    retry_after: float = 5.0


class _Refusal(msgspec.Struct, frozen=True):
    parameters: _Parameters = _Parameters()


def _to(request: httpx.Request, address: str | None) -> httpx.Request:
    """The same request to another address. Nothing of it was sent, so its body is still whole."""
    if address is None:
        return request
    return httpx.Request(
        request.method,
        request.url.copy_with(host=address),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": request.url.host},
    )


# Our slash commands in Telegram's own menu, whose names have no hyphens.

MOST = 100
MAX_DESCRIPTION = 256
MAX_BYTES = 7_000
"""Of the whole menu as JSON. Telegram names no such limit, and refuses a little more than this."""
DESCRIPTIONS = (MAX_DESCRIPTION, 100, 60, 40, 24)
"""Characters that descriptions are cut to, until all of the menu fits."""
_NAME = re.compile(r"[a-z0-9_]{1,32}")


def menu(commands: Sequence[tuple[str, str]]) -> list[BotCommand]:
    """As many as Telegram takes; those whose names it would refuse are left out."""
    shown: dict[str, str] = {}
    for name, description in commands:
        telegram_name = _telegram_name(name)
        if _NAME.fullmatch(telegram_name):
            shown.setdefault(telegram_name, description.strip() or name)
    named = list(shown.items())[:MOST]
    made: list[BotCommand] = []
    for most in DESCRIPTIONS:
        made = [BotCommand(name, _cut(description, most)) for name, description in named]
        if _size(made) <= MAX_BYTES:
            break
    return made


async def set_menu(bot: Bot, commands: Sequence[tuple[str, str]]) -> None:
    """Raises `TelegramError`. A menu that is too large after all is made shorter: without one
    Telegram would go on showing an old one."""
    shown = menu(commands)
    while shown:
        try:
            await bot.set_my_commands(shown)
        except BadRequest as error:
            if not says(error, "bot_commands_too_much") or len(shown) == 1:
                raise
            shown = shown[: len(shown) * 3 // 4]
        else:
            return


def real_names(commands: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Our names by those of Telegram's menu."""
    names: dict[str, str] = {}
    for name, _ in commands:
        names.setdefault(_telegram_name(name), name.removeprefix("/"))
    return names


def real_command(word: str, names: Mapping[str, str]) -> str:
    """`/reload-mcp` of `/reload_mcp`; a command that is not ours stays as it is."""
    return f"/{names.get(word[1:].lower(), word[1:])}"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def _size(commands: Sequence[BotCommand]) -> int:
    return len(msgspec.json.encode([each.to_dict() for each in commands]))


def _telegram_name(name: str) -> str:
    return name.removeprefix("/").lower().replace("-", "_")


CHAT_TYPES: Mapping[str, ChatType] = {
    TelegramChatType.PRIVATE: "dm",
    TelegramChatType.GROUP: "group",
    TelegramChatType.SUPERGROUP: "group",
    TelegramChatType.CHANNEL: "channel",
}
