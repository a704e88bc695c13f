"""Honcho, a service that reasons about its users (docs.honcho.dev, API v3).

A profile is a workspace, the user and the agent are peers in it, a conversation is a session of
both. Conclusions of Honcho about the user are recalled. Options are in `<home>/honcho.json`.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from hermes.sdk import ConfigError, Home, PluginContext
from hermes.sdk.memory import (
    OWNER,
    SLOW_SECONDS,
    Dicts,
    HttpServiceProvider,
    ServiceClient,
    ServiceInfo,
    ServiceOptions,
    ServiceScope,
    ServiceTool,
    not_initialized,
    objects_in,
    open_client,
    options_file,
    quote_segment,
    redact_query,
    safe_id,
    search_tool,
    service_scope,
    to_entry,
)

Mode = Literal["hybrid", "context", "tools"]
Level = Literal["minimal", "low", "medium", "high", "max"]
MODES: tuple[str, ...] = get_args(Mode)
LEVELS: tuple[str, ...] = get_args(Level)
CHARS_PER_TOKEN = 4


class HonchoOptions(ServiceOptions, frozen=True):
    enabled: bool = True  #: When false, nothing is sent or recalled and there are no tools.
    user_peer: str = ""
    """Peer name of the owner; empty for `owner`. Names of other users are derived."""
    ai_peer: str = "hermes"  #: Peer name of the agent.
    mode: Mode = "hybrid"
    """Recall into turns (context), search with tools (tools), or both (hybrid)."""
    reasoning: Level = "low"  #: Reasoning effort of Honcho's answers.
    dialectic_chars: int = 0
    """Longest answer Honcho generates between turns, which it charges for; 0 disables this."""
    sessions: dict[str, str] = msgspec.field(default_factory=dict)
    """Maps a working folder to the session of conversations started there."""


ASK = ServiceTool(
    "honcho_ask",
    "Ask Honcho a question about the user.",
    "question",
    lambda service, question: {"answer": service.ask(question)},
)
PROFILE = ServiceTool(
    "honcho_profile",
    "Show what Honcho knows of the user.",
    "",
    lambda service, _text: service.profile(),
)
HONCHO = ServiceInfo(
    "honcho",
    "Honcho",
    (search_tool("honcho_search"), ASK, PROFILE),
    key="HONCHO_API_KEY",
    key_url="https://app.honcho.dev/api-keys",
    address="https://api.honcho.dev",
    address_variable="HONCHO_BASE_URL",
    own_server=True,
)


PAGE_SIZE = 100  #: Largest number of items the service lists at once.


class HonchoWorkspace:
    """HTTP calls for one workspace and its two peers, the user and the agent."""

    def __init__(self, client: ServiceClient, workspace: str, user: str, ai: str) -> None:
        self.client, self.name, self.user, self.ai = client, workspace, user, ai
        self._path = f"/v3/workspaces/{quote_segment(workspace)}"
        self._created: set[str] = set()  #: Sessions that are known to exist.

    def add_turn(self, session: str, user: str, assistant: str) -> None:
        self.ensure_session(session)
        texts = ((self.user, user), (self.ai, assistant))
        messages = [{"peer_id": peer, "content": text} for peer, text in texts if text]
        path = f"{self._path}/sessions/{quote_segment(session)}/messages"
        self.client.write("POST", path, {"messages": messages})

    def conclude(self, text: str, session: str) -> None:
        self.ensure_session(session)
        body = {"conclusions": [{"content": text, **self._about_user}]}
        self.client.write("POST", f"{self._path}/conclusions", body)

    def ensure_session(self, session: str) -> None:
        """Get or create the workspace and the session with both peers; Honcho reasons only about
        the user."""
        if session in self._created:
            return
        self.client.read("POST", "/v3/workspaces", {"id": self.name})
        peers = {
            self.user: {"observe_me": True, "observe_others": False},
            self.ai: {"observe_me": False, "observe_others": False},
        }
        self.client.read("POST", f"{self._path}/sessions", {"id": session, "peers": peers})
        self._created.add(session)

    def query(self, question: str, limit: int) -> Dicts:
        body = {"query": question, "top_k": min(limit, PAGE_SIZE), "filters": self._about_user}
        answer = self.client.read("POST", f"{self._path}/conclusions/query", body)
        return [to_entry(each, "content") for each in objects_in(answer)]

    def conclusions(self, limit: int) -> Dicts:
        answer = self._list("conclusions", {"filters": self._about_user}, limit)
        return [to_entry(each, "content") for each in answer]

    def has_conclusion(self, conclusion: str) -> bool:
        """Return whether the conclusion exists and concerns the user."""
        held: Any = self.client.read("GET", self._conclusion(conclusion)) if conclusion else None
        return isinstance(held, dict) and held.get("observed_id") == self.user

    def delete(self, conclusion: str) -> bool:
        if not self.has_conclusion(conclusion):
            return False
        self.client.write("DELETE", self._conclusion(conclusion))
        return True

    def representation(self, peer: str, query: str, limit: int) -> str:
        """Return Honcho's text about a peer: all of it, or what matches a query."""
        body: dict[str, Any] = {"max_conclusions": limit}
        if query:
            body |= {"search_query": query, "search_top_k": limit}
        answer = self.client.read(
            "POST", f"{self._path}/peers/{quote_segment(peer)}/representation", body
        )
        return _text(answer, "representation")

    def card(self, peer: str) -> list[str]:
        answer: Any = self.client.read("GET", f"{self._path}/peers/{quote_segment(peer)}/card")
        lines = answer.get("peer_card") if isinstance(answer, dict) else None
        return [str(line) for line in lines or ()]

    def ask(self, question: str, level: str) -> str:
        body = {"query": question, "reasoning_level": level}
        path = f"{self._path}/peers/{quote_segment(self.user)}/chat"
        return _text(self.client.read("POST", path, body, seconds=SLOW_SECONDS), "content")

    def peers(self) -> Dicts:
        return self._list("peers", {}, PAGE_SIZE)

    def sessions(self) -> Dicts:
        return self._list("sessions", {}, PAGE_SIZE)

    def pending(self) -> int | None:
        """Return the number of queued work units; None if there is no such workspace."""
        answer: Any = self.client.read("GET", f"{self._path}/queue/status")
        if not isinstance(answer, dict):
            return None
        counts = (answer.get(key) for key in ("pending_work_units", "in_progress_work_units"))
        return sum(count for count in counts if isinstance(count, int))

    @property
    def _about_user(self) -> dict[str, str]:
        return {"observer_id": self.user, "observed_id": self.user}

    def _conclusion(self, name: str) -> str:
        return f"{self._path}/conclusions/{quote_segment(name)}"

    def _list(self, what: str, body: dict[str, Any], limit: int) -> Dicts:
        size = {"size": min(limit, PAGE_SIZE)}
        return objects_in(
            self.client.read("POST", f"{self._path}/{what}/list", body, params=size), "items"
        )


def _text(answer: Any, key: str) -> str:
    text = answer.get(key) if isinstance(answer, dict) else None
    return text.strip() if isinstance(text, str) else ""


# The memory provider over Honcho.

AHEAD_QUESTION = "In one or two sentences: what about the user matters for answering this? "


class HonchoProvider(HttpServiceProvider):
    info = HONCHO
    options_type = HonchoOptions

    def __init__(self) -> None:
        super().__init__()
        self._opened: HonchoWorkspace | None = None
        self._mapped = ""

    def connect(self, home: Home, scope: ServiceScope, platform: str) -> None:
        self._opened = open_workspace(home, self.options, scope)
        self._client = self._opened.client
        if platform == "cli":
            with suppress(FileNotFoundError):  # the folder may have been deleted
                self._mapped = self.options.sessions.get(str(Path.cwd()), "")

    def tools(self) -> tuple[ServiceTool, ...]:
        return HONCHO.tools if self.options.enabled and self.options.mode != "context" else ()

    def system_prompt_block(self) -> str:
        return super().system_prompt_block() if self.options.enabled else ""

    def prefetch(self, query: str, **kwargs: Any) -> str:
        return super().prefetch(query, **kwargs) if self._recalls else ""

    def queue_prefetch(self, query: str, **kwargs: Any) -> None:
        if self._recalls:
            super().queue_prefetch(query, **kwargs)

    def sync_turn(self, user: str, assistant: str, **kwargs: Any) -> None:
        if self.options.enabled:
            super().sync_turn(user, assistant, **kwargs)

    def on_memory_write(self, action: str, target: str, content: str) -> None:
        if self.options.enabled:
            super().on_memory_write(action, target, content)

    def recall(self, query: str) -> Sequence[str]:
        text = self.workspace.representation(self.workspace.user, query, self.options.recall_limit)
        lines = (line.strip().removeprefix("- ") for line in text.splitlines())
        return [line for line in lines if line and not line.startswith("#")]

    def recall_ahead(self, query: str) -> Sequence[str]:
        if not self.options.dialectic_chars:
            return self.recall(query)
        thought = self.workspace.ask(f"{AHEAD_QUESTION}{query}", self.options.reasoning)
        return [thought[: self.options.dialectic_chars]]

    def search(self, query: str, limit: int) -> Dicts:
        return self.workspace.query(query, limit)

    def profile(self) -> dict[str, Any]:
        """Return the card of the user, and Honcho's text about the user."""
        user = self.workspace.user
        about = self.workspace.representation(user, "", self.options.recall_limit)
        return {"card": self.workspace.card(user), "profile": about}

    def ask(self, text: str) -> str:
        return self.workspace.ask(redact_query(text), self.options.reasoning)

    def store_turn(self, session: str, user: str, assistant: str) -> None:
        self.workspace.add_turn(self._session_name(session), user, assistant)

    def store_fact(self, text: str) -> None:
        self.workspace.conclude(text, self._session_name(self.session))

    def list_entries(self, limit: int) -> Dicts:
        return self.workspace.conclusions(limit)

    def edit(self, entry_id: str, text: str) -> bool:
        """Add a new conclusion and delete the old one, because conclusions are immutable."""
        if not self.workspace.has_conclusion(entry_id):
            return False
        self.store_fact(text)
        return self.forget(entry_id)

    def forget(self, entry_id: str) -> bool:
        return self.workspace.delete(entry_id)

    @property
    def workspace(self) -> HonchoWorkspace:
        if self._opened is None:
            raise not_initialized(self.name)
        return self._opened

    def _session_name(self, session: str) -> str:
        """Return the session's name in the workspace. Users share it, so the name has a prefix."""
        if self.scope.user == OWNER:
            return self._mapped or session
        return f"{self.scope.user}-{session}"

    @property
    def _recalls(self) -> bool:
        return bool(self.options.enabled and self.options.mode != "tools")


def open_workspace(
    home: Home, options: HonchoOptions, scope: ServiceScope | None = None
) -> HonchoWorkspace:
    """Return the workspace for `scope`, by default the owner's. Raises `ConfigError`."""
    scope = scope or service_scope(home, options.namespace, "")
    own = options.user_peer if scope.user == OWNER else ""
    user, ai = safe_id(own) if own else scope.user, safe_id(options.ai_peer)
    if user == ai:
        raise ConfigError(
            f"the user and the agent are both called {user!r}",
            where=str(options_file(home, HONCHO.name)),
            hint="hermes honcho peer --ai NAME",
        )
    return HonchoWorkspace(open_client(HONCHO, options, home), scope.namespace, user, ai)


def register(ctx: PluginContext) -> None:
    ctx.register_memory_provider(HonchoProvider())
