"""Access to Slack: options, ids, mrkdwn, errors, workspaces and the Socket Mode connection.

Slack's ids are unique only in a workspace. Ids of the home workspace, the one of the first token,
are used as they are; those of other workspaces are prefixed: `T024BE7LD/C0123`. A message id is the
chat and the message's timestamp, Slack's `ts`: `C0123:1700000000.000100`.
"""

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
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.web.async_client import AsyncWebClient

from hermes.sdk.platforms import (
    AdapterContext,
    AdapterError,
    CredentialsRefused,
    IdScale,
    NotConnected,
    SendLater,
    SendRefused,
    SendUnsure,
    remember,
    strip_address,
    translate_errors,
)
from hermes_plugins.platforms.slack.manifest import SlackExtra, SlackSettings

logger = logging.getLogger(__name__)
BASE_URL = "https://slack.com/api/"
BOT_HINT = (
    "SLACK_BOT_TOKEN is the Bot User OAuth Token (xoxb-…) of the page OAuth & Permissions of your"
    " app at api.slack.com/apps."
)
APP_HINT = (
    "SLACK_APP_TOKEN is an App-Level Token (xapp-…) with the scope connections:write, from the page"
    " Basic Information of your app at api.slack.com/apps."
)
_TS = re.compile(r"\d+\.\d{6}")
_MARK = re.compile(r"<([^<>]*)>")
_ENTITIES = {"&lt;": "<", "&gt;": ">", "&amp;": "&"}
_ENTITY = re.compile("|".join(_ENTITIES))
CALL_ERRORS = (SlackClientError, aiohttp.ClientError, TimeoutError, OSError)
"""Everything a call may raise."""
AUTH_ERRORS = frozenset(
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
RATE_LIMIT_ERRORS = frozenset({"ratelimited", "rate_limited"})
TRANSIENT_ERRORS = frozenset({"request_timeout", "service_unavailable", "team_added_to_org"})
"""Nothing was done; a retry may succeed."""
UNCERTAIN_ERRORS = frozenset({"fatal_error", "internal_error"})
"""Slack documents that a part may have been done."""
FORMAT_ERRORS = frozenset(
    {"invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long", "msg_too_long"}
)
GONE_ERRORS = frozenset(
    {"channel_not_found", "is_archived", "not_in_channel", "thread_not_found", "user_not_found"}
)
CONNECT_ERRORS = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
"""No connection was made, so nothing was sent."""
MAX_RETRY_AFTER = 3600.0
Json = dict[str, Any]
Call = Callable[..., Awaitable[Any]]
MAX_NAMES = 2000
LOOKUP_SECONDS = 1.5
"""Time limit for looking up names: Slack expects an acknowledgement within three seconds."""
MAX_ATTEMPTS = 5
PAGE_SIZE = 200
CONVERSATION_TYPES = "public_channel,private_channel,mpim,im"
library_logger = logging.getLogger(f"{__name__}.library")
PING_SECONDS = 5.0  #: Seconds between pings, and between attempts to reconnect.
HELLO_SECONDS = 15.0
RECONNECT_SECONDS = 3.0  #: Seconds that replacing a connection may take.
HandleRequest = Callable[[SocketModeRequest], None]


class SlackOptions(msgspec.Struct, frozen=True):
    tokens: tuple[str, ...]  #: One for each workspace; the first is home.
    app_token: str
    settings: SlackSettings = SlackSettings()
    threads: bool = True  #: Messages of channels are answered in their thread.
    broadcast: bool = False  #: Such an answer is shown in the channel too.
    reply_references: bool = True
    """Answers reference the message they answer, which marks their first part."""
    base_url: str = BASE_URL


def read_options(context: AdapterContext) -> SlackOptions:
    connection, settings = context.connection, context.settings
    extra = getattr(connection, "extra", None)
    own = extra if isinstance(extra, SlackExtra) else SlackExtra()
    said = (context.text("SLACK_BOT_TOKEN"), getattr(connection, "token", "") or "")
    tokens = [token.strip() for token in ",".join(said).split(",")]
    quotes = str(getattr(connection, "reply_to_mode", "first") or "off") != "off"
    return SlackOptions(
        tokens=tuple(dict.fromkeys(filter(None, tokens))),
        app_token=context.text("SLACK_APP_TOKEN"),
        settings=settings if isinstance(settings, SlackSettings) else SlackSettings(),
        threads=own.reply_in_thread and quotes,
        broadcast=own.reply_broadcast,
        reply_references=quotes,
        base_url=str(context.extra.get("base_url") or BASE_URL),
    )


def check_tokens(options: SlackOptions) -> None:
    """Raises `CredentialsRefused` for tokens that are missing or swapped."""
    if not options.tokens:
        raise CredentialsRefused("no bot token for Slack is set", hint=BOT_HINT)
    if not options.app_token:
        raise CredentialsRefused("no app-level token for Slack is set", hint=APP_HINT)
    if not options.app_token.startswith("xapp-"):
        raise CredentialsRefused(
            "SLACK_APP_TOKEN is not an app-level token (xapp-…)", hint=APP_HINT
        )
    if any(token.startswith("xapp-") for token in options.tokens):
        raise CredentialsRefused("SLACK_BOT_TOKEN is not a bot token (xoxb-…)", hint=BOT_HINT)


def message_id(chat_id: str, ts: str) -> str:
    return f"{chat_id}:{ts}"


def timestamp_of(message_id: str) -> str:
    """Return the timestamp of a message; "" for other ids, such as those of commands and
    buttons."""
    ts = message_id.rpartition(":")[2]
    return ts if _TS.fullmatch(ts) else ""


def split_chat(chat_id: str) -> tuple[str, str]:
    """Return the workspace ("" for home) and the channel."""
    team, _, channel = chat_id.rpartition("/")
    return team, channel


def micros(ts: str) -> int:
    """Return microseconds since 1970; 0 for an invalid timestamp."""
    return int(ts.replace(".", "")) if _TS.fullmatch(ts) else 0


def timestamp_at(seconds: float) -> str:
    return f"{max(seconds, 0.0):.6f}"


SCALE = IdScale(
    position=lambda message: micros(timestamp_of(message)),
    position_at=lambda seconds: micros(timestamp_at(seconds)),
    time_of=lambda place: place / 1e6,
)
"""How message ids grow with time."""


class SlackNames(msgspec.Struct, frozen=True):
    """Names of users and channels, as far as they are known."""

    users: Mapping[str, str] = {}
    channels: Mapping[str, str] = {}


NO_NAMES = SlackNames()


def mentions(text: str, user: str) -> bool:
    """True if the text mentions the user. In text typed by users `<` is `&lt;`."""
    return f"<@{user}>" in text or f"<@{user}|" in text


def ids_in(text: str) -> tuple[set[str], set[str]]:
    """Return the users and channels in a text that come without their names."""
    users: set[str] = set()
    channels: set[str] = set()
    for found in _MARK.findall(text):
        target, _, label = found.partition("|")
        if not label and target[:1] in "@#":
            (users if target[:1] == "@" else channels).add(target[1:])
    return users, channels


def readable_text(text: str, names: SlackNames = NO_NAMES, me: str = "") -> str:
    """Return the text without markup. A mention of us at its beginning or end is an address and is
    removed."""
    if me:
        ours = rf"<@{re.escape(me)}(?:\|[^<>]*)?>"
        text = strip_address(text, ours)
    pieces, end = [], 0
    for found in _MARK.finditer(text):
        pieces += [unescape_text(text[end : found.start()]), _render_mark(found[1], names)]
        end = found.end()
    return "".join([*pieces, unescape_text(text[end:])])


def unescape_text(text: str) -> str:
    return _ENTITY.sub(lambda found: _ENTITIES[found[0]], text)


def error_code(error: BaseException) -> str:
    """Return Slack's error code; "" for none."""
    data = getattr(getattr(error, "response", None), "data", None)
    return str(data.get("error") or "") if isinstance(data, dict) else ""


def map_error(error: BaseException) -> AdapterError:
    """Map errors of `send` and `edit`."""
    if isinstance(error, SlackApiError):
        return _map_api_error(error)
    if isinstance(error, CONNECT_ERRORS):
        return SendLater(f"Slack cannot be reached: {type(error).__name__}", seconds=2.0)
    return SendUnsure(f"the connection to Slack broke: {type(error).__name__}")


translate_call_errors = partial(translate_errors, map_error, CALL_ERRORS)
translate_invisible_errors = partial(translate_call_errors, repeatable=True)
"""For calls without visible effect."""


def map_connect_error(error: BaseException, hint: str = BOT_HINT) -> AdapterError:
    """Map errors of `connect` and `probe`."""
    code = error_code(error)
    if code in AUTH_ERRORS:
        return CredentialsRefused(f"Slack does not accept the token ({code})", hint=hint)
    if code == "missing_scope":
        return CredentialsRefused(
            f"the Slack app lacks a permission: {_missing_scope(error)}", hint=hint
        )
    if code:
        return NotConnected(f"Slack answered {code}")
    if isinstance(error, SlackApiError):
        return NotConnected(f"Slack answered {_status(error)}")
    return NotConnected(f"Slack cannot be reached: {type(error).__name__}")


def map_socket_error(error: BaseException) -> AdapterError:
    return map_connect_error(error, APP_HINT)


def retry_after(error: BaseException) -> float | None:
    """Return the seconds Slack asks us to wait; None for other errors."""
    if _status(error) != 429 and error_code(error) not in RATE_LIMIT_ERRORS:
        return None
    headers: Any = getattr(getattr(error, "response", None), "headers", None) or {}
    try:
        seconds = float(headers.get("Retry-After", 1.0))
    except ValueError:
        seconds = 1.0
    return min(max(seconds, 0.1), MAX_RETRY_AFTER)


library_logger.setLevel(logging.CRITICAL)
"""The library logs messages and secret addresses. We log errors ourselves."""


def make_client(token: str, base_url: str, session: aiohttp.ClientSession) -> AsyncWebClient:
    """Create a client that makes each call once: the outbox decides when to retry."""
    return AsyncWebClient(
        token, base_url=base_url, session=session, logger=library_logger, retry_handlers=[]
    )


class SlackChannel(msgspec.Struct, frozen=True):
    name: str = ""
    is_member: bool = True


class SlackWorkspace:
    """One workspace: its client, our identity in it, and the names of its users and channels."""

    def __init__(self, client: AsyncWebClient, *, home: bool) -> None:
        self.client, self._home = client, home
        self.team = self.me = self.bot_id = self._enterprise = ""
        self._enterprises: dict[str, str] = {}  #: Enterprise ids of users that were looked up.
        self._users: dict[str, str] = {}
        self._channels: dict[str, SlackChannel] = {}
        self._private: dict[str, str] = {}

    async def authenticate(self) -> None:
        """Find out who we are. Raises any of `CALL_ERRORS`."""
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
        """Return the id of a user. A user of another workspace, in a shared channel, is never
        confused with one of ours who has the same id. In an enterprise, ids are the same in all
        workspaces (see `look_up_enterprise`)."""
        if not user:
            return ""
        ours = self._enterprise and self._enterprises.get(user) == self._enterprise
        if team and team != self.team and not ours:
            return f"{team}/{user}"
        return f"{self.prefix}{user}"

    async def look_up_enterprise(self, user: str, team: str) -> None:
        """Find out whether a user of another workspace belongs to our enterprise."""
        if self._enterprise and team and team != self.team and user not in self._enterprises:
            self._users.pop(user, None)  # only the name may be known
            await self.names("", [user])

    def is_ours(self, user: str, bot_id: str) -> bool:
        return user == self.me or (bool(bot_id) and bot_id == self.bot_id)

    async def names(self, text: str, users: Iterable[str] = (), channel: str = "") -> SlackNames:
        """Return the names of all ids in a text and of the given ones. Unknown names are
        omitted."""
        named, channels = ids_in(text)
        people, places = {*named, *users} - {""}, {*channels, channel} - {""}
        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                await asyncio.gather(*map(self._learn_user, people), *map(self.channel, places))
        except TimeoutError:
            logger.info("looking up names on Slack timed out")
        return SlackNames(
            {user: self._users.get(user, "") for user in people},
            {place: self._channels[place].name for place in places if place in self._channels},
        )

    async def user_name(self, user: str) -> str:
        await self._learn_user(user)
        return self._users.get(user, "")

    async def channel(self, channel: str) -> SlackChannel | None:
        """Return a channel; None when we cannot see it or Slack cannot be reached."""
        if channel not in self._channels:
            try:
                async with asyncio.timeout(LOOKUP_SECONDS):
                    data = (await self.client.conversations_info(channel=channel))["channel"]
            except CALL_ERRORS as error:
                logger.debug("a channel of Slack is not known: %s", type(error).__name__)
                return None
            member = bool(data.get("is_member") or data.get("is_im"))
            if not member:  # may change, so it is not cached
                return SlackChannel(str(data.get("name") or ""), is_member=False)
            remember(self._channels, channel, SlackChannel(str(data.get("name") or "")), MAX_NAMES)
        return self._channels[channel]

    async def private_chat(self, user: str) -> str:
        """Return our private chat with a user. Raises any of `CALL_ERRORS`."""
        if user not in self._private:
            answer = await self.client.conversations_open(users=user)
            remember(self._private, user, str(answer["channel"]["id"]), MAX_NAMES)
        return self._private[user]

    async def conversations(self) -> list[Json]:
        """Return the conversations we are in. Raises any of `CALL_ERRORS`."""
        found: list[Json] = []
        async for page in pages(
            self.client.users_conversations,
            types=CONVERSATION_TYPES,
            exclude_archived=True,
            limit=PAGE_SIZE,
        ):
            found += page["channels"]
        return found

    async def _learn_user(self, user: str) -> None:
        if user in self._users or not user:
            return
        try:
            data = (await self.client.users_info(user=user))["user"]
        except CALL_ERRORS as error:
            logger.debug("a user of Slack is not known: %s", type(error).__name__)
            return
        member = data.get("enterprise_user") or {}
        remember(self._enterprises, user, str(member.get("enterprise_id") or ""), MAX_NAMES)
        profile = data.get("profile") or {}
        names = (profile.get("display_name"), profile.get("real_name"), data.get("name"))
        name = next((str(name) for name in names if name), "")
        remember(self._users, user, name, MAX_NAMES)


async def retry_rate_limited(call: Call, **arguments: Any) -> Json:
    """Make a call, waiting as long as Slack requests. Raises any of `CALL_ERRORS`."""
    for attempt in range(MAX_ATTEMPTS):
        try:
            answer: Json = (await call(**arguments)).data
        except SlackApiError as error:
            seconds = retry_after(error)
            if seconds is None or attempt == MAX_ATTEMPTS - 1:
                raise
            await asyncio.sleep(seconds)
        else:
            return answer
    raise AssertionError("unreachable")


async def pages(call: Call, **arguments: Any) -> AsyncIterator[Json]:
    """Yield all pages of a list, waiting as long as Slack requests."""
    while True:
        page = await retry_rate_limited(call, **arguments)
        yield page
        arguments["cursor"] = (page.get("response_metadata") or {}).get("next_cursor")
        if not arguments["cursor"]:
            return


class SlackSocket:
    """The Socket Mode connection. The library reconnects when Slack asks for it or the connection
    breaks."""

    def __init__(self, handle: HandleRequest, on_connect: Callable[[], None]) -> None:
        self._handle, self._on_connect = handle, on_connect
        self._client: SocketModeClient | None = None
        self._hello = asyncio.Event()

    async def open(self, options: SlackOptions, session: aiohttp.ClientSession) -> None:
        """Return when messages flow."""
        web = make_client("", options.base_url, session)
        try:
            answer = await web.apps_connections_open(app_token=options.app_token)
        except CALL_ERRORS as error:
            raise map_socket_error(error) from error
        client = self._client = SocketModeClient(
            options.app_token, logger=library_logger, web_client=web, ping_interval=PING_SECONDS
        )
        client.wss_uri = str(answer["url"])
        client.message_listeners.append(self._on_message)
        client.socket_mode_request_listeners.append(self._on_request)
        try:
            async with asyncio.timeout(HELLO_SECONDS):
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
        """True if connected; waits briefly for a connection in progress."""
        for _ in range(int(RECONNECT_SECONDS / 0.1)):
            client = self._client
            if client is None or await client.is_connected():
                return client is not None
            if not client.connect_operation_lock.locked():
                return False
            await asyncio.sleep(0.1)
        return False

    async def acknowledge(self, envelope: str) -> None:
        """Acknowledge a request. Without it Slack sends the request again, which we recognize."""
        wire = self._client.current_session if self._client else None
        if wire is None or wire.closed or not envelope:
            return
        try:
            await wire.send_json({"envelope_id": envelope})
        except CALL_ERRORS as error:
            logger.info("a message of Slack was not acknowledged: %s", type(error).__name__)

    async def _on_message(self, _client: object, message: Json, _raw: str | None) -> None:
        if message.get("type") != "hello":
            return
        if int(message.get("num_connections") or 1) > 1:
            logger.warning("another program is connected as our app of Slack and gets messages")
        self._on_connect()
        self._hello.set()

    async def _on_request(self, _client: object, request: SocketModeRequest) -> None:
        self._handle(request)


def _render_mark(mark: str, names: SlackNames) -> str:
    target, _, label = mark.partition("|")
    label = unescape_text(label)
    match target[:1]:
        case "@":
            return f"@{label or names.users.get(target[1:]) or target[1:]}"
        case "#":
            return f"#{label or names.channels.get(target[1:]) or target[1:]}"
        case "!":
            return label or f"@{target[1:].partition('^')[0]}"
    url = unescape_text(target)
    shown = url.removeprefix("mailto:").removeprefix("tel:")
    if not label or label == shown:
        return shown
    if shown.partition("://")[2].rstrip("/") == label.rstrip("/"):
        return label  # Slack made a link of what was typed
    return f"[{label}]({url})"


def _map_api_error(error: SlackApiError) -> AdapterError:
    code, status = error_code(error), _status(error)
    if (seconds := retry_after(error)) is not None:
        return SendLater("Slack asks us to wait", seconds=seconds)
    if code in AUTH_ERRORS:
        return CredentialsRefused(f"Slack does not accept the token ({code})", hint=BOT_HINT)
    if code in TRANSIENT_ERRORS or (not code and status == 503):
        return SendLater(f"Slack answered {code or status}", seconds=5.0)
    if code in UNCERTAIN_ERRORS or not code:
        return SendUnsure(f"Slack answered {code or status}")
    if code == "missing_scope":
        hint = "Add it on the page OAuth & Permissions of the app, and install the app again."
        return SendRefused(f"Slack does not allow it: {_missing_scope(error)}", hint=hint)
    if code == "not_in_channel":
        return SendRefused("we are not in that channel of Slack", hint="Invite us with /invite.")
    return SendRefused(f"Slack rejected it: {code}")


def _missing_scope(error: BaseException) -> str:
    data = getattr(getattr(error, "response", None), "data", None)
    needed = data.get("needed") if isinstance(data, dict) else ""
    return f"the scope {needed} is missing" if needed else "a scope is missing"


def _status(error: BaseException) -> int:
    response = getattr(error, "response", None)
    return int(getattr(response, "status_code", None) or getattr(response, "status", None) or 0)
