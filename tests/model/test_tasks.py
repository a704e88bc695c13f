"""Simple tool tasks done from end to end by the real loop with the smallest model."""

import sys
import time
from pathlib import Path

import msgspec
import pytest

from hermes.app.app import App
from hermes.app.sessions import SessionRequest
from hermes.config.home import Home
from hermes.config.loader import load
from hermes.core.events import ApprovalAsked, ToolStarted, TurnFinished
from hermes.core.messages import ToolCall, User
from hermes.core.ports import ApprovalAnswer
from tests.model.conftest import Silent
from tests.model.tasks import FILES, TASKS, Task

pytestmark = [pytest.mark.model, pytest.mark.internet, pytest.mark.timeout(600)]

SHARE_REQUIRED = 0.8


class Agreeable:
    """An approver that allows everything, once."""

    async def ask(self, question: ApprovalAsked) -> ApprovalAnswer:
        return ApprovalAnswer.ONCE


class Attempt(msgspec.Struct, frozen=True):
    task: Task
    calls: list[ToolCall]
    answer: str
    done: bool
    seconds: float

    @property
    def row(self) -> str:
        calls = "; ".join(f"{call.name} {call.arguments}" for call in self.calls) or "no call"
        mark = "ok  " if self.done else "FAIL"
        answer = " ".join(self.answer.split())
        return (
            f"{mark} {self.seconds:5.1f} s  {self.task.prompt}\n        {calls}\n        {answer}"
        )


async def attempt(app: App, task: Task, folder: Path) -> Attempt:
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    began = time.monotonic()
    agent = await app.agent(SessionRequest(folder, approver=Agreeable()))
    events = [event async for event in agent.run(User.say(task.prompt))]
    seconds = time.monotonic() - began
    calls = [event.call for event in events if isinstance(event, ToolStarted)]
    last = events[-1]
    assert isinstance(last, TurnFinished)
    done = last.exit_code == 0 and task.called(calls) and task.outcome(folder, last.text)
    return Attempt(task, calls, last.text or last.error, done, seconds)


async def test_the_embedded_model_does_most_simple_tasks(home_with_weights, tmp_path, capsys):
    home = Home(home_with_weights)
    attempts = []
    async with App(home, load(home), Silent(), print) as app:
        for number, task in enumerate(TASKS):
            folder = tmp_path / str(number)
            folder.mkdir()
            attempts.append(await attempt(app, task, folder))
    done = sum(result.done for result in attempts)
    table = "\n".join(result.row for result in attempts)
    with capsys.disabled():
        sys.stdout.write(f"\n{table}\n{done} of {len(attempts)} tasks done\n")
    assert done >= SHARE_REQUIRED * len(attempts), table
