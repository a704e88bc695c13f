"""Access to Discord: options, HTTP requests, errors, the gateway client and the command menu."""

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

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

from hermes.sdk.platforms import (
    AdapterContext,
    AdapterError,
    CredentialsRefused,
    IdScale,
    NotConnected,
    SendLater,
    SendRefused,
    SendUnsure,
    translate_errors,
)
from hermes_plugins.platforms.discord.manifest import DiscordSettings

if TYPE_CHECKING:
    from hermes_plugins.platforms.discord.inbound import DiscordInbound

logger = logging.getLogger(__name__)
EPOCH = 1_420_070_400.0  #: Start of the time that ids count from, in seconds since 1970.
TIMEOUT = aiohttp.ClientTimeout(total=60, sock_connect=10)
MAX_LIMITS = 256  #: Number of limits above which expired ones are dropped.
ACCOUNT_LIMIT = ""  #: Key of the limit of the whole account.
ERRORS = {403: Forbidden, 404: NotFound}
UNLIMITED = ("/interactions/", "/webhooks/")
"""Responses to commands and buttons do not count towards the limit of the account."""
CALL_ERRORS = (discord.DiscordException, aiohttp.ClientError, TimeoutError, OSError)
"""Everything a call may raise."""
FATAL_CLOSE_CODES = frozenset({4004, 4010, 4011, 4012, 4013})
"""Close codes after which reconnecting does not help."""
TOKEN_HINT = "Set DISCORD_BOT_TOKEN to the token of the page Bot of your application."
INTENT_HINT = (
    "Switch on the Message Content Intent on the page Bot of your application at"
    " discord.com/developers/applications."
)
BotPolicy = Literal["none", "mentions", "all"]
SyncPolicy = Literal["safe", "bulk", "off"]
BASE_URL = "https://discord.com/api/v10"
MAX_BATCH_SECONDS = 10.0  #: Seconds; the start of an answer is never delayed longer.
T = TypeVar("T")
GUILD_TIMEOUT = 2.0
"""Seconds to wait for the next guild; guilds that have not arrived by then are unavailable."""
ESSENTIAL_EVENTS = frozenset({"READY", "RESUMED"})  #: Without these events there is no connection.
MAX_COMMANDS = 100  #: Maximum number of commands.
ARGUMENTS = "arguments"
OPTION_DESCRIPTION = "What the command is to work on"
"""Marks a command as ours, even after we have removed it."""
CHAT_INPUT = 1
STRING = 3
_COMMAND_NAME = re.compile(r"[\w-]{1,32}")
_COPIED_FIELDS = (
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
"""Fields copied from commands that are not ours, above all who may use them. Discord rejects the
fields it adds itself."""
CommandData = Mapping[str, Any]


def id_at(seconds: float) -> int:
    """Return the smallest id of that time. Ids grow with time, across all channels."""
    return max(int((seconds - EPOCH) * 1000), 0) << 22


def id_time(number: int) -> float:
    return (number >> 22) / 1000 + EPOCH


SCALE = IdScale(int, id_at, id_time)


class ForeignAnswer(HTTPException):
    """A server in front of Discord rejected the request: Discord has not seen it."""


class SessionLimitReached(ClientException):
    """We connected too often today. One more attempt, and Discord would revoke the token."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"Discord allows no new connection for {seconds / 60:.0f} minutes")


class DiscordHTTP(HTTPClient):
    """Makes each request once, at `base_url`, and raises `RateLimited` instead of waiting.

    The outbox decides when to retry. The library's own client would sleep and repeat inside a call,
    for minutes at worst.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, base_url: str, proxy: str | None) -> None:
        super().__init__(loop, proxy=proxy)
        self.base_url = base_url
        self.gateway: yarl.URL | None = None
        self._rest: aiohttp.ClientSession | None = None
        self._limits: dict[str, float] = {}
        """Loop time until which no request may be made, by limit."""

    async def request(
        self,
        route: Route,
        *,
        files: Sequence[File] | None = None,
        form: Iterable[dict[str, Any]] | None = None,
        **kwargs: Any,
    ) -> Any:
        key = f"{route.key}:{route.major_parameters}"
        limits = [key] if route.path.startswith(UNLIMITED) else [key, ACCOUNT_LIMIT]
        wait = max(self._limits.get(each, 0.0) for each in limits) - self.loop.time()
        if wait > 0:
            raise RateLimited(wait)
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
            self._update_limits(key, response.status, response.headers, data)
            if response.status < 300:
                return data
            if response.status >= 500:
                raise DiscordServerError(response, data)
            kind = ERRORS.get(response.status, HTTPException)
            raise (kind if isinstance(data, dict) else ForeignAnswer)(response, data)

    async def ws_connect(self, url: str, *, compress: int = 0) -> aiohttp.ClientWebSocketResponse:
        """Connect to the gateway address that Discord gave us instead of the library's default."""
        asked = yarl.URL(url)
        if self.gateway is not None and asked.host == DiscordWebSocket.DEFAULT_GATEWAY.host:
            url = str(self.gateway.with_query(asked.query))
        return await super().ws_connect(url, compress=compress)

    async def find_gateway(self) -> None:
        answer = await self.request(Route("GET", "/gateway/bot"))
        limit = answer.get("session_start_limit") or {}
        if limit.get("remaining", 1) <= 0:
            raise SessionLimitReached(limit.get("reset_after", 0) / 1000)
        self.gateway = yarl.URL(answer["url"])

    async def download(self, url: str) -> aiohttp.ClientResponse:
        """Download a file from the CDN, without our token."""
        return await self._session().get(yarl.URL(url, encoded=True), proxy=self.proxy)

    def _session(self) -> aiohttp.ClientSession:
        """Return a session that shares the library's hidden connector and ends with it."""
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

    def _update_limits(self, key: str, status: int, headers: Mapping[str, str], data: Any) -> None:
        now = self.loop.time()
        if len(self._limits) > MAX_LIMITS:
            self._limits = {name: until for name, until in self._limits.items() if until > now}
        if status == 429:
            body = data if isinstance(data, dict) else {}
            seconds = float(body.get("retry_after") or headers.get("Retry-After") or 5.0)
            # Without a body the server in front of Discord blocks this machine.
            everything = body.get("global") or not body
            self._limits[ACCOUNT_LIMIT if everything else key] = now + seconds
            raise RateLimited(seconds)
        if headers.get("X-RateLimit-Remaining") == "0":
            self._limits[key] = now + float(headers.get("X-RateLimit-Reset-After", 0.0))


def map_error(error: BaseException) -> AdapterError:
    """Map errors of `send` and `edit`."""
    if isinstance(error, discord.RateLimited):
        return SendLater("Discord asks us to wait", seconds=max(error.retry_after, 0.01))
    if isinstance(error, discord.HTTPException):
        return _map_status(error)
    if isinstance(error, aiohttp.ClientConnectorError):
        return SendLater(f"Discord cannot be reached: {error.os_error.strerror or 'no connection'}")
    return SendUnsure(f"the connection to Discord broke: {type(error).__name__}")


translate_call_errors = partial(translate_errors, map_error, CALL_ERRORS)


def map_connect_error(error: BaseException) -> AdapterError:
    """Map errors of `connect` and of the connection itself."""
    refused = getattr(error, "status", 0) == 401 and not isinstance(error, ForeignAnswer)
    if isinstance(error, discord.LoginFailure) or refused:
        return CredentialsRefused("Discord does not accept the bot token", hint=TOKEN_HINT)
    if isinstance(error, discord.PrivilegedIntentsRequired):
        return CredentialsRefused("Discord does not let us read messages", hint=INTENT_HINT)
    if isinstance(error, discord.ConnectionClosed):
        if error.code in FATAL_CLOSE_CODES:
            why = f"Discord does not accept the bot (code {error.code})"
            return CredentialsRefused(why, hint=TOKEN_HINT)
        return NotConnected(f"Discord closed the connection (code {error.code})")
    if isinstance(error, discord.HTTPException):
        return NotConnected(f"Discord answered {error.status}")
    if isinstance(error, SessionLimitReached):
        return NotConnected(str(error))
    return NotConnected(f"Discord cannot be reached: {type(error).__name__}")


class BatchTimes(msgspec.Struct, frozen=True):
    delay: float = 0.6  #: Seconds that a text waits for more from its author; 0 joins nothing.
    split_delay: float = 0.1
    """The same after the presumed last part of a long text: one that is not full after a full
    one."""


class DiscordOptions(msgspec.Struct, frozen=True):
    token: str
    settings: DiscordSettings = DiscordSettings()
    bots: BotPolicy = "none"  #: Which messages of other bots are handled.
    ignore_others: bool = True  #: Ignore messages that mention others but not us.
    needs_roles: bool = False
    """Users may be authorized by role, so roles are requested where a message lacks them."""
    sync: SyncPolicy = "safe"
    batch_times: BatchTimes = BatchTimes()
    proxy: str | None = None
    reply_references: bool = True  #: Answers reference the message they answer.
    base_url: str = BASE_URL
    identify_pause: float = 5.0
    """Seconds before each further session; Discord allows one in five seconds."""


def read_options(context: AdapterContext) -> DiscordOptions:
    """Read the options. Raises `CredentialsRefused` for an invalid value."""
    token = context.text("DISCORD_BOT_TOKEN") or getattr(context.connection, "token", "") or ""
    settings = context.settings

    def seconds(name: str, default: float) -> float:
        # Both names are documented.
        name = f"HERMES_DISCORD_TEXT_BATCH_{name}"
        long = f"{name}_SECONDS"
        known = long if context.text(long) or not context.text(name) else name
        return context.number(known, default, low=0, high=MAX_BATCH_SECONDS)

    times = BatchTimes()
    bots: Any = context.choice("DISCORD_ALLOW_BOTS", get_args(BotPolicy), "none")
    sync: Any = context.choice("DISCORD_COMMAND_SYNC_POLICY", get_args(SyncPolicy), "safe")
    return DiscordOptions(
        token=str(token).strip(),
        settings=settings if isinstance(settings, DiscordSettings) else DiscordSettings(),
        bots=bots,
        ignore_others=context.flag("DISCORD_IGNORE_NO_MENTION", default=True),
        needs_roles=bool(context.text("DISCORD_ALLOWED_ROLES")),
        sync=sync,
        batch_times=BatchTimes(
            seconds("DELAY", times.delay), seconds("SPLIT_DELAY", times.split_delay)
        ),
        proxy=context.text("DISCORD_PROXY") or None,
        reply_references=getattr(context.connection, "reply_to_mode", "first") != "off",
        base_url=str(context.extra.get("base_url") or BASE_URL).rstrip("/"),
        identify_pause=float(context.extra.get("identify_pause", 5.0)),
    )


class DiscordClient(discord.Client):
    def __init__(self, options: DiscordOptions) -> None:
        super().__init__(
            intents=discord.Intents(
                guilds=True, guild_messages=True, dm_messages=True, message_content=True
            ),
            max_messages=None,
            member_cache_flags=discord.MemberCacheFlags.none(),
            chunk_guilds_at_startup=False,
            guild_ready_timeout=GUILD_TIMEOUT,
        )
        self.rest = DiscordHTTP(asyncio.get_running_loop(), options.base_url, options.proxy)
        self.http = self._connection.http = self.rest
        self._identify_pause = options.identify_pause
        parsers = self._connection.parsers
        parsers |= {
            event: _skip_unreadable(event, parsers[event])
            for event in parsers.keys() - ESSENTIAL_EVENTS
        }
        self.listener: DiscordInbound | None = None
        """Receives messages, interactions and the start of each new session, before which messages
        may have been missed. A resumed session continues without loss and is not reported."""
        self.guilds_known = asyncio.Event()  #: Set when all available guilds are known.
        self._missing_guilds: set[int] = set()

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
        self._missing_guilds = {server.id for server in self.guilds if server.unavailable}
        self.guilds_known.clear()
        if self.listener:
            self.listener.on_session_start()
        if not self._missing_guilds:
            self.guilds_known.set()

    async def on_guild_available(self, server: discord.Guild) -> None:
        late = self.guilds_known.is_set() and server.id in self._missing_guilds
        self._missing_guilds.discard(server.id)
        if late and self.listener:  # it was unavailable until now
            self.listener.on_session_start()
        if not self._missing_guilds:
            self.guilds_known.set()

    async def on_guild_unavailable(self, server: discord.Guild) -> None:
        self._missing_guilds.add(server.id)

    async def on_ready(self) -> None:
        self.guilds_known.set()

    async def on_message(self, message: discord.Message) -> None:
        if self.listener:
            self.listener.on_message_received(message)

    async def on_interaction(self, interaction: discord.Interaction) -> None:
        if self.listener:
            await self.listener.on_interaction_used(interaction)

    def read(self, channel: Any, data: Any) -> discord.Message | None:
        """Parse a fetched message; None when the library cannot."""
        create = self._connection.create_message
        return _skip_unreadable("message", lambda given: create(channel=channel, data=given))(data)


def command_definitions(commands: Sequence[tuple[str, str]]) -> list[CommandData]:
    """Return the commands as Discord expects them: each takes the rest of the line as one
    argument."""
    names: dict[str, CommandData] = {}
    for name, does in commands:
        name = name.removeprefix("/").lower()
        if not _COMMAND_NAME.fullmatch(name) or len(names) == MAX_COMMANDS:
            continue
        names[name] = {
            "type": CHAT_INPUT,
            "name": name,
            "description": (does.strip() or name)[:100],
            "options": [{"type": STRING, "name": ARGUMENTS, "description": OPTION_DESCRIPTION}],
        }
    return list(names.values())


def merge_commands(
    there: Sequence[CommandData], ours: Sequence[CommandData], policy: SyncPolicy
) -> list[CommandData] | None:
    """Return the new command list, or None to leave it alone. `safe` keeps the commands of others
    and writes only when one of ours differs or is obsolete; `bulk` replaces everything with
    ours."""
    if policy == "off":
        return None
    if policy == "bulk":
        return list(ours)
    names = {command["name"] for command in ours}
    known = {command["name"]: _comparable(command) for command in there}
    others = [command for command in there if command["name"] not in names]
    ours_only = [(ARGUMENTS, OPTION_DESCRIPTION)]
    old = [
        command
        for command in others
        if [(each.get("name"), each.get("description")) for each in command.get("options") or ()]
        == ours_only
    ]
    others = [command for command in others if command not in old]
    wanted = ours[: MAX_COMMANDS - len(others)]
    if not old and all(known.get(each["name"]) == _comparable(each) for each in wanted):
        return None
    kept = [{key: command[key] for key in _COPIED_FIELDS if key in command} for command in others]
    return [*wanted, *kept]


def command_text(data: Mapping[str, Any]) -> str:
    """Return a used command as if the user had typed it."""
    values = [str(option.get("value", "")) for option in data.get("options") or ()]
    return " ".join([f"/{data.get('name', '')}", *values]).strip()


def _map_status(error: discord.HTTPException) -> AdapterError:
    if isinstance(error, ForeignAnswer):
        return SendLater(f"a server in front of Discord answered {error.status}", seconds=30.0)
    if error.status == 401:  # it can be sent once there is a new token
        return NotConnected("Discord does not accept the bot token", hint=TOKEN_HINT)
    if error.status in (
        502,
        504,
    ):  # a server in front of Discord answered; Discord may have sent it
        return SendUnsure(f"Discord answered {error.status}")
    if error.status >= 500:
        return SendLater(f"Discord answered {error.status}", seconds=2.0)
    code = f"{error.status}, {error.code}" if error.code else f"{error.status}"
    return SendRefused(f"Discord rejected it ({code}): {error.text}".strip())


def _skip_unreadable(what: str, parse: Callable[[Any], T]) -> Callable[[Any], T | None]:
    """Skip data the library cannot parse. It would end the connection, and again on every
    catch-up."""

    def careful(data: Any) -> T | None:
        try:
            return parse(data)
        except Exception:  # the library raises anything for unknown shapes
            logger.exception("Discord sent a %s that cannot be read", what)
            return None

    return careful


def _comparable(command: CommandData) -> tuple[Any, ...]:
    options = [
        (option["type"], option["name"], option.get("description"), bool(option.get("required")))
        for option in command.get("options") or ()
    ]
    return (command.get("type", CHAT_INPUT), command.get("description"), options)
