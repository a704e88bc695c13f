"""Supermemory (supermemory.ai/docs, API reference).

Turns are documents (`POST /v3/documents`), from which the service derives memories; these are at
`/v4/memories` and searched with `POST /v4/search`. A user is a container tag, which the service
isolates from others. Forgetting is soft: the service hides a memory but keeps it.
"""

from contextlib import suppress
from typing import Any

from hermes.sdk import PluginContext
from hermes.sdk.memory import (
    Dict,
    Dicts,
    HttpServiceProvider,
    ServiceInfo,
    ServiceNotFound,
    objects_in,
    search_tool,
    store_tool,
    to_entry,
)


class SupermemoryProvider(HttpServiceProvider):
    info = ServiceInfo(
        "supermemory",
        "Supermemory",
        (search_tool("supermemory_search"), store_tool("supermemory_add")),
        key="SUPERMEMORY_API_KEY",
        key_url="https://console.supermemory.ai",
        address="https://api.supermemory.ai",
    )

    def search(self, query: str, limit: int) -> Dicts:
        answer = self.client.read("POST", "/v4/search", {"q": query, "limit": limit, **self._owner})
        return [to_entry(each, "memory", "chunk") for each in objects_in(answer, "results")]

    def list_entries(self, limit: int) -> Dicts:
        body = {"containerTags": [self.scope.flat], "limit": limit, "page": 1}
        answer = self.client.read("POST", "/v4/memories/list", body)
        held = objects_in(answer, "memoryEntries")
        return [to_entry(each, "memory") for each in held if not each.get("isForgotten")]

    def store_turn(self, session: str, user: str, assistant: str) -> None:
        content = f"user: {user}\nassistant: {assistant}"
        metadata = {"source": "hermes", "session": session}
        self.client.write(
            "POST", "/v3/documents", {"content": content, "metadata": metadata} | self._owner
        )

    def store_fact(self, text: str) -> None:
        self.client.write("POST", "/v4/memories", {"memories": [{"content": text}], **self._owner})

    def remove_fact(self, text: str) -> None:
        with suppress(ServiceNotFound):
            self.client.write("DELETE", "/v4/memories", {"content": text, **self._owner})

    def edit(self, entry_id: str, text: str) -> bool:
        return self._change("PATCH", {"id": entry_id, "newContent": text})

    def forget(self, entry_id: str) -> bool:
        return self._change("DELETE", {"id": entry_id})

    @property
    def _owner(self) -> Dict:
        return {"containerTag": self.scope.flat}

    def _change(self, method: str, body: Dict) -> bool:
        try:
            answer: Any = self.client.write(method, "/v4/memories", {**body, **self._owner})
        except ServiceNotFound:
            return False
        return isinstance(answer, dict) and bool(answer.get("id"))


def register(ctx: PluginContext) -> None:
    ctx.register_memory_provider(SupermemoryProvider())
