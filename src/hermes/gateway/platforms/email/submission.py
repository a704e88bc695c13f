"""Mail out over SMTP, one connection for each."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import aiosmtplib
from aiosmtplib import SMTPException, SMTPResponseException

from hermes.gateway.platforms.base import (
    AdapterError,
    CredentialsRefused,
    NotConnected,
    SendLater,
    SendRefused,
    SendUnsure,
)
from hermes.gateway.platforms.email.journal import Stage
from hermes.gateway.platforms.email.options import Options

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
