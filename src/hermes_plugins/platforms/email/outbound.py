"""Outbound mail: threads, composing, the send journal and SMTP.

The same message always gets the same Message-ID.
"""

import asyncio
import contextlib
import email.policy
import hashlib
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime
from pathlib import Path
from typing import Literal

import aiosmtplib
import msgspec
from aiosmtplib import SMTPException, SMTPResponseException

from hermes.sdk import clean, write_bytes, write_text
from hermes.sdk.platforms import (
    AdapterError,
    CredentialsRefused,
    Media,
    NotConnected,
    OutgoingMessage,
    SendLater,
    SendRefused,
    SendUnsure,
    guess_mime,
)
from hermes_plugins.platforms.email.client import EmailOptions
from hermes_plugins.platforms.email.inbound import ParsedMail

KEEP_SECONDS = 365 * 86400.0
MAX_REFERENCES = 20
_OWN_ID = re.compile(r"hermes\.[0-9a-f]{24}\.([0-9a-f]{16})@.+")
POLICY = email.policy.SMTP.clone(cte_type="7bit")
MAX_SUBJECT = 70
_ADDRESS = re.compile(r"[^\s<>,;:\"()\\\[\]@]{1,64}@[A-Za-z0-9.-]{1,255}")
_REPLY = re.compile(r"\s*(re|aw|sv|antw|vs|ref)\s*(\[\d+\])?\s*:", re.IGNORECASE)
_ID = re.compile(r"[^\s<>]{1,500}")
JOURNAL_KEEP_SECONDS = 60 * 86400.0
SendStage = Literal["", "begun", "accepted"]
SMTP_SECONDS = 60.0
RETRY_SECONDS = 15.0  #: Seconds until a busy server is tried again.
_PERMANENT = 500
RecordStage = Callable[[SendStage], Awaitable[None]]


class MailThread(msgspec.Struct, frozen=True):
    address: str  #: The other participant.
    root: str
    subject: str
    references: tuple[str, ...]  #: Ids of its mails, oldest first, up to the last one received.


class ThreadStore:
    """One small file for each thread.

    A thread is named by its first mail. Our Message-IDs contain a mark of the thread, because some
    programs reference only the mail they answer.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def thread_of(self, letter: ParsedMail) -> MailThread:
        """Return the thread of a mail, including the mail; it is not saved yet."""
        marks = (_OWN_ID.fullmatch(each) for each in reversed(letter.references))
        known = next((found for own in marks if own and (found := self._read(own[1]))), None)
        if known is not None and known.address != letter.sender:
            known = None  # belongs to another sender
        root = known.root if known else (*letter.references, letter.message_id)[0]
        line = [root, *letter.references, letter.message_id]
        line = [each for each in dict.fromkeys(line) if each]
        kept = (*line[:1], *line[1:][-MAX_REFERENCES:])
        return MailThread(
            letter.sender, root, letter.subject or (known.subject if known else ""), kept
        )

    def save(self, thread: MailThread) -> None:
        """Write the thread to disk. Raises OSError."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_bytes(
            self._file(thread_mark(thread.address, thread.root)), msgspec.json.encode(thread)
        )

    def find(self, address: str, root: str) -> MailThread | None:
        return self._read(thread_mark(address, root))

    def clean(self) -> None:
        _remove_old(self._folder, "*.json", KEEP_SECONDS)

    def _read(self, name: str) -> MailThread | None:
        try:
            return msgspec.json.decode(self._file(name).read_bytes(), type=MailThread)
        except (OSError, msgspec.DecodeError):
            return None

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}.json"


def thread_mark(address: str, root: str) -> str:
    return hashlib.sha256(f"{address}\0{root}".encode()).hexdigest()[:16]


def make_message_id(own: str, key: str, address: str, root: str) -> str:
    """Return the Message-ID of the message `key`; always the same one."""
    name = hashlib.sha256(f"{own}\0{key}".encode()).hexdigest()[:24]
    tail = f".{thread_mark(address, root)}" if root else ""
    return f"hermes.{name}{tail}@{own.rpartition('@')[2]}"


def check_address(address: str) -> str:
    """Return a valid address. Raises `SendRefused` for others, including ones that would inject
    headers."""
    if not address.isascii() or not _ADDRESS.fullmatch(address):
        raise SendRefused(f"{address[:80]!r} is not a valid mail address")
    return address


def compose_mail(
    own: str,
    to: str,
    message: OutgoingMessage,
    *,
    message_id: str,
    thread: MailThread | None,
    root: str,
    files: Sequence[tuple[Media, Path]],
    now: datetime,
) -> bytes:
    mail = EmailMessage(policy=POLICY)
    text = clean(message.text or message.plain)
    before = _previous_ids(message, thread, root)
    mail["From"], mail["To"] = own, to
    mail["Subject"] = _make_subject(message, thread, text, answers=bool(before))
    mail["Date"] = format_datetime(now)
    mail["Message-ID"] = f"<{message_id}>"
    if before:
        mail["In-Reply-To"] = f"<{before[-1]}>"
        mail["References"] = " ".join(f"<{each}>" for each in before)
    mail["Auto-Submitted"] = "auto-replied" if before else "auto-generated"
    mail["X-Auto-Response-Suppress"] = "All"
    mail.set_content(text, cte="quoted-printable" if text.isascii() else "base64")
    for media, path in files:
        name = media.name or path.name
        main, _, sub = (media.mime or guess_mime(name)).partition("/")
        data = path.read_bytes()
        mail.add_attachment(data, maintype=main, subtype=sub or "octet-stream", filename=name)
    return mail.as_bytes()


class MailJournal:
    """How far sending each mail got, written before each step.

    Nothing is recorded before the mail is handed over, so a mail without a record was never sent.
    `begun` alone means that the result is unknown.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def stage(self, key: str) -> SendStage:
        try:
            said = self._file(key).read_text()
        except FileNotFoundError:
            return ""
        return "accepted" if said == "accepted" else "begun"

    def record(self, key: str, stage: SendStage) -> None:
        """Record a stage; "" removes the record, because the server rejected the mail. Raises
        OSError."""
        if not stage:
            self._file(key).unlink(missing_ok=True)
            return
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_text(self._file(key), stage)

    def clean(self) -> None:
        _remove_old(self._folder, "*.txt", JOURNAL_KEEP_SECONDS)

    def _file(self, key: str) -> Path:
        return self._folder / f"{hashlib.sha256(key.encode()).hexdigest()[:40]}.txt"


class SmtpSender:
    """Sends mail over SMTP, with a new connection for each."""

    def __init__(self, options: EmailOptions) -> None:
        self._options = options

    async def check(self) -> None:
        """Check that we may send. Raises `CredentialsRefused` or `NotConnected`."""
        async with self._session():
            pass

    async def send(self, to: str, mail: bytes, record: RecordStage) -> None:
        """Return once the server has the mail. `record` is called with `begun` before it is
        handed over, then with `accepted`, or with "" if the server rejected it. Raises
        `SendRefused`, `SendLater` or `SendUnsure`."""
        try:
            async with self._session() as client:
                await self._send_envelope(client, to)
                await record("begun")
                await self._send_data(client, mail, record)
        except (NotConnected, CredentialsRefused) as error:
            raise SendLater(str(error), seconds=RETRY_SECONDS) from None

    async def _send_envelope(self, client: aiosmtplib.SMTP, to: str) -> None:
        try:
            await client.mail(self._options.address)
            await client.rcpt(to)
        except SMTPResponseException as error:
            raise _map_response(error) from None
        except (SMTPException, OSError, TimeoutError) as error:
            raise SendLater(f"Email: the SMTP server disconnected ({_error_name(error)})") from None

    async def _send_data(self, client: aiosmtplib.SMTP, mail: bytes, record: RecordStage) -> None:
        try:
            await client.data(mail)
        except SMTPResponseException as error:
            await record("")
            raise _map_response(error) from None
        except (SMTPException, OSError, TimeoutError) as error:
            raise SendUnsure(
                f"Email: the SMTP server did not confirm the mail ({_error_name(error)})"
            ) from None
        await record("accepted")

    @contextlib.asynccontextmanager
    async def _session(self) -> AsyncIterator[aiosmtplib.SMTP]:
        """Yield a logged-in client. Raises `CredentialsRefused` or `NotConnected`."""
        host = self._options.smtp
        try:
            client = aiosmtplib.SMTP(
                hostname=host.name,
                port=host.port,
                use_tls=host.security == "tls",
                start_tls=host.security == "starttls",
                tls_context=None if host.security == "plain" else self._options.tls(),
                timeout=SMTP_SECONDS,
                # Otherwise the library looks up the name of this machine and sends it.
                local_hostname=self._options.address.rpartition("@")[2],
            )
        except OSError as error:
            raise NotConnected(f"Email: the certificates cannot be read: {error}") from None
        try:
            await self._log_in(client)
            yield client
        finally:
            if client.is_connected:  # end politely if the server responds; the mail is safe anyway
                with contextlib.suppress(SMTPException, OSError, TimeoutError):
                    async with asyncio.timeout(2):
                        await client.quit()
            client.close()

    async def _log_in(self, client: aiosmtplib.SMTP) -> None:
        name = self._options.smtp.name
        try:
            await client.connect()
            await client.login(self._options.user, self._options.password)
        except aiosmtplib.SMTPAuthenticationError as error:
            if error.code < _PERMANENT:
                raise NotConnected(f"Email: {name} cannot accept the login now") from None
            raise CredentialsRefused(
                f"Email: {name} refuses the password of {self._options.user}",
                hint="set EMAIL_PASSWORD; some servers want a password made for one application",
            ) from None
        except aiosmtplib.SMTPNotSupported as error:
            raise NotConnected(
                f"Email: {name} supports no usable login or no TLS ({_error_name(error)})",
                hint="see platforms.email.extra.smtp_security",
            ) from None
        except (SMTPException, OSError, TimeoutError) as error:
            raise NotConnected(f"Email: {name} cannot be reached ({_error_name(error)})") from None


def _remove_old(folder: Path, names: str, seconds: float) -> None:
    for file in folder.glob(names):
        with contextlib.suppress(OSError):
            if file.stat().st_mtime < time.time() - seconds:
                file.unlink()


def _previous_ids(message: OutgoingMessage, thread: MailThread | None, root: str) -> list[str]:
    """Return the ids of the earlier mails; the one it replies to is last."""
    known = [*(thread.references if thread else (root,)), message.reply_to]
    if message.reply_to and thread and message.reply_to in thread.references:
        known = list(thread.references[: thread.references.index(message.reply_to) + 1])
    return [each for each in dict.fromkeys(known) if _ID.fullmatch(each)]


def _make_subject(
    message: OutgoingMessage, thread: MailThread | None, text: str, *, answers: bool
) -> str:
    said = " ".join(clean(message.subject or (thread.subject if thread else "")).split())
    if not said:
        first = next((line for line in text.splitlines() if line.strip()), "Hermes")
        said = " ".join(first.split())
        said = said if len(said) <= MAX_SUBJECT else f"{said[:MAX_SUBJECT]}…"
    return f"Re: {said}" if answers and not message.subject and not _REPLY.match(said) else said


def _map_response(error: SMTPResponseException) -> AdapterError:
    message = (
        f"Email: the SMTP server answered {error.code} {' '.join(error.message.split())[:200]}"
    )
    if error.code >= _PERMANENT:
        return SendRefused(message)
    return SendLater(message, seconds=RETRY_SECONDS)


def _error_name(error: Exception) -> str:
    return type(error).__name__
