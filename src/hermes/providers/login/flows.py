"""Logging in on another device: RFC 8628, with PKCE where the provider wants it.

The person opens an address in any browser and types a short code; meanwhile the token endpoint is
asked again and again. Nothing is stored here, so stopping at any moment (Ctrl-C) leaves nothing.
"""

import asyncio
import base64
import hashlib
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import urlencode, urljoin

import httpx2
import msgspec

from hermes.core.errors import (
    CredentialMissing,
    CredentialRefused,
    HermesError,
    ReplyInvalid,
    Transient,
)
from hermes.core.ports import Clock
from hermes.providers.endpoints import LoginSpec
from hermes.providers.login.oauth import (
    RedirectResult,
    TokenResponse,
    Tokens,
    chatgpt_account_id,
    json_object,
    jwt_claims,
    login_error,
    parse_pasted_redirect,
    parse_tokens,
    post_form,
    redirect_listener,
)
from hermes.util.waiting import arrived_or_typed

DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
INTERVAL_SECONDS = 5.0
"""Between two questions when the server does not say, and what `slow_down` adds."""
CODE_SECONDS = 900.0
"""How long a code is good when the server does not say."""
MAX_FAILURES = 5
"""So many questions in a row may fail on the way before the login is given up."""


class LoginPrompt(msgspec.Struct, frozen=True):
    """What the person needs."""

    url: str
    code: str
    seconds: float
    """How long the code is good."""
    direct_url: str = ""
    """An address that has the code in it already; empty when there is none."""


ShowPrompt = Callable[[LoginPrompt], None]


class PollTimer:
    """Asks at intervals until there is an answer, the code has run out, or too much fails."""

    def __init__(self, clock: Clock, provider: str, interval: float, seconds: float) -> None:
        self._clock, self._provider = clock, provider
        self.interval = max(interval, 0.0)
        self._deadline = clock.monotonic() + seconds
        self._failures = 0

    async def pause(self) -> None:
        """Raises `CredentialRefused` when the code will have run out by then."""
        if self._clock.monotonic() + self.interval > self._deadline:
            raise login_expired(self._provider)
        await self._clock.sleep(self.interval)

    def failed(self, error: Transient) -> None:
        """A question got no answer: ask less often, and give up after some."""
        self._failures += 1
        self.interval = (self.interval or 1.0) * 2
        if self._failures >= MAX_FAILURES:
            raise error

    def answered(self) -> None:
        self._failures = 0


async def device_code_login(
    login: LoginSpec, provider: str, client: httpx2.AsyncClient, clock: Clock, show: ShowPrompt
) -> Tokens:
    """The tokens, once the person has agreed. Raises a `ProviderError` when there will be none."""
    verifier = secrets.token_urlsafe(48) if login.pkce else ""
    form = {"client_id": login.client_id, "scope": login.scope}
    if verifier:
        form |= {"code_challenge": pkce_challenge(verifier), "code_challenge_method": "S256"}
    answer = await post_form(client, login.device_url, provider, form=form)
    device_code = answer.text("device_code")
    if not answer.ok or not device_code:
        raise login_error(answer, provider, "gave no code to log in with")
    invitation = _parse_prompt(answer, provider)
    show(invitation)
    question = {
        "grant_type": DEVICE_GRANT,
        "device_code": device_code,
        "client_id": login.client_id,
    }
    if verifier:
        question["code_verifier"] = verifier
    interval = answer.number("interval")
    wait = PollTimer(
        clock,
        provider,
        INTERVAL_SECONDS if interval is None else interval,
        invitation.seconds,
    )
    blank = Tokens("", scope=login.scope, token_url=login.token_url, client_id=login.client_id)
    while True:
        await wait.pause()
        try:
            answer = await post_form(client, login.token_url, provider, form=question)
        except Transient as error:
            wait.failed(error)
            continue
        wait.answered()
        if answer.ok and answer.text("access_token"):
            return parse_tokens(answer, clock.now().timestamp(), before=blank)
        _check_pending(answer, provider, wait)


def _check_pending(answer: TokenResponse, provider: str, wait: PollTimer) -> None:
    """Returns when it is worth asking again."""
    match answer.error or answer.status:
        case "authorization_pending":
            return
        case "slow_down" | httpx2.codes.TOO_MANY_REQUESTS:
            wait.interval = max(wait.interval + INTERVAL_SECONDS, answer.number("interval") or 0.0)
        case "access_denied":
            raise login_denied(provider)
        case "expired_token":
            raise login_expired(provider)
        case _:
            raise login_error(answer, provider, "ended the login")


def _parse_prompt(answer: TokenResponse, provider: str) -> LoginPrompt:
    url = answer.text("verification_uri") or answer.text("verification_url")
    seconds = answer.number("expires_in")
    return check_prompt(
        LoginPrompt(
            url,
            answer.text("user_code"),
            CODE_SECONDS if seconds is None else seconds,
            answer.text("verification_uri_complete"),
        ),
        provider,
    )


def check_prompt(invitation: LoginPrompt, provider: str) -> LoginPrompt:
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


def pkce_challenge(verifier: str) -> str:
    """The S256 challenge of RFC 7636."""
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def login_denied(provider: str) -> HermesError:
    return CredentialRefused(
        f"the login for {provider} was declined in the browser",
        provider=provider,
        hint=f"to try again: hermes auth add {provider} --type oauth",
    )


def login_expired(provider: str) -> HermesError:
    return CredentialRefused(
        f"nobody logged in for {provider} before the code ran out",
        provider=provider,
        hint=f"to get a new code: hermes auth add {provider} --type oauth",
    )


# OpenAI's own form of the device login, and the login of the Codex CLI.
#
# Other than in RFC 8628, the polls bring an authorization code with its PKCE verifier, and the
# tokens come from a second request.

PENDING = (httpx2.codes.FORBIDDEN, httpx2.codes.NOT_FOUND)


async def codex_login(
    login: LoginSpec, provider: str, client: httpx2.AsyncClient, clock: Clock, show: ShowPrompt
) -> Tokens:
    """The tokens, once the person has agreed. Raises a `ProviderError` when there will be none."""
    start = await post_form(
        client, login.device_url, provider, document={"client_id": login.client_id}
    )
    code = start.text("user_code") or start.text("usercode")
    device = start.text("device_auth_id")
    if not start.ok or not device:
        raise login_error(start, provider, "gave no code to log in with")
    url = urljoin(login.token_url, "/codex/device")
    show(check_prompt(LoginPrompt(url, code, CODE_SECONDS), provider))
    interval = start.number("interval")
    wait = PollTimer(
        clock, provider, INTERVAL_SECONDS if interval is None else interval, CODE_SECONDS
    )
    granted = await _poll_authorization(login, provider, client, wait, device, code)
    answer = await post_form(
        client,
        login.token_url,
        provider,
        form={
            "grant_type": "authorization_code",
            "code": granted.text("authorization_code"),
            "redirect_uri": urljoin(login.token_url, "/deviceauth/callback"),
            "client_id": login.client_id,
            "code_verifier": granted.text("code_verifier"),
        },
    )
    if not answer.ok or not answer.text("access_token"):
        raise login_error(answer, provider, "gave no tokens")
    blank = Tokens("", scope=login.scope, token_url=login.token_url, client_id=login.client_id)
    return parse_tokens(answer, clock.now().timestamp(), before=blank)


async def _poll_authorization(
    login: LoginSpec,
    provider: str,
    client: httpx2.AsyncClient,
    wait: PollTimer,
    device: str,
    code: str,
) -> TokenResponse:
    question = {"device_auth_id": device, "user_code": code}
    while True:
        await wait.pause()
        try:
            answer = await post_form(
                client, urljoin(login.device_url, "token"), provider, document=question
            )
        except Transient as error:
            wait.failed(error)
            continue
        wait.answered()
        if answer.ok and answer.text("authorization_code"):
            return answer
        if answer.status not in PENDING:
            raise login_error(answer, provider, "ended the login")


def read_codex_cli_tokens(folder: Path, login: LoginSpec) -> Tokens | None:
    """The login of the Codex CLI in `folder` (`~/.codex`), or None.

    It is copied, not shared: a refresh token is good for one use, and the Codex CLI knows nothing
    of our lock.
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
    return Tokens(
        access,
        refresh,
        expires_at=float(expires_at) if isinstance(expires_at, int | float) else None,
        scope=login.scope,
        token_url=login.token_url,
        client_id=login.client_id,
        account_id=account or chatgpt_account_id(identity, access),
    )


# The OAuth client a Google login is given to, which alone can renew it.

GOOGLE_CLIENT_ID = "HERMES_GEMINI_CLIENT_ID"
GOOGLE_CLIENT_SECRET = "HERMES_GEMINI_CLIENT_SECRET"
GOOGLE_PROJECT_ID = "HERMES_GEMINI_PROJECT_ID"

GOOGLE_SCOPES = (
    "https://www.googleapis.com/auth/cloud-platform",
    "https://www.googleapis.com/auth/userinfo.email",
    "https://www.googleapis.com/auth/userinfo.profile",
)

VariableLookup = Callable[[str], str | None]
"""Gives the value of a variable; empty is not set."""


class GoogleClient(msgspec.Struct, frozen=True):
    """A client of the type "desktop app"; Google gives it a secret, and wants it back."""

    id: str
    secret: str
    auth_url: str = "https://accounts.google.com/o/oauth2/v2/auth"
    token_url: str = "https://oauth2.googleapis.com/token"

    def __repr__(self) -> str:
        return f"GoogleClient({self.id!r})"


def google_client(variable: VariableLookup) -> GoogleClient | None:
    """The client of the user's own, or None."""
    held = [(variable(name) or "").strip() for name in (GOOGLE_CLIENT_ID, GOOGLE_CLIENT_SECRET)]
    return GoogleClient(*held) if all(held) else None


def require_google_client(variable: VariableLookup, provider: str) -> GoogleClient:
    """The client to log in with. Raises `CredentialMissing`."""
    client = google_client(variable)
    if client is not None:
        return client
    raise CredentialMissing(
        f"logging in for {provider} needs an OAuth client of your own",
        provider=provider,
        hint=f'make one of the type "Desktop app" at console.cloud.google.com/apis/credentials and'
        f" set {GOOGLE_CLIENT_ID} and {GOOGLE_CLIENT_SECRET}; or log in with the Gemini CLI"
        " (`gemini`) and Hermes uses its login",
    )


# Logging in with a Google account: OAuth 2.0 for installed programs, with PKCE.
#
# The person opens an address in a browser. On this machine the browser comes back to a port of
# ours;
# on another one it ends at an address that does not load, which is then copied and pasted here.
# Nothing is stored here, so stopping at any moment (Ctrl-C) leaves nothing.

LOGIN_SECONDS = 900.0


ReadPaste = Callable[[], Awaitable[str]]
"""Gives what the person pasted; empty when there will be nothing. It may be cancelled."""


async def google_login(
    google: GoogleClient,
    provider: str,
    client: httpx2.AsyncClient,
    clock: Clock,
    show: ShowPrompt,
    *,
    paste: ReadPaste | None = None,
    seconds: float = LOGIN_SECONDS,
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
            "scope": " ".join(GOOGLE_SCOPES),
            "code_challenge": pkce_challenge(verifier),
            "code_challenge_method": "S256",
            "state": state,
            "access_type": "offline",  # a refresh token too,
            "prompt": "consent",  # also when this is not the first login
        }
        show(LoginPrompt(f"{google.auth_url}?{urlencode(question)}", "", seconds))
        try:
            async with asyncio.timeout(seconds):
                outcome = await _await_redirect(arrival, paste, state, provider)
        except TimeoutError as error:
            raise _login_timed_out(provider) from error
    if not outcome.code:
        told = TokenResponse(httpx2.codes.BAD_REQUEST, {"error": outcome.error})
        is_no = outcome.error == "access_denied"
        raise login_denied(provider) if is_no else login_error(told, provider, "ended the login")
    answer = await post_form(
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
    return _google_tokens(answer, google, provider, clock)


async def _await_redirect(
    arrival: asyncio.Future[RedirectResult], paste: ReadPaste | None, state: str, provider: str
) -> RedirectResult:
    """What comes first, from the browser or from the person."""
    came = await arrived_or_typed(arrival, paste)
    outcome = parse_pasted_redirect(came, state) if isinstance(came, str) else came
    if outcome is None:
        raise CredentialRefused(
            "what was pasted is not the address this login ends at",
            provider=provider,
            hint="copy the whole address of the page that does not load, from http://127.0.0.1 on",
        )
    return outcome


def _google_tokens(
    answer: TokenResponse, google: GoogleClient, provider: str, clock: Clock
) -> Tokens:
    if not answer.ok or not answer.text("access_token"):
        raise login_error(answer, provider, "gave no tokens")
    granted = answer.text("scope")
    if granted and GOOGLE_SCOPES[0] not in granted.split():
        raise CredentialRefused(
            f"the login for {provider} was given without access to Google Cloud",
            provider=provider,
            hint="log in again and leave every box ticked",
        )
    blank = Tokens("", token_url=google.token_url, client_id=google.id, client_secret=google.secret)
    return parse_tokens(answer, clock.now().timestamp(), before=blank)


def _login_timed_out(provider: str) -> CredentialRefused:
    return CredentialRefused(
        f"nobody logged in for {provider} in time",
        provider=provider,
        hint=f"to try again: hermes auth add {provider} --type oauth",
    )
