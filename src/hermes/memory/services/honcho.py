"""Honcho, a service that reasons about its users (docs.honcho.dev, API v3).

A profile is a workspace, a user and the agent are peers in it, a conversation is a session of both.
What Honcho concludes about the user is recalled.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from hermes.config.home import Home
from hermes.core.errors import ConfigError
from hermes.memory.provider import Dicts
from hermes.memory.services.base import (
    OWNER,
    HttpServiceProvider,
    ServiceInfo,
    ServiceOptions,
    ServiceScope,
    ServiceTool,
    not_initialized,
    objects_in,
    open_client,
    options_file,
    redact_query,
    safe_id,
    search_tool,
    service_scope,
    to_entry,
)
from hermes.memory.services.http import SLOW_SECONDS, ServiceClient, quote_segment

# `<home>/honcho.json`, and what is fixed about the service.

Mode = Literal["hybrid", "context", "tools"]
Level = Literal["minimal", "low", "medium", "high", "max"]
MODES: tuple[str, ...] = get_args(Mode)
LEVELS: tuple[str, ...] = get_args(Level)
CHARS_PER_TOKEN = 4


class HonchoOptions(ServiceOptions, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    enabled: bool = True
    """Otherwise nothing is sent, recalled or offered."""
    user_peer: str = ""
    """What the owner is called; empty: `owner`. Other users have names of their own."""
    ai_peer: str = "hermes"
    """What the agent is called."""
    mode: Mode = "hybrid"
    """Whether what fits is recalled (context), looked for with tools (tools), or both."""
    reasoning: Level = "low"
    """How hard Honcho thinks when it is asked."""
    dialectic_chars: int = 0
    """Most characters of what Honcho is asked to think about between turns, which it charges for;
    0: it is not asked."""
    sessions: dict[str, str] = msgspec.field(default_factory=dict)
    """Folder: the session that conversations begun there belong to."""


ASK = ServiceTool(
    "honcho_ask",
    "Ask Honcho a question about the user.",
    "question",
    lambda service, question: {"answer": service.ask(question)},
)
ABOUT = ServiceInfo(
    "honcho",
    "Honcho",
    (search_tool("honcho_search"), ASK),
    key="HONCHO_API_KEY",
    key_url="https://app.honcho.dev/api-keys",
    address="https://api.honcho.dev",
    address_variable="HONCHO_BASE_URL",
    own_server=True,
)


# A workspace of Honcho and the two peers we care about, over its HTTP interface.

PAGE = 100
"""The most the service lists at once."""


class HonchoWorkspace:
    def __init__(self, api: ServiceClient, workspace: str, user: str, ai: str) -> None:
        self.api, self.name, self.user, self.ai = api, workspace, user, ai
        self._path = f"/v3/workspaces/{quote_segment(workspace)}"
        self._known: set[str] = set()

    def say(self, session: str, said: str, answered: str) -> None:
        self.ensure(session)
        texts = ((self.user, said), (self.ai, answered))
        messages = [{"peer_id": peer, "content": text} for peer, text in texts if text]
        path = f"{self._path}/sessions/{quote_segment(session)}/messages"
        self.api.write("POST", path, {"messages": messages})

    def conclude(self, text: str, session: str) -> None:
        self.ensure(session)
        body = {"conclusions": [{"content": text, **self._about_user}]}
        self.api.write("POST", f"{self._path}/conclusions", body)

    def ensure(self, session: str) -> None:
        """Get or create the workspace and the session with both peers; Honcho reasons about the
        user only."""
        if session in self._known:
            return
        self.api.read("POST", "/v3/workspaces", {"id": self.name})
        peers = {
            self.user: {"observe_me": True, "observe_others": False},
            self.ai: {"observe_me": False, "observe_others": False},
        }
        self.api.read("POST", f"{self._path}/sessions", {"id": session, "peers": peers})
        self._known.add(session)

    def query(self, question: str, limit: int) -> Dicts:
        body = {"query": question, "top_k": min(limit, PAGE), "filters": self._about_user}
        answer = self.api.read("POST", f"{self._path}/conclusions/query", body)
        return [to_entry(each, "content") for each in objects_in(answer)]

    def conclusions(self, limit: int) -> Dicts:
        answer = self._list("conclusions", {"filters": self._about_user}, limit)
        return [to_entry(each, "content") for each in answer]

    def holds(self, conclusion: str) -> bool:
        """Whether there is such a conclusion about the user."""
        held: Any = self.api.read("GET", self._conclusion(conclusion)) if conclusion else None
        return isinstance(held, dict) and held.get("observed_id") == self.user

    def delete(self, conclusion: str) -> bool:
        if not self.holds(conclusion):
            return False
        self.api.write("DELETE", self._conclusion(conclusion))
        return True

    def representation(self, peer: str, query: str, limit: int) -> str:
        """What Honcho holds of a peer, all or what fits a question."""
        body: dict[str, Any] = {"max_conclusions": limit}
        if query:
            body |= {"search_query": query, "search_top_k": limit}
        answer = self.api.read(
            "POST", f"{self._path}/peers/{quote_segment(peer)}/representation", body
        )
        return _text(answer, "representation")

    def card(self, peer: str) -> list[str]:
        answer: Any = self.api.read("GET", f"{self._path}/peers/{quote_segment(peer)}/card")
        lines = answer.get("peer_card") if isinstance(answer, dict) else None
        return [str(line) for line in lines or ()]

    def ask(self, question: str, level: str) -> str:
        body = {"query": question, "reasoning_level": level}
        path = f"{self._path}/peers/{quote_segment(self.user)}/chat"
        return _text(self.api.read("POST", path, body, seconds=SLOW_SECONDS), "content")

    def peers(self) -> Dicts:
        return self._list("peers", {}, PAGE)

    def sessions(self) -> Dicts:
        return self._list("sessions", {}, PAGE)

    def pending(self) -> int | None:
        """How much Honcho still has to think about; None when there is no such workspace."""
        answer: Any = self.api.read("GET", f"{self._path}/queue/status")
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
        size = {"size": min(limit, PAGE)}
        return objects_in(
            self.api.read("POST", f"{self._path}/{what}/list", body, params=size), "items"
        )


def _text(answer: Any, key: str) -> str:
    text = answer.get(key) if isinstance(answer, dict) else None
    return text.strip() if isinstance(text, str) else ""


# The memory provider over Honcho.

PONDERED = "In one or two sentences: what about the user matters for answering this? "


class HonchoProvider(HttpServiceProvider):
    about = ABOUT
    kind = HonchoOptions

    def __init__(self) -> None:
        super().__init__()
        self._opened: HonchoWorkspace | None = None
        self._mapped = ""

    def connect(self, home: Home, scope: ServiceScope, platform: str) -> None:
        self._opened = open_workspace(home, self.options, scope)
        self._api = self._opened.api
        if platform == "cli":
            with suppress(FileNotFoundError):  # the folder may be gone
                self._mapped = self.options.sessions.get(str(Path.cwd()), "")

    def tools(self) -> tuple[ServiceTool, ...]:
        return ABOUT.tools if self.options.enabled and self.options.mode != "context" else ()

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

    def ponder(self, query: str) -> Sequence[str]:
        if not self.options.dialectic_chars:
            return self.recall(query)
        thought = self.workspace.ask(f"{PONDERED}{query}", self.options.reasoning)
        return [thought[: self.options.dialectic_chars]]

    def search(self, query: str, limit: int) -> Dicts:
        return self.workspace.query(query, limit)

    def ask(self, text: str) -> str:
        return self.workspace.ask(redact_query(text), self.options.reasoning)

    def learn_turn(self, session: str, user: str, assistant: str) -> None:
        self.workspace.say(self._named(session), user, assistant)

    def learn(self, text: str) -> None:
        self.workspace.conclude(text, self._named(self.session))

    def listed(self, limit: int) -> Dicts:
        return self.workspace.conclusions(limit)

    def edit(self, entry_id: str, text: str) -> bool:
        """Honcho changes no conclusion: a new one comes, the old one goes."""
        if not self.workspace.holds(entry_id):
            return False
        self.learn(text)
        return self.forget(entry_id)

    def forget(self, entry_id: str) -> bool:
        return self.workspace.delete(entry_id)

    @property
    def workspace(self) -> HonchoWorkspace:
        if self._opened is None:
            raise not_initialized(self.name)
        return self._opened

    def _named(self, session: str) -> str:
        """A session in the workspace, which users share: theirs are never the same."""
        if self.scope.user == OWNER:
            return self._mapped or session
        return f"{self.scope.user}-{session}"

    @property
    def _recalls(self) -> bool:
        return bool(self.options.enabled and self.options.mode != "tools")


def open_workspace(
    home: Home, options: HonchoOptions, scope: ServiceScope | None = None
) -> HonchoWorkspace:
    """Of the owner, when nobody else is named. Raises `ConfigError`."""
    scope = scope or service_scope(home, options.namespace, "")
    own = options.user_peer if scope.user == OWNER else ""
    user, ai = safe_id(own) if own else scope.user, safe_id(options.ai_peer)
    if user == ai:
        raise ConfigError(
            f"the user and the agent are both called {user!r}",
            where=str(options_file(home, ABOUT.name)),
            hint="hermes honcho peer --ai NAME",
        )
    return HonchoWorkspace(open_client(ABOUT, options, home), scope.namespace, user, ai)
