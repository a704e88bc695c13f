"""Logging in with a Google account: OAuth 2.0 for installed programs, with PKCE.

The person opens an address in a browser. On this machine the browser comes back to a port of ours;
on another one it ends at an address that does not load, which is then copied and pasted here.
Nothing is stored here, so stopping at any moment (Ctrl-C) leaves nothing.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from urllib.parse import urlencode

import httpx2

from hermes.core.errors import CredentialRefused
from hermes.core.ports import Clock
from hermes.providers.credentials.device_login import Invitation, Show, challenge_of, denied
from hermes.providers.credentials.google_client import SCOPES, GoogleClient
from hermes.providers.credentials.google_redirect import Outcome, pasted_outcome, redirect_listener
from hermes.providers.credentials.oauth import Answer, Tokens, ask, refusal, tokens_from
from hermes.util.waiting import arrived_or_typed

CONSENT_SECONDS = 900.0


Paste = Callable[[], Awaitable[str]]
"""Gives what the person pasted; empty when there will be nothing. It may be cancelled."""


async def google_login(
    google: GoogleClient,
    provider: str,
    client: httpx2.AsyncClient,
    clock: Clock,
    show: Show,
    *,
    paste: Paste | None = None,
    seconds: float = CONSENT_SECONDS,
) -> Tokens:
    """The tokens, once the person has agreed. Raises a `ProviderError` when there will be none.

    The invitation has no code. `paste` is for machines without a browser.
    """
    verifier, state = secrets.token_urlsafe(48), secrets.token_urlsafe(24)
    async with redirect_listener(state) as (address, arrival):
        question = {
            "client_id": google.id,
            "redirect_uri": address,
            "response_type": "code",
            "scope": " ".join(SCOPES),
            "code_challenge": challenge_of(verifier),
            "code_challenge_method": "S256",
            "state": state,
            "access_type": "offline",  # a refresh token too,
            "prompt": "consent",  # also when this is not the first login
        }
        show(Invitation(f"{google.auth_url}?{urlencode(question)}", "", seconds))
        try:
            async with asyncio.timeout(seconds):
                outcome = await _outcome(arrival, paste, state, provider)
        except TimeoutError as error:
            raise _nobody(provider) from error
    if not outcome.code:
        told = Answer(httpx2.codes.BAD_REQUEST, {"error": outcome.error})
        is_no = outcome.error == "access_denied"
        raise denied(provider) if is_no else refusal(told, provider, "ended the login")
    answer = await ask(
        client,
        google.token_url,
        provider,
        form={
            "grant_type": "authorization_code",
            "code": outcome.code,
            "redirect_uri": address,
            "client_id": google.id,
            "client_secret": google.secret,
            "code_verifier": verifier,
        },
    )
    return _tokens(answer, google, provider, clock)


async def _outcome(
    arrival: asyncio.Future[Outcome], paste: Paste | None, state: str, provider: str
) -> Outcome:
    """What comes first, from the browser or from the person."""
    came = await arrived_or_typed(arrival, paste)
    outcome = pasted_outcome(came, state) if isinstance(came, str) else came
    if outcome is None:
        raise CredentialRefused(
            "what was pasted is not the address this login ends at",
            provider=provider,
            hint="copy the whole address of the page that does not load, from http://127.0.0.1 on",
        )
    return outcome


def _tokens(answer: Answer, google: GoogleClient, provider: str, clock: Clock) -> Tokens:
    if not answer.ok or not answer.text("access_token"):
        raise refusal(answer, provider, "gave no tokens")
    granted = answer.text("scope")
    if granted and SCOPES[0] not in granted.split():
        raise CredentialRefused(
            f"the login for {provider} was given without access to Google Cloud",
            provider=provider,
            hint="log in again and leave every box ticked",
        )
    blank = Tokens("", token_url=google.token_url, client_id=google.id, client_secret=google.secret)
    return tokens_from(answer, clock.now().timestamp(), before=blank)


def _nobody(provider: str) -> CredentialRefused:
    return CredentialRefused(
        f"nobody logged in for {provider} in time",
        provider=provider,
        hint=f"to try again: hermes auth add {provider} --type oauth",
    )
