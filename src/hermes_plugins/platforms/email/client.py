"""Access to the mailbox: options and IMAP."""

import asyncio
import contextlib
import imaplib
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from typing import Any, Literal, TypeVar

import imapclient  # type: ignore[import-untyped]  # the library has no types
import msgspec
from imapclient.exceptions import LoginError  # type: ignore[import-untyped]  # the library has no types

from hermes.sdk import in_thread, is_loopback
from hermes.sdk.platforms import AdapterContext, CredentialsRefused, NotConnected

Security = Literal["auto", "tls", "starttls", "plain"]
_TLS_PORTS = frozenset({993, 465})
T = TypeVar("T")
CONNECT_SECONDS, READ_SECONDS = 15.0, 60.0
FETCH_BATCH = 50
_TRANSIENT_CODES = re.compile(r"\[(UNAVAILABLE|INUSE|LIMIT|SERVERBUG|CONTACTADMIN)\]")
"""Response codes (RFC 5530) of a failed login although the password may be correct."""
_HEADER, _BODY = b"BODY[HEADER]", b"BODY[]"


class EmailExtra(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options below `platforms.email.extra`."""

    user: str = ""  #: Login name, when it is not the address.
    imap_security: Security = "auto"
    """`auto` is TLS on port 993 and STARTTLS on others. `plain` is only for a server on this
    machine."""
    smtp_security: Security = "auto"  #: The same for SMTP; TLS on port 465.
    ca_file: str = ""  #: Certificates to trust, for a server with a private certificate authority.
    folder: str = "INBOX"
    idle: bool = True
    """Let the server announce new mail (IDLE); False polls every EMAIL_POLL_INTERVAL seconds."""
    max_bytes: int = 25_000_000
    """Of a larger mail only the beginning is read, without attachments."""
    require_authentication: Literal["auto"] | bool = "auto"
    """Whether Authentication-Results must confirm the sender. `auto`: a header that does not
    confirm refuses the mail, and a sender whom no header of `authserv_id` confirms is a guest.
    True: unconfirmed mail is refused; requires `authserv_id`. False: From is trusted."""
    authserv_id: str = ""
    """The receiving server's name in Authentication-Results. Only its own headers are trusted;
    without a name the topmost header, which may be forged, can only reject a mail."""


class MailServer(msgspec.Struct, frozen=True):
    name: str
    port: int
    security: Literal["tls", "starttls", "plain"]


class EmailOptions(msgspec.Struct, frozen=True):
    address: str
    user: str
    password: str
    imap: MailServer
    smtp: MailServer
    poll_seconds: float
    extra: EmailExtra
    skip_attachments: bool = False

    def tls(self) -> ssl.SSLContext:
        """Return the TLS context. Certificates are always verified."""
        return ssl.create_default_context(cafile=self.extra.ca_file or None)


def read_options(context: AdapterContext) -> EmailOptions:
    """Read the options. Raises `CredentialsRefused` for missing or invalid values."""
    address = context.require("EMAIL_ADDRESS").lower()
    if address.count("@") != 1 or not address.isascii():
        raise CredentialsRefused(f"Email: {address!r} is not an address", hint="set EMAIL_ADDRESS")
    extra = _read_extra(context.connection)
    return EmailOptions(
        address=address,
        user=extra.user or address,
        password=context.require("EMAIL_PASSWORD"),
        imap=_read_server(context, "IMAP", 993, extra.imap_security),
        smtp=_read_server(context, "SMTP", 587, extra.smtp_security),
        poll_seconds=context.number("EMAIL_POLL_INTERVAL", 15.0, low=0.01, high=31_536_000),
        extra=extra,
        skip_attachments=bool(getattr(context.connection, "skip_attachments", False)),
    )


class MailHead(msgspec.Struct, frozen=True):
    uid: int
    size: int
    arrived: float
    header: bytes


class Mailbox:
    """An open mailbox. Every call blocks, so use it from a thread, one call at a time. Work goes
    through `run`; `disconnect` ends it from any thread."""

    def __init__(self, options: EmailOptions) -> None:
        """Connect and log in. Raises `CredentialsRefused` or `NotConnected`."""
        self._folder, self._writing = "", False
        self._busy, self._closed = threading.Lock(), False
        host = options.imap
        with _as_not_connected(f"reaching {host.name}"):
            self._client = imapclient.IMAPClient(
                host.name,
                host.port,
                ssl=host.security == "tls",
                ssl_context=options.tls() if host.security == "tls" else None,
                timeout=imapclient.SocketTimeout(CONNECT_SECONDS, READ_SECONDS),
            )
        try:
            # The library sends a command in two pieces; Nagle's algorithm would delay the second.
            self._client.socket().setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._log_in(options)
        except BaseException:
            self.disconnect()
            raise

    def run(self, work: Callable[["Mailbox"], T]) -> T:
        try:
            with self._busy:
                return work(self)
        finally:
            if self._closed:
                self._close()

    def disconnect(self) -> None:
        """Disconnect at once, whatever is in progress. A thread in the middle of a call closes the
        rest, because closing here would wait for its read."""
        self._closed = True
        with contextlib.suppress(imaplib.IMAP4.error, OSError, AttributeError):
            self._client.socket().shutdown(socket.SHUT_RDWR)
        if self._busy.acquire(blocking=False):
            try:
                self._close()
            finally:
                self._busy.release()

    def _close(self) -> None:
        with contextlib.suppress(imaplib.IMAP4.error, OSError, AttributeError):
            self._client.shutdown()

    def _log_in(self, options: EmailOptions) -> None:
        with _as_not_connected("STARTTLS"):
            if options.imap.security == "starttls":
                self._client.starttls(options.tls())
        try:
            with _as_not_connected("logging in"):
                try:
                    self._client.login(options.user, options.password)
                except LoginError as error:
                    if _TRANSIENT_CODES.search(str(error)):
                        raise
                    raise CredentialsRefused(
                        f"Email: {options.imap.name} refuses the password of {options.user}",
                        hint="set EMAIL_PASSWORD; some servers want a password made for one"
                        " application",
                    ) from None
        except NotConnected as error:
            # A server may repeat what it was sent, including the password.
            raise NotConnected(str(error).replace(options.password, "***")) from None

    def can_idle(self) -> bool:
        with _as_not_connected("asking what the server can do"):
            return bool(self._client.has_capability("IDLE"))

    def socket_number(self) -> int:
        return int(self._client.socket().fileno())

    def idle(self, folder: str) -> None:
        """Ask the server to announce changes."""
        with _as_not_connected("waiting for mail"):
            self._select(folder, writing=False)
            self._client.idle()

    def idle_done(self) -> None:
        with _as_not_connected("waiting for mail"):
            self._client.idle_done()

    def ping(self) -> None:
        with _as_not_connected("asking the server"):
            self._client.noop()

    def folder_state(self, folder: str) -> tuple[int, int]:
        """Return the current UIDVALIDITY and UIDNEXT."""
        with _as_not_connected(f"opening {folder}"):
            self._folder = ""
            found = self._select(folder, writing=True)
            following = found.get(b"UIDNEXT") or max([0, *self._client.search(["ALL"])]) + 1
            return int(found[b"UIDVALIDITY"]), int(following)

    def uids_after(self, folder: str, uid: int) -> list[int]:
        """Return the uids of later mail, in order."""
        with _as_not_connected("looking for mail"):
            self._select(folder, writing=True)
            found = self._client.search(["UID", f"{uid + 1}:*"])
            return sorted(int(each) for each in found if int(each) > uid)

    def uids_since(self, folder: str, day: date) -> list[int]:
        with _as_not_connected("looking for mail"):
            self._select(folder, writing=True)
            return sorted(int(each) for each in self._client.search(["SINCE", day]))

    def fetch_heads(self, folder: str, uids: Sequence[int]) -> list[MailHead]:
        """Return the headers of the mails that still exist."""
        with _as_not_connected("reading mail"):
            self._select(folder, writing=True)
            items = ["RFC822.SIZE", "INTERNALDATE", "BODY.PEEK[HEADER]"]
            found = self._client.fetch(list(uids), items)
            return [
                MailHead(
                    uid,
                    int(found[uid][b"RFC822.SIZE"]),
                    found[uid][b"INTERNALDATE"].timestamp(),
                    found[uid][_HEADER] or b"",
                )
                for uid in uids
                if _HEADER in found.get(uid, {})
            ]

    def fetch_mail(self, folder: str, uid: int, limit: int = 0) -> bytes:
        """Return a mail, or its first `limit` bytes; b"" when it is gone."""
        with _as_not_connected("reading mail"):
            self._select(folder, writing=True)
            part = f"BODY.PEEK[]<0.{limit}>" if limit else "BODY.PEEK[]"
            found = self._client.fetch([uid], [part]).get(uid, {})
            return bytes(found.get(b"BODY[]<0>" if limit else _BODY) or b"")

    def mark_seen(self, folder: str, uid: int) -> None:
        with _as_not_connected("marking mail"):
            self._select(folder, writing=True)
            self._client.add_flags([uid], [imapclient.SEEN], silent=True)

    def sent_folder(self) -> str:
        """Return the folder of sent mail; "" when there is none."""
        with _as_not_connected("looking for the folder of sent mail"):
            return str(self._client.find_special_folder(b"\\Sent") or "")

    def contains(self, folder: str, message_id: str) -> bool:
        with _as_not_connected("looking for sent mail"):
            if not self._select(folder, writing=False):
                self._client.noop()
            return bool(self._client.search(["HEADER", "Message-ID", f"<{message_id}>"]))

    def append(self, folder: str, mail: bytes) -> None:
        with _as_not_connected("keeping sent mail"):
            self._client.append(folder, mail, flags=[imapclient.SEEN])

    def _select(self, folder: str, *, writing: bool) -> dict[bytes, int]:
        """Return what the server reports about the folder; {} when it is already open."""
        if self._folder == folder and self._writing >= writing:
            return {}
        found: dict[bytes, int] = self._client.select_folder(folder, readonly=not writing)
        self._folder, self._writing = folder, writing
        return found


class MailboxSession:
    """A connection to the mailbox, opened on demand, with one call at a time."""

    def __init__(self, options: EmailOptions) -> None:
        self._options = options
        self._lock = asyncio.Lock()
        self._box: Mailbox | None = None
        self._closed = False

    async def use(self, work: Callable[[Mailbox], T], *, reopen: bool = True) -> T:
        """Run `work` with an open mailbox in a thread. A connection that broke while idle is
        reopened once, unless `reopen` is False. Raises `NotConnected` or `CredentialsRefused`."""
        async with self._lock:
            if self._box is not None:
                try:
                    return await self._run(self._box, work)
                except NotConnected:
                    if not reopen:
                        raise
            return await self._run(await in_thread(self._open), work)

    def close(self) -> None:
        self._closed = True
        if self._box is not None:
            self._box.disconnect()

    def _open(self) -> Mailbox:
        box = None if self._closed else Mailbox(self._options)
        if self._closed and box is not None:  # closed meanwhile
            box.disconnect()
            box = None
        if box is None:
            raise NotConnected("Email is not connected")
        return box

    async def _run(self, box: Mailbox, work: Callable[[Mailbox], T]) -> T:
        self._box = box
        try:
            return await in_thread(box.run, work)
        except BaseException:  # also on cancellation: the thread must end
            self._box = None
            box.disconnect()
            raise


def _read_extra(connection: Any) -> EmailExtra:
    try:
        found = msgspec.convert(getattr(connection, "extra", {}), EmailExtra)
    except msgspec.ValidationError as error:
        raise CredentialsRefused(f"Email: platforms.email.extra is invalid: {error}") from None
    if found.require_authentication is True and not found.authserv_id:
        raise CredentialsRefused(
            "Email: require_authentication needs authserv_id",
            hint="set platforms.email.extra.authserv_id to the name that your mail server puts"
            " first in Authentication-Results",
        )
    return found


def _read_server(context: AdapterContext, protocol: str, usual: int, said: Security) -> MailServer:
    name = context.require(f"EMAIL_{protocol}_HOST")
    port = int(context.number(f"EMAIL_{protocol}_PORT", usual, low=1, high=65535))
    if said == "plain" and not is_loopback(name):
        raise CredentialsRefused(
            f"Email: {protocol} without TLS would show the password to others",
            hint=f"leave out platforms.email.extra.{protocol.lower()}_security",
        )
    if said == "auto":
        return MailServer(name, port, "tls" if port in _TLS_PORTS else "starttls")
    return MailServer(name, port, said)


@contextlib.contextmanager
def _as_not_connected(what: str) -> Iterator[None]:
    """Raise `NotConnected` for errors of the connection."""
    try:
        yield
    except (imaplib.IMAP4.error, OSError, EOFError, ValueError) as error:
        detail = " ".join(str(error).split())[:200] or type(error).__name__
        raise NotConnected(f"Email: {what} failed: {detail}") from None
