"""`hermes chat` killed at random instants of turns with many tool calls, and gone on with.

What was reported as stored is there, no call runs twice, and the turn comes to its end.
"""

import logging
import os
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from hermes.config.home import Home
from hermes.core.events import (
    Compacted,
    Event,
    ModelCalled,
    ToolFinished,
    ToolStarted,
    TurnStarted,
    UsageReported,
    from_json,
)
from hermes.core.messages import INTERRUPTED_RESULT, ToolResult, User
from hermes.core.testing import ModelServer
from hermes.store.rows import repair_history
from hermes.store.session_store import open_store
from tests.integration.chat.conftest import HERMES
from tests.integration.storms.histories import Stored, check_acknowledged, check_file, stored
from tests.integration.storms.jobs import Jobs, runs
from tests.integration.storms.nursery import RESUME, Life, Order, nursery
from tests.integration.storms.scene import endpoint, write_home
from tests.screens.emulated import Emulated

SEED = int(os.environ.get("HERMES_TEST_STORM_SEED", "7"))
KILLS = 50  #: For each way to go on, with and without compactions: 200 in all.
CLI_KILLS = 10
EVENTS, SECONDS = 40, 0.4
"""The time of most turns that are not killed."""
MOST_IN_A_ROW = 4
ROOMY, TIGHT = 100_000, 4_000

log = logging.getLogger(__name__)


@pytest.fixture
def forked():
    """With the clean environment of the test."""
    with nursery() as started:
        yield started


class Scene(NamedTuple):
    """One job: its home, its folder, and what was said of it so far."""

    number: int
    home: Home
    folder: Path
    events: list[Event]

    @property
    def question(self) -> str:
        return f"please do job {self.number}"

    @property
    def done(self) -> str:
        return f"Job {self.number} is done."


class Reaper:
    """Takes jobs through as many lives as it needs."""

    def __init__(
        self,
        run: Callable[[Order], Life],
        jobs: Jobs,
        chance: random.Random,
        seconds: float = SECONDS,
    ) -> None:
        """A process that is not killed takes little longer than `seconds`."""
        self._run, self._jobs, self._chance, self._seconds = run, jobs, chance, seconds
        self.kills = 0
        self.kinds: Counter[str] = Counter()  #: The last event before each kill.

    async def finish(self, scene: Scene, go_on: list[str]) -> None:
        """Do the job, with some kills; `go_on` are the arguments of each later life."""
        start = ["chat", "--json", "-q", scene.question]
        arguments, kills = start, self._chance.randint(1, MOST_IN_A_ROW)
        while True:
            life = self._run(self._order(scene, arguments, killed=kills > 0))
            new = [from_json(line.encode()) for line in life.lines]
            scene.events.extend(new)
            self._jobs.compacted += sum([isinstance(event, Compacted) for event in new])
            found = await self._check(scene)
            if life.exit_code == -9:
                kills, self.kills = kills - 1, self.kills + 1
                self.kinds[type(new[-1]).__name__ if new else "nothing"] += 1
            else:
                assert (life.exit_code, life.errors) == (0, ""), life
            if scene.done in found.texts:
                self._check_end(scene, found)
                return
            asked = any(self._question_in(scene, found))
            assert life.exit_code == -9 or not asked, "the turn did not go on to its end"
            arguments = go_on if asked else [start[0], "--continue", *start[1:]]

    def _order(self, scene: Scene, arguments: list[str], *, killed: bool) -> Order:
        order = Order(str(scene.home.root), str(scene.folder), arguments)
        if not killed:
            return order
        if self._chance.random() < 0.5:
            return order._replace(seconds=self._chance.uniform(0, self._seconds))
        pause = self._chance.choice((0.0, self._chance.uniform(0, 0.01)))
        return order._replace(event=self._chance.randint(1, EVENTS), seconds=pause)

    def _question_in(self, scene: Scene, found: Stored) -> Iterator[bool]:
        for messages in found.conversations.values():
            for message in messages:
                yield isinstance(message, User) and str(scene.number) in message.text

    async def _check(self, scene: Scene) -> Stored:
        """Check that all that was reported of the job is stored."""
        check_file(scene.home.state_db)
        store = open_store("", scene.home.state_db)
        found = await stored(store)
        calls = sum([line.calls for line in await store.usage()])
        store.close()
        check_acknowledged(scene.events, found)
        for event in scene.events:
            match event:
                case TurnStarted() | Compacted():
                    assert event.session_id in found.conversations
                case ModelCalled():
                    assert any(self._question_in(scene, found)), "the question is lost"
                case ToolStarted():
                    assert event.call.id in found.calls, "a call began before it was stored"
        reported = sum([isinstance(event, UsageReported) for event in scene.events])
        assert calls >= reported, "the usage of a call is lost"
        twice = [call for call, count in runs(scene.folder).items() if count > 1]
        assert not twice, "calls ran twice"
        return found

    def _check_end(self, scene: Scene, found: Stored) -> None:
        """Each call has one result or none, and what has a result of its own ran once."""
        ran = runs(scene.folder)
        per_call = Counter(call for call, _ in found.results)
        assert not [call for call, count in per_call.items() if count > 1]
        for call, text in found.results:
            assert text == INTERRUPTED_RESULT or ran[call] == 1, (call, text)
        finished = {e.call_id: e.result for e in scene.events if isinstance(e, ToolFinished)}
        for call, texts in self._jobs.results.items():
            if call in per_call and not self._jobs.compacted:
                assert len(texts) == 1, f"the model saw several results of {call}"
                assert finished.get(call, *texts) in texts
        for messages in found.conversations.values():
            results = [each for each in repair_history(messages) if isinstance(each, ToolResult)]
            assert len({each.call_id for each in results}) == len(results)


@pytest.fixture
def make_scene(tmp_path):
    def make(number: int, server: ModelServer, window: int, **settings) -> Scene:
        folder = tmp_path / f"work-{number}"
        folder.mkdir()
        home = write_home(
            tmp_path / f"home-{number}",
            model={"provider": "custom:main", "default": "lab-model"},
            custom_providers=[endpoint(server, "main", "chat_completions", "lab-model", window)],
            approvals={"mode": "off"},
            **settings,
        )
        return Scene(number, home, folder, [])

    return make


@pytest.mark.parametrize("window", [ROOMY, TIGHT], ids=["roomy", "with compactions"])
@pytest.mark.parametrize("way", ["resume", "continue"])
async def test_killed_turn_continues_where_it_was(forked, make_scene, way, window):
    chance = random.Random(f"{SEED} {way} {window}")
    jobs = Jobs(size=5 if window == ROOMY else 800)
    reaper, number = Reaper(forked.run, jobs, chance), 1000
    with ModelServer(jobs) as server:
        while reaper.kills < KILLS:
            number += 1
            scene = make_scene(number, server, window, checkpoints={"enabled": False})
            go_on = ["chat", "--continue", "--json", "-q", f"go on with job {number}"]
            await reaper.finish(scene, [RESUME] if way == "resume" else go_on)
    log.warning("%d kills of %d jobs: %s", reaper.kills, number - 1000, dict(reaper.kinds))
    assert bool(jobs.compacted) == (window == TIGHT)
    assert len(reaper.kinds) >= 5, "the kills came all at the same place"


def run_command(order: Order) -> Life:
    """A life that begins with the start of the program."""
    with subprocess.Popen(
        [*HERMES, *order.arguments],
        cwd=order.folder,
        env={**os.environ, "HERMES_HOME": order.home},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        printed = b""
        if order.seconds is not None:
            while printed.count(b"\n") < order.event and (more := process.stdout.read(65_536)):
                printed += more
            time.sleep(order.seconds)
            process.kill()
        rest, errors = process.communicate()
    *lines, _incomplete = (printed + rest).decode().split("\n")
    return Life(lines, process.returncode, errors.decode())


async def test_killed_command_continues_where_it_was(make_scene):
    jobs = Jobs()
    reaper, number = Reaper(run_command, jobs, random.Random(SEED), seconds=1.5), 2000
    with ModelServer(jobs) as server:
        while reaper.kills < CLI_KILLS:
            number += 1
            go_on = ["chat", "--continue", "--json", "-q", f"go on with job {number}"]
            await reaper.finish(make_scene(number, server, ROOMY), go_on)
    log.warning("%d kills of %d jobs: %s", reaper.kills, number - 2000, dict(reaper.kinds))


def test_continued_conversation_resumes_its_turn(make_scene):
    jobs = Jobs()
    with ModelServer(jobs) as server:
        scene = make_scene(3001, server, ROOMY)
        start = ["chat", "--json", "-q", scene.question]
        order = Order(str(scene.home.root), str(scene.folder), start, event=12, seconds=0.0)
        assert run_command(order).exit_code == -9
        it = Emulated([*HERMES, "chat", "--continue"], scene.folder, HERMES_HOME=order.home)
        it.sees("The last turn was interrupted and continues now")
        it.sees(scene.done)
        it.press("ctrl-d")
        assert it.ended() == 0
    assert set(runs(scene.folder).values()) == {1}
