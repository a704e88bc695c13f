"""Facts in a real file, at a time the test chooses."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_plugins.memory.holographic import HolographicProvider

DAY = 86_400


class Clock:
    def __init__(self) -> None:
        self.time = 1_700_000_000.0  # 14 November 2023

    def __call__(self) -> float:
        return self.time

    def sleep(self, days: float) -> None:
        self.time += days * DAY


class Memory:
    """A provider and the ways a test talks to it."""

    def __init__(self, provider: HolographicProvider) -> None:
        self.provider = provider

    def says(self, text: str) -> None:
        self.provider.sync_turn(text, "Fine.")

    def recalls(self, query: str) -> list[str]:
        """The facts, without bullets and dates."""
        lines = self.provider.prefetch(query).splitlines()
        return [line.removeprefix("- ").rpartition(" (")[0] for line in lines]

    def does(self, action: str, content: str = "", **arguments: Any) -> dict[str, Any]:
        told = {"action": action, "content": content, **arguments}
        answer: dict[str, Any] = json.loads(self.provider.handle_tool_call("fact_store", told))
        return answer

    def holds(self) -> set[str]:
        return {entry["text"] for entry in self.provider.entries()}

    def trust(self, text: str) -> float:
        (trust,) = (e["trust"] for e in self.provider.entries() if e["text"] == text)
        return float(trust)


Open = Callable[..., Memory]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def session(tmp_path: Path, clock: Clock, told: list[str]) -> Iterator[Open]:
    """Begins a session on the facts of this test."""
    opened: list[HolographicProvider] = []

    def begin(session_id: str = "s1", user: str = "", project: str = "", **options: Any) -> Memory:
        provider = HolographicProvider(now=clock, **options)
        home = str(tmp_path / "home")
        provider.initialize(
            session_id, hermes_home=home, user_id=user, project=project, tell=told.append
        )
        opened.append(provider)
        return Memory(provider)

    yield begin
    for provider in opened:
        provider.shutdown()


@pytest.fixture
def memory(session: Open) -> Memory:
    return session()
