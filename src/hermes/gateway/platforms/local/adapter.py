"""The gateway on a local platform."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from hermes.gateway.events import Media, MessageEvent, Outgoing, SessionSource, Target
from hermes.gateway.platforms.base import AdapterContext, ChatName, NotConnected, Receive
from hermes.gateway.platforms.kit.connection import ConnectedAdapter
from hermes.gateway.platforms.kit.media import MediaCache, to_upload
from hermes.gateway.platforms.kit.mentions import mentions, without_mention
from hermes.gateway.platforms.local import wire
from hermes.gateway.platforms.local.line import Streams
from hermes.gateway.platforms.local.link import Link, accepted
from hermes.gateway.platforms.local.manifest import HERE
from hermes.gateway.platforms.local.terminal import Terminal
from hermes.store.records import OutboxRow

NAME = "hermes"
"""What people write after an @ to address us."""
FORMAT_REFUSED = "format_refused"


class LocalAdapter(ConnectedAdapter[Link]):
    def __init__(self, context: AdapterContext) -> None:
        super().__init__(context)
        self._socket = context.variable("LOCAL_SOCKET") or HERE
        self._cache = MediaCache(context.cache)
        self._terminal: Terminal | None = None

    def connection(self, receive: Receive) -> Link:
        place = self._socket, self.context.variable("LOCAL_TOKEN") or ""
        return Link(self.context, receive, place, self._streams, self._event)

    async def send(self, target: Target, message: Outgoing, key: str) -> str:
        limit = self.manifest.capabilities.max_upload_bytes
        for media in message.media:
            to_upload(media, limit)
        names = tuple(media.name or Path(media.path).name for media in message.media)

        def request(number: int, text: str) -> wire.Send:
            return wire.Send(
                n=number,
                chat=target.chat_id,
                text=text,
                key=key,
                thread=target.thread_id,
                reply_to=message.reply_to,
                media=names,
                buttons=message.buttons,
            )

        return str((await self._write(request, message)).value)

    async def edit(self, target: Target, message_id: str, message: Outgoing) -> None:  # noqa: ARG002 - the signature is given
        await self._write(lambda n, text: wire.Edit(n, message_id, text), message)

    async def find_sent(self, row: OutboxRow, target: Target, message: Outgoing) -> str | None:  # noqa: ARG002 - the signature is given
        found: str | None = (await self.live.answer(lambda n: wire.Find(n, row.key))).value
        return found

    async def typing(self, target: Target) -> None:
        await self.live.answer(lambda n: wire.Typing(n, target.chat_id))

    async def react(self, target: Target, message_id: str, emoji: str, *, on: bool = True) -> None:  # noqa: ARG002 - the signature is given
        await self.live.answer(lambda n: wire.React(n, message_id, emoji, on))

    async def fetch(self, media: Media, limit: int) -> Media:
        return await self._cache.copy(Path(media.ref), media, limit)

    async def chats(self) -> Sequence[ChatName]:
        found = (await self.live.answer(wire.Chats)).value
        return [ChatName(chat, chat, chat_type) for chat, chat_type in found]

    async def _write(
        self, request: Callable[[int, str], msgspec.Struct], message: Outgoing
    ) -> wire.Answer:
        line = self.live.line
        answer = await line.ask(lambda n: request(n, message.text))
        if answer.error == FORMAT_REFUSED:
            answer = await line.ask(lambda n: request(n, message.plain))
        return accepted(answer)

    async def _streams(self) -> Streams:
        if self._socket == HERE:
            self._terminal = self._terminal or Terminal()
            return await self._terminal.joined()
        try:
            return await asyncio.open_unix_connection(self._socket, limit=wire.MAX_LINE)
        except OSError as error:
            problem = NotConnected(f"the local platform cannot be reached: {error.strerror}")
            problem.hint = "start it, or correct LOCAL_SOCKET"
            raise problem from error

    def _event(self, said: wire.Said) -> MessageEvent:
        source = SessionSource(
            platform=self.manifest.name,
            chat_id=said.chat,
            chat_type=said.chat_type,
            user_id=said.user,
            user_name=said.user,
            chat_name=said.chat,
            thread_id=said.thread,
            account=self.account,
            is_bot=said.bot,
        )
        named = mentions(said.text, (NAME,))
        return MessageEvent(
            source=source,
            message_id=said.id,
            text=without_mention(said.text, (NAME,)) if named else said.text,
            media=tuple(_media(file) for file in said.files),
            reply_to_id=said.reply_to,
            reply_to_text=said.reply_text,
            addressed=said.chat_type == "dm" or named or said.reply_to_us,
            sent_at=said.at,
            button=said.button,
        )


def _media(file: wire.Attached) -> Media:
    return Media(file.kind, file.name, file.mime, ref=file.path)
