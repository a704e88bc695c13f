"""Tokens that are exchanged for a short-lived one before use: GitHub's, for Copilot.

The short-lived token is only kept in memory. Nous has something like it too (a short-lived agent
key), but how is not documented, so it is not built.
"""

import httpx2
import msgspec

from hermes.core.errors import CredentialRefused
from hermes.core.ports import Clock
from hermes.providers.credentials.oauth import HEADERS, SECONDS, Answer, fields_of, refusal
from hermes.providers.endpoint import Endpoint
from hermes.providers.failures.later import unreachable
from hermes.providers.hosts import may_receive
from hermes.providers.target import Credential

MARGIN_SECONDS = 120.0
"""A token that expires sooner is exchanged anew. They live for about half an hour."""

_NO_ACCESS = (httpx2.codes.UNAUTHORIZED, httpx2.codes.FORBIDDEN, httpx2.codes.NOT_FOUND)


class Exchange:
    def __init__(self, client: httpx2.AsyncClient, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._held: dict[tuple[str, str], Credential] = {}
        """The exchanged credential by endpoint and long-lived secret."""

    async def short_lived(
        self, endpoint: Endpoint, credential: Credential, refused: str = ""
    ) -> Credential:
        """The credential with the token to send; as it is where nothing is exchanged.

        `refused` is one that was just refused. Raises a `ProviderError`.
        """
        if endpoint.login is None or not endpoint.login.exchange_url:
            return credential
        key = (endpoint.id, credential.secret)
        held = self._held.get(key)
        if held is None or held.secret == refused or not self._lasts(held):
            held = await self._exchanged(endpoint, endpoint.login.exchange_url, credential)
            self._held[key] = held
        return held

    def _lasts(self, credential: Credential) -> bool:
        now = self._clock.now().timestamp()
        return credential.expires_at is None or credential.expires_at > now + MARGIN_SECONDS

    async def _exchanged(self, endpoint: Endpoint, url: str, credential: Credential) -> Credential:
        authorization = {"Authorization": f"token {credential.secret}"}
        try:
            response = await self._client.get(
                url,
                headers={**HEADERS, **endpoint.headers, **authorization},
                timeout=SECONDS,
                follow_redirects=False,
            )
        except httpx2.HTTPError as error:
            raise unreachable(endpoint.id, url, error) from error
        answer = Answer(response.status_code, fields_of(response.content))
        if answer.status in _NO_ACCESS:
            raise CredentialRefused(
                f"{endpoint.label} gives no access for {credential.source}",
                provider=endpoint.id,
                status=answer.status,
                hint=f"check the account's plan, or log in: hermes auth add {endpoint.id}"
                " --type oauth",
            )
        if not answer.ok or not answer.text("token"):
            raise refusal(answer, endpoint.id, "gave no short-lived token")
        endpoints = answer.fields.get("endpoints")
        address = endpoints.get("api") if isinstance(endpoints, dict) else None
        own = isinstance(address, str) and may_receive(endpoint, address)
        return msgspec.structs.replace(
            credential,
            secret=answer.text("token"),
            kind="oauth",
            expires_at=answer.number("expires_at"),
            base_url=address if own else "",
        )
