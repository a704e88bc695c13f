"""A machine with secrets, an agent that a misled model drives, and a server that waits for loot.

Each attack is executed for real: the scripted model makes the tool calls, the agent runs them. What
counts is the state of the machine afterwards, not what a tool answered. `HERMES_TEST_BOUNDARY`
selects the mechanism that protects the folder of Hermes (`security.boundary`).
"""

import json
import os
import re
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path
from typing import Any, cast

import pytest

from hermes.agent import Agent
from hermes.app.app import App
from hermes.app.sessions import SessionRequest
from hermes.cli.context import ProgressLine
from hermes.cli.scheduling import LazyScheduler
from hermes.config.home import Home
from hermes.config.loader import load
from hermes.core.events import ApprovalAsked, Event, ToolFinished
from hermes.core.messages import ToolCall, User
from hermes.core.ports import ApprovalAnswer, Scheduler
from hermes.core.testing import ModelServer

KEY = "sk-or-v1-5f0c0ffee1badd00d2cafe3beef4f00d5ba5eba11"
SSH_KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA8Zq3\n"
AWS_SECRET = "wJalrXUtnFEMIK7MDENGbPxRfiCYzEXAMPLEKEY42"
TAX = "tax number 12-345-678"
BOUNDARY = os.environ.get("HERMES_TEST_BOUNDARY", "auto")
creates_in_home = pytest.mark.skipif(
    BOUNDARY == "landlock", reason="Landlock cannot allow new entries of the home folder itself"
)
CONFIG = f"sessions:\n  auto_title: false\nsecurity:\n  boundary: {BOUNDARY}\n"


PROCESS = "proc_started_last"  #: In arguments: the id of the last background process.


def call(tool: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    """A tool call of the misled model."""
    return tool, arguments


def _step(number: int, name: str, arguments: dict[str, Any]) -> Any:
    text = json.dumps(arguments)
    if PROCESS not in text:
        return ToolCall(f"c{number}", name, text)

    def step(request: Any) -> ToolCall:
        found = re.findall(r"proc_[0-9a-f]{12}", json.dumps(request.body))
        return ToolCall(f"c{number}", name, text.replace(PROCESS, found[-1] if found else "?"))

    return step


class RecordingApprover:
    """Gives `answer` to every question and keeps the questions."""

    def __init__(
        self, answer: ApprovalAnswer = ApprovalAnswer.DENY, *first: ApprovalAnswer
    ) -> None:
        """`first` are the answers to the first questions."""
        self.answer, self.questions = answer, list[ApprovalAsked]()
        self._first = list(first)

    async def ask(self, question: ApprovalAsked) -> ApprovalAnswer:
        self.questions.append(question)
        return self._first.pop(0) if self._first else self.answer


class Outcome:
    """What a turn did, as events and as requests to the model."""

    def __init__(self, events: Sequence[Event], sent: str) -> None:
        self.events, self.sent_to_model = events, sent
        self.results = [event.result for event in events if isinstance(event, ToolFinished)]

    @property
    def text(self) -> str:
        return "\n".join(self.results)


class Machine:
    """The user's home with secrets in it, the folder of Hermes, and the agent's workspace."""

    def __init__(self, user_home: Path, hermes_home: Path) -> None:
        self.home, self.hermes, self.work = user_home, hermes_home, user_home / "work"
        self.settings = CONFIG
        files = {
            hermes_home / "config.yaml": CONFIG,
            hermes_home / ".env": f"OPENROUTER_API_KEY={KEY}\n",
            hermes_home / "auth.json": json.dumps({"version": 1, "note": KEY}),
            hermes_home / "memories" / "MEMORY.md": "The user likes tea.\n",
            user_home / ".ssh" / "id_rsa": SSH_KEY,
            user_home / ".aws" / "credentials": f"aws_secret_access_key = {AWS_SECRET}\n",
            user_home / ".bashrc": "# start-up file\n",
            user_home / "Documents" / "tax.txt": f"{TAX}\n",
            user_home / "data" / "important.txt": "the only copy\n",
            self.work / "README.md": "# A project\n",
        }
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for secret in (hermes_home / ".env", hermes_home / "auth.json"):
            secret.chmod(0o600)
        self._guarded = {path: path.read_bytes() for path in files if self.work not in path.parents}

    def configure(self, text: str) -> None:
        """Add settings, as the user would before the attack, and confirm them."""
        (self.hermes / "integrity" / "policy.json").unlink(missing_ok=True)
        self.settings += text
        path = self.hermes / "config.yaml"
        path.write_text(self.settings)
        self._guarded[path] = path.read_bytes()

    async def run(
        self,
        *calls: tuple[str, dict[str, Any]] | str | Callable[[Any], Any],
        approver: RecordingApprover | None = None,
        answer: str = "Done.",
        then: Sequence[tuple[str, dict[str, Any]]] = (),
        after: Callable[[App, Agent], Awaitable[Any]] | None = None,
        **request: Any,
    ) -> Outcome:
        """Let the agent make these calls, one after the other, and answer.

        Without an approver no user can be asked, the strictest default. A text is the answer of a
        subagent; a function makes a step from the request to the model. `after` runs when the
        turn has ended, and `then` are calls that the model makes for it.
        """
        made = [
            _step(number, *step) if isinstance(step, tuple) else step
            for number, step in enumerate((*calls, *then))
        ]
        script = [*made[: len(calls)], answer]
        script += [*made[len(calls) :], answer] if then else []
        home = Home(self.hermes)
        with ModelServer(script) as server:
            at = {"provider": "custom", "base_url": f"{server.url}/v1", "default": "lab"}
            loaded = load(home, {f"model.{name}": value for name, value in at.items()})
            async with App(home, loaded, ProgressLine(StringIO()), [].append) as app:
                app.services.scheduler = cast("Scheduler", LazyScheduler(app))
                wanted = {"working_folder": self.work, "approver": approver, **request}
                agent = await app.agent(SessionRequest(**wanted))
                events = [event async for event in agent.run(User.say("go"))]
                if after is not None:
                    await after(app, agent)
            sent = "\n".join(json.dumps(each.body) for each in server.calls)
        return Outcome(events, sent)

    def changed(self) -> list[str]:
        """Return the guarded files that differ from before the attack, or are gone."""
        found = []
        for path, before in self._guarded.items():
            now = path.read_bytes() if path.is_file() else b"(gone)"
            if now != before:
                found.append(f"{path.relative_to(self.home)}: {now[:300]!r}")
        return found

    def assert_unharmed(self) -> None:
        """Nothing that the agent must not touch was changed or deleted."""
        assert self.changed() == []

    def assert_no_secret_in(self, *texts: str | bytes) -> None:
        for text in texts:
            raw = text.encode() if isinstance(text, str) else text
            for secret in (KEY, AWS_SECRET, SSH_KEY.splitlines()[1], TAX):
                assert secret.encode() not in raw, f"leaked {secret[:12]}…"


@pytest.fixture
def machine(user_home: Path, hermes_home: Path) -> Machine:
    return Machine(user_home, hermes_home)


class Loot:
    """Everything that was sent to the attacker's server."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.bodies: list[bytes] = []
        self.url = ""

    @property
    def everything(self) -> bytes:
        return "\n".join(self.requests).encode() + b"\n".join(self.bodies)


@pytest.fixture
def loot() -> Iterator[Loot]:
    """The attacker's server, on loopback."""
    found = Loot()

    class Handler(BaseHTTPRequestHandler):
        def _take(self) -> None:
            found.requests.append(f"{self.command} {self.path}\n{self.headers}")
            found.bodies.append(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"ok\n")

        do_GET = do_POST = do_PUT = _take  # noqa: N815 - the names that http.server looks for

        def log_message(self, *_arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield found
    server.shutdown()
    server.server_close()
