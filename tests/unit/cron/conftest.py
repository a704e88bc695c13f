"""A clock that is set by hand, and a store of runs."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hermes.store.opening import open_store
from hermes.store.port import SessionStore

T0 = 1_800_000_000.0
"""On the hour."""


class HandClock:
    def __init__(self, at: float = T0) -> None:
        self.at = at
        self.passed = 0.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.at, UTC)

    def monotonic(self) -> float:
        return self.passed

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.01))


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionStore]:
    opened = open_store("", tmp_path / "state.db")
    yield opened
    opened.close()
