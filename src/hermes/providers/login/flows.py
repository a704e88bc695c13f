"""Login flows: device code (RFC 8628), OpenAI's variant of it, and Google's browser redirect.

In the device flow the user opens a URL in any browser and enters a short code, while the token
endpoint is polled. Nothing is stored here, so a login can be stopped at any time (Ctrl-C).
"""

import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from urllib.parse import urljoin

import msgspec

from hermes.core.errors import CredentialRefused, ReplyInvalid, Transient
from hermes.core.ports import Clock
from hermes.providers.endpoints import LoginSpec, is_loopback
from hermes.providers.login.oauth import (
    PASTE_HINT,
    ReadPaste,
    TokenResponse,
    browser_login,
    code_grant,
    pkce_challenge,
)
from hermes.providers.login.tokens import (
    GOOGLE_SCOPES,
    GoogleClient,
    Tokens,
    blank_tokens,
    chatgpt_account_id,
    jwt_claims,
    login_error,
    parse_tokens,
    post_form,
)
from hermes.util.http import AnyClient, json_object

DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
INTERVAL_SECONDS = 5.0
"""Pause between two polls when the server states none; `slow_down` adds as much."""
CODE_SECONDS = 900.0  #: Lifetime of a code when the server states none.
MAX_FAILURES = 5  #: Polls in a row that may fail before the login is given up.


class LoginPrompt(msgspec.Struct, frozen=True):
    """What the user needs to log in."""

    url: str
    code: str
    seconds: float  #: Lifetime of the code.
    direct_url: str = ""  #: URL that already contains the code; empty when there is none.


ShowPrompt = Callable[[LoginPrompt], None]


class PollTimer:
    """Pauses between polls; ends when the code expires or too many polls fail in a row."""

    def __init__(self, clock: Clock, provider: str, interval: float | None, seconds: float) -> None:
        self._clock, self._provider = clock, provider
        self.interval = INTERVAL_SECONDS if interval is None else max(interval, 0.0)
        self._deadline = clock.monotonic() + seconds

    async def answers(
        self, poll: Callable[[], Awaitable[TokenResponse]]
    ) -> AsyncGenerator[TokenResponse, None]:
        """Yield the answers of `poll`. A failed poll doubles the interval.

        Raises `CredentialRefused` when the code expires, or the error of the last failed poll.
        """
        failures = 0
        while True:
            if self._clock.monotonic() + self.interval > self._deadline:
                raise login_ended(self._provider, EXPIRED)
            await self._clock.sleep(self.interval)
            try:
                answer = await poll()
            except Transient:
                failures += 1
                self.interval = (self.interval or 1.0) * 2
                if failures >= MAX_FAILURES:
                    raise
                continue
            failures = 0
            yield answer


async def device_code_login(
    login: LoginSpec, provider: str, client: AnyClient, clock: Clock, show: ShowPrompt
) -> Tokens:
    """Return the tokens once the user has confirmed. Raises a `ProviderError` on failure."""
    verifier = secrets.token_urlsafe(48) if login.pkce else ""
    form = {"client_id": login.client_id, "scope": login.scope}
    if verifier:
        form |= {"code_challenge": pkce_challenge(verifier), "code_challenge_method": "S256"}
    start = await post_form(client, login.device_url, provider, form=form)
    device_code = start.text("device_code")
    if not start.ok or not device_code:
        raise login_error(start, provider, "sent no login code")
    seconds = start.number("expires_in")
    prompt = LoginPrompt(
        start.text("verification_uri") or start.text("verification_url"),
        start.text("user_code"),
        CODE_SECONDS if seconds is None else seconds,
        start.text("verification_uri_complete"),
    )
    show(check_prompt(prompt, provider))
    question = {
        "grant_type": DEVICE_GRANT,
        "device_code": device_code,
        "client_id": login.client_id,
    }
    if verifier:
        question["code_verifier"] = verifier
    timer = PollTimer(clock, provider, start.number("interval"), prompt.seconds)
    polls = timer.answers(lambda: post_form(client, login.token_url, provider, form=question))
    async with aclosing(polls) as answers:
        async for answer in answers:
            if answer.ok and answer.text("access_token"):
                return parse_tokens(answer, clock.now().timestamp(), before=blank_tokens(login))
            _check_pending(answer, provider, timer)
    raise AssertionError("unreachable: polls end with an error")


async def _redeem_code(
    client: AnyClient, blank: Tokens, provider: str, grant: dict[str, str]
) -> TokenResponse:
    """Exchange an authorization code for tokens, as the client that `blank` names."""
    answer = await post_form(client, blank.token_url, provider, form=blank.signed(grant))
    if not answer.ok or not answer.text("access_token"):
        raise login_error(answer, provider, "gave no tokens")
    return answer


def _check_pending(answer: TokenResponse, provider: str, timer: PollTimer) -> None:
    """Return when polling should continue; raise otherwise."""
    match answer.error or answer.status:
        case "authorization_pending":
            return
        case "slow_down" | 429:
            timer.interval = max(
                timer.interval + INTERVAL_SECONDS, answer.number("interval") or 0.0
            )
        case "access_denied":
            raise login_ended(provider, DECLINED)
        case "expired_token":
            raise login_ended(provider, EXPIRED)
        case _:
            raise login_error(answer, provider, "ended the login")


def check_prompt(prompt: LoginPrompt, provider: str) -> LoginPrompt:
    """Return the prompt. Raises `ReplyInvalid` when it is unsafe for a terminal or a browser."""
    shown = (prompt.url, prompt.code, prompt.direct_url)
    fine = all(text.isprintable() and " " not in text for text in shown)
    urls = [url for url in (prompt.url, prompt.direct_url) if url]
    safe = all(url.startswith("https://") or is_loopback(url) for url in urls)
    if fine and safe and prompt.code and prompt.url:
        return prompt
    raise ReplyInvalid(
        f"the login server of {provider} gave no usable address and code", provider=provider
    )


def login_ended(provider: str, reason: str) -> CredentialRefused:
    return CredentialRefused(
        f"the login for {provider} was {reason}",
        provider=provider,
        hint=f"to try again: hermes auth add {provider} --type oauth",
    )


DECLINED, EXPIRED = "declined in the browser", "not completed before the code expired"


# OpenAI's variant of the device flow, and the login of the Codex CLI. Unlike RFC 8628, a poll
# returns an authorization code with its PKCE verifier, and a second request returns the tokens.

PENDING = (403, 404)


async def codex_login(
    login: LoginSpec, provider: str, client: AnyClient, clock: Clock, show: ShowPrompt
) -> Tokens:
    """Return the tokens once the user has confirmed. Raises a `ProviderError` on failure."""
    start = await post_form(
        client, login.device_url, provider, document={"client_id": login.client_id}
    )
    code = start.text("user_code") or start.text("usercode")
    device = start.text("device_auth_id")
    if not start.ok or not device:
        raise login_error(start, provider, "sent no login code")
    url = urljoin(login.token_url, "/codex/device")
    show(check_prompt(LoginPrompt(url, code, CODE_SECONDS), provider))
    timer = PollTimer(clock, provider, start.number("interval"), CODE_SECONDS)
    question = {"device_auth_id": device, "user_code": code}
    token_url = urljoin(login.device_url, "token")
    polls = timer.answers(lambda: post_form(client, token_url, provider, document=question))
    async with aclosing(polls) as answers:
        async for granted in answers:
            if granted.ok and granted.text("authorization_code"):
                break
            if granted.status not in PENDING:
                raise login_error(granted, provider, "ended the login")
    grant = code_grant(
        granted.text("authorization_code"),
        granted.text("code_verifier"),
        urljoin(login.token_url, "/deviceauth/callback"),
    )
    blank = blank_tokens(login)
    answer = await _redeem_code(client, blank, provider, grant)
    return parse_tokens(answer, clock.now().timestamp(), before=blank)


def read_codex_cli_tokens(folder: Path, login: LoginSpec) -> Tokens | None:
    """Return the login of the Codex CLI in `folder` (`~/.codex`), or None.

    It is copied, not shared: a refresh token works once, and the Codex CLI does not use our lock.
    """
    try:
        held = json_object((folder / "auth.json").read_bytes()).get("tokens")
    except OSError:
        return None
    if not isinstance(held, dict):
        return None
    access, refresh, account, identity = (
        value if isinstance(value := held.get(name), str) else ""
        for name in ("access_token", "refresh_token", "account_id", "id_token")
    )
    if not access or not refresh:
        return None
    expires_at = jwt_claims(access).get("exp")
    return msgspec.structs.replace(
        blank_tokens(login),
        access_token=access,
        refresh_token=refresh,
        expires_at=float(expires_at) if isinstance(expires_at, int | float) else None,
        account_id=account or chatgpt_account_id(identity, access),
    )


# Login with a Google account: OAuth 2.0 for installed programs, with PKCE. The user opens a URL in
# a browser. On this machine the browser is redirected to a local port; on another machine it ends
# at a URL that does not load, which the user copies and pastes here.

LOGIN_SECONDS = 900.0
REDIRECT_PATH = "/oauth2callback"


async def google_login(
    google: GoogleClient,
    provider: str,
    client: AnyClient,
    clock: Clock,
    show: ShowPrompt,
    *,
    paste: ReadPaste | None = None,
    seconds: float = LOGIN_SECONDS,
) -> Tokens:
    """Return the tokens once the user has confirmed. Raises a `ProviderError` on failure.

    The prompt has no code. `paste` is for machines without a browser.
    """
    async with browser_login(REDIRECT_PATH) as login:
        url = login.url(
            google.auth_url,
            google.client_id,
            scope=" ".join(GOOGLE_SCOPES),
            access_type="offline",  # request a refresh token,
            prompt="consent",  # also when this is not the first login
        )
        show(LoginPrompt(url, "", seconds))
        try:
            outcome = await login.result(seconds, paste, bare_code=True)
        except TimeoutError as error:
            raise login_ended(provider, "not completed in time") from error
    if outcome is None:
        raise CredentialRefused(
            "what was pasted is not the address this login ends at",
            provider=provider,
            hint=PASTE_HINT,
        )
    if outcome.error == "access_denied":
        raise login_ended(provider, DECLINED)
    if not outcome.code:
        response = TokenResponse(400, {"error": outcome.error})
        raise login_error(response, provider, "ended the login")
    blank = blank_tokens(google)
    grant = code_grant(outcome.code, login.verifier, login.redirect_uri)
    answer = await _redeem_code(client, blank, provider, grant)
    granted = answer.text("scope")
    if granted and GOOGLE_SCOPES[0] not in granted.split():
        raise CredentialRefused(
            f"the login for {provider} was given without access to Google Cloud",
            provider=provider,
            hint="log in again and leave every box ticked",
        )
    return parse_tokens(answer, clock.now().timestamp(), before=blank)
