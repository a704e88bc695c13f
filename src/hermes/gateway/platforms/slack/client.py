"""How the agent behaves on Slack, from settings and variables."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any

import aiohttp
import msgspec
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.async_client import AsyncBaseSocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.web.async_client import AsyncWebClient

from hermes.config.settings.platform_extras import SlackExtra
from hermes.config.settings.platforms import SlackSettings
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
from hermes.gateway.platforms.kit.inbound import IdScale, remember, strip_address

BASE_URL = "https://slack.com/api/"
BOT_HINT = (
    "SLACK_BOT_TOKEN is the Bot User OAuth Token (xoxb-…) of the page OAuth & Permissions of your"
    " app at api.slack.com/apps."
)
APP_HINT = (
    "SLACK_APP_TOKEN is an App-Level Token (xapp-…) with the scope connections:write, from the page"
    " Basic Information of your app at api.slack.com/apps."
)


class Options(msgspec.Struct, frozen=True):
    tokens: tuple[str, ...]
    """One for each workspace; the first is home."""
    app_token: str
    settings: SlackSettings = SlackSettings()
    threads: bool = True
    """Messages of channels are answered in their thread."""
    broadcast: bool = False
    """Such an answer is shown in the channel too."""
    quotes: bool = True
    """Answers say what they answer, so their first part can be told from the rest."""
    base_url: str = BASE_URL


def options_of(context: AdapterContext) -> Options:
    connection, settings = context.connection, context.settings
    extra = getattr(connection, "extra", None)
    own = extra if isinstance(extra, SlackExtra) else SlackExtra()
    said = (context.variable("SLACK_BOT_TOKEN") or "", getattr(connection, "token", "") or "")
    tokens = [token.strip() for token in ",".join(said).split(",")]
    quotes = str(getattr(connection, "reply_to_mode", "first") or "off") != "off"
    return Options(
        tokens=tuple(dict.fromkeys(filter(None, tokens))),
        app_token=(context.variable("SLACK_APP_TOKEN") or "").strip(),
        settings=settings if isinstance(settings, SlackSettings) else SlackSettings(),
        threads=own.reply_in_thread and quotes,
        broadcast=own.reply_broadcast,
        quotes=quotes,
        base_url=str(context.extra.get("base_url") or BASE_URL),
    )


def check(options: Options) -> None:
    """Raises `CredentialsRefused` for tokens that are missing or in each other's place."""
    if not options.tokens:
        raise CredentialsRefused("there is no bot token for Slack", hint=BOT_HINT)
    if not options.app_token:
        raise CredentialsRefused("there is no app-level token for Slack", hint=APP_HINT)
    if not options.app_token.startswith("xapp-"):
        raise CredentialsRefused("SLACK_APP_TOKEN is no app-level token (xapp-…)", hint=APP_HINT)
    if any(token.startswith("xapp-") for token in options.tokens):
        raise CredentialsRefused("SLACK_BOT_TOKEN is no bot token (xoxb-…)", hint=BOT_HINT)


# Names of chats and messages.
#
# Slack's ids are unique in a workspace only. Those of the home workspace, the one of the first
# token,
# are used as they are; those of other workspaces have it before them: `T024BE7LD/C0123`. A message
# is
# named by its chat and its time, which Slack calls `ts`: `C0123:1700000000.000100`.

_TS = re.compile(r"\d+\.\d{6}")


def message_id(chat_id: str, ts: str) -> str:
    return f"{chat_id}:{ts}"


def ts_of(message_id: str) -> str:
    """Slack's name of a message; "" for what is no message, such as a command or a button."""
    ts = message_id.rpartition(":")[2]
    return ts if _TS.fullmatch(ts) else ""


def split_chat(chat_id: str) -> tuple[str, str]:
    """The workspace, "" for home, and the channel in it."""
    team, _, channel = chat_id.rpartition("/")
    return team, channel


def micros(ts: str) -> int:
    """Microseconds since 1970; 0 for what is no time."""
    return int(ts.replace(".", "")) if _TS.fullmatch(ts) else 0


def ts_at(seconds: float) -> str:
    return f"{max(seconds, 0.0):.6f}"


SCALE = IdScale(
    position=lambda message: micros(ts_of(message)),
    position_at=lambda seconds: micros(ts_at(seconds)),
    time_of=lambda place: place / 1e6,
)
"""How names of messages grow with time."""


# Slack's marks in what people write, as they read them on their screens.

_MARK = re.compile(r"<([^<>]*)>")
_KINDS = {"@": "user", "#": "channel", "!": "special"}
_ENTITIES = {"&lt;": "<", "&gt;": ">", "&amp;": "&"}
_ENTITY = re.compile("|".join(_ENTITIES))


class Names(msgspec.Struct, frozen=True):
    """What ids stand for, as far as it is known."""

    users: Mapping[str, str] = {}
    channels: Mapping[str, str] = {}


NO_NAMES = Names()


def mentions(text: str, user: str) -> bool:
    """Whether somebody is mentioned. What people write themselves has `<` as `&lt;`."""
    return f"<@{user}>" in text or f"<@{user}|" in text


def ids_in(text: str) -> tuple[set[str], set[str]]:
    """The users and channels that a text speaks of without saying their names."""
    users: set[str] = set()
    channels: set[str] = set()
    for found in _MARK.findall(text):
        target, _, label = found.partition("|")
        if not label and target[:1] in "@#":
            (users if target[:1] == "@" else channels).add(target[1:])
    return users, channels


def readable(text: str, names: Names = NO_NAMES, me: str = "") -> str:
    """Text without marks. A mention of ours at its beginning or end is only an address."""
    if me:
        ours = rf"<@{re.escape(me)}(?:\|[^<>]*)?>"
        text = strip_address(text, ours)
    pieces, end = [], 0
    for found in _MARK.finditer(text):
        pieces += [unescaped(text[end : found.start()]), _said(found[1], names)]
        end = found.end()
    return "".join([*pieces, unescaped(text[end:])])


def escaped(text: str) -> str:
    """Plain text for Slack."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def unescaped(text: str) -> str:
    return _ENTITY.sub(lambda found: _ENTITIES[found[0]], text)


def _said(mark: str, names: Names) -> str:
    target, _, label = mark.partition("|")
    label = unescaped(label)
    kind = _KINDS.get(target[:1], "link")
    if kind == "user":
        return f"@{label or names.users.get(target[1:]) or target[1:]}"
    if kind == "channel":
        return f"#{label or names.channels.get(target[1:]) or target[1:]}"
    if kind == "special":
        return label or f"@{target[1:].partition('^')[0]}"
    return _link(unescaped(target), label)


def _link(url: str, label: str) -> str:
    shown = url.removeprefix("mailto:").removeprefix("tel:")
    if not label or label == shown:
        return shown
    if shown.partition("://")[2].rstrip("/") == label.rstrip("/"):
        return label  # Slack made a link of what was written
    return f"[{label}]({url})"


# What Slack's answers and broken connections mean to the gateway.

TROUBLE = (SlackClientError, aiohttp.ClientError, TimeoutError, OSError)
"""All that a call may end with."""
NO_ENTRY = frozenset(
    {
        "account_inactive",
        "app_not_installed",
        "invalid_auth",
        "not_allowed_token_type",
        "not_authed",
        "token_expired",
        "token_revoked",
    }
)
LIMITED = frozenset({"ratelimited", "rate_limited"})
PASSING = frozenset({"request_timeout", "service_unavailable", "team_added_to_org"})
"""Nothing was done, and may be later."""
HALF_DONE = frozenset({"fatal_error", "internal_error"})
"""Slack says of these that a part may have been done."""
UNREADABLE = frozenset(
    {"invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long", "msg_too_long"}
)
GONE = frozenset(
    {"channel_not_found", "is_archived", "not_in_channel", "thread_not_found", "user_not_found"}
)
NO_ROUTE = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
"""No connection was made, so nothing was asked."""
LONGEST = 3600.0


def code_of(error: BaseException) -> str:
    """Slack's word for what is wrong; "" when it said none."""
    data = getattr(getattr(error, "response", None), "data", None)
    return str(data.get("error") or "") if isinstance(data, dict) else ""


def of_call(error: BaseException) -> AdapterError:
    """Errors of `send` and `edit`."""
    if isinstance(error, SlackApiError):
        return _refused(error)
    if isinstance(error, NO_ROUTE):
        return SendLater(f"Slack cannot be reached: {type(error).__name__}", seconds=2.0)
    return SendUnsure(f"the connection to Slack broke: {type(error).__name__}")


told = partial(translate_errors, of_call, TROUBLE)
unseen = partial(told, repeatable=True)
"""For calls that nobody sees anything of."""


def of_connecting(error: BaseException, hint: str = BOT_HINT) -> AdapterError:
    """Errors of `connect` and `probe`."""
    code = code_of(error)
    if code in NO_ENTRY:
        return CredentialsRefused(f"Slack does not accept the token ({code})", hint=hint)
    if code == "missing_scope":
        return CredentialsRefused(f"Slack lets us do too little: {_scope(error)}", hint=hint)
    if code:
        return NotConnected(f"Slack answered {code}")
    if isinstance(error, SlackApiError):
        return NotConnected(f"Slack answered {_status(error)}")
    return NotConnected(f"Slack cannot be reached: {type(error).__name__}")


def of_socket(error: BaseException) -> AdapterError:
    return of_connecting(error, APP_HINT)


def retry_after(error: BaseException) -> float | None:
    """Seconds that Slack wants us to wait; None when that is not what is wrong."""
    if _status(error) != 429 and code_of(error) not in LIMITED:
        return None
    headers: Any = getattr(getattr(error, "response", None), "headers", None) or {}
    try:
        seconds = float(headers.get("Retry-After", 1.0))
    except ValueError:
        seconds = 1.0
    return min(max(seconds, 0.1), LONGEST)


def _refused(error: SlackApiError) -> AdapterError:
    code, status = code_of(error), _status(error)
    if (seconds := retry_after(error)) is not None:
        return SendLater("Slack wants us to wait", seconds=seconds)
    if code in NO_ENTRY:
        return CredentialsRefused(f"Slack does not accept the token ({code})", hint=BOT_HINT)
    if code in PASSING or (not code and status == 503):
        return SendLater(f"Slack answered {code or status}", seconds=5.0)
    if code in HALF_DONE or not code:
        return SendUnsure(f"Slack answered {code or status}")
    if code == "missing_scope":
        hint = "Add it on the page OAuth & Permissions of the app, and install the app again."
        return SendRefused(f"Slack does not allow it: {_scope(error)}", hint=hint)
    if code == "not_in_channel":
        return SendRefused("we are not in that channel of Slack", hint="Invite us with /invite.")
    return SendRefused(f"Slack refuses it: {code}")


def _scope(error: BaseException) -> str:
    data = getattr(getattr(error, "response", None), "data", None)
    needed = data.get("needed") if isinstance(data, dict) else ""
    return f"the scope {needed} is missing" if needed else "a scope is missing"


def _status(error: BaseException) -> int:
    response = getattr(error, "response", None)
    return int(getattr(response, "status_code", None) or getattr(response, "status", None) or 0)


# A workspace that we are in: its client, who we are there, and what its ids stand for.

logger = logging.getLogger(__name__)

Json = dict[str, Any]
Call = Callable[..., Awaitable[Any]]

MOST_NAMES = 2000
LOOKING_UP = 1.5
"""Seconds that names may take: Slack wants to hear of a message within three."""
TRIES = 5
PAGE = 200
KINDS = "public_channel,private_channel,mpim,im"

library_log = logging.getLogger(f"{__name__}.library")
library_log.setLevel(logging.CRITICAL)
"""The library tells of messages, and of addresses that are secrets. What goes wrong we tell."""


def client_of(token: str, base_url: str, session: aiohttp.ClientSession) -> AsyncWebClient:
    """One attempt for each call: when to try again is for the gateway's outbox to decide."""
    return AsyncWebClient(
        token, base_url=base_url, session=session, logger=library_log, retry_handlers=[]
    )


class Channel(msgspec.Struct, frozen=True):
    name: str = ""
    is_member: bool = True


class Workspace:
    def __init__(self, client: AsyncWebClient, *, home: bool) -> None:
        self.client, self._home = client, home
        self.team = self.me = self.bot_id = self._enterprise = ""
        self._belongs: dict[str, str] = {}
        """Enterprises of users, as far as they were asked for."""
        self._users: dict[str, str] = {}
        self._channels: dict[str, Channel] = {}
        self._private: dict[str, str] = {}

    async def enter(self) -> None:
        """Find out who we are. Raises what a call may raise."""
        answer = await self.client.auth_test()
        self.team, self.me = str(answer["team_id"]), str(answer["user_id"])
        self.bot_id = str(answer.get("bot_id") or "")
        self._enterprise = str(answer.get("enterprise_id") or "")
        self._users[self.me] = str(answer.get("user") or "")

    @property
    def prefix(self) -> str:
        return "" if self._home else f"{self.team}/"

    def chat_id(self, channel: str) -> str:
        return f"{self.prefix}{channel}"

    def user_id(self, user: str, team: str = "") -> str:
        """Somebody of another workspace, in a channel that is shared with it, is never taken for
        one of ours who has the same id. In an enterprise ids are the same in all its workspaces
        (see `meet`)."""
        if not user:
            return ""
        ours = self._enterprise and self._belongs.get(user) == self._enterprise
        if team and team != self.team and not ours:
            return f"{team}/{user}"
        return f"{self.prefix}{user}"

    async def meet(self, user: str, team: str) -> None:
        """Find out whether somebody of another workspace belongs to our enterprise."""
        if self._enterprise and team and team != self.team and user not in self._belongs:
            self._users.pop(user, None)  # the name alone may be known already
            await self.names("", [user])

    def is_ours(self, user: str, bot_id: str) -> bool:
        return user == self.me or (bool(bot_id) and bot_id == self.bot_id)

    # names: it does no harm when one is not known

    async def names(self, text: str, users: Iterable[str] = (), channel: str = "") -> Names:
        """Of everybody and everything in a text, and of those given."""
        named, channels = ids_in(text)
        people, places = {*named, *users} - {""}, {*channels, channel} - {""}
        try:
            async with asyncio.timeout(LOOKING_UP):
                await asyncio.gather(*map(self._learn_user, people), *map(self.channel, places))
        except TimeoutError:
            logger.info("Slack does not say who is who")
        return Names(
            {user: self._users.get(user, "") for user in people},
            {place: self._channels[place].name for place in places if place in self._channels},
        )

    async def user_name(self, user: str) -> str:
        await self._learn_user(user)
        return self._users.get(user, "")

    async def channel(self, channel: str) -> Channel | None:
        """None when we cannot see it, or Slack cannot be asked."""
        if channel not in self._channels:
            try:
                async with asyncio.timeout(LOOKING_UP):
                    data = (await self.client.conversations_info(channel=channel))["channel"]
            except TROUBLE as error:
                logger.debug("a channel of Slack is not known: %s", type(error).__name__)
                return None
            member = bool(data.get("is_member") or data.get("is_im"))
            if not member:  # that may change, so it is asked for again
                return Channel(str(data.get("name") or ""), is_member=False)
            remember(self._channels, channel, Channel(str(data.get("name") or "")), MOST_NAMES)
        return self._channels[channel]

    async def private_chat(self, user: str) -> str:
        """Our own chat with somebody. Raises what a call may raise."""
        if user not in self._private:
            answer = await self.client.conversations_open(users=user)
            remember(self._private, user, str(answer["channel"]["id"]), MOST_NAMES)
        return self._private[user]

    async def conversations(self) -> list[Json]:
        """Where we are. Raises what a call may raise."""
        found: list[Json] = []
        async for page in pages(
            self.client.users_conversations, types=KINDS, exclude_archived=True, limit=PAGE
        ):
            found += page["channels"]
        return found

    async def _learn_user(self, user: str) -> None:
        if user in self._users or not user:
            return
        try:
            data = (await self.client.users_info(user=user))["user"]
        except TROUBLE as error:
            logger.debug("a user of Slack is not known: %s", type(error).__name__)
            return
        member = data.get("enterprise_user") or {}
        remember(self._belongs, user, str(member.get("enterprise_id") or ""), MOST_NAMES)
        profile = data.get("profile") or {}
        names = (profile.get("display_name"), profile.get("real_name"), data.get("name"))
        name = next((str(name) for name in names if name), "")
        remember(self._users, user, name, MOST_NAMES)


async def patiently(call: Call, **arguments: Any) -> Json:
    """Waits where Slack wants us to. Raises what a call may raise."""
    for attempt in range(TRIES):
        try:
            answer: Json = (await call(**arguments)).data
        except SlackApiError as error:
            seconds = retry_after(error)
            if seconds is None or attempt == TRIES - 1:
                raise
            await asyncio.sleep(seconds)
        else:
            return answer
    raise AssertionError("unreachable")


async def pages(call: Call, **arguments: Any) -> AsyncIterator[Json]:
    """All pages of a list, patiently."""
    while True:
        page = await patiently(call, **arguments)
        yield page
        arguments["cursor"] = (page.get("response_metadata") or {}).get("next_cursor")
        if not arguments["cursor"]:
            return


# The connection that messages come by, which Slack calls Socket Mode. The library's client holds
# it, and makes a new one where Slack asks for that or the line breaks.

PING = 5.0
"""Seconds between signs of life; one connection after the other is tried as often."""
SAYING_HELLO = 15.0
CHANGING = 3.0
"""Seconds that one connection may take to follow another."""

Heard = Callable[[SocketModeRequest], None]


class Socket:
    def __init__(self, heard: Heard, began: Callable[[], None]) -> None:
        """`began` is called at the beginning of each connection, `heard` for what comes by it."""
        self._heard, self._began = heard, began
        self._client: SocketModeClient | None = None
        self._hello = asyncio.Event()

    async def open(self, options: Options, session: aiohttp.ClientSession) -> None:
        """Returns when messages flow."""
        web = client_of("", options.base_url, session)
        try:
            answer = await web.apps_connections_open(app_token=options.app_token)
        except TROUBLE as error:
            raise of_socket(error) from error
        client = self._client = SocketModeClient(
            options.app_token, logger=library_log, web_client=web, ping_interval=PING
        )
        client.wss_uri = str(answer["url"])
        client.message_listeners.append(self._listen)
        client.socket_mode_request_listeners.append(self._take)
        try:
            async with asyncio.timeout(SAYING_HELLO):
                await client.connect()  # type: ignore[no-untyped-call]  # the library has no types here
                await self._hello.wait()
        except TimeoutError:
            raise NotConnected("Slack does not open a connection") from None

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is None:
            return
        tasks = (client.message_processor, client.current_session_monitor, client.message_receiver)
        await client.close()  # type: ignore[no-untyped-call]  # the library has no types here
        await asyncio.gather(*filter(None, tasks), return_exceptions=True)

    async def is_up(self) -> bool:
        """Waits a little for a connection that is being made."""
        for _ in range(int(CHANGING / 0.1)):
            client = self._client
            if client is None or await client.is_connected():
                return client is not None
            if not client.connect_operation_lock.locked():
                return False
            await asyncio.sleep(0.1)
        return False

    async def acknowledge(self, envelope: str) -> None:
        """Slack need not send it again. It does when it does not hear this, and then we know."""
        wire = self._client.current_session if self._client else None
        if wire is None or wire.closed or not envelope:
            return
        try:
            await wire.send_json({"envelope_id": envelope})
        except TROUBLE as error:
            logger.info("Slack did not hear that we have a message: %s", type(error).__name__)

    async def _listen(
        self,
        client: AsyncBaseSocketModeClient,  # noqa: ARG002 - the library's signature
        message: dict[str, Any],
        raw: str | None,  # noqa: ARG002 - the signature is given
    ) -> None:
        if message.get("type") != "hello":
            return
        if int(message.get("num_connections") or 1) > 1:
            logger.warning("another program is connected as our app of Slack and gets messages")
        self._began()
        self._hello.set()

    async def _take(
        self,
        client: AsyncBaseSocketModeClient,  # noqa: ARG002 - the signature is given
        request: SocketModeRequest,
    ) -> None:
        self._heard(request)
