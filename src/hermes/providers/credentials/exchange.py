"""Tokens that are exchanged for a short-lived one before use, such as GitHub's for Copilot.

The short-lived token is kept in memory only. Nous has a similar exchange (an agent key), but it is
not documented and therefore not implemented.
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
from hermes.util.http import HttpError, fetch

MARGIN_SECONDS = 120.0
"""A token that expires sooner is exchanged again. Tokens live for about half an hour."""

_NO_ACCESS = (httpx2.codes.UNAUTHORIZED, httpx2.codes.FORBIDDEN, httpx2.codes.NOT_FOUND)


class TokenExchange:
    def __init__(self, client: httpx2.AsyncClient, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._cache: dict[tuple[str, str], Credential] = {}
        """Exchanged credentials by endpoint and long-lived secret."""

    async def exchange(
        self, endpoint: Endpoint, credential: Credential, refused: str = ""
    ) -> Credential:
        """Return the credential with the token to send; unchanged where there is no exchange.

        `refused` is a token that was just refused. Raises a `ProviderError`.
        """
        if endpoint.login is None or not endpoint.login.exchange_url:
            return credential
        key = (endpoint.id, credential.secret)
        cached = self._cache.get(key)
        soon = self._clock.now().timestamp() + MARGIN_SECONDS
        expires_at = cached.expires_at if cached is not None else 0.0
        if (
            cached is None
            or cached.secret == refused
            or (expires_at is not None and expires_at <= soon)
        ):
            cached = await self._fetch_token(endpoint, endpoint.login.exchange_url, credential)
            self._cache[key] = cached
        return cached

    async def _fetch_token(
        self, endpoint: Endpoint, url: str, credential: Credential
    ) -> Credential:
        authorization = {"Authorization": f"token {credential.secret}"}
        try:
            response = await fetch(
                self._client,
                "GET",
                url,
                headers={**HEADERS, **endpoint.headers, **authorization},
                seconds=REQUEST_SECONDS,
            )
        except HttpError as error:
            raise unreachable(endpoint.id, url, error) from error
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


# The project that Code Assist charges. The user names it, or it is requested with the token and
# kept in memory. It is passed in the base URL of the credential as `?project=ID`, and the dialect
# moves it into the body. An account without a project must be set up with the Gemini CLI.

METADATA = {
    "ideType": "IDE_UNSPECIFIED",
    "platform": "PLATFORM_UNSPECIFIED",
    "pluginType": "GEMINI",
}
MAX_REASON = 300


class CodeAssistExchange(TokenExchange):
    """A token exchange that also adds the project for Code Assist."""

    def __init__(self, client: httpx2.AsyncClient, clock: Clock, project: str = "") -> None:
        """`project` is named by the user; empty: that of the login."""
        super().__init__(client, clock)
        self._configured_project = project.strip()
        self._projects: dict[str, tuple[str, str]] = {}  #: Token and project by credential id.

    async def exchange(
        self, endpoint: Endpoint, credential: Credential, refused: str = ""
    ) -> Credential:
        if endpoint.api_mode != "code_assist":
            return await super().exchange(endpoint, credential, refused)
        project = self._configured_project or await self._project(endpoint, credential)
        address = f"{endpoint.base_url}?{urlencode({'project': project})}"
        return msgspec.structs.replace(credential, base_url=address)

    async def _project(self, endpoint: Endpoint, credential: Credential) -> str:
        token, project = self._projects.get(credential.id, ("", ""))
        if token != credential.secret:
            answer = await self._load_code_assist(endpoint, credential.secret)
            held = answer.get("cloudaicompanionProject")  # the id, or an object with it
            found = held.get("id") if isinstance(held, dict) else held
            project = found if isinstance(found, str) else ""
            if not project:
                raise _no_project_error(endpoint, credential, answer)
            self._projects[credential.id] = (credential.secret, project)
        return project

    async def _load_code_assist(self, endpoint: Endpoint, token: str) -> dict[str, Any]:
        url = f"{endpoint.base_url}:loadCodeAssist"
        try:
            response = await fetch(
                self._client,
                "POST",
                url,
                json={"metadata": METADATA},
                headers={**HEADERS, **endpoint.headers, "Authorization": f"Bearer {token}"},
                seconds=REQUEST_SECONDS,
            )
        except HttpError as error:
            raise unreachable(endpoint.id, url, error) from error
        if response.status >= 300:
            raise refusal_of(
                endpoint.id, response.status, response.headers, response.body, secret=token
            )
        return response.json_object()


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
