"""Secrets a user gives in the middle of a conversation: kept in .env, and shown to nobody."""

import asyncio
from collections.abc import Awaitable, Callable
from importlib import import_module

from hermes.config.home import Home
from hermes.config.loader import Loaded
from hermes.security import Redactor

ReadSecret = Callable[[str, str, str], Awaitable[str]]
"""Reads the value of a variable from the user, unseen: its name, what to ask, how to get it. ""
when the user would rather not."""


class SecretKeeper:
    """A `SecretAsker`. The model learns only whether there is a value now."""

    def __init__(self, home: Home, loaded: Loaded, redactor: Redactor, read: ReadSecret) -> None:
        self._home, self._loaded, self._redactor, self._read = home, loaded, redactor, read

    async def ask(self, name: str, prompt: str, help: str) -> bool:  # noqa: A002 - as the port says
        value = (await self._read(name, prompt, help)).strip()
        if not value:
            return False
        self._redactor.learn(value)
        edit = import_module("hermes.config.edit")  # slow to load, and seldom needed
        await asyncio.to_thread(edit.set_variable, self._home, name, value)
        self._loaded.remember(name, value)
        return True
