"""Mail as a chat: each sender is a chat, each thread of mail a conversation.

A mail is read when the server tells of it (IDLE) or by looking from time to time, and it is marked
as read only once it is kept. Who wrote it is what From says, as far as the receiving server does
not object (see `authentication`). Answers go to that address, never to another one that the mail
names. What we send is kept in the folder of sent mail too, where a mail in doubt is looked for.
"""

import asyncio
from collections.abc import Sequence

from hermes.core.ports import Clock
from hermes.gateway.events import Media, Outgoing, Target
from hermes.gateway.platforms.base import (
    AdapterContext,
    AdapterError,
    ChatName,
    Receive,
    Unknowable,
)
from hermes.gateway.platforms.email import letters, parsing
from hermes.gateway.platforms.email.composing import checked_address, compose
from hermes.gateway.platforms.email.journal import Stage
from hermes.gateway.platforms.email.live import Live
from hermes.gateway.platforms.email.mailbox import Mailbox
from hermes.gateway.platforms.email.threads import our_id
from hermes.gateway.platforms.kit.connection import ConnectedAdapter
from hermes.gateway.platforms.kit.media import MediaCache, to_upload
from hermes.store.records import OutboxRow
from hermes.util.clock import SystemClock


class EmailAdapter(ConnectedAdapter[Live]):
    """`context.extra` may hold `clock`."""

    def __init__(self, context: AdapterContext) -> None:
        super().__init__(context)
        self._clock: Clock = context.extra.get("clock") or SystemClock()

    def connection(self, receive: Receive) -> Live:
        return Live(self.context, receive, self._clock)

    async def send(self, target: Target, message: Outgoing, key: str) -> str:
        live = self.live
        own, to = live.options.address, checked_address(target.chat_id)
        message_id = our_id(own, key, to, target.thread_id)
        if live.journal.stage(key) == "accepted":
            return message_id
        limit = self.manifest.capabilities.max_upload_bytes
        files = [(media, to_upload(media, limit)) for media in message.media]
        mail = await asyncio.to_thread(
            compose,
            own,
            to,
            message,
            message_id=message_id,
            thread=live.threads.find(to, target.thread_id) if target.thread_id else None,
            root=target.thread_id,
            files=files,
            now=self._clock.now(),
        )

        async def note(stage: Stage) -> None:
            await asyncio.to_thread(live.journal.note, key, stage)

        await live.submission.send(to, mail, note)
        await live.keep_sent(message_id, mail)
        return message_id

    async def find_sent(
        self,
        row: OutboxRow,
        target: Target,
        message: Outgoing,  # noqa: ARG002 - the Message-ID tells
    ) -> str | None:
        """What the server took is known, or is among the sent mail. When it was handed over and
        neither is so, nobody knows."""
        live = self.live
        stage = live.journal.stage(row.key)
        message_id = our_id(live.options.address, row.key, target.chat_id, target.thread_id)
        if stage == "accepted" or await live.is_among_sent(message_id):
            return message_id
        if stage == "":
            return None
        raise Unknowable("Email: the SMTP server did not say whether it took the mail")

    async def fetch(self, media: Media, limit: int) -> Media:
        live = self.live
        folder = live.options.extra.folder
        validity, uid, number = (int(part) for part in media.ref.split("/"))

        def get(box: Mailbox) -> bytes:
            return box.mail(folder, uid) if box.state(folder)[0] == validity else b""

        raw = await live.desk.use(get)
        data = await asyncio.to_thread(_content, raw, number)
        if data is None:
            raise AdapterError(f"Email: {media.name or 'the file'} is gone with its mail")
        return await MediaCache(self.context.cache).save(data, media, limit)

    async def chats(self) -> Sequence[ChatName]:
        return tuple(self.live.chats.values())


def _content(raw: bytes, number: int) -> bytes | None:
    return letters.content(parsing.read(raw), number) if raw else None
