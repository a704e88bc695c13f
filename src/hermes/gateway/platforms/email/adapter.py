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
from hermes.gateway.events import Media, MessageEvent, Outgoing, SessionSource, Target
from hermes.gateway.platforms.base import (
    AdapterContext,
    AdapterError,
    BaseAdapter,
    ChatName,
    NotConnected,
    Receive,
    Unknowable,
)
from hermes.gateway.platforms.email import authentication, letters, parsing, screening
from hermes.gateway.platforms.email.bell import Bell, IdleBell, PollBell
from hermes.gateway.platforms.email.composing import checked_address, compose
from hermes.gateway.platforms.email.desk import Desk
from hermes.gateway.platforms.email.journal import Journal, Stage
from hermes.gateway.platforms.email.letters import Attachment, Letter
from hermes.gateway.platforms.email.mailbox import Head, Mailbox
from hermes.gateway.platforms.email.options import Options, options_of
from hermes.gateway.platforms.email.submission import Submission
from hermes.gateway.platforms.email.threads import Threads, our_id
from hermes.gateway.platforms.email.watching import Watch, ended
from hermes.gateway.platforms.kit.media import MediaCache, kind_of, to_upload
from hermes.gateway.platforms.kit.offering import offer
from hermes.gateway.platforms.kit.token_lock import (
    ScopedLock,
    acquire_scoped_lock,
    release_scoped_lock,
)
from hermes.store.mail import OutboxRow
from hermes.util.clock import SystemClock
from hermes.util.text import human_size

log = logging.getLogger(__name__)

QUOTE_CHARS = 2000
MOST_CHATS = 500


class Session:
    """What there is while we are connected."""

    def __init__(self, options: Options, receive: Receive) -> None:
        self.options, self.receive = options, receive
        self.desk, self.submission = Desk(options), Submission(options)
        self.bell: Bell | None = None
        self.lock: ScopedLock | None = None
        self.watch: Watch | None = None
        self.task: asyncio.Task[None] | None = None
        self.sent_folder: str | None = None

    async def close(self) -> None:
        if self.bell is not None:
            self.bell.close()
        self.desk.close()
        await ended(self.task)
        release_scoped_lock(self.lock)


class EmailAdapter(BaseAdapter):
    """`context.extra` may hold `clock`."""

    def __init__(self, context: AdapterContext) -> None:
        super().__init__(context)
        self._clock: Clock = context.extra.get("clock") or SystemClock()
        self._threads = Threads(context.state / "threads")
        self._journal = Journal(context.state / "outgoing")
        self._cache = MediaCache(context.cache)
        self._session: Session | None = None
        self._chats: dict[str, ChatName] = {}

    async def connect(self, receive: Receive) -> None:
        options = options_of(self.context)
        session = Session(options, receive)
        try:
            identity = f"{options.user}@{options.imap.name}"
            session.lock = acquire_scoped_lock("email", identity, self.context.locks)
            await session.submission.check()
            idles = await session.desk.use(Mailbox.can_idle) and options.extra.idle
            session.bell = IdleBell(options) if idles else PollBell(options.poll_seconds)
            session.watch = Watch(
                options, session.desk, session.bell, self.context.state, self._clock, self._take
            )
            await session.watch.begin()
        except BaseException:
            await session.close()
            raise
        self._threads.clean()
        self._journal.clean()
        self._session = session
        session.task = asyncio.create_task(session.watch.run(), name="email")

    async def disconnect(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def probe(self) -> None:
        session = self._connected()
        await session.desk.use(Mailbox.alive)
        if session.watch is not None and session.watch.trouble is not None:
            raise session.watch.trouble
        if session.task is None or session.task.done():
            raise NotConnected("Email does not look for mail any more")

    async def send(self, target: Target, message: Outgoing, key: str) -> str:
        session = self._connected()
        own, to = session.options.address, checked_address(target.chat_id)
        message_id = our_id(own, key, to, target.thread_id)
        if self._journal.stage(key) == "accepted":
            return message_id
        limit = self.manifest.capabilities.max_upload_bytes
        files = [(media, to_upload(media, limit)) for media in message.media]
        mail = await asyncio.to_thread(
            compose,
            own,
            to,
            message,
            message_id=message_id,
            thread=self._threads.find(to, target.thread_id) if target.thread_id else None,
            root=target.thread_id,
            files=files,
            now=self._clock.now(),
        )

        async def note(stage: Stage) -> None:
            await asyncio.to_thread(self._journal.note, key, stage)

        await session.submission.send(to, mail, note)
        await self._keep_sent(session, message_id, mail)
        return message_id

    async def find_sent(
        self,
        row: OutboxRow,
        target: Target,
        message: Outgoing,  # noqa: ARG002 - the Message-ID tells
    ) -> str | None:
        """What the server took is known, or is among the sent mail. When it was handed over and
        neither is so, nobody knows."""
        session = self._connected()
        stage = self._journal.stage(row.key)
        message_id = our_id(session.options.address, row.key, target.chat_id, target.thread_id)
        if stage == "accepted" or await self._is_among_sent(session, message_id):
            return message_id
        if stage == "":
            return None
        raise Unknowable("Email: the SMTP server did not say whether it took the mail")

    async def fetch(self, media: Media, limit: int) -> Media:
        session = self._connected()
        folder = session.options.extra.folder
        validity, uid, number = (int(part) for part in media.ref.split("/"))

        def get(box: Mailbox) -> bytes:
            return box.mail(folder, uid) if box.state(folder)[0] == validity else b""

        raw = await session.desk.use(get)
        data = await asyncio.to_thread(_content, raw, number)
        if data is None:
            raise AdapterError(f"Email: {media.name or 'the file'} is gone with its mail")
        return await self._cache.save(data, media, limit)

    async def chats(self) -> Sequence[ChatName]:
        return tuple(self._chats.values())

    def _connected(self) -> Session:
        if self._session is None:
            raise NotConnected("Email is not connected")
        return self._session

    async def _take(self, head: Head, validity: int) -> bool:
        """Whether a mail is for the agent; then it is kept when this returns."""
        session = self._connected()
        try:
            message, cut = await self._read(session, head)
            if message is None:
                return False
            letter = await asyncio.to_thread(letters.letter, message)
        except AdapterError:
            raise
        except Exception:  # the standard library fails in many ways on broken mail
            log.exception("Email: mail %s cannot be read and is left in the mailbox", head.uid)
            return False
        event = self._event(letter, head, validity, session.options, cut=cut)
        if event is None:
            return False
        await offer(session.receive, event, self._clock.sleep)
        if len(self._chats) < MOST_CHATS:
            self._chats[letter.sender] = ChatName(letter.sender, letter.name or letter.sender)
        return True

    async def _read(self, session: Session, head: Head) -> tuple[EmailMessage | None, bool]:
        """The mail, and whether only its beginning; None when it gets no answer."""
        options = session.options
        if not await asyncio.to_thread(_is_for_us, head, options):
            return None, False
        cut = head.size > options.extra.max_bytes
        folder, limit = options.extra.folder, parsing.BEGINNING if cut else 0
        raw = await session.desk.use(lambda box: box.mail(folder, head.uid, limit))
        if parsing.too_many_parts(raw):
            raw, cut = raw[: parsing.BEGINNING], True
        return (await asyncio.to_thread(parsing.read, raw) if raw else None), cut

    def _event(
        self, letter: Letter, head: Head, validity: int, options: Options, *, cut: bool
    ) -> MessageEvent | None:
        unnamed = hashlib.sha256(head.header).hexdigest()[:32]
        thread = self._threads.of(letter)
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
        self._threads.keep(thread)
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

    async def _keep_sent(self, session: Session, message_id: str, mail: bytes) -> None:
        """Servers that keep sent mail by themselves have it already."""

        def keep(box: Mailbox) -> str:
            folder = box.sent_folder() if session.sent_folder is None else session.sent_folder
            if folder and not box.has(folder, message_id):
                box.append(folder, mail)
            return folder

        try:
            session.sent_folder = await session.desk.use(keep)
        except AdapterError as error:
            log.warning("a mail is sent but not kept among the sent ones: %s", error)

    async def _is_among_sent(self, session: Session, message_id: str) -> bool:
        def look(box: Mailbox) -> bool:
            folder = box.sent_folder()
            return bool(folder) and box.has(folder, message_id)

        return await session.desk.use(look)


def _is_for_us(head: Head, options: Options) -> bool:
    """The log says why not."""
    if len(head.header) > parsing.MOST_HEAD_BYTES:
        log.info("Email: mail %s gets no answer: its headers are too long", head.uid)
        return False
    message = parsing.read(head.header)
    address, _ = screening.sender(message)
    why = screening.why_not(message, options.address) or authentication.why_not(
        message,
        address,
        required=options.extra.require_authentication,
        server=options.extra.authserv_id,
    )
    if why:
        log.info("Email: a mail of %s gets no answer: %s", address or "somebody", why)
    return not why


def _content(raw: bytes, number: int) -> bytes | None:
    return letters.content(parsing.read(raw), number) if raw else None


def _text(letter: Letter) -> str:
    """With the subject where it says something: at the beginning of a thread, and not before a
    command."""
    starts = letter.subject and not letter.references and not letter.text.startswith("/")
    return f"Subject: {letter.subject}\n\n{letter.text}".strip() if starts else letter.text


def _media(attachment: Attachment, uid: int, validity: int) -> Media:
    return Media(
        kind=kind_of(attachment.mime, attachment.name),
        name=attachment.name,
        mime=attachment.mime,
        size=attachment.size,
        ref=f"{validity}/{uid}/{attachment.number}",
    )
