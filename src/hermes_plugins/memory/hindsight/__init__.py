"""Hindsight by Vectorize: the cloud or a self-hosted server (hindsight.vectorize.io, API).

A user is a memory bank, created when the first item is stored. A conversation is one growing
document. Forgetting invalidates a fact: it is never recalled again but stays in the bank for
audits. Observations, which the service derives, cannot be changed.
"""

from contextlib import suppress
from typing import Any

from hermes.sdk import PluginContext
from hermes.sdk.memory import (
    SLOW_SECONDS,
    Dict,
    Dicts,
    HttpServiceProvider,
    ServiceInfo,
    ServiceNotFound,
    ServiceTool,
    objects_in,
    quote_segment,
    safe_name,
    search_tool,
    to_entry,
)

TOKENS = 512  #: Limit of recalled facts; the result is also cut to the limit of a turn.

REFLECT = ServiceTool(
    "hindsight_reflect",
    "Let all that is known of the user answer a question.",
    "query",
    lambda service, query: {"answer": service.reflect(query)},
)


class HindsightProvider(HttpServiceProvider):
    info = ServiceInfo(
        "hindsight",
        "Hindsight",
        (search_tool("hindsight_recall"), REFLECT),
        key="HINDSIGHT_API_KEY",
        key_url="https://ui.hindsight.vectorize.io",
        address="https://api.hindsight.vectorize.io",
        address_variable="HINDSIGHT_API_URL",
        own_server=True,
    )

    def search(self, query: str, limit: int) -> Dicts:
        body = {"query": query, "budget": "low", "max_tokens": TOKENS}
        answer = self.client.read("POST", f"{self._bank}/memories/recall", body)
        return [to_entry(each, "text") for each in objects_in(answer, "results")][:limit]

    def reflect(self, query: str) -> str | None:
        body = {"query": query, "budget": "low"}
        path = f"{self._bank}/reflect"
        answer: Any = self.client.read("POST", path, body, seconds=SLOW_SECONDS)
        return answer.get("text") if isinstance(answer, dict) else None

    def list_entries(self, limit: int) -> Dicts:
        params = {"limit": limit, "state": "valid"}
        answer = self.client.read("GET", f"{self._bank}/memories/list", params=params)
        return [to_entry(each, "text") for each in objects_in(answer, "items")]

    def store_turn(self, session: str, user: str, assistant: str) -> None:
        text = f"user: {user}\nassistant: {assistant}\n"
        self._retain(
            {
                "content": text,
                "context": "conversation with the assistant",
                "document_id": session,
                "update_mode": "append",
            }
        )

    def store_fact(self, text: str) -> None:
        self._retain(
            {"content": text, "context": "note about the user", "document_id": _note(text)}
        )

    def remove_fact(self, text: str) -> None:
        """Delete the document of the note, because the service rephrases its facts."""
        with suppress(ServiceNotFound):
            self.client.write("DELETE", f"{self._bank}/documents/{_note(text)}")

    def edit(self, entry_id: str, text: str) -> bool:
        return self._curate(entry_id, {"text": text})

    def forget(self, entry_id: str) -> bool:
        return self._curate(entry_id, {"state": "invalidated"})

    @property
    def _bank(self) -> str:
        return f"/v1/default/banks/{quote_segment(self.scope.flat)}"

    def _retain(self, item: Dict) -> None:
        self.client.write("POST", f"{self._bank}/memories", {"items": [item], "async": True})

    def _curate(self, entry_id: str, body: Dict) -> bool:
        try:
            self.client.write("PATCH", f"{self._bank}/memories/{quote_segment(entry_id)}", body)
        except ServiceNotFound:
            return False
        return True


def _note(text: str) -> str:
    return f"note-{safe_name(text)}"


def register(ctx: PluginContext) -> None:
    ctx.register_memory_provider(HindsightProvider())
