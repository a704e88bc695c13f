"""Mail as a chat: each sender is a chat, each thread of mail a conversation.

A mail is read when the server tells of it (IDLE) or by looking from time to time, and it is marked
as read only once it is kept. Who wrote it is what From says, as far as the receiving server does
not object (see `authentication`). Answers go to that address, never to another one that the mail
names. What we send is kept in the folder of sent mail too, where a mail in doubt is looked for.
"""

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from email.message import EmailMessage

from hermes.core.ports import Clock
from hermes.gateway.platforms.email import inbound
from hermes.gateway.platforms.email.client import Desk, Head, Mailbox, Options, options_of
from hermes.gateway.platforms.email.inbound import Attachment, IdleBell, Letter, PollBell, Watch
from hermes.gateway.platforms.email.outbound import (
    Journal,
    Stage,
    Submission,
    Threads,
    checked_address,
    compose,
    our_id,
)
from hermes.gateway.platforms.kit.connection import ConnectedAdapter, Connection
from hermes.gateway.platforms.kit.contract import (
    AdapterContext,
    AdapterError,
    ChatInfo,
    ChatTarget,
    DeliveryUnknown,
    Media,
    MessageEvent,
    OutgoingMessage,
    Receive,
    SessionSource,
)
from hermes.gateway.platforms.kit.inbound import deliver_until_accepted
from hermes.gateway.platforms.kit.media import MediaCache, media_kind, open_upload
from hermes.store.records import OutboxRow
from hermes.util.clock import SystemClock
from hermes.util.text import human_size

# One connection to a mail server: what comes by it, and what is kept there.

log = logging.getLogger(__name__)

QUOTE_CHARS = 2000
MOST_CHATS = 500


class Live(Connection):
    def __init__(self, context: AdapterContext, receive: Receive, clock: Clock) -> None:
        super().__init__(context, receive)
        self._clock, self.options = clock, options_of(context)
        self.identities = (f"{self.options.user}@{self.options.imap.name}",)
        self.desk, self.submission = Desk(self.options), Submission(self.options)
        self.threads = Threads(context.state / "threads")
        self.journal = Journal(context.state / "outgoing")
        self.chats: dict[str, ChatInfo] = {}
        self._sent_folder: str | None = None

    async def open(self) -> None:
        options, desk = self.options, self.desk
        self.resources.callback(desk.close)
        await self.submission.check()
        idles = await desk.use(Mailbox.can_idle) and options.extra.idle
        bell = IdleBell(options) if idles else PollBell(options.poll_seconds)
        watch = Watch(options, desk, bell, self.context.state, self._clock, self._take)
        await watch.begin()
        self.threads.clean()
        self.journal.clean()
        self.run_until_closed(
            self.retry_forever(lambda: watch.look(self.mark_working), self._clock.sleep)
        )
        for each in (desk, bell):  # before that is cancelled: its threads end by it
            self.resources.callback(each.close)

    async def ping(self) -> None:
        await self.desk.use(Mailbox.alive)

    async def keep_sent(self, message_id: str, mail: bytes) -> None:
        """Servers that keep sent mail by themselves have it already."""

        def keep(box: Mailbox) -> str:
            folder = box.sent_folder() if self._sent_folder is None else self._sent_folder
            if folder and not box.has(folder, message_id):
                box.append(folder, mail)
            return folder

        try:
            self._sent_folder = await self.desk.use(keep)
        except AdapterError as error:
            log.warning("a mail is sent but not kept among the sent ones: %s", error)

    async def is_among_sent(self, message_id: str) -> bool:
        def look(box: Mailbox) -> bool:
            folder = box.sent_folder()
            return bool(folder) and box.has(folder, message_id)

        return await self.desk.use(look)

    async def _take(self, head: Head, validity: int) -> bool:
        """Whether a mail is for the agent; then it is kept when this returns."""
        try:
            message, cut = await self._read(head)
            if message is None:
                return False
            letter = await asyncio.to_thread(inbound.letter, message)
        except AdapterError:
            raise
        except Exception:  # the standard library fails in many ways on broken mail
            log.exception("Email: mail %s cannot be read and is left in the mailbox", head.uid)
            return False
        event = self._event(letter, head, validity, cut=cut)
        if event is None:
            return False
        await deliver_until_accepted(self.receive, event, self._clock.sleep)
        if len(self.chats) < MOST_CHATS:
            self.chats[letter.sender] = ChatInfo(letter.sender, letter.name or letter.sender)
        return True

    async def _read(self, head: Head) -> tuple[EmailMessage | None, bool]:
        """The mail, and whether only its beginning; None when it gets no answer."""
        options = self.options
        if not await asyncio.to_thread(_is_for_us, head, options):
            return None, False
        cut = head.size > options.extra.max_bytes
        folder, limit = options.extra.folder, inbound.BEGINNING if cut else 0
        raw = await self.desk.use(lambda box: box.mail(folder, head.uid, limit))
        if inbound.too_many_parts(raw):
            raw, cut = raw[: inbound.BEGINNING], True
        return (await asyncio.to_thread(inbound.read, raw) if raw else None), cut

    def _event(
        self, letter: Letter, head: Head, validity: int, *, cut: bool
    ) -> MessageEvent | None:
        options = self.options
        unnamed = hashlib.sha256(head.header).hexdigest()[:32]
        thread = self.threads.of(letter)
        files = () if cut or options.skip_attachments else letter.attachments
        text = _text(letter)
        if cut:
            text += (
                f"\n\n[The mail is larger than {human_size(options.extra.max_bytes)}, or has too"
            )
            text += " many parts: only its beginning was read, and no attachment.]"
        if not text.strip() and not files:
            log.info("Email: a mail of %s says nothing", letter.sender)
            return None
        self.threads.keep(thread)
        return MessageEvent(
            SessionSource(
                platform="email",
                chat_id=letter.sender,
                user_id=letter.sender,
                user_name=letter.name,
                chat_name=letter.name or letter.sender,
                thread_id=thread.root,
            ),
            letter.message_id or f"{unnamed}@unnamed",
            text,
            media=tuple(_media(each, head.uid, validity) for each in files),
            reply_to_id=letter.answers,
            reply_to_text=letter.quoted[:QUOTE_CHARS] if letter.answers else "",
            addressed=True,
            sent_at=head.arrived,
        )


def _is_for_us(head: Head, options: Options) -> bool:
    """The log says why not."""
    if len(head.header) > inbound.MOST_HEAD_BYTES:
        log.info("Email: mail %s gets no answer: its headers are too long", head.uid)
        return False
    message = inbound.read(head.header)
    address, _ = inbound.sender(message)
    why = inbound.screen_message(message, options.address) or inbound.why_not(
        message,
        address,
        required=options.extra.require_authentication,
        server=options.extra.authserv_id,
    )
    if why:
        log.info("Email: a mail of %s gets no answer: %s", address or "somebody", why)
    return not why


def _text(letter: Letter) -> str:
    """With the subject where it says something: at the beginning of a thread, and not before a
    command."""
    starts = letter.subject and not letter.references and not letter.text.startswith("/")
    return f"Subject: {letter.subject}\n\n{letter.text}".strip() if starts else letter.text


def _media(attachment: Attachment, uid: int, validity: int) -> Media:
    return Media(
        kind=media_kind(attachment.mime, attachment.name),
        name=attachment.name,
        mime=attachment.mime,
        size=attachment.size,
        ref=f"{validity}/{uid}/{attachment.number}",
    )


class EmailAdapter(ConnectedAdapter[Live]):
    """`context.extra` may hold `clock`."""

    def __init__(self, context: AdapterContext) -> None:
        super().__init__(context)
        self._clock: Clock = context.extra.get("clock") or SystemClock()

    def make_connection(self, receive: Receive) -> Live:
        return Live(self.context, receive, self._clock)

    async def send(self, target: ChatTarget, message: OutgoingMessage, key: str) -> str:
        live = self.connection
        own, to = live.options.address, checked_address(target.chat_id)
        message_id = our_id(own, key, to, target.thread_id)
        if live.journal.stage(key) == "accepted":
            return message_id
        limit = self.manifest.capabilities.max_upload_bytes
        files = [(media, open_upload(media, limit)) for media in message.media]
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

    async def was_delivered(
        self,
        row: OutboxRow,
        target: ChatTarget,
        message: OutgoingMessage,  # noqa: ARG002 - the Message-ID tells
    ) -> str | None:
        """What the server took is known, or is among the sent mail. When it was handed over and
        neither is so, nobody knows."""
        live = self.connection
        stage = live.journal.stage(row.key)
        message_id = our_id(live.options.address, row.key, target.chat_id, target.thread_id)
        if stage == "accepted" or await live.is_among_sent(message_id):
            return message_id
        if stage == "":
            return None
        raise DeliveryUnknown("Email: the SMTP server did not say whether it took the mail")

    async def fetch(self, media: Media, limit: int) -> Media:
        live = self.connection
        folder = live.options.extra.folder
        validity, uid, number = (int(part) for part in media.ref.split("/"))

        def get(box: Mailbox) -> bytes:
            return box.mail(folder, uid) if box.state(folder)[0] == validity else b""

        raw = await live.desk.use(get)
        data = await asyncio.to_thread(_content, raw, number)
        if data is None:
            raise AdapterError(f"Email: {media.name or 'the file'} is gone with its mail")
        return await MediaCache(self.context.cache).save(data, media, limit)

    async def chats(self) -> Sequence[ChatInfo]:
        return tuple(self.connection.chats.values())


def _content(raw: bytes, number: int) -> bytes | None:
    return inbound.content(inbound.read(raw), number) if raw else None
