"""Slack. Messages come by Socket Mode, all else goes by HTTP."""

import asyncio
import contextlib
import logging
from collections.abc import Sequence

import aiohttp
from slack_sdk.errors import SlackApiError

from hermes.sdk import Clock, SystemClock
from hermes.sdk.platforms import (
    AdapterContext,
    AdapterError,
    ChatInfo,
    ChatTarget,
    ConnectedAdapter,
    Connection,
    CredentialsRefused,
    DeliveryQuery,
    Media,
    MediaCache,
    NotConnected,
    OutgoingMessage,
    ReadPosition,
    Receive,
    SendRefused,
    SendUnsure,
)
from hermes_plugins.platforms.slack import inbound, outbound
from hermes_plugins.platforms.slack.client import (
    CALL_ERRORS,
    FORMAT_ERRORS,
    SCALE,
    Json,
    SlackOptions,
    SlackWorkspace,
    check_tokens,
    error_code,
    make_client,
    map_connect_error,
    map_error,
    message_id,
    read_options,
    retry_after,
    split_chat,
    timestamp_of,
    translate_call_errors,
)
from hermes_plugins.platforms.slack.inbound import SlackInbound
from hermes_plugins.platforms.slack.outbound import UploadStore, emoji_name

logger = logging.getLogger(__name__)
TIMEOUT = aiohttp.ClientTimeout(total=30, sock_connect=10)
STATUS_UNAVAILABLE_ERRORS = frozenset(
    {"missing_scope", "unknown_method", "not_allowed_token_type", "access_denied"}
)
"""Errors that mean the workspace never shows our typing status."""
MAX_NAMED_CHATS = 50  #: Private chats whose user names are looked up; others show ids.
MAX_PARALLEL_LOOKUPS = 4
FINAL_REACTION_ERRORS = frozenset(
    {"already_reacted", "no_reaction", "invalid_name", "message_not_found"}
)
"""Errors that mean the reaction is already as wanted, or impossible."""
TYPING_STATUS = "is thinking..."


class SlackConnection(Connection):
    session: aiohttp.ClientSession
    position: ReadPosition[str]
    uploads: UploadStore
    inbound: SlackInbound
    workspaces: list[SlackWorkspace]
    """The workspaces that accept us; that of the first token is home."""

    def __init__(
        self, context: AdapterContext, receive: Receive, options: SlackOptions, clock: Clock
    ) -> None:
        super().__init__(context, receive)
        check_tokens(options)
        self.identities = (options.app_token, *options.tokens)
        self._options, self._clock = options, clock
        self.opened_at = clock.monotonic()
        self.interrupted: dict[str, float] = {}  #: When sending a message broke off, by its key.
        self.typing_at: dict[str, str] = {}
        """Chats that show our typing status, with the message it is shown at."""
        self._without_status: set[str] = set()

    async def open(self) -> None:
        options, clock = self._options, self._clock
        self.session = await self.resources.enter_async_context(
            aiohttp.ClientSession(timeout=TIMEOUT, cookie_jar=aiohttp.DummyCookieJar())
        )
        entered = [
            SlackWorkspace(make_client(token, options.base_url, self.session), home=number == 0)
            for number, token in enumerate(options.tokens)
        ]
        self.workspaces = await self._authenticate(entered)
        self.uploads = UploadStore(
            self.context.state / "uploads.json", self.session, options, clock
        )
        self.position = self.read_position(SCALE)
        self.inbound = SlackInbound(self.workspaces, options, self.position, self.receive, clock)
        self.resources.push_async_callback(self.inbound.close)
        await self.inbound.socket.open(options, self.session)
        self.opened_at = clock.monotonic()

    async def ping(self) -> None:
        await self._authenticate(self.workspaces)
        if not await self.inbound.socket.is_up():
            raise NotConnected("the connection to Slack is broken")

    def workspace(self, team: str) -> SlackWorkspace:
        """Return a workspace by its id; "" is home."""
        for workspace in self.workspaces:
            if team in (workspace.team, workspace.prefix):
                return workspace
        if team:
            raise SendRefused(f"we are not in the workspace {team} of Slack")
        raise NotConnected("the home workspace of Slack rejects our token")

    async def set_status(
        self, workspace: SlackWorkspace, channel: str, ts: str, status: str
    ) -> None:
        if workspace.team in self._without_status:
            return
        try:
            await workspace.client.assistant_threads_setStatus(
                channel_id=channel, thread_ts=ts, status=status
            )
        except CALL_ERRORS as error:
            if error_code(error) not in STATUS_UNAVAILABLE_ERRORS:
                raise map_error(error) from error
            logger.info("Slack does not show our typing status: %s", error_code(error))
            self._without_status.add(workspace.team)

    async def _authenticate(self, workspaces: list[SlackWorkspace]) -> list[SlackWorkspace]:
        """Return the workspaces that accept our token. Raises when there is none, or when one
        cannot be reached."""
        entered: list[SlackWorkspace] = []
        refused: list[AdapterError] = []
        for workspace in workspaces:
            try:
                await workspace.authenticate()
            except CALL_ERRORS as error:
                if workspace.team and retry_after(error) is not None:
                    entered.append(workspace)  # it answered, which is enough
                    continue
                refused.append(map_connect_error(error))
                if not isinstance(refused[-1], CredentialsRefused):
                    raise refused[-1] from error
            else:
                entered.append(workspace)
        if not entered:
            raise refused[0]
        for each in refused:
            logger.error("a workspace of Slack is skipped: %s", each)
        return entered


async def list_chats(workspace: SlackWorkspace) -> list[ChatInfo]:
    """Return the chats: channels as `#name`, private chats by the user's name."""
    try:
        found = await workspace.conversations()
    except CALL_ERRORS as error:
        raise map_connect_error(error) from error
    gate = asyncio.Semaphore(MAX_PARALLEL_LOOKUPS)

    async def describe(chat: Json, *, look_up: bool) -> ChatInfo:
        chat_id, user = workspace.chat_id(str(chat["id"])), str(chat.get("user") or "")
        if not chat.get("is_im"):
            return ChatInfo(chat_id, f"#{chat.get('name') or chat['id']}", "group")
        async with gate:
            name = await workspace.user_name(user) if look_up else ""
        return ChatInfo(chat_id, name or user, "dm")

    chats = sorted(found, key=lambda chat: bool(chat.get("is_im")))
    first = sum(not chat.get("is_im") for chat in chats)
    return await asyncio.gather(
        *(describe(chat, look_up=n < first + MAX_NAMED_CHATS) for n, chat in enumerate(chats))
    )


class SlackAdapter(ConnectedAdapter[SlackConnection]):
    def __init__(
        self, context: AdapterContext, *, clock: Clock | None = None, settle: float = 3.0
    ) -> None:
        """`settle`: seconds that Slack may still process a request after its connection broke."""
        super().__init__(context)
        self._options = read_options(context)
        self._clock, self._settle = clock or SystemClock(), settle

    def make_connection(self, receive: Receive) -> SlackConnection:
        return SlackConnection(self.context, receive, self._options, self._clock)

    async def send(self, target: ChatTarget, message: OutgoingMessage, key: str) -> str:
        connection = self.connection
        workspace, channel = await self._resolve(target)
        try:
            if message.media:
                limit = self.manifest.capabilities.max_upload_bytes
                ts = await connection.uploads.send(
                    workspace, channel, target.thread_id, message, key, limit
                )
            else:
                ts = await self._post(workspace, channel, target.thread_id, message, key)
        except SendUnsure:
            connection.interrupted[key] = self._clock.monotonic()
            raise
        chat_id = workspace.chat_id(channel)
        connection.inbound.record_message(chat_id, ts)
        if target.thread_id:
            connection.position.add_thread(message_id(chat_id, target.thread_id))
        elif shown_at := connection.typing_at.pop(chat_id, ""):
            with contextlib.suppress(AdapterError):  # it disappears by itself after two minutes
                await connection.set_status(workspace, channel, shown_at, "")
        return message_id(chat_id, ts)

    async def edit(self, target: ChatTarget, message_id: str, message: OutgoingMessage) -> None:
        workspace, channel = await self._resolve(target)
        ts = timestamp_of(message_id)
        if not ts:
            raise SendRefused("that message of Slack cannot be changed")
        body = {"blocks": [], **outbound.text_body(message, self._options), "parse": "none"}
        with translate_call_errors():
            try:
                await workspace.client.chat_update(channel=channel, ts=ts, **body)
            except SlackApiError as error:
                if error_code(error) not in FORMAT_ERRORS:
                    raise
                body = {**outbound.plain_body(body, message, self._options), "blocks": []}
                await workspace.client.chat_update(channel=channel, ts=ts, **body)

    def newest(self, target: ChatTarget) -> str:
        chat_id = target.chat_id
        ts = self.connection.inbound.newest.get(chat_id, "") if self.is_connected else ""
        return message_id(chat_id, ts) if ts else ""

    async def was_delivered(
        self, query: DeliveryQuery, target: ChatTarget, message: OutgoingMessage
    ) -> str | None:
        """Errors other than `DeliveryUnknown` mean: try again later."""
        connection = self.connection
        workspace, channel = await self._resolve(target)

        async def find() -> str | None:
            if message.media:
                return await connection.uploads.find_timestamp(workspace, channel, query.key)
            return await outbound.find_message(workspace, channel, target.thread_id, query)

        ts = await find()
        since = connection.interrupted.get(query.key, connection.opened_at)
        left = since + self._settle - self._clock.monotonic()
        if ts is None and left > 0:  # Slack may still process the request
            await self._clock.sleep(left)
            ts = await find()
        connection.interrupted.pop(query.key, None)
        return message_id(workspace.chat_id(channel), ts) if ts else None

    async def typing(self, target: ChatTarget) -> None:
        """Show the typing status. Slack shows it in threads; elsewhere it is shown at the message
        being answered and must be removed explicitly."""
        connection = self.connection
        workspace, channel = await self._resolve(target)
        chat_id = workspace.chat_id(channel)
        ts = target.thread_id or connection.inbound.newest_by_others.get(chat_id, "")
        if ts:
            await connection.set_status(workspace, channel, ts, TYPING_STATUS)
            if not target.thread_id:
                connection.typing_at[chat_id] = ts

    async def react(
        self, target: ChatTarget, message_id: str, emoji: str, *, on: bool = True
    ) -> None:
        workspace, channel = await self._resolve(target)
        ts = timestamp_of(message_id)
        if not ts:  # a command is not a message
            return
        client = workspace.client
        call = client.reactions_add if on else client.reactions_remove
        with translate_call_errors():
            try:
                await call(channel=channel, timestamp=ts, name=emoji_name(emoji))
            except SlackApiError as error:
                if error_code(error) not in FINAL_REACTION_ERRORS:
                    raise

    async def fetch(self, media: Media, limit: int) -> Media:
        connection = self.connection
        team, file = split_chat(media.ref)
        cache = MediaCache(self.context.cache)
        return await inbound.download_file(
            connection.workspace(team), file, media, limit, connection.session, cache
        )

    async def chats(self) -> Sequence[ChatInfo]:
        connection = self.connection
        return [chat for workspace in connection.workspaces for chat in await list_chats(workspace)]

    async def _resolve(self, target: ChatTarget) -> tuple[SlackWorkspace, str]:
        """Return where a message goes; a user is written to in private."""
        team, channel = split_chat(target.chat_id)
        workspace = self.connection.workspace(team)
        if channel[:1] in ("U", "W"):
            with translate_call_errors():
                channel = await workspace.private_chat(channel)
        return workspace, channel

    async def _post(
        self,
        workspace: SlackWorkspace,
        channel: str,
        thread: str,
        message: OutgoingMessage,
        key: str,
    ) -> str:
        body: Json = outbound.message_body(message, self._options, key, thread)
        with translate_call_errors():
            try:
                answer = await workspace.client.chat_postMessage(channel=channel, **body)
            except SlackApiError as error:
                if error_code(error) not in FORMAT_ERRORS:
                    raise
                body = outbound.plain_body(body, message, self._options)
                answer = await workspace.client.chat_postMessage(channel=channel, **body)
        return str(answer["ts"])
