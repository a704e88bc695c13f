"""What the menu of the input offers in a conversation."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from hermes.agent import Agent
from hermes.app import personalities
from hermes.app.app import App
from hermes.skills import skill_commands
from hermes.store.records import SessionFilter
from hermes.tui.entry.offers import Offer
from hermes.tui.skins.loading import skin_names

MOST_SESSIONS = 50

Wait = Callable[[Coroutine[Any, Any, Any]], Any]
"""The result of work in the event loop, for another thread."""


class Offering:
    """Asked in threads."""

    def __init__(self, app: App, agent: Callable[[], Agent], skins: Path, wait: Wait) -> None:
        self._app, self._agent, self._skins, self._wait = app, agent, skins, wait

    def of(self, command: str) -> list[Offer]:
        """What may stand behind a command; behind "" the commands themselves."""
        match command:
            case "resume" | "sessions":
                return self._sessions()
            case "model":
                return self._models()
            case "personality":
                return [Offer(name) for name in personalities.names(self._app.loaded.settings)]
            case "skin":
                return [Offer(name) for name in skin_names(self._skins)]
            case _:
                return self._commands()

    def _sessions(self) -> list[Offer]:
        found = self._wait(self._app.store.sessions(SessionFilter(limit=MOST_SESSIONS)))
        return [Offer(each.title or each.id, each.preview, (each.id,)) for each in found]

    def _models(self) -> list[Offer]:
        target = self._app.session(self._agent()).target
        listed = self._app.providers.known.cached_list(target.base_url)
        aliases = self._app.loaded.settings.model_aliases
        known = [Offer(model.id) for model in (listed.models if listed else ())]
        return [*(Offer(name, "an alias") for name in aliases), *known]

    def _commands(self) -> list[Offer]:
        """Those of plugins and settings, and the skills."""
        plugins = self._app.extensions.commands.items()
        own = [Offer(name, each.description, takes_more=True) for name, each in plugins]
        quick = [Offer(name, "your own") for name in self._app.loaded.settings.quick_commands]
        session = self._app.session(self._agent()).skills
        skills = skill_commands(session.shelf.skills.skills(), session.context).items()
        return [*own, *quick, *(Offer(name, about, takes_more=True) for name, about in skills)]
