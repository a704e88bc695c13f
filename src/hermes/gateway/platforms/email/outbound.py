"""A message of ours as a mail. The same message gives the same Message-ID each time."""

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

from hermes.gateway.platforms.email.client import Options
from hermes.gateway.platforms.email.inbound import Letter
from hermes.gateway.platforms.kit.contract import (
    AdapterError,
    CredentialsRefused,
    Media,
    NotConnected,
    OutgoingMessage,
    SendLater,
    SendRefused,
    SendUnsure,
)
from hermes.gateway.platforms.kit.media import guess_mime
from hermes.util.atomic import write_bytes, write_text
from hermes.util.text import clean

# Threads of mail: what an answer needs to stay in one.
#
# A thread is named by the first mail in it. Our own mails carry a mark of their thread in their
# Message-ID, since some programs name only the mail they answer.

KEEP_SECONDS = 365 * 86400.0
MOST_REFERENCES = 20

_OURS = re.compile(r"hermes\.[0-9a-f]{24}\.([0-9a-f]{16})@.+")


class Thread(msgspec.Struct, frozen=True):
    address: str
    """Who we talk with."""
    root: str
    subject: str
    references: tuple[str, ...]
    """Its mails, the oldest first, with the last one we got."""


class Threads:
    """One small file for each thread, in a folder of our own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def of(self, letter: Letter) -> Thread:
        """The thread a mail belongs to, with the mail in it; not kept yet."""
        marks = (_OURS.fullmatch(each) for each in reversed(letter.references))
        known = next((found for mark in marks if mark and (found := self._read(mark[1]))), None)
        if known is not None and known.address != letter.sender:
            known = None  # somebody else's
        root = known.root if known else (*letter.references, letter.message_id)[0]
        line = [root, *letter.references, letter.message_id]
        line = [each for each in dict.fromkeys(line) if each]
        kept = (*line[:1], *line[1:][-MOST_REFERENCES:])
        return Thread(letter.sender, root, letter.subject or (known.subject if known else ""), kept)

    def keep(self, thread: Thread) -> None:
        """On disk when it returns. Raises OSError."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_bytes(self._file(mark(thread.address, thread.root)), msgspec.json.encode(thread))

    def find(self, address: str, root: str) -> Thread | None:
        return self._read(mark(address, root))

    def clean(self) -> None:
        before = time.time() - KEEP_SECONDS
        for file in self._folder.glob("*.json"):
            with contextlib.suppress(OSError):
                if file.stat().st_mtime < before:
                    file.unlink()

    def _read(self, name: str) -> Thread | None:
        try:
            return msgspec.json.decode(self._file(name).read_bytes(), type=Thread)
        except (OSError, msgspec.DecodeError):
            return None

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}.json"


def mark(address: str, root: str) -> str:
    return hashlib.sha256(f"{address}\0{root}".encode()).hexdigest()[:16]


def our_id(own: str, key: str, address: str, root: str) -> str:
    """The Message-ID of the message `key`: the same each time."""
    name = hashlib.sha256(f"{own}\0{key}".encode()).hexdigest()[:24]
    tail = f".{mark(address, root)}" if root else ""
    return f"hermes.{name}{tail}@{own.rpartition('@')[2]}"


POLICY = email.policy.SMTP.clone(cte_type="7bit")
SUBJECT_CHARS = 70

_ADDRESS = re.compile(r"[^\s<>,;:\"()\\\[\]@]{1,64}@[A-Za-z0-9.-]{1,255}")
_REPLY = re.compile(r"\s*(re|aw|sv|antw|vs|ref)\s*(\[\d+\])?\s*:", re.IGNORECASE)
_ID = re.compile(r"[^\s<>]{1,500}")


def checked_address(address: str) -> str:
    """Raises `SendRefused` for what is no address, also for one that would add headers."""
    if not address.isascii() or not _ADDRESS.fullmatch(address):
        raise SendRefused(f"{address[:80]!r} is no mail address that can be written to")
    return address


def compose(
    own: str,
    to: str,
    message: OutgoingMessage,
    *,
    message_id: str,
    thread: Thread | None,
    root: str,
    files: Sequence[tuple[Media, Path]],
    now: datetime,
) -> bytes:
    mail = EmailMessage(policy=POLICY)
    text = clean(message.text or message.plain)
    before = _before(message, thread, root)
    mail["From"], mail["To"] = own, to
    mail["Subject"] = _subject(message, thread, text, answers=bool(before))
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


def _before(message: OutgoingMessage, thread: Thread | None, root: str) -> list[str]:
    """The mails before this one, the one it answers last."""
    known = [*(thread.references if thread else (root,)), message.reply_to]
    if message.reply_to and thread and message.reply_to in thread.references:
        known = list(thread.references[: thread.references.index(message.reply_to) + 1])
    return [each for each in dict.fromkeys(known) if _ID.fullmatch(each)]


def _subject(message: OutgoingMessage, thread: Thread | None, text: str, *, answers: bool) -> str:
    said = " ".join(clean(message.subject or (thread.subject if thread else "")).split())
    if not said:
        first = next((line for line in text.splitlines() if line.strip()), "Hermes")
        said = " ".join(first.split())
        said = said if len(said) <= SUBJECT_CHARS else f"{said[:SUBJECT_CHARS]}…"
    return f"Re: {said}" if answers and not message.subject and not _REPLY.match(said) else said


# How far the sending of each mail got, on disk before it goes further.
#
# Nothing is noted before the mail itself is handed over, so what has no note was never sent. A
# note
# `begun` without more means that nobody knows.

JOURNAL_KEEP_SECONDS = 60 * 86400.0

Stage = Literal["", "begun", "accepted"]


class Journal:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def stage(self, key: str) -> Stage:
        try:
            said = self._file(key).read_text()
        except FileNotFoundError:
            return ""
        return "accepted" if said == "accepted" else "begun"

    def note(self, key: str, stage: Stage) -> None:
        """`""` takes the note back: the server refused the mail. Raises OSError."""
        if not stage:
            self._file(key).unlink(missing_ok=True)
            return
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_text(self._file(key), stage)

    def clean(self) -> None:
        before = time.time() - JOURNAL_KEEP_SECONDS
        for file in self._folder.glob("*.txt"):
            with contextlib.suppress(OSError):
                if file.stat().st_mtime < before:
                    file.unlink()

    def _file(self, key: str) -> Path:
        return self._folder / f"{hashlib.sha256(key.encode()).hexdigest()[:40]}.txt"


# Mail out over SMTP, one connection for each.

SECONDS = 60.0
LATER = 15.0
"""Seconds until a server that has no time is asked again."""
_FOR_GOOD = 500

Note = Callable[[Stage], Awaitable[None]]


class Submission:
    def __init__(self, options: Options) -> None:
        self._options = options

    async def check(self) -> None:
        """Whether we may send. Raises `CredentialsRefused`, `NotConnected`."""
        async with self._session():
            pass

    async def send(self, to: str, mail: bytes, note: Note) -> None:
        """Returns once the server has the mail. `note` is called with `begun` before it is handed
        over, then with `accepted`, or with "" when the server refused it. Raises `SendRefused`,
        `SendLater`, `SendUnsure`."""
        try:
            async with self._session() as client:
                await self._envelope(client, to)
                await note("begun")
                await self._data(client, mail, note)
        except (NotConnected, CredentialsRefused) as error:
            raise SendLater(str(error), seconds=LATER) from None

    async def _envelope(self, client: aiosmtplib.SMTP, to: str) -> None:
        try:
            await client.mail(self._options.address)
            await client.rcpt(to)
        except SMTPResponseException as error:
            raise _refusal(error) from None
        except (SMTPException, OSError, TimeoutError) as error:
            raise SendLater(f"Email: the SMTP server hung up ({_name(error)})") from None

    async def _data(self, client: aiosmtplib.SMTP, mail: bytes, note: Note) -> None:
        try:
            await client.data(mail)
        except SMTPResponseException as error:
            await note("")
            raise _refusal(error) from None
        except (SMTPException, OSError, TimeoutError) as error:
            raise SendUnsure(
                f"Email: the SMTP server did not say whether it took the mail ({_name(error)})"
            ) from None
        await note("accepted")

    @contextlib.asynccontextmanager
    async def _session(self) -> AsyncIterator[aiosmtplib.SMTP]:
        """Logged in. Raises `CredentialsRefused`, `NotConnected`."""
        host = self._options.smtp
        try:
            client = aiosmtplib.SMTP(
                hostname=host.name,
                port=host.port,
                use_tls=host.security == "tls",
                start_tls=host.security == "starttls",
                tls_context=None if host.security == "plain" else self._options.tls(),
                timeout=SECONDS,
                # Else the name of this machine is looked up and told to the server.
                local_hostname=self._options.address.rpartition("@")[2],
            )
        except OSError as error:
            raise NotConnected(f"Email: the certificates cannot be read: {error}") from None
        try:
            await self._log_in(client)
            yield client
        finally:
            await _leave(client)

    async def _log_in(self, client: aiosmtplib.SMTP) -> None:
        name = self._options.smtp.name
        try:
            await client.connect()
            await client.login(self._options.user, self._options.password)
        except aiosmtplib.SMTPAuthenticationError as error:
            if error.code < _FOR_GOOD:
                raise NotConnected(f"Email: {name} cannot let us in now") from None
            raise CredentialsRefused(
                f"Email: {name} refuses the password of {self._options.user}",
                hint="set EMAIL_PASSWORD; some servers want a password made for one application",
            ) from None
        except aiosmtplib.SMTPNotSupported as error:
            raise NotConnected(
                f"Email: {name} offers no way to log in or no TLS ({_name(error)})",
                hint="see platforms.email.extra.smtp_security",
            ) from None
        except (SMTPException, OSError, TimeoutError) as error:
            raise NotConnected(f"Email: {name} cannot be reached ({_name(error)})") from None


async def _leave(client: aiosmtplib.SMTP) -> None:
    """Politely if the server listens; the mail is safe either way."""
    if client.is_connected:
        with contextlib.suppress(SMTPException, OSError, TimeoutError):
            async with asyncio.timeout(2):
                await client.quit()
    client.close()


def _refusal(error: SMTPResponseException) -> AdapterError:
    told = f"Email: the SMTP server answered {error.code} {' '.join(error.message.split())[:200]}"
    if error.code >= _FOR_GOOD:
        return SendRefused(told)
    return SendLater(told, seconds=LATER)


def _name(error: Exception) -> str:
    return type(error).__name__
