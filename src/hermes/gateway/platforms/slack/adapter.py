"""Slack. Messages come by Socket Mode, all else goes by HTTP."""

import asyncio
import contextlib
import logging
from collections.abc import Sequence

import aiohttp
from slack_sdk.errors import SlackApiError

from hermes.core.ports import Clock
from hermes.gateway.platforms.kit.connection import ConnectedAdapter, Connection
from hermes.gateway.platforms.kit.contract import (
    AdapterContext,
    AdapterError,
    ChatInfo,
    ChatTarget,
    CredentialsRefused,
    Media,
    NotConnected,
    OutgoingMessage,
    Receive,
    SendRefused,
    SendUnsure,
)
from hermes.gateway.platforms.kit.inbound import ReadPosition
from hermes.gateway.platforms.kit.media import MediaCache
from hermes.gateway.platforms.slack import delivery, inbound, outbound
from hermes.gateway.platforms.slack.client import (
    SCALE,
    TROUBLE,
    UNREADABLE,
    Json,
    Options,
    Workspace,
    check,
    client_of,
    code_of,
    message_id,
    of_call,
    of_connecting,
    options_of,
    retry_after,
    split_chat,
    told,
    ts_of,
)
from hermes.gateway.platforms.slack.delivery import Uploads
from hermes.gateway.platforms.slack.inbound import Intake
from hermes.gateway.platforms.slack.outbound import name_of
from hermes.store.records import OutboxRow
from hermes.util.clock import SystemClock

# A connection to Slack, while it lasts.

logger = logging.getLogger(__name__)

TIMEOUT = aiohttp.ClientTimeout(total=30, sock_connect=10)
NO_STATUS = frozenset(
    {"missing_scope", "unknown_method", "not_allowed_token_type", "access_denied"}
)
"""Why people of a workspace never see that we write."""


class Live(Connection):
    session: aiohttp.ClientSession
    seen: ReadPosition[str]
    uploads: Uploads
    intake: Intake
    workspaces: list[Workspace]
    """Those that let us in; the one of the first token is home."""

    def __init__(
        self, context: AdapterContext, receive: Receive, options: Options, clock: Clock
    ) -> None:
        super().__init__(context, receive)
        check(options)
        self.identities = (options.app_token, *options.tokens)
        self._options, self._clock = options, clock
        self.began = clock.monotonic()
        self.broken: dict[str, float] = {}
        """When the sending of a message broke off, by its key."""
        self.writing: dict[str, str] = {}
        """Chats in which people see that we write, and at which message."""
        self._quiet: set[str] = set()

    async def open(self) -> None:
        options, clock = self._options, self._clock
        self.session = await self.resources.enter_async_context(
            aiohttp.ClientSession(timeout=TIMEOUT, cookie_jar=aiohttp.DummyCookieJar())
        )
        entered = [
            Workspace(client_of(token, options.base_url, self.session), home=number == 0)
            for number, token in enumerate(options.tokens)
        ]
        self.workspaces = await self._let_in(entered)
        self.uploads = Uploads(self.context.state / "uploads.json", self.session, options, clock)
        self.seen = self.read_position(SCALE)
        self.intake = Intake(self.workspaces, options, self.seen, self.receive, clock)
        self.resources.push_async_callback(self.intake.close)
        await self.intake.socket.open(options, self.session)
        self.began = clock.monotonic()

    async def ping(self) -> None:
        await self._let_in(self.workspaces)
        if not await self.intake.socket.is_up():
            raise NotConnected("the connection to Slack is broken")

    def workspace(self, team: str) -> Workspace:
        """By its id; "" is home."""
        for workspace in self.workspaces:
            if team in (workspace.team, workspace.prefix):
                return workspace
        if team:
            raise SendRefused(f"we are not in the workspace {team} of Slack")
        raise NotConnected("the home workspace of Slack does not let us in")

    async def set_status(self, workspace: Workspace, channel: str, ts: str, status: str) -> None:
        if workspace.team in self._quiet:
            return
        try:
            await workspace.client.assistant_threads_setStatus(
                channel_id=channel, thread_ts=ts, status=status
            )
        except TROUBLE as error:
            if code_of(error) not in NO_STATUS:
                raise of_call(error) from error
            logger.info("people on Slack do not see that we write: %s", code_of(error))
            self._quiet.add(workspace.team)

    async def _let_in(self, workspaces: list[Workspace]) -> list[Workspace]:
        """Those that we can enter. Raises when there is none, or one cannot be asked."""
        entered: list[Workspace] = []
        refused: list[AdapterError] = []
        for workspace in workspaces:
            try:
                await workspace.enter()
            except TROUBLE as error:
                if workspace.team and retry_after(error) is not None:
                    entered.append(workspace)  # it is there, and that is what we ask
                    continue
                refused.append(of_connecting(error))
                if not isinstance(refused[-1], CredentialsRefused):
                    raise refused[-1] from error
            else:
                entered.append(workspace)
        if not entered:
            raise refused[0]
        for each in refused:
            logger.error("a workspace of Slack is left out: %s", each)
        return entered


# The chats that we are in.

MOST_PEOPLE = 50
"""Private chats whose people are asked for; others have their ids."""
AT_ONCE = 4


async def names_of(workspace: Workspace) -> list[ChatInfo]:
    """Channels as `#name`, private chats by whom they are with."""
    try:
        found = await workspace.conversations()
    except TROUBLE as error:
        raise of_connecting(error) from error
    private = [each for each in found if each.get("is_im")]
    gate = asyncio.Semaphore(AT_ONCE)

    async def person(chat: Json) -> ChatInfo:
        user = str(chat.get("user") or "")
        async with gate:
            name = await workspace.user_name(user)
        return ChatInfo(workspace.chat_id(str(chat["id"])), name or user, "dm")

    people = list(await asyncio.gather(*map(person, private[:MOST_PEOPLE])))
    others = [
        ChatInfo(workspace.chat_id(str(each["id"])), str(each.get("user") or ""), "dm")
        for each in private[MOST_PEOPLE:]
    ]
    channels = [
        ChatInfo(workspace.chat_id(str(each["id"])), f"#{each.get('name') or each['id']}", "group")
        for each in found
        if not each.get("is_im")
    ]
    return [*channels, *people, *others]


SETTLED = frozenset({"already_reacted", "no_reaction", "invalid_name", "message_not_found"})
"""Why a reaction is as it is to be, or never can be."""
THINKING = "is thinking..."


class SlackAdapter(ConnectedAdapter[Live]):
    def __init__(
        self, context: AdapterContext, *, clock: Clock | None = None, settle: float = 3.0
    ) -> None:
        """`settle` is how many seconds a request may still be worked on after its connection
        broke."""
        super().__init__(context)
        self._options = options_of(context)
        self._clock, self._settle = clock or SystemClock(), settle

    def make_connection(self, receive: Receive) -> Live:
        return Live(self.context, receive, self._options, self._clock)

    # messages of ours

    async def send(self, target: ChatTarget, message: OutgoingMessage, key: str) -> str:
        live = self.connection
        workspace, channel = await self._place(target)
        try:
            if message.media:
                limit = self.manifest.capabilities.max_upload_bytes
                ts = await live.uploads.send(
                    workspace, channel, target.thread_id, message, key, limit
                )
            else:
                ts = await self._post(workspace, channel, target.thread_id, message, key)
        except SendUnsure:
            live.broken[key] = self._clock.monotonic()
            raise
        chat_id = workspace.chat_id(channel)
        live.intake.saw(chat_id, ts)
        if target.thread_id:
            live.seen.add_thread(message_id(chat_id, target.thread_id))
        else:
            await self._stop_typing(workspace, channel)
        return message_id(chat_id, ts)

    async def edit(self, target: ChatTarget, message_id: str, message: OutgoingMessage) -> None:
        workspace, channel = await self._place(target)
        ts = ts_of(message_id)
        if not ts:
            raise SendRefused("that message of Slack cannot be changed")
        body = {"blocks": [], **outbound.written(message, self._options), "parse": "none"}
        with told():
            try:
                await workspace.client.chat_update(channel=channel, ts=ts, **body)
            except SlackApiError as error:
                if code_of(error) not in UNREADABLE:
                    raise
                body = {**outbound.plainly(body, message, self._options), "blocks": []}
                await workspace.client.chat_update(channel=channel, ts=ts, **body)

    def newest(self, target: ChatTarget) -> str:
        """The newest message that we know of in the chat; "" when there is none."""
        chat_id = target.chat_id
        ts = self.connection.intake.newest.get(chat_id, "") if self.is_connected else ""
        return message_id(chat_id, ts) if ts else ""

    async def was_delivered(
        self, row: OutboxRow, target: ChatTarget, message: OutgoingMessage
    ) -> str | None:
        """Errors other than `Unknowable` mean: ask again later."""
        live = self.connection
        workspace, channel = await self._place(target)

        async def look() -> str | None:
            if message.media:
                return await live.uploads.find(workspace, channel, row.key)
            return await delivery.find(workspace, channel, target.thread_id, row)

        ts = await look()
        if ts is None and (left := self._unsettled(live, row.key)) > 0:
            await self._clock.sleep(left)
            ts = await look()
        live.broken.pop(row.key, None)
        return message_id(workspace.chat_id(channel), ts) if ts else None

    async def typing(self, target: ChatTarget) -> None:
        """Slack shows it in threads. Elsewhere it is shown at the message that is being answered,
        and has to be taken away by hand."""
        live = self.connection
        workspace, channel = await self._place(target)
        chat_id = workspace.chat_id(channel)
        ts = target.thread_id or live.intake.spoken.get(chat_id, "")
        if ts:
            await live.set_status(workspace, channel, ts, THINKING)
            if not target.thread_id:
                live.writing[chat_id] = ts

    async def react(
        self, target: ChatTarget, message_id: str, emoji: str, *, on: bool = True
    ) -> None:
        workspace, channel = await self._place(target)
        ts = ts_of(message_id)
        if not ts:  # what asked us by a command is no message
            return
        client = workspace.client
        call = client.reactions_add if on else client.reactions_remove
        with told():
            try:
                await call(channel=channel, timestamp=ts, name=name_of(emoji))
            except SlackApiError as error:
                if code_of(error) not in SETTLED:
                    raise

    # what the platform knows

    async def fetch(self, media: Media, limit: int) -> Media:
        live = self.connection
        team, file = split_chat(media.ref)
        cache = MediaCache(self.context.cache)
        return await inbound.fetch(live.workspace(team), file, media, limit, live.session, cache)

    async def chats(self) -> Sequence[ChatInfo]:
        live = self.connection
        return [chat for workspace in live.workspaces for chat in await names_of(workspace)]

    # parts

    async def _place(self, target: ChatTarget) -> tuple[Workspace, str]:
        """Where a message goes; a person is written to in private."""
        team, channel = split_chat(target.chat_id)
        workspace = self.connection.workspace(team)
        if channel[:1] in ("U", "W"):
            with told():
                channel = await workspace.private_chat(channel)
        return workspace, channel

    async def _post(
        self, workspace: Workspace, channel: str, thread: str, message: OutgoingMessage, key: str
    ) -> str:
        body: Json = outbound.posted(message, self._options, key, thread)
        with told():
            try:
                answer = await workspace.client.chat_postMessage(channel=channel, **body)
            except SlackApiError as error:
                if code_of(error) not in UNREADABLE:
                    raise
                body = outbound.plainly(body, message, self._options)
                answer = await workspace.client.chat_postMessage(channel=channel, **body)
        return str(answer["ts"])

    async def _stop_typing(self, workspace: Workspace, channel: str) -> None:
        live = self.connection
        ts = live.writing.pop(workspace.chat_id(channel), "")
        if ts:
            with contextlib.suppress(AdapterError):  # it goes away by itself after two minutes
                await live.set_status(workspace, channel, ts, "")

    def _unsettled(self, live: Live, key: str) -> float:
        """Seconds for which a request of ours may still be worked on."""
        since = live.broken.get(key, live.began)
        return since + self._settle - self._clock.monotonic()
