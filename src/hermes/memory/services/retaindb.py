"""RetainDB (retaindb.com/docs, API v1).

`POST /v1/memory` keeps one fact, `/v1/memory/ingest/session` a conversation, `/v1/memory/search`
finds. The documentation shows the answers of writes and of the search only; what `GET
/v1/memory/profile/{user}` answers is taken to be a list called `memories` or `results`, of objects
as in the search, and the body of `PUT /v1/memory/{id}` to be that of the write.
"""

import time
from typing import Any

from hermes.memory.provider import Dict, Dicts
from hermes.memory.services.base import (
    MAX_LISTED,
    HttpServiceProvider,
    ServiceInfo,
    ServiceOptions,
    objects_in,
    search_tool,
    store_tool,
    to_entry,
)
from hermes.memory.services.http import quote_segment


class RetainDbOptions(ServiceOptions, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    project: str = "hermes"
    """Of the account."""


class RetainDbProvider(HttpServiceProvider):
    kind = RetainDbOptions
    about = ServiceInfo(
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
        body = {"query": query, "top_k": limit, "include_pending": True, **self._mine}
        return _entries(self.api.read("POST", "/v1/memory/search", body))

    def listed(self, limit: int) -> Dicts:
        params = {"project": self.options.project, "include_pending": "true"}
        path = f"/v1/memory/profile/{quote_segment(self.scope.flat)}"
        return _entries(self.api.read("GET", path, params=params))[:limit]

    def learn_turn(self, session: str, user: str, assistant: str) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        said = (("user", user), ("assistant", assistant))
        messages = [
            {"role": role, "content": text, "timestamp": now} for role, text in said if text
        ]
        body = {"session_id": session, "messages": messages, **self._mine}
        self.api.write("POST", "/v1/memory/ingest/session", body)

    def learn(self, text: str) -> None:
        self.api.write("POST", "/v1/memory", self._fact(text))

    def edit(self, entry_id: str, text: str) -> bool:
        if not self._is_mine(entry_id):
            return False
        self.api.write("PUT", f"/v1/memory/{quote_segment(entry_id)}", self._fact(text))
        return True

    def forget(self, entry_id: str) -> bool:
        if not self._is_mine(entry_id):
            return False
        self.api.write("DELETE", f"/v1/memory/{quote_segment(entry_id)}")
        return True

    @property
    def _mine(self) -> Dict:
        return {"project": self.options.project, "user_id": self.scope.flat}

    def _fact(self, text: str) -> Dict:
        return {"content": text, "memory_type": "factual", "write_mode": "async", **self._mine}

    def _is_mine(self, entry_id: str) -> bool:
        """The key opens the memories of all users, so the id alone is not enough."""
        return any(each["id"] == entry_id for each in self.listed(MAX_LISTED))


def _entries(answer: Any) -> Dicts:
    listed = answer.get("memories", answer.get("results")) if isinstance(answer, dict) else answer
    objects = (each.get("memory") or each for each in objects_in(listed))
    return [to_entry(each, "content") for each in objects if isinstance(each, dict)]
