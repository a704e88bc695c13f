"""Supermemory (supermemory.ai/docs, API reference).

Turns are documents (`POST /v3/documents`), from which the service makes memories; those are at
`/v4/memories` and found with `POST /v4/search`. A user is a container tag, which the service keeps
apart from all others. Forgetting is soft: the service hides a memory and keeps it.
"""

from contextlib import suppress
from typing import Any

from hermes.memory.provider import Dict, Dicts
from hermes.memory.services.base import (
    HttpServiceProvider,
    ServiceInfo,
    objects_in,
    search_tool,
    store_tool,
    to_entry,
)
from hermes.memory.services.http import ServiceNotFound


class SupermemoryProvider(HttpServiceProvider):
    about = ServiceInfo(
        "supermemory",
        "Supermemory",
        (search_tool("supermemory_search"), store_tool("supermemory_add")),
        key="SUPERMEMORY_API_KEY",
        key_url="https://console.supermemory.ai",
        address="https://api.supermemory.ai",
    )

    def search(self, query: str, limit: int) -> Dicts:
        answer = self.api.read("POST", "/v4/search", {"q": query, "limit": limit, **self._mine})
        return [to_entry(each, "memory", "chunk") for each in objects_in(answer, "results")]

    def listed(self, limit: int) -> Dicts:
        body = {"containerTags": [self.scope.flat], "limit": limit, "page": 1}
        answer = self.api.read("POST", "/v4/memories/list", body)
        held = objects_in(answer, "memoryEntries")
        return [to_entry(each, "memory") for each in held if not each.get("isForgotten")]

    def learn_turn(self, session: str, user: str, assistant: str) -> None:
        content = f"user: {user}\nassistant: {assistant}"
        metadata = {"source": "hermes", "session": session}
        self.api.write(
            "POST", "/v3/documents", {"content": content, "metadata": metadata} | self._mine
        )

    def learn(self, text: str) -> None:
        self.api.write("POST", "/v4/memories", {"memories": [{"content": text}], **self._mine})

    def unlearn(self, text: str) -> None:
        with suppress(ServiceNotFound):
            self.api.write("DELETE", "/v4/memories", {"content": text, **self._mine})

    def edit(self, entry_id: str, text: str) -> bool:
        return self._change("PATCH", {"id": entry_id, "newContent": text})

    def forget(self, entry_id: str) -> bool:
        return self._change("DELETE", {"id": entry_id})

    @property
    def _mine(self) -> Dict:
        return {"containerTag": self.scope.flat}

    def _change(self, method: str, body: Dict) -> bool:
        try:
            answer: Any = self.api.write(method, "/v4/memories", {**body, **self._mine})
        except ServiceNotFound:
            return False
        return isinstance(answer, dict) and bool(answer.get("id"))
