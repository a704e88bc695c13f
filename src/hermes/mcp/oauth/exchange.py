"""Tokens for a code, and new tokens for old ones."""

import math
import re
from typing import Any

import msgspec

from hermes.mcp.oauth.failures import LoginFailed
from hermes.mcp.oauth.logins import Login
from hermes.mcp.oauth.web import Answer, Web, refusal

GONE = frozenset({"invalid_grant", "invalid_client", "unauthorized_client"})
"""Answers that mean: this login will not come back."""
_TOKEN = re.compile(r"[\x21-\x7e]{1,16384}")


async def redeemed(
    web: Web, login: Login, code: str, verifier: str, redirect: str, now: float
) -> Login:
    """`login` with its first tokens. Raises `LoginFailed`, or `Unreachable`."""
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": redirect,
        "code_verifier": verifier,
    }
    answer = await _asked(web, login, form)
    what = f"the login server of {web.name} gives no tokens"
    if not answer.ok:
        raise refusal(what, answer, (code, verifier, login.client.secret))
    return _with_tokens(login, answer, now, what)


async def refreshed(web: Web, login: Login, now: float) -> Login | None:
    """New tokens for old; None when the login is gone. Raises `LoginFailed`, or `Unreachable`."""
    form = {"grant_type": "refresh_token", "refresh_token": login.refresh_token}
    answer = await _asked(web, login, form)
    if answer.error in GONE:
        return None
    what = f"the login server of {web.name} does not renew the login"
    if not answer.ok:
        raise refusal(what, answer, (login.refresh_token, login.client.secret))
    return _with_tokens(login, answer, now, what)


async def revoked(web: Web, login: Login) -> None:
    """Tell the login server that the login is over (RFC 7009). Raises `LoginFailed`, or
    `Unreachable`."""
    token = login.refresh_token or login.access_token
    form, headers = login.client.signed({"token": token})
    what = f"the login server of {web.name} does not end the login"
    answer = await web.post(login.revocation_endpoint, what, form=form, headers=headers)
    if answer.status >= 400:
        raise refusal(what, answer, (token, login.client.secret))


async def _asked(web: Web, login: Login, form: dict[str, str]) -> Answer:
    fields, headers = login.client.signed({**form, "resource": login.resource})
    what = f"the login server of {web.name}"
    return await web.post(login.token_endpoint, what, form=fields, headers=headers)


def _with_tokens(login: Login, answer: Answer, now: float, what: str) -> Login:
    access, refresh = answer.text("access_token"), answer.text("refresh_token")
    if answer.text("token_type").lower() != "bearer":
        raise LoginFailed(f"{what} of the kind Bearer")
    if not _TOKEN.fullmatch(access) or (refresh and not _TOKEN.fullmatch(refresh)):
        raise LoginFailed(f"{what} that can be used")
    seconds = _number(answer.fields.get("expires_in"))
    return msgspec.structs.replace(
        login,
        access_token=access,
        refresh_token=refresh or login.refresh_token,
        expires_at=None if seconds is None else now + seconds,
        obtained_at=now,
        scope=answer.text("scope") or login.scope,
        gone=False,
    )


def _number(value: Any) -> float | None:
    """A number, also one written as text."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) and number > 0 else None
