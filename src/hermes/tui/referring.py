"""Messages with what they refer to: `@file:…`, `@diff` and the like."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from hermes.agent import Agent
from hermes.app.app import App
from hermes.core.messages import Image, Text, User


class Referring:
    """Expands the references in a message of the user."""

    def __init__(
        self, app: App, agent: Callable[[], Agent], folder: Path, tell: Callable[[str], object]
    ) -> None:
        """`tell` gets what could not be attached, and what is large."""
        self._app, self._agent, self._folder, self._tell = app, agent, folder, tell

    async def __call__(self, message: User) -> User:
        """Raises `UsageError` when it would be too much."""
        if "@" not in message.text:
            return message
        session, home = self._app.session(self._agent()), self._app.home
        desks = import_module("hermes.app.references.desk")
        guard = import_module("hermes.security.paths").Guard
        desk = desks.Desk(
            guard=guard(Path.home(), (self._folder,), (home.root, home.default_root)),
            folder=self._folder,
            context_length=session.target.profile.context_length,
            redact=self._app.redact,
            fetch=desks.page_fetch(session.workbench.bench),
            images=session.target.profile.images is not False,
        )
        done = await import_module("hermes.app.references.expanding").expand(message.text, desk)
        for warning in done.warnings:
            self._tell(warning)
        pictures = [part for part in message.parts if isinstance(part, Image)]
        parts: tuple[Text | Image, ...] = (*done.message.parts, *pictures)
        return User(parts)
