"""Hindsight by Vectorize: the cloud, or a server of one's own (hindsight.vectorize.io, API).

A user is a memory bank, which comes into being with the first thing retained. A conversation is one
document that grows. Forgetting invalidates a fact: it is never recalled again, and stays in the
bank for audits. Observations, which the service derives, cannot be changed.
"""

from contextlib import suppress
from typing import Any

from hermes.memory.notes import safe_name
from hermes.memory.provider import Dict, Dicts
from hermes.memory.services.base import (
    HttpServiceProvider,
    ServiceInfo,
    ServiceTool,
    objects_in,
    search_tool,
    to_entry,
)
from hermes.memory.services.http import SLOW_SECONDS, ServiceNotFound, quote_segment

TOKENS = 512
"""Of recalled facts; what is too much for a turn is cut afterwards."""

REFLECT = ServiceTool(
    "hindsight_reflect",
    "Let all that is known of the user answer a question.",
    "query",
    lambda service, query: {"answer": service.reflect(query)},
)


class HindsightProvider(HttpServiceProvider):
    about = ServiceInfo(
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
        answer = self.api.read("POST", f"{self._bank}/memories/recall", body)
        return [to_entry(each, "text") for each in objects_in(answer, "results")][:limit]

    def reflect(self, query: str) -> str | None:
        body = {"query": query, "budget": "low"}
        path = f"{self._bank}/reflect"
        answer: Any = self.api.read("POST", path, body, seconds=SLOW_SECONDS)
        return answer.get("text") if isinstance(answer, dict) else None

    def listed(self, limit: int) -> Dicts:
        params = {"limit": limit, "state": "valid"}
        answer = self.api.read("GET", f"{self._bank}/memories/list", params=params)
        return [to_entry(each, "text") for each in objects_in(answer, "items")]

    def learn_turn(self, session: str, user: str, assistant: str) -> None:
        text = f"user: {user}\nassistant: {assistant}\n"
        self._retain(
            {
                "content": text,
                "context": "conversation with the assistant",
                "document_id": session,
                "update_mode": "append",
            }
        )

    def learn(self, text: str) -> None:
        self._retain(
            {"content": text, "context": "note about the user", "document_id": _note(text)}
        )

    def unlearn(self, text: str) -> None:
        """The service puts facts into its own words, so the document they came from goes."""
        with suppress(ServiceNotFound):
            self.api.write("DELETE", f"{self._bank}/documents/{_note(text)}")

    def edit(self, entry_id: str, text: str) -> bool:
        return self._curate(entry_id, {"text": text})

    def forget(self, entry_id: str) -> bool:
        return self._curate(entry_id, {"state": "invalidated"})

    @property
    def _bank(self) -> str:
        return f"/v1/default/banks/{quote_segment(self.scope.flat)}"

    def _retain(self, item: Dict) -> None:
        self.api.write("POST", f"{self._bank}/memories", {"items": [item], "async": True})

    def _curate(self, entry_id: str, body: Dict) -> bool:
        try:
            self.api.write("PATCH", f"{self._bank}/memories/{quote_segment(entry_id)}", body)
        except ServiceNotFound:
            return False
        return True


def _note(text: str) -> str:
    return f"note-{safe_name(text)}"
