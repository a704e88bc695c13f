"""How the agent behaves on Discord, from settings and variables."""

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, Protocol, TypeVar, get_args

import aiohttp
import discord
import msgspec
import yarl
from discord import (
    ClientException,
    DiscordServerError,
    File,
    Forbidden,
    HTTPException,
    NotFound,
    RateLimited,
)
from discord.gateway import DiscordWebSocket
from discord.http import HTTPClient, Route, json_or_text

from hermes.config.settings.platforms import DiscordSettings
from hermes.core.errors import ConfigError
from hermes.gateway.platforms.kit.connection import translate_errors
from hermes.gateway.platforms.kit.contract import (
    AdapterContext,
    AdapterError,
    CredentialsRefused,
    NotConnected,
    SendLater,
    SendRefused,
    SendUnsure,
)
from hermes.gateway.platforms.kit.inbound import IdScale

# Ids of Discord. They grow with time, over all channels.

EPOCH = 1_420_070_400.0
"""The second (since 1970) that ids count from."""


def id_at(seconds: float) -> int:
    """The least id of that time."""
    return max(int((seconds - EPOCH) * 1000), 0) << 22


def time_of(number: int) -> float:
    return (number >> 22) / 1000 + EPOCH


SCALE = IdScale(int, id_at, time_of)


# Requests to Discord, one attempt each: when to try again is for the gateway's outbox to decide.
# The library's own client would sleep and repeat inside a call, for minutes at worst.

TIMEOUT = aiohttp.ClientTimeout(total=60, sock_connect=10)
LONGEST_LIMITS = 256
"""Limits remembered before those that are over are forgotten."""
EVERYTHING = ""
"""The limit of the whole account."""
ERRORS = {403: Forbidden, 404: NotFound}
UNLIMITED = ("/interactions/", "/webhooks/")
"""Answers to commands and buttons; the limit of the account does not count them."""


class NotDiscord(HTTPException):
    """A server before Discord refused the request: Discord has not seen it."""


class NoMoreSessions(ClientException):
    """We connected too often today. Once more, and Discord would take the token away."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"Discord allows no new connection for {seconds / 60:.0f} minutes")


class Http(HTTPClient):
    """Speaks to `base_url` in place of discord.com, and obeys limits by raising `RateLimited`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, base_url: str, proxy: str | None) -> None:
        super().__init__(loop, proxy=proxy)
        self.base_url = base_url
        self.gateway: yarl.URL | None = None
        self._rest: aiohttp.ClientSession | None = None
        self._limits: dict[str, float] = {}
        """Until when, by the loop's clock, nothing may be asked."""

    async def request(
        self,
        route: Route,
        *,
        files: Sequence[File] | None = None,
        form: Iterable[dict[str, Any]] | None = None,
        **kwargs: Any,
    ) -> Any:
        key = f"{route.key}:{route.major_parameters}"
        self._wait_or_raise(key, EVERYTHING if not route.path.startswith(UNLIMITED) else key)
        for file in files or ():
            file.reset(seek=True)
        if form:
            kwargs["data"] = aiohttp.FormData(quote_fields=False)
            for field in form:
                kwargs["data"].add_field(**field)
        reason = kwargs.pop("reason", None)
        headers = {"User-Agent": self.user_agent}
        if reason:
            headers["X-Audit-Log-Reason"] = reason
        if self.token is not None:
            headers["Authorization"] = f"Bot {self.token}"
        url = yarl.URL(self.base_url + route.url.removeprefix(Route.BASE), encoded=True)
        async with self._session().request(
            route.method, url, headers=headers, proxy=self.proxy, **kwargs
        ) as response:
            data = await json_or_text(response)
            self._learn(key, response.status, response.headers, data)
            if response.status < 300:
                return data
            if response.status >= 500:
                raise DiscordServerError(response, data)
            kind = ERRORS.get(response.status, HTTPException)
            raise (kind if isinstance(data, dict) else NotDiscord)(response, data)

    async def ws_connect(self, url: str, *, compress: int = 0) -> aiohttp.ClientWebSocketResponse:
        """The library begins at an address of its own; begin at the one that Discord gives."""
        asked = yarl.URL(url)
        if self.gateway is not None and asked.host == DiscordWebSocket.DEFAULT_GATEWAY.host:
            url = str(self.gateway.with_query(asked.query))
        return await super().ws_connect(url, compress=compress)

    async def find_gateway(self) -> None:
        answer = await self.request(Route("GET", "/gateway/bot"))
        limit = answer.get("session_start_limit") or {}
        if limit.get("remaining", 1) <= 0:
            raise NoMoreSessions(limit.get("reset_after", 0) / 1000)
        self.gateway = yarl.URL(answer["url"])

    async def download(self, url: str) -> aiohttp.ClientResponse:
        """A file of the CDN; without our token."""
        return await self._session().get(yarl.URL(url, encoded=True), proxy=self.proxy)

    def _session(self) -> aiohttp.ClientSession:
        """Shares the connections of the library's own session, which it hides, and ends with it."""
        if self._rest is None:
            self._rest = aiohttp.ClientSession(
                connector=self.connector,
                connector_owner=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=TIMEOUT,
            )
        if self._rest.closed:
            raise aiohttp.ClientConnectionError("the connection was closed")
        return self._rest

    def _wait_or_raise(self, *keys: str) -> None:
        now = self.loop.time()
        until = max(self._limits.get(key, 0.0) for key in keys)
        if until > now:
            raise RateLimited(until - now)

    def _learn(self, key: str, status: int, headers: Mapping[str, str], data: Any) -> None:
        now = self.loop.time()
        if len(self._limits) > LONGEST_LIMITS:
            self._limits = {name: until for name, until in self._limits.items() if until > now}
        if status == 429:
            body = data if isinstance(data, dict) else {}
            seconds = float(body.get("retry_after") or headers.get("Retry-After") or 5.0)
            # Without a body it is the server before Discord, which shuts out this machine.
            everything = body.get("global") or not body
            self._limits[EVERYTHING if everything else key] = now + seconds
            raise RateLimited(seconds)
        if headers.get("X-RateLimit-Remaining") == "0":
            self._limits[key] = now + float(headers.get("X-RateLimit-Reset-After", 0.0))


# What Discord's answers and broken connections mean to the gateway.

TROUBLE = (discord.DiscordException, aiohttp.ClientError, TimeoutError, OSError)
"""All that a call may end with."""
NOT_AGAIN = frozenset({4004, 4010, 4011, 4012, 4013})
"""Codes of the connection after which trying again does not help."""
TOKEN_HINT = "Set DISCORD_BOT_TOKEN to the token of the page Bot of your application."
INTENT_HINT = (
    "Switch on the Message Content Intent on the page Bot of your application at"
    " discord.com/developers/applications."
)


def of_call(error: BaseException) -> AdapterError:
    """Errors of `send` and `edit`."""
    if isinstance(error, discord.RateLimited):
        return SendLater("Discord wants us to wait", seconds=max(error.retry_after, 0.01))
    if isinstance(error, discord.HTTPException):
        return _of_status(error)
    if isinstance(error, aiohttp.ClientConnectorError):
        return SendLater(f"Discord cannot be reached: {error.os_error.strerror or 'no connection'}")
    return SendUnsure(f"the connection to Discord broke: {type(error).__name__}")


told = partial(translate_errors, of_call, TROUBLE)


def of_connecting(error: BaseException) -> AdapterError:
    """Errors of `connect` and of the connection itself."""
    refused = getattr(error, "status", 0) == 401 and not isinstance(error, NotDiscord)
    if isinstance(error, discord.LoginFailure) or refused:
        return CredentialsRefused("Discord does not accept the bot token", hint=TOKEN_HINT)
    if isinstance(error, discord.PrivilegedIntentsRequired):
        return CredentialsRefused("Discord does not let us read messages", hint=INTENT_HINT)
    if isinstance(error, discord.ConnectionClosed):
        if error.code in NOT_AGAIN:
            why = f"Discord does not accept the bot (code {error.code})"
            return CredentialsRefused(why, hint=TOKEN_HINT)
        return NotConnected(f"Discord closed the connection (code {error.code})")
    if isinstance(error, discord.HTTPException):
        return NotConnected(f"Discord answered {error.status}")
    if isinstance(error, NoMoreSessions):
        return NotConnected(str(error))
    return NotConnected(f"Discord cannot be reached: {type(error).__name__}")


def _of_status(error: discord.HTTPException) -> AdapterError:
    if isinstance(error, NotDiscord):
        return SendLater(f"a server before Discord answered {error.status}", seconds=30.0)
    if error.status == 401:  # the message may go once there is a new token
        return NotConnected("Discord does not accept the bot token", hint=TOKEN_HINT)
    if error.status in (502, 504):  # something before Discord answered; Discord may have done it
        return SendUnsure(f"Discord answered {error.status}")
    if error.status >= 500:
        return SendLater(f"Discord answered {error.status}", seconds=2.0)
    code = f"{error.status}, {error.code}" if error.code else f"{error.status}"
    return SendRefused(f"Discord refuses it ({code}): {error.text}".strip())


class Pace(msgspec.Struct, frozen=True):
    delay: float = 0.6
    """Seconds that a text waits for more of its writer; 0 joins nothing."""
    split_delay: float = 0.1
    """The same once the last part of a long text seems to be there: after a full one, one that is
    not full."""


Bots = Literal["none", "mentions", "all"]
SyncPolicy = Literal["safe", "bulk", "off"]

BASE_URL = "https://discord.com/api/v10"
BATCH = "HERMES_DISCORD_TEXT_BATCH"
LONGEST_BATCH = 10.0
"""Seconds; nobody waits longer for an answer to begin."""
NO = frozenset({"false", "0", "no", "off"})


class Options(msgspec.Struct, frozen=True):
    token: str
    settings: DiscordSettings = DiscordSettings()
    bots: Bots = "none"
    """Which messages of other programs are heard."""
    ignore_others: bool = True
    """A message that mentions others and not us is not for us."""
    wants_roles: bool = False
    """Somebody may be let in for a role, so roles are asked for where a message lacks them."""
    sync: SyncPolicy = "safe"
    pace: Pace = Pace()
    proxy: str | None = None
    quotes: bool = True
    """Answers point to the message they answer."""
    base_url: str = BASE_URL
    identify_pause: float = 5.0
    """Seconds before a new session after the first; Discord takes one in five seconds."""


def options_of(context: AdapterContext) -> Options:
    """Raises `ConfigError`."""
    variable = context.variable
    token = variable("DISCORD_BOT_TOKEN") or getattr(context.connection, "token", "") or ""
    settings = context.settings
    return Options(
        token=str(token).strip(),
        settings=settings if isinstance(settings, DiscordSettings) else DiscordSettings(),
        bots=_word(variable, "DISCORD_ALLOW_BOTS", Bots, "none"),
        ignore_others=(variable("DISCORD_IGNORE_NO_MENTION") or "").strip().lower() not in NO,
        wants_roles=bool((variable("DISCORD_ALLOWED_ROLES") or "").strip()),
        sync=_word(variable, "DISCORD_COMMAND_SYNC_POLICY", SyncPolicy, "safe"),
        pace=_pace(variable),
        proxy=(variable("DISCORD_PROXY") or "").strip() or None,
        quotes=getattr(context.connection, "reply_to_mode", "first") != "off",
        base_url=str(context.extra.get("base_url") or BASE_URL).rstrip("/"),
        identify_pause=float(context.extra.get("identify_pause", 5.0)),
    )


def _pace(variable: Callable[[str], str | None]) -> Pace:
    return Pace(
        delay=_seconds(variable, f"{BATCH}_DELAY_SECONDS", Pace().delay),
        split_delay=_seconds(variable, f"{BATCH}_SPLIT_DELAY_SECONDS", Pace().split_delay),
    )


def _seconds(variable: Callable[[str], str | None], name: str, default: float) -> float:
    said = (variable(name) or variable(name.removesuffix("_SECONDS")) or "").strip()
    try:
        seconds = float(said or default)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= LONGEST_BATCH:
        raise ConfigError(f"{name} is {said!r}", hint=f"Use seconds, from 0 to {LONGEST_BATCH:g}.")
    return seconds


def _word(variable: Callable[[str], str | None], name: str, words: Any, default: str) -> Any:
    said = (variable(name) or "").strip().lower() or default
    if said not in get_args(words):
        raise ConfigError(f"{name} is {said!r}", hint=f"Use one of: {', '.join(get_args(words))}.")
    return said


# The library's client, speaking to where we want and telling us what we need.

logger = logging.getLogger(__name__)

T = TypeVar("T")

SERVERS_COME = 2.0
"""Seconds after the last server within which the next one comes, else it is down."""


ESSENTIAL = frozenset({"READY", "RESUMED"})
"""Without these there is no connection."""


class Listener(Protocol):
    def session_began(self) -> None:
        """What was written before may have been missed. A connection that is resumed goes on
        without loss and does not come here."""
        ...

    def heard(self, message: discord.Message) -> None: ...

    async def used(self, interaction: discord.Interaction) -> None: ...


class Bot(discord.Client):
    def __init__(self, options: Options) -> None:
        super().__init__(
            intents=discord.Intents(
                guilds=True, guild_messages=True, dm_messages=True, message_content=True
            ),
            max_messages=None,
            member_cache_flags=discord.MemberCacheFlags.none(),
            chunk_guilds_at_startup=False,
            guild_ready_timeout=SERVERS_COME,
        )
        self.rest = Http(asyncio.get_running_loop(), options.base_url, options.proxy)
        self.http = self._connection.http = self.rest
        self._identify_pause = options.identify_pause
        parsers = self._connection.parsers
        parsers |= {event: _careful(event, parsers[event]) for event in parsers.keys() - ESSENTIAL}
        self.listener: Listener | None = None
        self.settled = asyncio.Event()
        """The servers we are in are known, as far as they are up."""
        self._absent: set[int] = set()

    @property
    def me(self) -> int:
        return self.user.id if self.user else 0

    async def before_identify_hook(self, _shard_id: int | None, *, initial: bool = False) -> None:
        if not initial:
            await asyncio.sleep(self._identify_pause)

    async def close(self) -> None:
        waiting = self._connection._ready_task  # noqa: SLF001 - the library leaves it behind
        if waiting:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        await super().close()

    async def on_connect(self) -> None:
        self._absent = {server.id for server in self.guilds if server.unavailable}
        self.settled.clear()
        if self.listener:
            self.listener.session_began()
        if not self._absent:
            self.settled.set()

    async def on_guild_available(self, server: discord.Guild) -> None:
        late = self.settled.is_set() and server.id in self._absent
        self._absent.discard(server.id)
        if late and self.listener:  # it was down until now
            self.listener.session_began()
        if not self._absent:
            self.settled.set()

    async def on_guild_unavailable(self, server: discord.Guild) -> None:
        self._absent.add(server.id)

    async def on_ready(self) -> None:
        self.settled.set()

    async def on_message(self, message: discord.Message) -> None:
        if self.listener:
            self.listener.heard(message)

    async def on_interaction(self, interaction: discord.Interaction) -> None:
        if self.listener:
            await self.listener.used(interaction)

    def read(self, channel: Any, data: Any) -> discord.Message | None:
        """A message that was asked for; None when the library cannot read it."""
        create = self._connection.create_message
        return _careful("message", lambda given: create(channel=channel, data=given))(data)


def _careful(what: str, parse: Callable[[Any], T]) -> Callable[[Any], T | None]:
    """What has a shape that the library does not know is left out. It would end the connection, and
    again when it is asked for as missed."""

    def careful(data: Any) -> T | None:
        try:
            return parse(data)
        except Exception:  # whatever the library stumbles over
            logger.exception("Discord sent a %s that cannot be read", what)
            return None

    return careful


# Our slash commands in Discord's own menu.

MOST = 100
"""Commands that Discord takes."""
ARGUMENTS = "arguments"
OUR_OPTION = "What the command is to work on"
"""By this a command is known to be ours, also when we do not have it any more."""
CHAT_INPUT = 1
STRING = 3
_NAME = re.compile(r"[\w-]{1,32}")
_KEPT = (
    "id",
    "type",
    "name",
    "name_localizations",
    "description",
    "description_localizations",
    "options",
    "default_member_permissions",
    "dm_permission",
    "nsfw",
    "integration_types",
    "contexts",
    "handler",
)
"""Of commands that are not ours: above all who may use them. What Discord adds by itself it does
not take back."""

Command = Mapping[str, Any]


def described(commands: Sequence[tuple[str, str]]) -> list[Command]:
    """As Discord wants them: each takes what follows it as one text."""
    names: dict[str, Command] = {}
    for name, does in commands:
        name = name.removeprefix("/").lower()
        if not _NAME.fullmatch(name) or len(names) == MOST:
            continue
        names[name] = {
            "type": CHAT_INPUT,
            "name": name,
            "description": (does.strip() or name)[:100],
            "options": [{"type": STRING, "name": ARGUMENTS, "description": OUR_OPTION}],
        }
    return list(names.values())


def replacement(
    there: Sequence[Command], ours: Sequence[Command], policy: SyncPolicy
) -> list[Command] | None:
    """What Discord's list is to be replaced with; None when it is left alone. `safe` keeps the
    commands that are not ours and writes only when something of ours differs, or is there and ours
    no more; `bulk` leaves ours alone."""
    if policy == "off":
        return None
    if policy == "bulk":
        return list(ours)
    names = {command["name"] for command in ours}
    known = {command["name"]: _essence(command) for command in there}
    others = [command for command in there if command["name"] not in names]
    old = [command for command in others if _was_ours(command)]
    others = [command for command in others if command not in old]
    wanted = ours[: MOST - len(others)]
    if not old and all(known.get(each["name"]) == _essence(each) for each in wanted):
        return None
    kept = [{key: command[key] for key in _KEPT if key in command} for command in others]
    return [*wanted, *kept]


def as_text(data: Mapping[str, Any]) -> str:
    """A command that somebody used, as if it had been written."""
    values = [str(option.get("value", "")) for option in data.get("options") or ()]
    return " ".join([f"/{data.get('name', '')}", *values]).strip()


def _was_ours(command: Command) -> bool:
    options = command.get("options") or ()
    return [(each.get("name"), each.get("description")) for each in options] == [
        (ARGUMENTS, OUR_OPTION)
    ]


def _essence(command: Command) -> tuple[Any, ...]:
    options = [
        (option["type"], option["name"], option.get("description"), bool(option.get("required")))
        for option in command.get("options") or ()
    ]
    return (command.get("type", CHAT_INPUT), command.get("description"), options)
