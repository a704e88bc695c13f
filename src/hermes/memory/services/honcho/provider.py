"""The memory provider over Honcho."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from hermes.config.home import Home
from hermes.core.errors import ConfigError
from hermes.memory.provider import Dicts
from hermes.memory.services.about import ServiceTool
from hermes.memory.services.common import HttpService, not_ready, open_api
from hermes.memory.services.honcho.options import ABOUT, Options
from hermes.memory.services.honcho.workspace import Workspace
from hermes.memory.services.options import options_file
from hermes.memory.services.scope import OWNER, Scope, safe_id, scope_of
from hermes.memory.services.text import question

PONDERED = "In one or two sentences: what about the user matters for answering this? "


class Provider(HttpService):
    about = ABOUT
    kind = Options

    def __init__(self) -> None:
        super().__init__()
        self._opened: Workspace | None = None
        self._mapped = ""

    def connect(self, home: Home, scope: Scope, platform: str) -> None:
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
        return self.workspace.ask(question(text), self.options.reasoning)

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
    def workspace(self) -> Workspace:
        if self._opened is None:
            raise not_ready(self.name)
        return self._opened

    def _named(self, session: str) -> str:
        """A session in the workspace, which users share: theirs are never the same."""
        if self.scope.user == OWNER:
            return self._mapped or session
        return f"{self.scope.user}-{session}"

    @property
    def _recalls(self) -> bool:
        return bool(self.options.enabled and self.options.mode != "tools")


def open_workspace(home: Home, options: Options, scope: Scope | None = None) -> Workspace:
    """Of the owner, when nobody else is named. Raises `ConfigError`."""
    scope = scope or scope_of(home, options.namespace, "")
    own = options.user_peer if scope.user == OWNER else ""
    user, ai = safe_id(own) if own else scope.user, safe_id(options.ai_peer)
    if user == ai:
        raise ConfigError(
            f"the user and the agent are both called {user!r}",
            where=str(options_file(home, ABOUT.name)),
            hint="hermes honcho peer --ai NAME",
        )
    return Workspace(open_api(ABOUT, options, home), scope.namespace, user, ai)
