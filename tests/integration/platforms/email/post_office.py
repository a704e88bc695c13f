"""Mail as people see it: a real IMAP server, an SMTP server in front of it, and a few people."""

import asyncio
import contextlib
import email.policy
import imaplib
import time
import warnings
from collections.abc import Callable
from email.message import EmailMessage
from email.utils import format_datetime, make_msgid
from pathlib import Path
from typing import Any

import msgspec
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword
from aiosmtpd.smtp import Session as SmtpSession

from hermes.sdk.platforms import ChatType
from hermes.sdk.testing.platforms.harness import Harness, Saying, Shown, Trouble
from hermes.util.concurrency import SystemClock
from hermes_plugins.platforms.email.adapter import EmailAdapter
from hermes_plugins.platforms.email.manifest import MANIFEST, EmailPlatform
from tests.integration.platforms.email.dovecot import PASSWORD, Dovecot

PERSON = "ann"


class Proxy:
    """Forwards bytes until a test stops it."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self.poison = b""  #: What the connection breaks at.

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def close(self) -> None:
        self._server.close()
        self.cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers |= {writer, back}
        both = [self._pass(reader, back), self._pass(there, writer)]
        tasks = [asyncio.create_task(each) for each in both]
        self._tasks |= set(tasks)
        await asyncio.wait(tasks)
        self._tasks -= set(tasks)
        for each in (writer, back):
            each.close()
            self._writers.discard(each)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if self.poison and self.poison in data:
                    break
                writer.write(data)
                await writer.drain()
        writer.close()


class SmtpServer:
    """An SMTP server that accepts mail of logged-in users and misbehaves on request."""

    def __init__(self, right: Callable[[str, str], bool]) -> None:
        self._right = right
        self.mails: list[EmailMessage] = []
        self.raw: list[bytes] = []
        self.troubles: list[str] = []
        self.accepted: Callable[[bytes], None] = lambda _: None
        self.port = 0
        self._made: set[SMTP] = set()

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._protocol, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        for protocol in self._made:
            if protocol.transport is not None:
                protocol.transport.abort()

    async def close(self) -> None:
        self._server.close()
        self.cut()
        await asyncio.sleep(0)

    def _protocol(self) -> SMTP:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of passwords without TLS
            made = SMTP(
                self,
                hostname="localhost",
                data_size_limit=60_000_000,
                auth_require_tls=False,
                auth_required=True,
                authenticator=self._log_in,
                loop=asyncio.get_running_loop(),
            )
        self._made.add(made)
        return made

    def _log_in(self, server: SMTP, session: Any, envelope: Any, mechanism: str, data: Any) -> Any:
        assert isinstance(data, LoginPassword)
        right = self._right(data.login.decode(), data.password.decode())
        return AuthResult(success=right, handled=False)

    def _next(self, *kinds: str) -> str:
        return self.troubles.pop(0) if self.troubles and self.troubles[0] in kinds else ""

    async def handle_MAIL(  # noqa: N802 - the library's name
        self, server: SMTP, session: SmtpSession, envelope: Envelope, address: str, options: Any
    ) -> str:
        if self._next("cut_before"):
            server.transport.abort()
        envelope.mail_from = address
        return "250 OK"

    async def handle_RCPT(  # noqa: N802 - the library's name
        self, server: SMTP, session: SmtpSession, envelope: Envelope, address: str, options: Any
    ) -> str:
        if self._next("chat_gone"):
            return "550 5.1.1 nobody of that name here"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(  # noqa: N802 - the library's name
        self, server: SMTP, session: SmtpSession, envelope: Envelope
    ) -> str:
        if self._next("server_error"):
            return "451 4.3.0 come back later"
        mail = bytes(envelope.content or b"")
        self.raw.append(mail)
        self.mails.append(parsed(mail))
        await asyncio.to_thread(self.accepted, mail)
        if self._next("cut_after"):
            server.transport.abort()
        return "250 OK"


def parsed(mail: bytes) -> EmailMessage:
    found = email.message_from_bytes(mail, policy=email.policy.default)
    assert isinstance(found, EmailMessage)
    return found


def bare(header: Any) -> str:
    """A Message-ID without its brackets."""
    return str(header or "").strip().removeprefix("<").removesuffix(">")


class PostOffice(Harness):
    """`Harness`. `saves_sent`: the server keeps sent mail by itself, as the large ones do."""

    manifest = MANIFEST
    troubles = frozenset({"server_error", "chat_gone", "cut_before", "cut_after"})
    features = frozenset({"replies", "keeps"})
    secrets = (PASSWORD,)

    def __init__(self, dovecot: Dovecot, folder: Path, extra: dict[str, Any]) -> None:
        super().__init__(folder)
        self.dovecot, self._extra = dovecot, extra
        self.address = dovecot.account()
        self.password = PASSWORD
        self.imap = Proxy(dovecot.imap)
        self.smtp = SmtpServer(lambda user, word: (user, word) == (self.address, self.password))
        self.written: dict[str, bytes] = {}
        self.variables = {
            "EMAIL_ADDRESS": self.address,
            "EMAIL_PASSWORD": PASSWORD,
            "EMAIL_IMAP_HOST": "127.0.0.1",
            "EMAIL_SMTP_HOST": "127.0.0.1",
            "EMAIL_POLL_INTERVAL": "0.02",
        }

    @classmethod
    async def start(
        cls, dovecot: Dovecot, folder: Path, *, saves_sent: bool = False, **extra: Any
    ) -> "PostOffice":
        extra = {"imap_security": "plain", "smtp_security": "plain", **extra}
        office = cls(dovecot, folder, extra)
        await office.imap.open()
        await office.smtp.open()
        office.variables["EMAIL_IMAP_PORT"] = str(office.imap.port)
        office.variables["EMAIL_SMTP_PORT"] = str(office.smtp.port)
        if saves_sent:
            office.smtp.accepted = office.save_sent
        return office

    async def close(self) -> None:
        await self.imap.close()
        await self.smtp.close()

    def adapter(self, **connection: Any) -> EmailAdapter:
        self.connection = msgspec.convert({"extra": self._extra, **connection}, EmailPlatform)
        return EmailAdapter(self.context())

    def chat_id(self, chat: str = "", chat_type: ChatType = "dm") -> str:
        return chat if "@" in chat else f"{chat or PERSON}@example.org"

    def user_id(self, user: str = "") -> str:
        return self.chat_id(user)

    async def says(self, text: str, **how: Any) -> str:
        """Also with headers, as `Precedence="bulk"`."""
        headers = {name.replace("_", "-"): how.pop(name) for name in list(how) if name.istitle()}
        said = Saying(**how)
        mail = EmailMessage(policy=email.policy.SMTP)
        mail["From"] = self.chat_id(said.chat or said.user)
        mail["To"] = self.address
        mail["Date"] = format_datetime(SystemClock().now())
        mail["Message-ID"] = make_msgid(domain="example.org")
        for name, value in headers.items():
            mail[name] = value
        if said.thread:
            mail["References"] = f"<{said.thread}.{self.address}>"
        if said.reply_to:
            mail["In-Reply-To"] = f"<{said.reply_to}>"
            text = f"{text}\n\nOn Mon, 16 Nov 2026, Hermes wrote:\n{self._quoted(said.reply_to)}"
        mail.set_content(text)
        for file in said.files:
            main, _, sub = (file.mime or "application/octet-stream").partition("/")
            mail.add_attachment(file.data, maintype=main, subtype=sub, filename=file.name)
        await self.deliver(mail.as_bytes())
        return bare(mail["Message-ID"])

    def _quoted(self, message_id: str) -> str:
        found = [each for each in self.smtp.mails if bare(each["Message-ID"]) == message_id]
        body = found[0].get_body() if found else None
        text = str(body.get_content()) if body else ""
        return "".join(f"> {line}\n" for line in text.splitlines())

    async def deliver(self, mail: bytes) -> None:
        self.written[bare(parsed(mail)["Message-ID"])] = mail
        await asyncio.to_thread(self.dovecot.deliver, self.address, mail)

    async def again(self, message_id: str) -> None:
        await self.deliver(self.written[message_id])

    async def shown(self, chat: str = "") -> list[Shown]:
        to = self.chat_id(chat)
        return [
            Shown(
                id=bare(mail["Message-ID"]),
                text=_text(mail),
                raw=mail.as_string(),
                thread=bare(str(mail["References"] or "").split(" ")[0]),
                reply_to=bare(mail["In-Reply-To"]),
                media=tuple(part.get_filename() or "" for part in mail.iter_attachments()),
            )
            for mail in self.smtp.mails
            if mail["To"] == to
        ]

    def trouble(self, kind: Trouble, times: int = 1) -> None:
        self.smtp.troubles += [kind] * times

    async def drop(self) -> None:
        self.imap.cut()
        self.smtp.cut()

    async def gone(self) -> None:
        await self.close()

    async def refuse_credentials(self) -> None:
        self.password = "another-password"
        self.dovecot.set_password(self.address, self.password)
        await asyncio.sleep(1.02 - time.time() % 1)  # the server looks once in a second
        await self.drop()

    def save_sent(self, mail: bytes) -> None:
        with imaplib.IMAP4("127.0.0.1", self.dovecot.imap) as client:
            client.login(self.address, self.password)
            assert client.append("Sent", r"(\Seen)", "", mail)[0] == "OK"


def _text(mail: EmailMessage) -> str:
    body = mail.get_body()
    return str(body.get_content()).replace("\r\n", "\n") if body else ""
