"""RetainDB (retaindb.com/docs, API v1).

`POST /v1/memory` stores one fact, `/v1/memory/ingest/session` a conversation, `/v1/memory/search`
searches. The documentation shows only the answers of writes and searches. The answer of `GET
/v1/memory/profile/{user}` is assumed to be a list named `memories` or `results` with objects as in
a search, and the body of `PUT /v1/memory/{id}` to be that of a write.
"""

import time
from typing import Any

from hermes.sdk import PluginContext
from hermes.sdk.memory import (
    MAX_LISTED,
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


class RetainDbOptions(ServiceOptions, frozen=True):
    project: str = "hermes"  #: Project of the account.


class RetainDbProvider(HttpServiceProvider):
    options_type = RetainDbOptions
    info = ServiceInfo(
        "retaindb",
        "RetainDB",
        (search_tool("retaindb_search"), store_tool("retaindb_add")),
        key="RETAINDB_API_KEY",
        key_url="https://www.retaindb.com/docs/api/authentication",
        address="https://api.retaindb.com",
    )

    def get_config_schema(self) -> Dicts:
        project = {"key": "project", "description": "Project of the account", "default": "hermes"}
        return [*super().get_config_schema(), project]

    def search(self, query: str, limit: int) -> Dicts:
        body = {"query": query, "top_k": limit, "include_pending": True, **self._owner}
        return _entries(self.client.read("POST", "/v1/memory/search", body))

    def list_entries(self, limit: int) -> Dicts:
        params = {"project": self.options.project, "include_pending": "true"}
        path = f"/v1/memory/profile/{quote_segment(self.scope.flat)}"
        return _entries(self.client.read("GET", path, params=params))[:limit]

    def store_turn(self, session: str, user: str, assistant: str) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        said = (("user", user), ("assistant", assistant))
        messages = [
            {"role": role, "content": text, "timestamp": now} for role, text in said if text
        ]
        body = {"session_id": session, "messages": messages, **self._owner}
        self.client.write("POST", "/v1/memory/ingest/session", body)

    def store_fact(self, text: str) -> None:
        self.client.write("POST", "/v1/memory", self._fact(text))

    def edit(self, entry_id: str, text: str) -> bool:
        if not self._belongs_to_user(entry_id):
            return False
        self.client.write("PUT", f"/v1/memory/{quote_segment(entry_id)}", self._fact(text))
        return True

    def forget(self, entry_id: str) -> bool:
        if not self._belongs_to_user(entry_id):
            return False
        self.client.write("DELETE", f"/v1/memory/{quote_segment(entry_id)}")
        return True

    @property
    def _owner(self) -> Dict:
        return {"project": self.options.project, "user_id": self.scope.flat}

    def _fact(self, text: str) -> Dict:
        return {"content": text, "memory_type": "factual", "write_mode": "async", **self._owner}

    def _belongs_to_user(self, entry_id: str) -> bool:
        """Check the owner, because the key gives access to the memories of all users."""
        return any(each["id"] == entry_id for each in self.list_entries(MAX_LISTED))


def _entries(answer: Any) -> Dicts:
    listed = answer.get("memories", answer.get("results")) if isinstance(answer, dict) else answer
    objects = (each.get("memory") or each for each in objects_in(listed))
    return [to_entry(each, "content") for each in objects if isinstance(each, dict)]


def register(ctx: PluginContext) -> None:
    ctx.register_memory_provider(RetainDbProvider())
