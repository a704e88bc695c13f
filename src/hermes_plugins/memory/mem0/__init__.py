"""Mem0: the platform or a self-hosted server.

Platform (docs.mem0.ai, API reference): `POST /v3/memories/add/`, `/v3/memories/search/` and
`/v3/memories/` with the user inside `filters`; one memory at `/v1/memories/{id}/`;
`Authorization: Token`. The open-source server has the same paths without versions, expects the user
at the top level and the key in `X-API-Key`. The body of its `PUT` is not documented and assumed to
be that of the platform.
"""

from collections.abc import Mapping
from typing import Any, Literal

from hermes.sdk import PluginContext
from hermes.sdk.memory import (
    Dict,
    Dicts,
    HttpServiceProvider,
    ServiceInfo,
    ServiceOptions,
    objects_in,
    quote_segment,
    search_tool,
    store_tool,
    to_entry,
)

PLATFORM = "https://api.mem0.ai"
ORIGIN = {"source": "hermes"}


class Mem0Options(ServiceOptions, frozen=True):
    api: Literal["", "platform", "server"] = ""
    """Kind of server at `base_url`; empty means the platform at its own address, else a server."""


class Mem0Provider(HttpServiceProvider):
    options_type = Mem0Options
    info = ServiceInfo(
        "mem0",
        "Mem0",
        (search_tool("mem0_search"), store_tool("mem0_add")),
        key="MEM0_API_KEY",
        key_url="https://app.mem0.ai/dashboard/api-keys",
        address=PLATFORM,
        own_server=True,
    )

    @property
    def _platform(self) -> bool:
        if self.options.api:
            return bool(self.options.api == "platform")
        return not self.options.base_url or self.options.base_url.rstrip("/") == PLATFORM

    def headers(self, key: str) -> Mapping[str, str]:
        if not key:
            return {}
        return {"Authorization": f"Token {key}"} if self._platform else {"X-API-Key": key}

    def search(self, query: str, limit: int) -> Dicts:
        if self._platform:
            body = {"query": query, "filters": self._owner, "top_k": limit}
            answer = self.client.read("POST", "/v3/memories/search/", body)
        else:
            answer = self.client.read("POST", "/search", {"query": query, **self._owner})
        return _entries(answer)[:limit]

    def list_entries(self, limit: int) -> Dicts:
        if self._platform:
            pages = {"page": 1, "page_size": limit}
            answer = self.client.read(
                "POST", "/v3/memories/", {"filters": self._owner}, params=pages
            )
        else:
            answer = self.client.read("GET", "/memories", params=self._owner)
        return _entries(answer)

    def store_turn(self, session: str, user: str, assistant: str) -> None:
        messages = [{"role": "user", "content": user}, {"role": "assistant", "content": assistant}]
        said = [message for message in messages if message["content"]]
        self._add({"messages": said, "metadata": {**ORIGIN, "session": session}})

    def store_fact(self, text: str) -> None:
        messages = [{"role": "user", "content": text}]
        self._add({"messages": messages, "metadata": ORIGIN, "infer": False})

    def edit(self, entry_id: str, text: str) -> bool:
        if not self._belongs_to_user(entry_id):
            return False
        self.client.write("PUT", self._one(entry_id), {"text": text})
        return True

    def forget(self, entry_id: str) -> bool:
        if not self._belongs_to_user(entry_id):
            return False
        self.client.write("DELETE", self._one(entry_id))
        return True

    @property
    def _owner(self) -> Dict:
        return {"user_id": self.scope.flat}

    def _add(self, body: Dict) -> None:
        path = "/v3/memories/add/" if self._platform else "/memories"
        self.client.write("POST", path, {**self._owner, **body})

    def _one(self, entry_id: str) -> str:
        return (
            f"/v1/memories/{quote_segment(entry_id)}/"
            if self._platform
            else f"/memories/{quote_segment(entry_id)}"
        )

    def _belongs_to_user(self, entry_id: str) -> bool:
        """Check the owner, because the key gives access to the memories of all users."""
        held: Any = self.client.read("GET", self._one(entry_id)) if entry_id else None
        return isinstance(held, dict) and held.get("user_id") == self.scope.flat


def _entries(answer: Any) -> Dicts:
    return [to_entry(each, "memory") for each in objects_in(answer, "results")]


def register(ctx: PluginContext) -> None:
    ctx.register_memory_provider(Mem0Provider())
