"""Mem0: the platform, or a server of one's own.

Platform (docs.mem0.ai, API reference): `POST /v3/memories/add/`, `/v3/memories/search/` and
`/v3/memories/` with the user inside `filters`; one memory at `/v1/memories/{id}/`;
`Authorization: Token`. The open-source server has the same without versions, takes the user at the
top level and its key in `X-API-Key`; the body of its `PUT` is not documented and taken to be the
platform's.
"""

from collections.abc import Mapping
from typing import Any, Literal

from hermes.memory.provider import Dict, Dicts
from hermes.memory.services.base import (
    HttpServiceProvider,
    ServiceInfo,
    ServiceOptions,
    objects_in,
    search_tool,
    store_tool,
    to_entry,
)
from hermes.memory.services.http import quote_segment

PLATFORM = "https://api.mem0.ai"
ORIGIN = {"source": "hermes"}


class Mem0Options(ServiceOptions, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    api: Literal["", "platform", "server"] = ""
    """Which of the two is at `base_url`; empty: the platform at its own address, else a server."""


class Mem0Provider(HttpServiceProvider):
    kind = Mem0Options
    about = ServiceInfo(
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
            body = {"query": query, "filters": self._mine, "top_k": limit}
            answer = self.api.read("POST", "/v3/memories/search/", body)
        else:
            answer = self.api.read("POST", "/search", {"query": query, **self._mine})
        return _entries(answer)[:limit]

    def listed(self, limit: int) -> Dicts:
        if self._platform:
            pages = {"page": 1, "page_size": limit}
            answer = self.api.read("POST", "/v3/memories/", {"filters": self._mine}, params=pages)
        else:
            answer = self.api.read("GET", "/memories", params=self._mine)
        return _entries(answer)

    def learn_turn(self, session: str, user: str, assistant: str) -> None:
        messages = [{"role": "user", "content": user}, {"role": "assistant", "content": assistant}]
        said = [message for message in messages if message["content"]]
        self._add({"messages": said, "metadata": {**ORIGIN, "session": session}})

    def learn(self, text: str) -> None:
        messages = [{"role": "user", "content": text}]
        self._add({"messages": messages, "metadata": ORIGIN, "infer": False})

    def edit(self, entry_id: str, text: str) -> bool:
        if not self._is_mine(entry_id):
            return False
        self.api.write("PUT", self._one(entry_id), {"text": text})
        return True

    def forget(self, entry_id: str) -> bool:
        if not self._is_mine(entry_id):
            return False
        self.api.write("DELETE", self._one(entry_id))
        return True

    @property
    def _mine(self) -> Dict:
        return {"user_id": self.scope.flat}

    def _add(self, body: Dict) -> None:
        path = "/v3/memories/add/" if self._platform else "/memories"
        self.api.write("POST", path, {**self._mine, **body})

    def _one(self, entry_id: str) -> str:
        return (
            f"/v1/memories/{quote_segment(entry_id)}/"
            if self._platform
            else f"/memories/{quote_segment(entry_id)}"
        )

    def _is_mine(self, entry_id: str) -> bool:
        """The key opens the memories of all users, so the id alone is not enough."""
        held: Any = self.api.read("GET", self._one(entry_id)) if entry_id else None
        return isinstance(held, dict) and held.get("user_id") == self.scope.flat


def _entries(answer: Any) -> Dicts:
    return [to_entry(each, "memory") for each in objects_in(answer, "results")]
