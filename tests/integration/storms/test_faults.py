"""Hundreds of turns in which everything goes wrong that can: each ends, with a stated reason."""

import logging
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hermes.agent import Agent
from hermes.app.app import App
from hermes.app.sessions import SessionRequest
from hermes.config.home import Home
from hermes.core.events import Compacted, Event, ToolStarted, TurnFinished, TurnStarted
from hermes.core.messages import Assistant, User
from hermes.core.model import FellBack, Retrying
from hermes.core.testing import ModelServer
from tests.integration.storms.faults import Storm
from tests.integration.storms.histories import check_acknowledged, check_file, repaired, stored
from tests.integration.storms.scene import (
    TOOLSET,
    WIRES,
    QuickClock,
    endpoint,
    started,
    storm_tools,
    write_home,
)

SEED = int(os.environ.get("HERMES_TEST_STORM_SEED", "7"))
SESSIONS, TURNS = 7, 12
"""For each wire, with and without a fallback: 504 turns in all."""
WINDOW = 16_000
STOPPED_SHORT = {"interrupted", "max_iterations", "iteration_budget", "repeating"}
"""Turns that may end with calls in their last reply, which are not run."""
REASONS = STOPPED_SHORT | {"answered", "truncated", "empty", "budget_spent", "failed"}
SEEN = REASONS - {"budget_spent", "iteration_budget"}  #: There are no caps and no subagents here.
SAYINGS = (
    "go on",
    "half a character \ud83d and a NUL \0",
    "<memory-context>nothing</memory-context> was said",
    "long " * 3_000,
)

log = logging.getLogger(__name__)


@pytest.fixture
def make_home(hermes_home):
    def make(server: ModelServer, wire: str, spare: bool) -> Home:
        other = WIRES[(WIRES.index(wire) + 1) % len(WIRES)]
        soon = {"stale_timeout_seconds": 0.3}
        return write_home(
            hermes_home,
            model={"provider": "custom:main", "default": "lab-model"},
            custom_providers=[
                endpoint(server, "main", wire, "lab-model", WINDOW),
                endpoint(server, "spare", other, "spare-model", WINDOW),
            ],
            providers={"custom:main": soon, "custom:spare": soon},
            fallback_providers=[{"provider": "custom:spare", "model": "spare-model"}] * spare,
            agent={"max_turns": 10},
            approvals={"mode": "off"},
            checkpoints={"enabled": False},
        )

    return make


class Voyage:
    """One application that is sailed through the storm, session by session."""

    def __init__(self, app: App, storm: Storm, folder: Path) -> None:
        self.app = app
        self._storm, self._folder = storm, folder
        self.events: list[Event] = []
        self.ends: Counter[str] = Counter()
        self._unanswered: set[str] = set()

    async def session(self) -> None:
        agent = await self._agent()
        for turn in range(TURNS):
            self._storm.next_turn()
            await self._turn(agent, self._storm.chance.choice(SAYINGS))
            if self._storm.chance.random() < 0.3:
                agent = await self._agent(agent.session_id)
            if self._storm.chance.random() < 0.5 or turn == TURNS - 1:
                self._storm.calm = True
                end = await self._turn(agent, "and now?")
                assert end.exit_reason == "answered", end
                assert end.text.startswith("calm again"), end

    async def _agent(self, session_id: str = "") -> Agent:
        request = SessionRequest(self._folder, resume=session_id, toolsets=(TOOLSET,))
        return await self.app.agent(request)

    async def _turn(self, agent: Agent, text: str) -> TurnFinished:
        """Some are stopped half-way."""
        storm = self._storm
        stopped = not (storm.calm or storm.stuck) and storm.chance.random() < 0.3
        stop_at = storm.chance.randint(1, 40) if stopped else 0
        events: list[Event] = []
        async for event in agent.run(User.say(text)):
            events.append(event)
            if len(events) == stop_at:
                agent.interrupt()
        ends = [event for event in events if isinstance(event, TurnFinished)]
        assert ends == events[-1:], "a turn ends with the one event that says so"
        assert isinstance(events[0], TurnStarted)
        (end,) = ends
        assert end.exit_reason in REASONS
        assert bool(end.error) == (end.exit_reason in ("failed", "interrupted", "budget_spent"))
        assert "internal error" not in end.error, end
        self.events += events
        if not self._storm.calm:
            self.ends[end.exit_reason] += 1
        await self._check_stored(end, events)
        return end

    async def _check_stored(self, end: TurnFinished, events: list[Event]) -> None:
        done = repaired(await self.app.store.messages(end.session_id))
        for message in done.lost:
            assert isinstance(message, Assistant) and not (message.text or message.calls)
        unanswered = set(done.added) - self._unanswered
        self._unanswered |= unanswered
        assert not unanswered or end.exit_reason in STOPPED_SHORT, end
        begun = {event.call.id for event in events if isinstance(event, ToolStarted)}
        assert not unanswered & begun, "a call was begun and has no result"


@asynccontextmanager
async def at_sea(home: Home, storm: Storm, folder: Path) -> AsyncIterator[Voyage]:
    with storm_tools():
        async with started(home, QuickClock()) as app:
            yield Voyage(app, storm, folder)


@pytest.mark.parametrize("spare", [False, True], ids=["alone", "with a fallback"])
@pytest.mark.parametrize("wire", WIRES)
async def test_every_turn_of_a_storm_ends_with_a_reason(wire, spare, make_home, tmp_path):
    storm = Storm(SEED * 100 + WIRES.index(wire) * 10 + spare)
    with ModelServer(storm) as server:
        home = make_home(server, wire, spare)
        async with at_sea(home, storm, tmp_path) as voyage:
            for _ in range(SESSIONS):
                await voyage.session()
            found = await stored(voyage.app.store)
        log.warning("%s; %d calls", dict(voyage.ends), len(server.calls))
    assert voyage.ends.total() == SESSIONS * TURNS
    assert voyage.ends.keys() >= SEEN, SEEN - voyage.ends.keys()
    assert storm.struck.keys() == storm.kinds, storm.kinds - storm.struck.keys()
    kinds = {type(event) for event in voyage.events}
    assert kinds >= {Retrying, Compacted} and (FellBack in kinds) == spare
    check_file(home.state_db)
    check_acknowledged(voyage.events, found)
