"""The gateway on a local platform."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec

from hermes.gateway.events import Media, MessageEvent, Outgoing, SessionSource, Target
from hermes.gateway.platforms.base import (
    AdapterContext,
    AdapterError,
    BaseAdapter,
    ChatName,
    CredentialsRefused,
    NotConnected,
    Receive,
    SendLater,
    SendRefused,
    SendUnsure,
)
from hermes.gateway.platforms.kit.media import MediaCache, to_upload
from hermes.gateway.platforms.kit.mentions import mentions, without_mention
from hermes.gateway.platforms.kit.offering import kept
from hermes.gateway.platforms.kit.token_lock import (
    ScopedLock,
    acquire_scoped_lock,
    release_scoped_lock,
)
from hermes.gateway.platforms.local import wire
from hermes.gateway.platforms.local.line import Line, Streams
from hermes.gateway.platforms.local.manifest import HERE
from hermes.gateway.platforms.local.terminal import Terminal
from hermes.store.mail import OutboxRow

NAME = "hermes"
"""What people write after an @ to address us."""
FORMAT_REFUSED = "format_refused"
_REFUSALS: dict[str, Callable[[wire.Answer], AdapterError]] = {
    "credentials": lambda _: CredentialsRefused("the Local platform does not accept LOCAL_TOKEN"),
    "rate_limited": lambda answer: SendLater("too many messages", seconds=answer.seconds),
    "server_error": lambda _: SendLater("the local platform has a fault"),
    "chat_gone": lambda _: SendRefused("the chat is gone"),
    "empty": lambda _: SendRefused("a message must say something"),
    "unknown": lambda _: SendRefused("there is no such message"),
}


class LocalAdapter(BaseAdapter):
    def __init__(self, context: AdapterContext) -> None:
        super().__init__(context)
        self._socket = context.variable("LOCAL_SOCKET") or HERE
        self._token = context.variable("LOCAL_TOKEN") or ""
        self._cache = MediaCache(context.cache)
        self._lock: ScopedLock | None = None
        self._line: Line | None = None
        self._terminal: Terminal | None = None

    async def connect(self, receive: Receive) -> None:
        identity = f"{self._socket}\0{self._token}"
        holder = str(self.context.state)
        self._lock = acquire_scoped_lock("local", identity, self.context.locks, holder=holder)
        try:
            self._line = Line(await self._streams(), partial(self._said, receive))
            await self._ask(lambda n: wire.Hello(n, "gateway", self._token))
        except BaseException:  # also when cancelled: nothing stays behind
            await self.disconnect()
            raise

    async def disconnect(self) -> None:
        line, self._line = self._line, None
        lock, self._lock = self._lock, None
        if line is not None:
            await line.close()
        release_scoped_lock(lock)

    async def probe(self) -> None:
        await self._ask(wire.Ping)

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
        found: str | None = (await self._ask(lambda n: wire.Find(n, row.key))).value
        return found

    async def typing(self, target: Target) -> None:
        await self._ask(lambda n: wire.Typing(n, target.chat_id))

    async def react(self, target: Target, message_id: str, emoji: str, *, on: bool = True) -> None:  # noqa: ARG002 - the signature is given
        await self._ask(lambda n: wire.React(n, message_id, emoji, on))

    async def fetch(self, media: Media, limit: int) -> Media:
        return await self._cache.copy(Path(media.ref), media, limit)

    async def chats(self) -> Sequence[ChatName]:
        found = (await self._ask(wire.Chats)).value
        return [ChatName(chat, chat, chat_type) for chat, chat_type in found]

    async def _write(
        self, request: Callable[[int, str], msgspec.Struct], message: Outgoing
    ) -> wire.Answer:
        answer = await self._raw(lambda n: request(n, message.text))
        if answer.error == FORMAT_REFUSED:
            answer = await self._raw(lambda n: request(n, message.plain))
        return _accepted(answer)

    async def _ask(self, question: Callable[[int], msgspec.Struct]) -> wire.Answer:
        """For what may be asked twice: a broken line is no matter of doubt."""
        try:
            return _accepted(await self._raw(question))
        except SendUnsure as error:
            raise NotConnected(str(error)) from error

    async def _raw(self, question: Callable[[int], msgspec.Struct]) -> wire.Answer:
        if self._line is None:
            raise NotConnected("the local platform is not connected")
        return await self._line.ask(question)

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

    async def _said(self, receive: Receive, said: wire.Said) -> None:
        word = wire.Kept if await kept(receive, self._event(said)) else wire.NotKept
        if self._line is not None:
            self._line.tell(word(said.id))

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


def _accepted(answer: wire.Answer) -> wire.Answer:
    if not answer.error:
        return answer
    known = _REFUSALS.get(answer.error)
    raise known(answer) if known else SendRefused(f"the local platform says: {answer.error}")
