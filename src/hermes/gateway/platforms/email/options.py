"""How the mailbox is reached: variables EMAIL_* and `platforms.email.extra`."""

import ssl
from typing import Any, Literal

import msgspec

from hermes.gateway.platforms.base import AdapterContext, CredentialsRefused
from hermes.util.hosts import is_loopback

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
