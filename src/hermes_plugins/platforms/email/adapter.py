"""The email adapter and its connection. Each sender is a chat, each thread of mail a conversation.

The server announces new mail (IDLE) or is polled. A mail is marked as read only after the gateway
has stored it. Its author is the From address, unless the receiving server objects; without a
confirmation of that server the author counts as a guest (see `check_sender`). Answers go to that
address, never to another one named in the mail. Sent mail is stored in the Sent folder too, where
an uncertain mail is searched.
"""

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from email.message import EmailMessage

from msgspec.structs import replace

from hermes.sdk import Clock, SystemClock, human_size
from hermes.sdk.platforms import (
    AdapterContext,
    AdapterError,
    ChatInfo,
    ChatTarget,
    ConnectedAdapter,
    Connection,
    DeliveryQuery,
    DeliveryUnknown,
    Media,
    MediaCache,
    MessageEvent,
    OutgoingMessage,
    Receive,
    SessionSource,
    deliver_until_accepted,
    media_kind,
    open_upload,
)
from hermes_plugins.platforms.email import inbound
from hermes_plugins.platforms.email.client import (
    EmailOptions,
    Mailbox,
    MailboxSession,
    MailHead,
    read_options,
)
from hermes_plugins.platforms.email.inbound import MailWatcher, NewMailSignal, ParsedMail
from hermes_plugins.platforms.email.outbound import (
    MailJournal,
    SendStage,
    SmtpSender,
    ThreadStore,
    check_address,
    compose_mail,
    make_message_id,
)

logger = logging.getLogger(__name__)
MAX_QUOTE = 2000
MAX_CHATS = 500
UNPROVEN_NOTICE = (
    "Email: the sender of a mail cannot be proven, so owners and members who write count as guests."
    "\nTo change that: hermes config set platforms.email.extra.authserv_id NAME"
    "  (the name at the beginning of Authentication-Results in mail that you receive)"
)


class EmailConnection(Connection):
    def __init__(self, context: AdapterContext, receive: Receive, clock: Clock) -> None:
        super().__init__(context, receive)
        self._clock, self.options = clock, read_options(context)
        self.identities = (f"{self.options.user}@{self.options.imap.name}",)
        self.session, self.smtp = MailboxSession(self.options), SmtpSender(self.options)
        self.threads = ThreadStore(context.state / "threads")
        self.journal = MailJournal(context.state / "outgoing")
        self.chats: dict[str, ChatInfo] = {}
        self._sent_folder: str | None = None

    async def open(self) -> None:
        options, session = self.options, self.session
        self.resources.callback(session.close)
        await self.smtp.check()
        idles = await session.use(Mailbox.can_idle) and options.extra.idle
        signal = NewMailSignal(options, idle=idles)
        watch = MailWatcher(options, session, signal, self.context.state, self._clock, self._handle)
        await watch.start()
        self.threads.clean()
        self.journal.clean()
        self.run_until_closed(
            self.retry_forever(lambda: watch.run_once(self.mark_working), self._clock.sleep)
        )
        # Pushed later, so closed before the task is cancelled: its threads end with it.
        self.resources.callback(session.close)
        self.resources.callback(signal.close)

    async def ping(self) -> None:
        await self.session.use(Mailbox.ping)

    async def save_to_sent(self, message_id: str, mail: bytes) -> None:
        """Store a sent mail in the Sent folder, unless the server did it."""

        def save(box: Mailbox) -> str:
            folder = box.sent_folder() if self._sent_folder is None else self._sent_folder
            if folder and not box.contains(folder, message_id):
                box.append(folder, mail)
            return folder

        try:
            self._sent_folder = await self.session.use(save)
        except AdapterError as error:
            logger.warning("a mail was sent but not stored in the Sent folder: %s", error)

    async def is_in_sent_folder(self, message_id: str) -> bool:
        def find(box: Mailbox) -> bool:
            folder = box.sent_folder()
            return bool(folder) and box.contains(folder, message_id)

        return await self.session.use(find)

    async def _handle(self, head: MailHead, validity: int) -> bool:
        """Handle a mail; return True if it was for the agent and the gateway has stored it."""
        try:
            proven = await asyncio.to_thread(_screen, head, self.options)
            message, cut = (None, False) if proven is None else await self._download(head)
            if message is None:
                return False
            mail = await asyncio.to_thread(inbound.parse_mail, message)
        except AdapterError:
            raise
        except Exception:  # the standard library fails in many ways on broken mail
            logger.exception("Email: mail %s cannot be read and is left in the mailbox", head.uid)
            return False
        event = self._make_event(mail, head, validity, cut=cut)
        if event is None:
            return False
        if not proven:
            event = replace(event, source=replace(event.source, proven=False))
        await deliver_until_accepted(self.receive, event, self._clock.sleep)
        if len(self.chats) < MAX_CHATS:
            self.chats[mail.sender] = ChatInfo(mail.sender, mail.name or mail.sender)
        return True

    async def _download(self, head: MailHead) -> tuple[EmailMessage | None, bool]:
        """Return the mail, and whether only its beginning was read; None if it is gone."""
        options = self.options
        cut = head.size > options.extra.max_bytes
        folder, limit = options.extra.folder, inbound.PARTIAL_BYTES if cut else 0
        raw = await self.session.use(lambda box: box.fetch_mail(folder, head.uid, limit))
        if inbound.has_too_many_parts(raw):
            raw, cut = raw[: inbound.PARTIAL_BYTES], True
        return (await asyncio.to_thread(inbound.parse_bytes, raw) if raw else None), cut

    def _make_event(
        self, mail: ParsedMail, head: MailHead, validity: int, *, cut: bool
    ) -> MessageEvent | None:
        options = self.options
        unnamed = hashlib.sha256(head.header).hexdigest()[:32]
        thread = self.threads.thread_of(mail)
        files = () if cut or options.skip_attachments else mail.attachments
        text = mail.text
        if mail.subject and not mail.references and not text.startswith("/"):  # not a command
            text = f"Subject: {mail.subject}\n\n{text}".strip()
        if cut:
            limit = human_size(options.extra.max_bytes)
            text += f"\n\n[The mail is larger than {limit}, or has too"
            text += " many parts: only its beginning was read, and no attachment.]"
        if not text.strip() and not files:
            logger.info("Email: a mail of %s is empty", mail.sender)
            return None
        self.threads.save(thread)
        return MessageEvent(
            SessionSource(
                platform="email",
                chat_id=mail.sender,
                user_id=mail.sender,
                user_name=mail.name,
                chat_name=mail.name or mail.sender,
                thread_id=thread.root,
            ),
            mail.message_id or f"{unnamed}@unnamed",
            text,
            media=tuple(
                Media(
                    media_kind(each.mime, each.name),
                    each.name,
                    each.mime,
                    each.size,
                    ref=f"{validity}/{head.uid}/{each.number}",
                )
                for each in files
            ),
            reply_to_id=mail.answers,
            reply_to_text=mail.quoted[:MAX_QUOTE] if mail.answers else "",
            addressed=True,
            sent_at=head.arrived,
        )


class EmailAdapter(ConnectedAdapter[EmailConnection]):
    """The adapter. Tests may pass a `clock` in `context.extra`."""

    def __init__(self, context: AdapterContext) -> None:
        super().__init__(context)
        self._clock: Clock = context.extra.get("clock") or SystemClock()
        extra = getattr(context.connection, "extra", {})
        if not extra.get("authserv_id") and extra.get("require_authentication", "auto") == "auto":
            self.notice = UNPROVEN_NOTICE

    def make_connection(self, receive: Receive) -> EmailConnection:
        return EmailConnection(self.context, receive, self._clock)

    async def send(self, target: ChatTarget, message: OutgoingMessage, key: str) -> str:
        connection = self.connection
        own, to = connection.options.address, check_address(target.chat_id)
        message_id = make_message_id(own, key, to, target.thread_id)
        if connection.journal.stage(key) == "accepted":
            return message_id
        limit = self.manifest.capabilities.max_upload_bytes
        files = [(media, open_upload(media, limit)) for media in message.media]
        mail = await asyncio.to_thread(
            compose_mail,
            own,
            to,
            message,
            message_id=message_id,
            thread=connection.threads.find(to, target.thread_id) if target.thread_id else None,
            root=target.thread_id,
            files=files,
            now=self._clock.now(),
        )

        async def note(stage: SendStage) -> None:
            await asyncio.to_thread(connection.journal.record, key, stage)

        await connection.smtp.send(to, mail, note)
        await connection.save_to_sent(message_id, mail)
        return message_id

    async def was_delivered(
        self,
        query: DeliveryQuery,
        target: ChatTarget,
        message: OutgoingMessage,  # noqa: ARG002 - the Message-ID tells
    ) -> str | None:
        """Return the id if the server accepted the mail or it is in the Sent folder. If it was
        handed over and neither is known, the result is unknown."""
        connection = self.connection
        stage = connection.journal.stage(query.key)
        message_id = make_message_id(
            connection.options.address, query.key, target.chat_id, target.thread_id
        )
        if stage == "accepted" or await connection.is_in_sent_folder(message_id):
            return message_id
        if stage == "":
            return None
        raise DeliveryUnknown("Email: the SMTP server did not confirm the mail")

    async def fetch(self, media: Media, limit: int) -> Media:
        connection = self.connection
        folder = connection.options.extra.folder
        validity, uid, number = (int(part) for part in media.ref.split("/"))

        def get(box: Mailbox) -> bytes:
            return box.fetch_mail(folder, uid) if box.folder_state(folder)[0] == validity else b""

        def attachment(raw: bytes) -> bytes | None:
            return inbound.attachment_content(inbound.parse_bytes(raw), number) if raw else None

        data = await asyncio.to_thread(attachment, await connection.session.use(get))
        if data is None:
            raise AdapterError(f"Email: {media.name or 'the file'} is gone with its mail")
        return await MediaCache(self.context.cache).save(data, media, limit)

    async def chats(self) -> Sequence[ChatInfo]:
        return tuple(self.connection.chats.values())


def _screen(head: MailHead, options: EmailOptions) -> bool | None:
    """Return whether the sender of a mail is proven; None if the mail gets no answer."""
    if len(head.header) > inbound.MAX_HEADER_BYTES:
        logger.info("Email: mail %s gets no answer: its headers are too long", head.uid)
        return None
    message = inbound.parse_bytes(head.header)
    address, _ = inbound.parse_sender(message)
    refused, proven = inbound.check_sender(
        message,
        address,
        required=options.extra.require_authentication,
        server=options.extra.authserv_id,
    )
    if why := inbound.screen_message(message, options.address) or refused:
        logger.info("Email: a mail of %s gets no answer: %s", address or "an unknown sender", why)
        return None
    if not proven:
        logger.info("Email: the sender %s is not proven and counts as a guest", address)
    return proven
