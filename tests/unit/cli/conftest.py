"""One command as a user runs it, in a home of the test's own."""

import asyncio
import io
import time
from collections.abc import Callable
from typing import Any

import pytest

from hermes.cli.commands import update
from hermes.cli.context import Cli
from hermes.config.home import Home
from hermes.store.session_store import SessionStore, open_store
from tests.unit.cli.terminal import Hermes, Outcome, Terminal, run

Run = Callable[..., Outcome]


@pytest.fixture
def hermes(monkeypatch: pytest.MonkeyPatch) -> Run:
    """`hermes("backup", "-q")`. With `typed` it is run at a terminal, where that is answered;
    with `found` (`update` and `uninstall`) as if the program had been installed so."""

    def call(
        name: str, *words: str, typed: str | None = None, piped: str = "", profile=None, found=None
    ) -> Outcome:
        if found is not None:
            monkeypatch.setattr(update, "installation", lambda: found)
        stream = io.StringIO if typed is None else Terminal
        given = stream(typed if typed is not None else piped)
        return run(name, words, Cli(Home.resolve(profile), given, stream(), stream()))

    return call


# `hermes sessions …`, on a store in a home of its own.

DAY = 86_400


class Sessions(Hermes):
    def store(self, work: Callable[[SessionStore], Any]) -> Any:
        """Let `work` use the store directly."""

        async def use() -> Any:
            store = open_store("", self.home.state_db)
            try:
                return await work(store)
            finally:
                store.close()

        return asyncio.run(use())

    def add(self, session_id: str, *texts: str, **columns: Any) -> None:
        """A session in which the user and the assistant take turns."""
        record = {
            "id": session_id,
            "source": "cli",
            "model": "m",
            "started_at": time.time(),
            "messages": [
                {"role": ("user", "assistant")[number % 2], "content": text}
                for number, text in enumerate(texts)
            ],
            **columns,
        }
        self.store(lambda store: store.restore(record))

    def ids(self) -> set[str]:
        return {info["id"] for info in self("list", "--all", "--json").document}


@pytest.fixture
def empty(tmp_path) -> Sessions:
    return Sessions("sessions", tmp_path / "home")


@pytest.fixture
def stored_sessions(empty) -> Sessions:
    """A store with two sessions, one of them with a title and a tool call."""
    old = time.time() - 10 * DAY
    call = {"id": "c", "type": "function", "function": {"name": "terminal", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "list the\nfiles"},
        {"role": "assistant", "content": "I look.", "tool_calls": [call]},
        {"role": "tool", "content": "x" * 5000, "tool_call_id": "c", "tool_name": "terminal"},
    ]
    empty.add(
        "20260101_aaaa", started_at=old, ended_at=old + 60, title="the plan", messages=messages
    )
    empty.add("20260102_bbbb", "what is a zebra?", "a striped animal", source="telegram")
    return empty
