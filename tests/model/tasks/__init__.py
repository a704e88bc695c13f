"""Tasks for the embedded model, and how their outcome is checked.

Each TOML file is one kind of task; `basics.toml` is the small set of `make test-model`. In the
other files the first, third and fifth task are the half on which the prompt is tuned, and the
others the half whose results are reported. No prompt is an example of `small_model.json`.
"""

import getpass
import re
import subprocess
import sys
import time
import tomllib
from datetime import datetime
from pathlib import Path
from typing import Literal

import msgspec

from hermes.app.app import App
from hermes.app.sessions import SessionRequest
from hermes.core.events import ApprovalAsked, ToolStarted, TurnFinished
from hermes.core.messages import ToolCall, User
from hermes.core.ports import ApprovalAnswer

Half = Literal["tune", "report"]

FOLDER = Path(__file__).parent
BASICS = "basics"
RUN_SECONDS = 20


class Task(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A prompt in a folder. Existing files that no field names must stay as they are."""

    prompt: str
    kind: str = ""
    half: Half = "tune"
    files: dict[str, str] = {}  #: The folder at the start.
    calls: str = ""  #: Pattern that one call must match, as `name {arguments}`.
    says: tuple[str, ...] = ()  #: Patterns that the answer must match.
    never: tuple[str, ...] = ()  #: Patterns that it must not match.
    longest: int = 4_000  #: Characters of the answer.
    text: dict[str, str] = {}  #: Files with this content afterwards.
    has: dict[str, tuple[str, ...]] = {}  #: Files with lines that match.
    gone: tuple[str, ...] = ()  #: Files that are deleted afterwards.
    runs: dict[str, str] = {}  #: Commands whose output matches and whose exit code is 0.
    edits: tuple[str, ...] = ()  #: Other files that may change.

    def problem(self, folder: Path, answer: str, calls: list[ToolCall]) -> str:
        """Return what is wrong with the outcome; empty when the task is solved."""
        made = [f"{call.name} {call.arguments}" for call in calls]
        if self.calls and not any(re.search(self.calls, call) for call in made):
            return "no such call"
        for pattern in self.says:
            if not re.search(pattern.format_map(FACTS) if "{" in pattern else pattern, answer, _I):
                return f"the answer lacks {pattern}"
        if found := next((each for each in self.never if re.search(each, answer, _I)), ""):
            return f"the answer has {found}"
        if len(answer) > self.longest:
            return f"the answer has {len(answer)} characters"
        return self._file_problem(folder)

    def _file_problem(self, folder: Path) -> str:
        now = {
            str(path.relative_to(folder)): path.read_text("utf-8", "replace")
            for path in folder.rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        for path, content in self.text.items():
            if now.get(path, "").strip() != content:
                return f"{path} is {now.get(path)!r}"
        for path, patterns in self.has.items():
            if path not in now or not all(re.search(p, now[path], re.M) for p in patterns):
                return f"{path} is {now.get(path)!r}"
        if left := [path for path in self.gone if path in now]:
            return f"{left[0]} still exists"
        changing = {*self.text, *self.has, *self.gone, *self.edits}
        changed = [p for p, old in self.files.items() if p not in changing and now.get(p) != old]
        if changed:
            return f"{changed[0]} was changed"
        if not (changing or self.runs) and (new := sorted(now.keys() - self.files.keys())):
            return f"{new[0]} was created"
        for command, pattern in self.runs.items():
            done = subprocess.run(
                command, shell=True, cwd=folder, capture_output=True, text=True,
                timeout=RUN_SECONDS, stdin=subprocess.DEVNULL, check=False,
            )  # fmt: skip
            if done.returncode or not re.search(pattern, done.stdout.strip()):
                return f"{command} printed {done.stdout!r}"
        return ""


_I = re.IGNORECASE
FACTS = {
    "user": getpass.getuser(),
    "year": str(datetime.now().astimezone().year),
    "python": f"{sys.version_info.major}.{sys.version_info.minor}",
}


def load_tasks(*, basics: bool = False, half: Half | None = None) -> list[Task]:
    """Return the basic tasks, or the others: all sixty or one half."""
    tasks: list[Task] = []
    for file in sorted(FOLDER.glob("*.toml")):
        if (file.stem == BASICS) is basics:
            for number, table in enumerate(tomllib.loads(file.read_text("utf-8"))["task"]):
                fields = {**table, "kind": file.stem, "half": "report" if number % 2 else "tune"}
                tasks.append(msgspec.convert(fields, Task))
    return [task for task in tasks if half in (None, task.half)]


class Agreeable:
    """An approver that allows what concerns the folder of the task."""

    async def ask(self, question: ApprovalAsked) -> ApprovalAnswer:
        outside = re.search(r"(^|[\s'\"=])(/|~|\.\.)|\$HOME|sudo", question.subject)
        return ApprovalAnswer.DENY if outside else ApprovalAnswer.ONCE


class Attempt(msgspec.Struct, frozen=True):
    task: Task
    calls: list[ToolCall]
    answer: str
    problem: str
    seconds: float

    @property
    def row(self) -> str:
        calls = "; ".join(f"{call.name} {call.arguments}" for call in self.calls) or "no call"
        mark = f"FAIL ({self.problem})" if self.problem else "ok"
        answer = " ".join(self.answer.split())
        return (
            f"{self.seconds:5.1f} s  {self.task.kind}: {self.task.prompt}\n"
            f"         {calls}\n         {answer}\n         {mark}"
        )


async def attempt(app: App, task: Task, folder: Path) -> Attempt:
    """Let the agent of `app` do the task in `folder`, which is created."""
    folder.mkdir()
    for name, text in task.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    began = time.monotonic()
    agent = await app.agent(SessionRequest(folder, approver=Agreeable()))
    events = [event async for event in agent.run(User.say(task.prompt))]
    seconds = time.monotonic() - began
    calls = [event.call for event in events if isinstance(event, ToolStarted)]
    last = events[-1]
    assert isinstance(last, TurnFinished)
    problem = last.error if last.exit_code else task.problem(folder, last.text, calls)
    return Attempt(task, calls, last.text or last.error, problem, seconds)
