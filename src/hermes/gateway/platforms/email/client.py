"""How the mailbox is reached: variables EMAIL_* and `platforms.email.extra`."""

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

from hermes.gateway.platforms.kit.contract import AdapterContext, CredentialsRefused, NotConnected
from hermes.util.hosts import is_loopback
from hermes.util.threads import in_thread

Security = Literal["auto", "tls", "starttls", "plain"]
_TLS_PORTS = frozenset({993, 465})


class EmailExtra(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`platforms.email.extra`."""

    user: str = ""
    """The name to log in with, when it is not the address."""
    imap_security: Security = "auto"
    """`auto` is TLS from the start on port 993 and STARTTLS on others. `plain` is for a server on
    this machine only."""
    smtp_security: Security = "auto"
    """The same; TLS from the start on port 465."""
    ca_file: str = ""
    """Certificates to trust, for a server with one of its own making."""
    folder: str = "INBOX"
    idle: bool = True
    """Let the server tell of new mail; False looks every EMAIL_POLL_INTERVAL seconds."""
    max_bytes: int = 25_000_000
    """Of a larger mail only the beginning is read, and no attachment."""
    require_authentication: Literal["auto"] | bool = "auto"
    """Whether Authentication-Results must say that the sender is genuine. `auto`: when that header
    is there. True: always; needs `authserv_id`."""
    authserv_id: str = ""
    """How the receiving server names itself in Authentication-Results. Only its own are believed;
    without a name the topmost, which may be a forger's, can only refuse."""


class Host(msgspec.Struct, frozen=True):
    name: str
    port: int
    security: Literal["tls", "starttls", "plain"]


class Options(msgspec.Struct, frozen=True):
    address: str
    user: str
    password: str
    imap: Host
    smtp: Host
    poll_seconds: float
    extra: EmailExtra
    skip_attachments: bool = False

    def tls(self) -> ssl.SSLContext:
        """Certificates are always checked."""
        return ssl.create_default_context(cafile=self.extra.ca_file or None)


def options_of(context: AdapterContext) -> Options:
    """Raises `CredentialsRefused` for what cannot work."""
    address = _needed(context, "EMAIL_ADDRESS").lower()
    if address.count("@") != 1 or not address.isascii():
        raise CredentialsRefused(f"Email: {address!r} is no address", hint="set EMAIL_ADDRESS")
    extra = _extra(context.connection)
    return Options(
        address=address,
        user=extra.user or address,
        password=_needed(context, "EMAIL_PASSWORD"),
        imap=_host(context, "IMAP", 993, extra.imap_security),
        smtp=_host(context, "SMTP", 587, extra.smtp_security),
        poll_seconds=_number(context, "EMAIL_POLL_INTERVAL", 15.0),
        extra=extra,
        skip_attachments=bool(getattr(context.connection, "skip_attachments", False)),
    )


def _extra(connection: Any) -> EmailExtra:
    try:
        found = msgspec.convert(getattr(connection, "extra", {}), EmailExtra)
    except msgspec.ValidationError as error:
        raise CredentialsRefused(f"Email: platforms.email.extra is wrong: {error}") from None
    if found.require_authentication is True and not found.authserv_id:
        raise CredentialsRefused(
            "Email: require_authentication needs to know whose word counts",
            hint="set platforms.email.extra.authserv_id to the name that your mail server puts"
            " first in Authentication-Results",
        )
    return found


def _needed(context: AdapterContext, name: str) -> str:
    value = (context.variable(name) or "").strip()
    if not value:
        raise CredentialsRefused(f"Email needs {name}", hint="`hermes gateway setup email` asks")
    return value


def _number(context: AdapterContext, name: str, usual: float) -> float:
    try:
        number = float(context.variable(name) or usual)
    except ValueError:
        number = 0.0
    if not 0 < number < 86400 * 365:
        raise CredentialsRefused(f"Email: {name} must be a number above 0")
    return number


def _host(context: AdapterContext, protocol: str, usual: int, said: Security) -> Host:
    name = _needed(context, f"EMAIL_{protocol}_HOST")
    port = int(_number(context, f"EMAIL_{protocol}_PORT", usual))
    if said == "plain" and not is_loopback(name):
        raise CredentialsRefused(
            f"Email: {protocol} without TLS would show the password to others",
            hint=f"leave out platforms.email.extra.{protocol.lower()}_security",
        )
    if said == "auto":
        return Host(name, port, "tls" if port in _TLS_PORTS else "starttls")
    return Host(name, port, said)


# A mailbox over IMAP. Every call blocks: use it from a thread, one call at a time.

T = TypeVar("T")

CONNECT_SECONDS, READ_SECONDS = 15.0, 60.0
BATCH = 50

_PASSING = re.compile(r"\[(UNAVAILABLE|INUSE|LIMIT|SERVERBUG|CONTACTADMIN)\]")
"""Codes of RFC 5530 with which a log-in fails though the password may be right."""
_HEADER, _BODY = b"BODY[HEADER]", b"BODY[]"


class Head(msgspec.Struct, frozen=True):
    uid: int
    size: int
    arrived: float
    header: bytes


@contextlib.contextmanager
def _faults(what: str) -> Iterator[None]:
    """What goes wrong on the wire is `NotConnected`."""
    try:
        yield
    except (imaplib.IMAP4.error, OSError, EOFError, ValueError) as error:
        told = " ".join(str(error).split())[:200] or type(error).__name__
        raise NotConnected(f"Email: {what} failed: {told}") from None


class Mailbox:
    """Open from the start. Work goes through `run`; `hang_up` ends it from any thread."""

    def __init__(self, options: Options) -> None:
        """Raises `CredentialsRefused`, `NotConnected`."""
        self._folder, self._writing = "", False
        self._busy, self._over = threading.Lock(), False
        host = options.imap
        with _faults(f"reaching {host.name}"):
            self._client = imapclient.IMAPClient(
                host.name,
                host.port,
                ssl=host.security == "tls",
                ssl_context=options.tls() if host.security == "tls" else None,
                timeout=imapclient.SocketTimeout(CONNECT_SECONDS, READ_SECONDS),
            )
        try:
            # The library sends a command in two pieces, of which the second would wait.
            self._client.socket().setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._log_in(options)
        except BaseException:
            self.hang_up()
            raise

    def run(self, work: Callable[["Mailbox"], T]) -> T:
        try:
            with self._busy:
                return work(self)
        finally:
            if self._over:
                self._close()

    def hang_up(self) -> None:
        """At once, whatever is under way. Whoever is in the middle of it lets go of the rest, since
        closing would wait for their read."""
        self._over = True
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

    def _log_in(self, options: Options) -> None:
        with _faults("STARTTLS"):
            if options.imap.security == "starttls":
                self._client.starttls(options.tls())
        try:
            with _faults("logging in"):
                try:
                    self._client.login(options.user, options.password)
                except LoginError as error:
                    if _PASSING.search(str(error)):
                        raise
                    raise CredentialsRefused(
                        f"Email: {options.imap.name} refuses the password of {options.user}",
                        hint="set EMAIL_PASSWORD; some servers want a password made for one"
                        " application",
                    ) from None
        except NotConnected as error:
            # A server may repeat in its answer what it was sent.
            raise NotConnected(str(error).replace(options.password, "***")) from None

    def can_idle(self) -> bool:
        with _faults("asking what the server can do"):
            return bool(self._client.has_capability("IDLE"))

    def socket_number(self) -> int:
        return int(self._client.socket().fileno())

    def idle(self, folder: str) -> None:
        """From now on the server tells of changes."""
        with _faults("waiting for mail"):
            self._select(folder, writing=False)
            self._client.idle()

    def idle_done(self) -> None:
        with _faults("waiting for mail"):
            self._client.idle_done()

    def alive(self) -> None:
        with _faults("asking the server"):
            self._client.noop()

    def state(self, folder: str) -> tuple[int, int]:
        """UIDVALIDITY and UIDNEXT, as they are now."""
        with _faults(f"opening {folder}"):
            self._folder = ""
            found = self._select(folder, writing=True)
            following = found.get(b"UIDNEXT") or max([0, *self._client.search(["ALL"])]) + 1
            return int(found[b"UIDVALIDITY"]), int(following)

    def after(self, folder: str, uid: int) -> list[int]:
        """Numbers of later mail, in their order."""
        with _faults("looking for mail"):
            self._select(folder, writing=True)
            found = self._client.search(["UID", f"{uid + 1}:*"])
            return sorted(int(each) for each in found if int(each) > uid)

    def since(self, folder: str, day: date) -> list[int]:
        with _faults("looking for mail"):
            self._select(folder, writing=True)
            return sorted(int(each) for each in self._client.search(["SINCE", day]))

    def heads(self, folder: str, uids: Sequence[int]) -> list[Head]:
        """Of those that are still there."""
        with _faults("reading mail"):
            self._select(folder, writing=True)
            items = ["RFC822.SIZE", "INTERNALDATE", "BODY.PEEK[HEADER]"]
            found = self._client.fetch(list(uids), items)
            return [
                Head(
                    uid,
                    int(found[uid][b"RFC822.SIZE"]),
                    found[uid][b"INTERNALDATE"].timestamp(),
                    found[uid][_HEADER] or b"",
                )
                for uid in uids
                if _HEADER in found.get(uid, {})
            ]

    def mail(self, folder: str, uid: int, limit: int = 0) -> bytes:
        """All of a mail, or its first `limit` bytes; b"" when it is gone."""
        with _faults("reading mail"):
            self._select(folder, writing=True)
            part = f"BODY.PEEK[]<0.{limit}>" if limit else "BODY.PEEK[]"
            found = self._client.fetch([uid], [part]).get(uid, {})
            return bytes(found.get(b"BODY[]<0>" if limit else _BODY) or b"")

    def mark_seen(self, folder: str, uid: int) -> None:
        with _faults("marking mail"):
            self._select(folder, writing=True)
            self._client.add_flags([uid], [imapclient.SEEN], silent=True)

    def sent_folder(self) -> str:
        """Where sent mail is kept; "" when there is no such folder."""
        with _faults("looking for the folder of sent mail"):
            return str(self._client.find_special_folder(b"\\Sent") or "")

    def has(self, folder: str, message_id: str) -> bool:
        with _faults("looking for sent mail"):
            if not self._select(folder, writing=False):
                self._client.noop()
            return bool(self._client.search(["HEADER", "Message-ID", f"<{message_id}>"]))

    def append(self, folder: str, mail: bytes) -> None:
        with _faults("keeping sent mail"):
            self._client.append(folder, mail, flags=[imapclient.SEEN])

    def _select(self, folder: str, *, writing: bool) -> dict[bytes, int]:
        """What the server says of the folder; {} when it is open already."""
        if self._folder == folder and self._writing >= writing:
            return {}
        found: dict[bytes, int] = self._client.select_folder(folder, readonly=not writing)
        self._folder, self._writing = folder, writing
        return found


# The connection that mail is read and kept with: opened when needed, used by one at a time.


class Desk:
    def __init__(self, options: Options) -> None:
        self._options = options
        self._turn = asyncio.Lock()
        self._box: Mailbox | None = None
        self._closed = False

    async def use(self, work: Callable[[Mailbox], T]) -> T:
        """`work` with an open mailbox, in a thread. A connection that broke while it lay idle is
        made anew, once. Raises `NotConnected`, `CredentialsRefused`."""
        async with self._turn:
            if self._box is not None:
                try:
                    return await self._with(self._box, work)
                except NotConnected:
                    self._box = None
            return await self._with(await in_thread(self._open), work)

    def close(self) -> None:
        self._closed = True
        if self._box is not None:
            self._box.hang_up()

    def _open(self) -> Mailbox:
        self._check()
        box = Mailbox(self._options)
        try:
            self._check()
        except NotConnected:  # nobody waits for it any more
            box.hang_up()
            raise
        return box

    def _check(self) -> None:
        if self._closed:
            raise NotConnected("Email is not connected")

    async def _with(self, box: Mailbox, work: Callable[[Mailbox], T]) -> T:
        self._box = box
        try:
            return await in_thread(box.run, work)
        except BaseException:  # also when nobody waits any more: the thread must not linger
            self._box = None
            box.hang_up()
            raise
