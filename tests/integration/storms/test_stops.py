"""A stop reaches the turn wherever it is, and the conversation continues.

What would go on for a minute by itself is stopped; the limits here are generous, and far from it.
"""

import asyncio
import json
import os
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import psutil
import pytest

from hermes.agent import Agent
from hermes.app.app import App
from hermes.app.sessions import SessionRequest
from hermes.config.home import Home
from hermes.core.errors import Interrupted
from hermes.core.events import (
    ApprovalAsked,
    CompactionStarted,
    Event,
    ModelCalled,
    QuestionAsked,
    SubagentStarted,
    TextFinished,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnFinished,
    UsageReported,
)
from hermes.core.messages import Assistant, Message, Text, ToolCall, User
from hermes.core.model import Retrying, TextDelta, Usage
from hermes.core.ports import ApprovalAnswer
from hermes.core.testing import ModelServer, Refuse, Stall, Step
from hermes.core.testing.http_server import RecordedRequest
from hermes.tools.registry import registry
from tests.integration.storms.histories import check_request, repaired
from tests.integration.storms.scene import TOOLSET, endpoint, started, write_home

MINUTE = 60.0
SOON = 25.0  #: Seconds for a stop, on a machine with a lot to do.
WINDOW = 20_000
SLEEP = f"sleep 61.{os.getpid()}"  #: A command that is known by its name.

Ready = Callable[[Sequence[Event], ModelServer], bool]


def seen(kind: type[Event]) -> Ready:
    return lambda events, _server: any(isinstance(event, kind) for event in events)


def calls(count: int) -> Ready:
    return lambda _events, server: len(server.calls) >= count


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(f"call-of-{name}", name, json.dumps(arguments))


class SilentUser:
    """Is asked, and does not answer."""

    async def ask(self, _question: ApprovalAsked) -> ApprovalAnswer:
        await asyncio.sleep(MINUTE)
        return ApprovalAnswer.ONCE

    async def clarify(self, _question: QuestionAsked) -> str:
        await asyncio.sleep(MINUTE)
        return "too late"


class Turnaround:
    """A conversation whose first turn is stopped and whose second one must work."""

    def __init__(self, app: App, agent: Agent, server: ModelServer) -> None:
        self.app, self.agent, self.server = app, agent, server

    async def stop(self, ready: Ready, text: str = "do it") -> list[Event]:
        """The events of a turn that is stopped as soon as it is where `ready` says."""
        events: list[Event] = []

        async def turn() -> None:
            async for event in self.agent.run(User.say(text)):
                events.append(event)  # noqa: PERF401 - it is looked at while it grows

        task = asyncio.ensure_future(turn())
        async with asyncio.timeout(3 * SOON):
            while not ready(events, self.server):
                assert not task.done(), f"the turn was over before it could be stopped: {events}"
                await asyncio.sleep(0.01)
        assert self.agent.interrupt()
        await asyncio.wait_for(task, SOON)
        end = events[-1]
        assert isinstance(end, TurnFinished)
        assert (end.exit_reason, end.exit_code) == ("interrupted", 130), end
        assert not self.agent.interrupt(), "the turn still runs"
        return events

    async def go_on(self) -> None:
        """The next turn works, and what was said and stored before is in order."""
        done = repaired(await self.app.store.messages(self.agent.session_id))
        assert (done.added, done.lost) == ((), ())
        async with asyncio.timeout(3 * SOON):
            *_, end = [event async for event in self.agent.run(User.say("are you there?"))]
        assert isinstance(end, TurnFinished)
        assert (end.exit_reason, end.text) == ("answered", "Here again."), end
        for request in self.server.calls:
            check_request(request)

    async def hangups(self, count: int) -> None:
        """Wait until the client has abandoned so many replies of the server."""
        async with asyncio.timeout(SOON):
            while self.server.hangups < count:
                await asyncio.sleep(0.01)


@pytest.fixture
def make_home(hermes_home):
    def make(url: ModelServer, **settings: Any) -> Home:
        return write_home(
            hermes_home,
            model={"provider": "custom:main", "default": "lab-model"},
            custom_providers=[endpoint(url, "main", "chat_completions", "lab-model", WINDOW)],
            **{"sessions": {"auto_title": False}, **settings},
        )

    return make


@pytest.fixture
def conversation(make_home, tmp_path):
    @asynccontextmanager
    async def begin(script: Any, history: tuple[Message, ...] = (), **settings: Any):
        user = SilentUser()
        request = SessionRequest(tmp_path, approver=user, clarifier=user, history=history)
        with ModelServer(script) as server:
            async with started(make_home(server, **settings)) as app:
                yield Turnaround(app, await app.agent(request), server)

    return begin


STALLED = Step((Text("a first finding, then nothing"),), faults=(Stall(2, MINUTE),))
CALLING = Step((Text("now"), call("terminal", command="echo 1")), faults=(Stall(3, MINUTE),))
TASKS = [{"goal": f"look {n}"} for n in range(3)]
SCRIPT = "import time\nprint('begun', flush=True)\ntime.sleep(61.09)"
STOPS: dict[str, tuple[list[Any], Ready, int]] = {
    "before the first word": ([Step((Text("a"),), faults=(Stall(0, MINUTE),))], calls(1), 1),
    "in a text": ([STALLED], seen(TextDelta), 1),
    "in a call": ([CALLING], seen(TextDelta), 1),
    "between two attempts": ([Refuse("server_error", retry_after=55)], seen(Retrying), 0),
    "running script": ([call("execute_code", code=SCRIPT)], seen(ToolOutput), 0),
    "question": ([call("clarify", question="Which one?")], seen(QuestionAsked), 0),
    "subagents": ([call("delegate_task", tasks=TASKS), *[STALLED] * 3], calls(4), 3),
}
"""Steps of the model, the moment of the stop, and how many replies the client abandons."""


@pytest.mark.parametrize(("steps", "ready", "hangups"), STOPS.values(), ids=STOPS)
async def test_a_turn_can_be_stopped(conversation, steps, ready, hangups):
    steps = [*steps, "Here again."]
    async with conversation(steps, approvals={"mode": "off"}) as turnaround:
        await turnaround.stop(ready)
        await turnaround.hangups(hangups)
        await turnaround.go_on()


async def test_an_endpoint_that_says_nothing_at_all(hermes_home, tmp_path):
    """A server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        model = {"provider": "custom", "base_url": url, "default": "lab-model"}
        async with started(write_home(hermes_home, model=model)) as app:
            agent = await app.agent(SessionRequest(tmp_path))
            turnaround = Turnaround(app, agent, ModelServer([]))
            await turnaround.stop(seen(ModelCalled))


def running(mark: str) -> list[psutil.Process]:
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if mark in " ".join(process.info["cmdline"] or ())
    ]


@pytest.mark.parametrize("shell", [SLEEP, f"trap '' TERM; {SLEEP}; true"], ids=["", "deaf"])
async def test_a_running_command(conversation, shell):
    async with conversation([call("terminal", command=shell), "Here again."]) as turnaround:
        events = await turnaround.stop(lambda *_: bool(running(SLEEP)))
        finished = [event for event in events if isinstance(event, ToolFinished)]
        assert [event.failed for event in finished] == [True]
        await turnaround.go_on()
    assert not running(SLEEP)


async def test_several_calls_at_once(conversation):
    """Those that wait for their turn too."""
    commands = [
        ToolCall(f"c{n}", "terminal", json.dumps({"command": f"{SLEEP}{n}"})) for n in range(5)
    ]
    async with conversation([commands, "Here again."]) as turnaround:
        events = await turnaround.stop(lambda *_: bool(running(SLEEP)))
        finished = [event.call_id for event in events if isinstance(event, ToolFinished)]
        assert sorted(finished) == [command.id for command in commands]
        await turnaround.go_on()
    assert not running(SLEEP)


async def test_unanswered_approval_can_be_stopped(conversation, tmp_path):
    (tmp_path / "junk").mkdir()
    ask = call("terminal", command="rm -rf junk")
    async with conversation([ask, "Here again."]) as turnaround:
        await turnaround.stop(seen(ApprovalAsked))
        await turnaround.go_on()
    assert (tmp_path / "junk").is_dir()


@pytest.mark.parametrize(
    ("work", "ready"),
    [
        (STALLED, calls(2)),
        (call("terminal", command=SLEEP), lambda *_: bool(running(SLEEP))),
        (call("terminal", command="rm -rf junk"), seen(ApprovalAsked)),
    ],
    ids=["stalled stream", "running command", "approval"],
)
async def test_a_subagent(conversation, work, ready):
    delegate = call("delegate_task", goal="look around")
    async with conversation([delegate, work, "Here again."]) as turnaround:
        events = await turnaround.stop(ready)
        (begun,) = [event for event in events if isinstance(event, SubagentStarted)]
        await turnaround.hangups(1 if work is STALLED else 0)
        await turnaround.go_on()
        store = turnaround.app.store
        assert (await store.info(begun.session_id)).end_reason == "interrupted"
        assert repaired(await store.messages(begun.session_id)).added == ()
    assert not running(SLEEP)


def past(words: int) -> tuple[Message, ...]:
    """Twenty questions and answers."""
    said = "a matter of length " * (words // 4)
    return tuple(
        message
        for n in range(20)
        for message in (User.say(f"{n}: {said}"), Assistant((Text(f"{n}: {said}"),)))
    )


LONG, SHORT = past(300), past(40)
NEARLY_FULL = Usage(input=14_500, output=3)
"""What a model may report for a conversation that is going to be too long with the next turn."""


class Summaries:
    """The script of a server whose first summaries stall, after so many pieces."""

    def __init__(self, after: int, usage: Usage | None = None) -> None:
        self._after, self._usage = after, usage
        self.asked = 0
        self.stalled = True

    def __call__(self, request: RecordedRequest) -> Step:
        if request.body.get("tools"):
            return Step((Text("Here again."),), usage=self._usage)
        self.asked += 1
        stall = (Stall(self._after, MINUTE),) if self.stalled else ()
        self.stalled = False
        return Step((Text("## Goal and more"),), faults=stall)


@pytest.mark.parametrize("after", [0, 2], ids=["before the first word", "in the summary"])
async def test_a_compaction(conversation, after):
    summaries = Summaries(after)
    async with conversation(summaries, LONG) as turnaround:
        events = await turnaround.stop(lambda *_: summaries.asked == 1)
        assert any(isinstance(event, CompactionStarted) for event in events)
        await turnaround.hangups(1)
        await turnaround.go_on()


async def test_a_turn_that_waits_for_a_compaction_begun_before_it(conversation):
    """Once it is stopped, the next turn does not wait for the same thing again."""
    summaries, late = Summaries(0, NEARLY_FULL), {"threshold": 0.8}
    async with conversation(summaries, past(118), compression=late) as turnaround:
        assert [event async for event in turnaround.agent.run(User.say("hello"))]
        async with asyncio.timeout(SOON):
            while not summaries.asked:
                await asyncio.sleep(0.01)
        await turnaround.stop(seen(CompactionStarted), "more " * 2_000)
        await turnaround.go_on()


async def test_a_compaction_that_the_user_asked_for(conversation):
    summaries = Summaries(0)
    async with conversation(summaries, SHORT) as turnaround:
        work = asyncio.ensure_future(turnaround.agent.compress())
        async with asyncio.timeout(SOON):
            while not summaries.asked:
                await asyncio.sleep(0.01)
        assert turnaround.agent.interrupt()
        await asyncio.wait({work}, timeout=SOON)
        with pytest.raises(Interrupted):
            work.result()
        await turnaround.hangups(1)
        await turnaround.go_on()


async def test_a_tool_of_a_plugin_that_does_not_listen(conversation):
    """It runs in a thread that cannot be stopped, so it is not awaited."""
    release = threading.Event()
    schema = {"type": "object", "properties": {}}
    registry.register("storm_deaf", TOOLSET, schema, lambda _args, **_: str(release.wait(MINUTE)))
    settings = {"platform_toolsets": {"cli": [TOOLSET]}, "approvals": {"mode": "off"}}
    try:
        async with conversation([call("storm_deaf"), "Here again."], **settings) as turnaround:
            await turnaround.stop(seen(ToolStarted))
            assert not release.is_set()
            await turnaround.go_on()
    finally:
        release.set()
        registry.remove("storm_deaf")


MOMENTS = (TextDelta, TextFinished, UsageReported, ToolStarted, ToolFinished, TurnFinished)


@pytest.mark.parametrize("kind", MOMENTS)
async def test_a_stop_at_the_very_moment_of_an_event(conversation, kind):
    """From within the renderer, so to say: whatever comes next does not come."""
    steps = [[Text("Let me look."), call("terminal", command="echo 1")], "Here again."]
    async with conversation(
        lambda _request: steps.pop(0) if len(steps) > 1 else steps[0]
    ) as turnaround:
        agent, events = turnaround.agent, []
        async for event in agent.run(User.say("do it")):
            events.append(event)
            if isinstance(event, kind):
                agent.interrupt()
        expected = "answered" if kind is TurnFinished else "interrupted"
        assert events[-1].exit_reason == expected
        done = repaired(await turnaround.app.store.messages(agent.session_id))
        begun = {event.call.id for event in events if isinstance(event, ToolStarted)}
        assert not begun & set(done.added)
        *_, end = [event async for event in agent.run(User.say("are you there?"))]
        assert end.exit_reason == "answered"
        for request in turnaround.server.calls:
            check_request(request)
