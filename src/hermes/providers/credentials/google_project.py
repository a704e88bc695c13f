"""The project that Code Assist counts the requests of a login to.

It is named by the user, or asked for with the token and kept in memory. It travels in the address
of the credential, as `?project=ID`, and the wire puts it where it belongs. Setting up an account
that has no project yet is left to the Gemini CLI.
"""

from typing import Any
from urllib.parse import urlencode

import httpx2
import msgspec

from hermes.core.errors import CredentialRefused
from hermes.core.ports import Clock
from hermes.providers.credentials.exchange import Exchange
from hermes.providers.credentials.google_client import PROJECT_ID
from hermes.providers.credentials.oauth import HEADERS, SECONDS, fields_of
from hermes.providers.endpoint import Endpoint
from hermes.providers.failures.later import refused as refusal_of
from hermes.providers.failures.later import unreachable
from hermes.providers.target import Credential

METADATA = {
    "ideType": "IDE_UNSPECIFIED",
    "platform": "PLATFORM_UNSPECIFIED",
    "pluginType": "GEMINI",
}
LONGEST_REASON = 300


class ProjectExchange(Exchange):
    """Exchanges tokens like any other, and gives those for Code Assist their project."""

    def __init__(self, client: httpx2.AsyncClient, clock: Clock, project: str = "") -> None:
        """`project` is the one the user named; empty: that of the login."""
        super().__init__(client, clock)
        self._named = project.strip()
        self._found: dict[str, tuple[str, str]] = {}
        """The token and its project, by the id of the credential."""

    async def short_lived(
        self, endpoint: Endpoint, credential: Credential, refused: str = ""
    ) -> Credential:
        if endpoint.api_mode != "code_assist":
            return await super().short_lived(endpoint, credential, refused)
        project = self._named or await self._project(endpoint, credential)
        address = f"{endpoint.base_url}?{urlencode({'project': project})}"
        return msgspec.structs.replace(credential, base_url=address)

    async def _project(self, endpoint: Endpoint, credential: Credential) -> str:
        token, project = self._found.get(credential.id, ("", ""))
        if token != credential.secret:
            answer = await self._load(endpoint, credential.secret)
            project = _named_in(answer)
            if not project:
                raise _no_project(endpoint, credential, answer)
            self._found[credential.id] = (credential.secret, project)
        return project

    async def _load(self, endpoint: Endpoint, token: str) -> dict[str, Any]:
        url = f"{endpoint.base_url}:loadCodeAssist"
        try:
            response = await self._client.post(
                url,
                json={"metadata": METADATA},
                headers={**HEADERS, **endpoint.headers, "Authorization": f"Bearer {token}"},
                timeout=SECONDS,
                follow_redirects=False,
            )
        except httpx2.HTTPError as error:
            raise unreachable(endpoint.id, url, error) from error
        if response.status_code >= 300:
            raise refusal_of(endpoint.id, response, response.content, secret=token)
        return fields_of(response.content)


def _named_in(answer: dict[str, Any]) -> str:
    """The id stands alone, or in an object."""
    held = answer.get("cloudaicompanionProject")
    project = held.get("id") if isinstance(held, dict) else held
    return project if isinstance(project, str) else ""


def _no_project(
    endpoint: Endpoint, credential: Credential, answer: dict[str, Any]
) -> CredentialRefused:
    tiers = answer.get("ineligibleTiers")
    reasons = [
        str(tier.get("reasonMessage") or "")
        for tier in (tiers if isinstance(tiers, list) else ())
        if isinstance(tier, dict)
    ]
    words = "".join([c if c.isprintable() else " " for c in "".join(reasons[:1])])
    because = f": {' '.join(words.split())[:LONGEST_REASON]}" if words.strip() else ""
    return CredentialRefused(
        f"Google names no project for the {credential.source or endpoint.label}{because}",
        provider=endpoint.id,
        hint=f"run `gemini` once, which sets the account up, or set {PROJECT_ID}",
    )
