"""Tokens that are exchanged before use: GitHub's for a short-lived one of Copilot.

The short-lived token is kept in memory only. Nous has a similar exchange (an agent key), but it is
not documented and therefore not implemented.

A login for Code Assist gets the project that is charged. The user names it, or it is requested with
the token and kept in memory. It is passed in the base URL of the credential as `?project=ID`, and
the dialect moves it into the body. An account without a project must be set up with the Gemini CLI.
"""

from typing import Any
from urllib.parse import urlencode

import httpx2
import msgspec

from hermes.core.errors import CredentialRefused
from hermes.core.ports import Clock
from hermes.providers.endpoints import Endpoint, may_receive_key
from hermes.providers.failures import refused as refusal_of
from hermes.providers.failures import unreachable
from hermes.providers.login.oauth import TokenResponse
from hermes.providers.login.tokens import GOOGLE_PROJECT_ID, HEADERS, REQUEST_SECONDS, login_error
from hermes.providers.target import Credential
from hermes.util.http import HttpError, HttpResponse, fetch

MARGIN_SECONDS = 120.0
"""A token that expires sooner is exchanged again. Tokens live for about half an hour."""

_NO_ACCESS = (httpx2.codes.UNAUTHORIZED, httpx2.codes.FORBIDDEN, httpx2.codes.NOT_FOUND)


METADATA = {
    "ideType": "IDE_UNSPECIFIED",
    "platform": "PLATFORM_UNSPECIFIED",
    "pluginType": "GEMINI",
}
MAX_REASON = 300


class TokenExchange:
    def __init__(self, client: httpx2.AsyncClient, clock: Clock, project: str = "") -> None:
        """`project` is that of Code Assist, if the user names one; else that of the login."""
        self._client, self._clock = client, clock
        self._cache: dict[tuple[str, str], Credential] = {}
        """Exchanged credentials by endpoint and long-lived secret."""
        self._configured_project = project.strip()
        self._projects: dict[str, tuple[str, str]] = {}  #: Token and project by credential id.

    async def exchange(
        self, endpoint: Endpoint, credential: Credential, refused: str = ""
    ) -> Credential:
        """Return the credential with the token to send; unchanged where there is no exchange.

        `refused` is a token that was just refused. Raises a `ProviderError`.
        """
        if endpoint.api_mode == "code_assist":
            project = self._configured_project or await self._project(endpoint, credential)
            address = f"{endpoint.base_url}?{urlencode({'project': project})}"
            return msgspec.structs.replace(credential, base_url=address)
        if endpoint.login is None or not endpoint.login.exchange_url:
            return credential
        key = (endpoint.id, credential.secret)
        cached = self._cache.get(key)
        soon = self._clock.now().timestamp() + MARGIN_SECONDS
        expires_at = cached.expires_at if cached is not None else 0.0
        is_over = expires_at is not None and expires_at <= soon
        if cached is None or cached.secret == refused or is_over:
            cached = await self._fetch_token(endpoint, endpoint.login.exchange_url, credential)
            self._cache[key] = cached
        return cached

    async def _fetch_token(
        self, endpoint: Endpoint, url: str, credential: Credential
    ) -> Credential:
        response = await self._request(endpoint, "GET", url, f"token {credential.secret}")
        answer = TokenResponse(response.status, response.json_object())
        if answer.status in _NO_ACCESS:
            raise CredentialRefused(
                f"{endpoint.label} gives no access for {credential.source}",
                provider=endpoint.id,
                status=answer.status,
                hint=f"check the account's plan, or log in: hermes auth add {endpoint.id}"
                " --type oauth",
            )
        if not answer.ok or not answer.text("token"):
            raise login_error(answer, endpoint.id, "gave no short-lived token")
        endpoints = answer.fields.get("endpoints")
        address = endpoints.get("api") if isinstance(endpoints, dict) else None
        own = isinstance(address, str) and may_receive_key(endpoint, address)
        return msgspec.structs.replace(
            credential,
            secret=answer.text("token"),
            kind="oauth",
            expires_at=answer.number("expires_at"),
            base_url=address if own else "",
        )

    async def _project(self, endpoint: Endpoint, credential: Credential) -> str:
        """Return the project that Code Assist charges for this login."""
        token, project = self._projects.get(credential.id, ("", ""))
        if token == credential.secret:
            return project
        token, url = credential.secret, f"{endpoint.base_url}:loadCodeAssist"
        body = {"metadata": METADATA}
        response = await self._request(endpoint, "POST", url, f"Bearer {token}", body)
        if response.status >= 300:
            raise refusal_of(
                endpoint.id, response.status, response.headers, response.body, secret=token
            )
        answer = response.json_object()
        held = answer.get("cloudaicompanionProject")  # the id, or an object with it
        found = held.get("id") if isinstance(held, dict) else held
        if not found or not isinstance(found, str):
            raise _no_project_error(endpoint, credential, answer)
        self._projects[credential.id] = (token, found)
        return found

    async def _request(
        self, endpoint: Endpoint, method: str, url: str, authorization: str, body: Any = None
    ) -> HttpResponse:
        headers = {**HEADERS, **endpoint.headers, "Authorization": authorization}
        try:
            return await fetch(
                self._client, method, url, headers=headers, json=body, seconds=REQUEST_SECONDS
            )
        except HttpError as error:
            raise unreachable(endpoint.id, url, error) from error


def _no_project_error(
    endpoint: Endpoint, credential: Credential, answer: dict[str, Any]
) -> CredentialRefused:
    tiers = answer.get("ineligibleTiers")
    reasons = [
        str(tier.get("reasonMessage") or "")
        for tier in (tiers if isinstance(tiers, list) else ())
        if isinstance(tier, dict)
    ]
    reason = "".join([c if c.isprintable() else " " for c in "".join(reasons[:1])])
    because = f": {' '.join(reason.split())[:MAX_REASON]}" if reason.strip() else ""
    return CredentialRefused(
        f"Google reports no project for the {credential.source or endpoint.label}{because}",
        provider=endpoint.id,
        hint=f"run `gemini` once, which sets the account up, or set {GOOGLE_PROJECT_ID}",
    )
