"""Logging in on another device: RFC 8628, with PKCE where the provider wants it.

The person opens an address in any browser and types a short code; meanwhile the token endpoint is
asked again and again. Nothing is stored here, so stopping at any moment (Ctrl-C) leaves nothing.
"""

import base64
import hashlib
import secrets
from collections.abc import Callable

import httpx2
import msgspec

from hermes.core.errors import (
    CredentialRefused,
    HermesError,
    ReplyInvalid,
    Transient,
)
from hermes.core.ports import Clock
from hermes.providers.credentials.oauth import Answer, Tokens, ask, refusal, tokens_from
from hermes.providers.endpoint import Login

GRANT = "urn:ietf:params:oauth:grant-type:device_code"
INTERVAL_SECONDS = 5.0
"""Between two questions when the server does not say, and what `slow_down` adds."""
CODE_SECONDS = 900.0
"""How long a code is good when the server does not say."""
FAILURES = 5
"""So many questions in a row may fail on the way before the login is given up."""


class Invitation(msgspec.Struct, frozen=True):
    """What the person needs."""

    url: str
    code: str
    seconds: float
    """How long the code is good."""
    direct_url: str = ""
    """An address that has the code in it already; empty when there is none."""


Show = Callable[[Invitation], None]


class Wait:
    """Asks at intervals until there is an answer, the code has run out, or too much fails."""

    def __init__(self, clock: Clock, provider: str, interval: float, seconds: float) -> None:
        self._clock, self._provider = clock, provider
        self.interval = max(interval, 0.0)
        self._deadline = clock.monotonic() + seconds
        self._failures = 0

    async def pause(self) -> None:
        """Raises `CredentialRefused` when the code will have run out by then."""
        if self._clock.monotonic() + self.interval > self._deadline:
            raise expired(self._provider)
        await self._clock.sleep(self.interval)

    def failed(self, error: Transient) -> None:
        """A question got no answer: ask less often, and give up after some."""
        self._failures += 1
        self.interval = (self.interval or 1.0) * 2
        if self._failures >= FAILURES:
            raise error

    def answered(self) -> None:
        self._failures = 0


async def device_login(
    login: Login, provider: str, client: httpx2.AsyncClient, clock: Clock, show: Show
) -> Tokens:
    """The tokens, once the person has agreed. Raises a `ProviderError` when there will be none."""
    verifier = secrets.token_urlsafe(48) if login.pkce else ""
    form = {"client_id": login.client_id, "scope": login.scope}
    if verifier:
        form |= {"code_challenge": challenge_of(verifier), "code_challenge_method": "S256"}
    answer = await ask(client, login.device_url, provider, form=form)
    device_code = answer.text("device_code")
    if not answer.ok or not device_code:
        raise refusal(answer, provider, "gave no code to log in with")
    invitation = _invitation(answer, provider)
    show(invitation)
    question = {"grant_type": GRANT, "device_code": device_code, "client_id": login.client_id}
    if verifier:
        question["code_verifier"] = verifier
    interval = answer.number("interval")
    wait = Wait(
        clock,
        provider,
        INTERVAL_SECONDS if interval is None else interval,
        invitation.seconds,
    )
    blank = Tokens("", scope=login.scope, token_url=login.token_url, client_id=login.client_id)
    while True:
        await wait.pause()
        try:
            answer = await ask(client, login.token_url, provider, form=question)
        except Transient as error:
            wait.failed(error)
            continue
        wait.answered()
        if answer.ok and answer.text("access_token"):
            return tokens_from(answer, clock.now().timestamp(), before=blank)
        _go_on(answer, provider, wait)


def _go_on(answer: Answer, provider: str, wait: Wait) -> None:
    """Returns when it is worth asking again."""
    match answer.error or answer.status:
        case "authorization_pending":
            return
        case "slow_down" | httpx2.codes.TOO_MANY_REQUESTS:
            wait.interval = max(wait.interval + INTERVAL_SECONDS, answer.number("interval") or 0.0)
        case "access_denied":
            raise denied(provider)
        case "expired_token":
            raise expired(provider)
        case _:
            raise refusal(answer, provider, "ended the login")


def _invitation(answer: Answer, provider: str) -> Invitation:
    url = answer.text("verification_uri") or answer.text("verification_url")
    seconds = answer.number("expires_in")
    return checked(
        Invitation(
            url,
            answer.text("user_code"),
            CODE_SECONDS if seconds is None else seconds,
            answer.text("verification_uri_complete"),
        ),
        provider,
    )


def checked(invitation: Invitation, provider: str) -> Invitation:
    """Raises `ReplyInvalid` for what should not be shown on a terminal or opened in a browser."""
    shown = (invitation.url, invitation.code, invitation.direct_url)
    fine = all(text.isprintable() and " " not in text for text in shown)
    urls = [url for url in (invitation.url, invitation.direct_url) if url]
    safe = all(url.startswith(("https://", "http://127.0.0.1")) for url in urls)
    if fine and safe and invitation.code and invitation.url:
        return invitation
    raise ReplyInvalid(
        f"the login server of {provider} gave no usable address and code", provider=provider
    )


def challenge_of(verifier: str) -> str:
    """The S256 challenge of RFC 7636."""
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def denied(provider: str) -> HermesError:
    return CredentialRefused(
        f"the login for {provider} was declined in the browser",
        provider=provider,
        hint=f"to try again: hermes auth add {provider} --type oauth",
    )


def expired(provider: str) -> HermesError:
    return CredentialRefused(
        f"nobody logged in for {provider} before the code ran out",
        provider=provider,
        hint=f"to get a new code: hermes auth add {provider} --type oauth",
    )
