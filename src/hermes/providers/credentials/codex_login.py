"""OpenAI's own form of the device login, and the login of the Codex CLI.

Other than in RFC 8628, the polls bring an authorization code with its PKCE verifier, and the
tokens come from a second request.
"""

from pathlib import Path
from urllib.parse import urljoin

import httpx2

from hermes.core.errors import Transient
from hermes.core.ports import Clock
from hermes.providers.credentials.device_login import (
    CODE_SECONDS,
    INTERVAL_SECONDS,
    Invitation,
    Show,
    Wait,
    checked,
)
from hermes.providers.credentials.oauth import (
    Answer,
    Tokens,
    account_of,
    ask,
    claims,
    fields_of,
    refusal,
    tokens_from,
)
from hermes.providers.endpoint import Login

PENDING = (httpx2.codes.FORBIDDEN, httpx2.codes.NOT_FOUND)


async def codex_login(
    login: Login, provider: str, client: httpx2.AsyncClient, clock: Clock, show: Show
) -> Tokens:
    """The tokens, once the person has agreed. Raises a `ProviderError` when there will be none."""
    start = await ask(client, login.device_url, provider, document={"client_id": login.client_id})
    code = start.text("user_code") or start.text("usercode")
    device = start.text("device_auth_id")
    if not start.ok or not device:
        raise refusal(start, provider, "gave no code to log in with")
    url = urljoin(login.token_url, "/codex/device")
    show(checked(Invitation(url, code, CODE_SECONDS), provider))
    interval = start.number("interval")
    wait = Wait(clock, provider, INTERVAL_SECONDS if interval is None else interval, CODE_SECONDS)
    granted = await _granted(login, provider, client, wait, device, code)
    answer = await ask(
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
        raise refusal(answer, provider, "gave no tokens")
    blank = Tokens("", scope=login.scope, token_url=login.token_url, client_id=login.client_id)
    return tokens_from(answer, clock.now().timestamp(), before=blank)


async def _granted(
    login: Login, provider: str, client: httpx2.AsyncClient, wait: Wait, device: str, code: str
) -> Answer:
    question = {"device_auth_id": device, "user_code": code}
    while True:
        await wait.pause()
        try:
            answer = await ask(
                client, urljoin(login.device_url, "token"), provider, document=question
            )
        except Transient as error:
            wait.failed(error)
            continue
        wait.answered()
        if answer.ok and answer.text("authorization_code"):
            return answer
        if answer.status not in PENDING:
            raise refusal(answer, provider, "ended the login")


def codex_cli_tokens(folder: Path, login: Login) -> Tokens | None:
    """The login of the Codex CLI in `folder` (`~/.codex`), or None.

    It is copied, not shared: a refresh token is good for one use, and the Codex CLI knows nothing
    of our lock.
    """
    try:
        held = fields_of((folder / "auth.json").read_bytes()).get("tokens")
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
    expires_at = claims(access).get("exp")
    return Tokens(
        access,
        refresh,
        expires_at=float(expires_at) if isinstance(expires_at, int | float) else None,
        scope=login.scope,
        token_url=login.token_url,
        client_id=login.client_id,
        account_id=account or account_of(identity, access),
    )
