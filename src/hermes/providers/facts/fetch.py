"""Asking an endpoint for its list of models."""

import posixpath
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import msgspec

from hermes.core.errors import ProviderError, ReplyInvalid
from hermes.providers.aws import signed_headers
from hermes.providers.endpoint import Endpoint
from hermes.providers.facts.listing import next_page, parse_model, parse_models
from hermes.providers.facts.model import ModelFacts
from hermes.providers.failures.later import refused, unreachable
from hermes.providers.hosts import may_receive
from hermes.providers.target import Credential, Target
from hermes.providers.wire.anthropic.request import AnthropicDialect
from hermes.providers.wire.headers import address, request_headers

LARGEST = 32 * 1024 * 1024
"""Bytes of one answer."""
MOST_PAGES = 20
PAGE = 1000
TIMEOUT = httpx2.Timeout(30.0, connect=10.0)
SHOWN = 100
"""Models of Ollama that are asked for one by one."""

_NUM_CTX = re.compile(r"^num_ctx\s+(\d+)", re.MULTILINE)


async def fetch_models(
    endpoint: Endpoint,
    base_url: str,
    credential: Credential | None,
    client: httpx2.AsyncClient,
    *,
    date: str,
    region: str = "",
) -> tuple[ModelFacts, ...]:
    """The models the endpoint lists. Raises a `ProviderError`."""
    asked = _Asked(endpoint, base_url, credential, client, region)
    models: dict[str, ModelFacts] = {}
    async for page in _pages(asked):
        for facts in parse_models(page, provider=endpoint.id, date=date):
            models.setdefault(facts.id, facts)
    found = tuple(models.values())
    if endpoint.id != "ollama":
        return found
    loaded = await _loaded(asked)
    shown = [await _shown(asked, facts, loaded, date) for facts in found[:SHOWN]]
    return (*shown, *found[SHOWN:])


class _Asked:
    """One endpoint being asked."""

    def __init__(
        self,
        endpoint: Endpoint,
        base_url: str,
        credential: Credential | None,
        client: httpx2.AsyncClient,
        region: str,
    ) -> None:
        self.endpoint, self._client = endpoint, client
        if credential is not None and not _may_have(endpoint, credential, base_url):
            credential = None
        self._credential = credential
        base = (credential.base_url if credential else "") or base_url
        self._base = base.rstrip("/")
        self._target = Target(
            provider=endpoint.id,
            model="",
            base_url=self._base,
            api_mode=endpoint.api_mode,
            auth=endpoint.auth,
            headers=endpoint.headers,
            region=region,
        )

    @property
    def is_anthropic(self) -> bool:
        return self.endpoint.api_mode == "anthropic_messages"

    def url(self, path: str) -> str:
        """`path` under the address of the endpoint; `..` goes up, as in any path."""
        if self.is_anthropic and not self._base.endswith("/v1"):
            path = f"/v1{path}"
        url = httpx2.URL(address(self._base, path.partition("?")[0]))
        query = path.partition("?")[2]
        plain = str(url.copy_with(path=posixpath.normpath(url.path)))
        return f"{plain}{'&' if '?' in plain else '?'}{query}" if query else plain

    async def get(self, url: str, body: Any = None) -> Any:
        """The decoded answer; with a body it is a POST."""
        content = b"" if body is None else msgspec.json.encode(body)
        method = "GET" if body is None else "POST"
        own = AnthropicDialect.headers if self.is_anthropic else {}
        headers = request_headers(self._target, self._credential, own, stream=False)
        if self._target.auth == "aws":
            region = self._target.region
            headers = signed_headers(
                method, url, headers, content, region=region, credential=self._credential
            )
        try:
            answer = self._client.stream(
                method,
                url,
                content=content or None,
                headers=headers,
                timeout=TIMEOUT,
                follow_redirects=False,
            )
            async with answer as response:
                data = await _read(response, self.endpoint.id)
        except httpx2.HTTPError as error:
            raise unreachable(self.endpoint.id, url, error) from error
        if response.status_code >= 300:
            secret = self._credential.secret if self._credential else ""
            raise refused(self.endpoint.id, response, data, secret=secret)
        try:
            return msgspec.json.decode(data)
        except msgspec.DecodeError as error:
            raise ReplyInvalid(
                f"{self.endpoint.id} answered with something that is no list of models",
                provider=self.endpoint.id,
                hint=f"is {self._base} the right address?",
            ) from error


def _may_have(endpoint: Endpoint, credential: Credential, base_url: str) -> bool:
    """A provider's key goes to its own hosts; the user's own endpoint gets what it was given."""
    if endpoint.id.partition(":")[0] == "custom" or credential.id == "given":
        return True
    return may_receive(endpoint, credential.base_url or base_url)


async def _pages(asked: _Asked) -> AsyncIterator[Any]:
    path = asked.endpoint.models_path
    first = asked.url(f"{path}?limit={PAGE}" if asked.is_anthropic else path)
    url, cursor = first, ""
    for _ in range(MOST_PAGES):
        page = await asked.get(url)
        yield page
        after = next_page(page)
        if not after or after == cursor:
            return
        cursor = after
        url = f"{first}&after_id={cursor}"


async def _read(response: httpx2.Response, provider: str) -> bytes:
    data = bytearray()
    async for chunk in response.aiter_bytes():
        data += chunk
        if len(data) > LARGEST:
            raise ReplyInvalid(f"the list of models of {provider} has no end", provider=provider)
    return bytes(data)


async def _loaded(asked: _Asked) -> dict[str, int]:
    """The context windows Ollama gave the models that run now."""
    try:
        running = await asked.get(asked.url("/../api/ps"))
    except ProviderError:
        return {}  # an older server, or one that only resembles Ollama
    rows = running.get("models") if isinstance(running, dict) else None
    return {
        row["model"]: row["context_length"]
        for row in (rows if isinstance(rows, list) else ())
        if isinstance(row, dict)
        and isinstance(row.get("model"), str)
        and isinstance(row.get("context_length"), int)
    }


async def _shown(asked: _Asked, facts: ModelFacts, loaded: dict[str, int], date: str) -> ModelFacts:
    """Ollama lists names only; the rest is told for each model.

    What it gives a model is often less than the model could take: the window of the running model
    counts most, then the one set for it, then what it was made for.
    """
    try:
        shown = await asked.get(asked.url("/../api/show"), {"model": facts.id})
    except ProviderError:
        return facts
    if not isinstance(shown, dict):
        return facts
    known = shown.get("model_info")
    made_for = [
        size
        for name, size in (known.items() if isinstance(known, dict) else ())
        if name.endswith(".context_length") and isinstance(size, int)
    ]
    given = _NUM_CTX.search(str(shown.get("parameters") or ""))
    sizes = [loaded.get(facts.id), int(given[1]) if given else None, *made_for]
    context = next((size for size in sizes if size), None)
    told = {"id": facts.id, "capabilities": shown.get("capabilities"), "context_length": context}
    return parse_model(told, date=date) or facts
