"""OpenViking: a context database with an HTTP server (docs.openviking.ai, API).

A conversation is a session of the server. When the user leaves it, it is committed and the server
derives memories from it. The key decides to which user they belong. With `account` in
`openviking.json` (a root key, or a server in trusted mode) the headers `X-OpenViking-Account` and
`X-OpenViking-User` decide. Without it only the owner of the default profile is served, because
memories of other users could not be separated.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from hermes.sdk import ConfigError, Home, PluginContext
from hermes.sdk.memory import (
    OWNER,
    Dicts,
    HttpServiceProvider,
    ServiceInfo,
    ServiceOptions,
    ServicePaused,
    ServiceScope,
    ServiceTool,
    objects_in,
    quote_segment,
    to_entry,
)

MEMORIES = "viking://~/memories"
KINDS = ("memory",)
MOST_READ = 8000  #: Characters.

SEARCH = ServiceTool(
    "viking_search",
    "Search what is known of the user.",
    "query",
    lambda service, query: {"found": service.search(query, service.options.recall_limit)},
)
READ = ServiceTool(
    "viking_read",
    "Read what viking_search found in full.",
    "id",
    lambda service, uri: {"text": service.read(uri)},
)


class OpenVikingOptions(ServiceOptions, frozen=True):
    account: str = ""  #: Of the server, for a root key or trusted mode.


class OpenVikingProvider(HttpServiceProvider):
    options_type = OpenVikingOptions
    info = ServiceInfo(
        "openviking",
        "OpenViking",
        (SEARCH, READ),
        key="OPENVIKING_API_KEY",
        key_url="https://docs.openviking.ai/en/guides/04-authentication",
        address="http://localhost:1933",
        address_variable="OPENVIKING_URL",
        own_server=True,
    )

    def __init__(self) -> None:
        super().__init__()
        self._user = ""
        self._known: set[str] = set()
        self._uncommitted: set[str] = set()

    def connect(self, home: Home, scope: ServiceScope, platform: str) -> None:
        if not self.options.account and not (home.is_default and scope.user == OWNER):
            raise ConfigError(
                "OpenViking keeps other users and profiles apart only with a root key",
                hint="set account in openviking.json",
            )
        self._user = scope.flat
        super().connect(home, scope, platform)

    def headers(self, key: str) -> Mapping[str, str]:
        said = {"X-API-Key": key} if key else {}
        if self.options.account:
            said["X-OpenViking-Account"] = self.options.account
            said["X-OpenViking-User"] = self._user
        return said

    def search(self, query: str, limit: int) -> Dicts:
        body = {"query": query, "limit": limit, "context_type": KINDS}
        answer = self.client.read("POST", "/api/v1/search/find", body)
        memories = objects_in(answer, "result", "memories")
        return [to_entry(each, "overview", "abstract", name="uri") for each in memories]

    def read(self, uri: str) -> str | None:
        answer: Any = self.client.read("GET", "/api/v1/content/read", params={"uri": uri})
        text = answer.get("result") if isinstance(answer, dict) else None
        return text[:MOST_READ] if isinstance(text, str) else None

    def list_entries(self, limit: int) -> Dicts:
        params = {"uri": MEMORIES, "recursive": "true", "node_limit": limit}
        answer = self.client.read("GET", "/api/v1/fs/ls", params=params)
        files = [each for each in objects_in(answer, "result") if not each.get("isDir")]
        return [to_entry(each, "abstract", "uri", name="uri") for each in files]

    def store_turn(self, session: str, user: str, assistant: str) -> None:
        for role, text in (("user", user), ("assistant", assistant)):
            if text:
                self._say(session, role, text)

    def store_fact(self, text: str) -> None:
        self._say(self.session, "user", text)

    def edit(self, entry_id: str, text: str) -> bool:
        if not self._is_memory(entry_id):
            return False
        body = {"uri": entry_id, "content": text, "mode": "replace"}
        self.client.write("POST", "/api/v1/content/write", body)
        return True

    def forget(self, entry_id: str) -> bool:
        if not self._is_memory(entry_id):
            return False
        self.client.write("DELETE", "/api/v1/fs", params={"uri": entry_id})
        return True

    def on_session_end(self, messages: Dicts) -> None:  # noqa: ARG002 - the server has them
        self._commit()

    def shutdown(self) -> None:
        try:
            self._commit()
        finally:
            super().shutdown()

    def _say(self, session: str, role: str, text: str) -> None:
        path = f"/api/v1/sessions/{quote_segment(session)}"
        if session not in self._known:
            self.client.read("GET", path, params={"auto_create": "true"})
            self._known.add(session)
        self.client.write("POST", f"{path}/messages", {"role": role, "content": text})
        self._uncommitted.add(session)

    def _commit(self) -> None:
        with suppress(ServicePaused):
            for session in sorted(self._uncommitted):
                self.client.write("POST", f"/api/v1/sessions/{quote_segment(session)}/commit")
                self._uncommitted.remove(session)

    def _is_memory(self, uri: str) -> bool:
        """Check first, because the server reports success for removing a missing file too."""
        if not uri.startswith("viking://") or "/memories/" not in uri:
            return False
        return self.client.read("GET", "/api/v1/fs/stat", params={"uri": uri}) is not None


def register(ctx: PluginContext) -> None:
    ctx.register_memory_provider(OpenVikingProvider())
