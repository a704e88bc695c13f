"""Slack. Messages come by Socket Mode, all else goes by HTTP."""

import contextlib
from collections.abc import Sequence

from slack_sdk.errors import SlackApiError

from hermes.core.ports import Clock
from hermes.gateway.events import Media, Outgoing, Target
from hermes.gateway.platforms.base import (
    AdapterContext,
    AdapterError,
    ChatName,
    Receive,
    SendRefused,
    SendUnsure,
)
from hermes.gateway.platforms.kit.connection import ConnectedAdapter
from hermes.gateway.platforms.kit.media import MediaCache
from hermes.gateway.platforms.slack import directory, doubt, downloads, sending
from hermes.gateway.platforms.slack.emoji import name_of
from hermes.gateway.platforms.slack.failures import UNREADABLE, code_of, told
from hermes.gateway.platforms.slack.ids import message_id, split_chat, ts_of
from hermes.gateway.platforms.slack.live import Live
from hermes.gateway.platforms.slack.options import options_of
from hermes.gateway.platforms.slack.workspace import Json, Workspace
from hermes.store.records import OutboxRow
from hermes.util.clock import SystemClock

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

    def connection(self, receive: Receive) -> Live:
        return Live(self.context, receive, self._options, self._clock)

    # messages of ours

    async def send(self, target: Target, message: Outgoing, key: str) -> str:
        live = self.live
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

    async def edit(self, target: Target, message_id: str, message: Outgoing) -> None:
        workspace, channel = await self._place(target)
        ts = ts_of(message_id)
        if not ts:
            raise SendRefused("that message of Slack cannot be changed")
        body = {"blocks": [], **sending.written(message, self._options), "parse": "none"}
        with told():
            try:
                await workspace.client.chat_update(channel=channel, ts=ts, **body)
            except SlackApiError as error:
                if code_of(error) not in UNREADABLE:
                    raise
                body = {**sending.plainly(body, message, self._options), "blocks": []}
                await workspace.client.chat_update(channel=channel, ts=ts, **body)

    def newest(self, target: Target) -> str:
        """The newest message that we know of in the chat; "" when there is none."""
        chat_id = target.chat_id
        ts = self.live.intake.newest.get(chat_id, "") if self.is_connected else ""
        return message_id(chat_id, ts) if ts else ""

    async def find_sent(self, row: OutboxRow, target: Target, message: Outgoing) -> str | None:
        """Errors other than `Unknowable` mean: ask again later."""
        live = self.live
        workspace, channel = await self._place(target)

        async def look() -> str | None:
            if message.media:
                return await live.uploads.find(workspace, channel, row.key)
            return await doubt.find(workspace, channel, target.thread_id, row)

        ts = await look()
        if ts is None and (left := self._unsettled(live, row.key)) > 0:
            await self._clock.sleep(left)
            ts = await look()
        live.broken.pop(row.key, None)
        return message_id(workspace.chat_id(channel), ts) if ts else None

    async def typing(self, target: Target) -> None:
        """Slack shows it in threads. Elsewhere it is shown at the message that is being answered,
        and has to be taken away by hand."""
        live = self.live
        workspace, channel = await self._place(target)
        chat_id = workspace.chat_id(channel)
        ts = target.thread_id or live.intake.spoken.get(chat_id, "")
        if ts:
            await live.set_status(workspace, channel, ts, THINKING)
            if not target.thread_id:
                live.writing[chat_id] = ts

    async def react(self, target: Target, message_id: str, emoji: str, *, on: bool = True) -> None:
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
        live = self.live
        team, file = split_chat(media.ref)
        cache = MediaCache(self.context.cache)
        return await downloads.fetch(live.workspace(team), file, media, limit, live.session, cache)

    async def chats(self) -> Sequence[ChatName]:
        live = self.live
        return [
            chat for workspace in live.workspaces for chat in await directory.names_of(workspace)
        ]

    # parts

    async def _place(self, target: Target) -> tuple[Workspace, str]:
        """Where a message goes; a person is written to in private."""
        team, channel = split_chat(target.chat_id)
        workspace = self.live.workspace(team)
        if channel[:1] in ("U", "W"):
            with told():
                channel = await workspace.private_chat(channel)
        return workspace, channel

    async def _post(
        self, workspace: Workspace, channel: str, thread: str, message: Outgoing, key: str
    ) -> str:
        body: Json = sending.posted(message, self._options, key, thread)
        with told():
            try:
                answer = await workspace.client.chat_postMessage(channel=channel, **body)
            except SlackApiError as error:
                if code_of(error) not in UNREADABLE:
                    raise
                body = sending.plainly(body, message, self._options)
                answer = await workspace.client.chat_postMessage(channel=channel, **body)
        return str(answer["ts"])

    async def _stop_typing(self, workspace: Workspace, channel: str) -> None:
        live = self.live
        ts = live.writing.pop(workspace.chat_id(channel), "")
        if ts:
            with contextlib.suppress(AdapterError):  # it goes away by itself after two minutes
                await live.set_status(workspace, channel, ts, "")

    def _unsettled(self, live: Live, key: str) -> float:
        """Seconds for which a request of ours may still be worked on."""
        since = live.broken.get(key, live.began)
        return since + self._settle - self._clock.monotonic()
