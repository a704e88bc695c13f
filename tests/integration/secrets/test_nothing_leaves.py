"""Secrets in files, variables, output and errors, and everything that leaves the process."""

import base64
import json
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes.core.messages import ToolCall
from hermes.core.testing import ModelServer
from tests.integration.chat.conftest import at, hermes, work  # noqa: F401 - fixtures
from tests.integration.secrets import kinds

SECRETS = kinds.values()


def test_there_are_forty_kinds() -> None:
    assert len(set(SECRETS.values())) >= 40


def calls() -> list[ToolCall]:
    """Every way in which a tool can come across the file and the variables."""
    script = "print(open('secrets.txt').read()); import sys; sys.exit(open('secrets.txt').read())"
    tools = (
        "from hermes_tools import read_file; print(read_file('secrets.txt', limit=400)['content'])"
    )
    given = [
        ("read_file", {"path": "secrets.txt"}),
        ("search_files", {"pattern": ".", "path": "secrets.txt", "limit": 500}),
        ("terminal", {"command": "cat secrets.txt"}),
        ("terminal", {"command": "cat secrets.txt >&2; exit 3"}),
        ("terminal", {"command": "env"}),
        ("terminal", {"command": "while read -r line; do printf '%s' \"$line\"; sleep 0.01; echo; "
                                 "done <secrets.txt"}),
        ("terminal", {"command": "cat secrets.txt; sleep 60", "timeout": 2}),
        ("terminal", {"command": "cat secrets.txt", "pty": True}),
        ("terminal", {"command": "cat secrets.txt; sleep 30", "background": True,
                      "notify_on_complete": True}),
        ("execute_code", {"code": script}),
        ("execute_code", {"code": tools}),
        ("patch", {"path": "secrets.txt", "old_string": "nowhere to be found", "new_string": "x"}),
        ("patch", {"path": "secrets.txt", "old_string": "first line", "new_string": "a line"}),
        ("todo", {"todos": [{"id": "1", "content": "look", "status": "pending"}]}),
    ]  # fmt: skip
    return [
        ToolCall(f"c{n}", name, json.dumps(arguments)) for n, (name, arguments) in enumerate(given)
    ]


@pytest.fixture
def planted(work: Path, hermes_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:  # noqa: F811
    (work / "secrets.txt").write_text("\n".join(["first line", *kinds.lines(), "last line"]) + "\n")
    hermes_home.mkdir()
    dotenv = "".join(f"{name}={json.dumps(value)}\n" for name, value in kinds.IN_DOTENV.items())
    (hermes_home / ".env").write_text(dotenv)
    for number, value in enumerate(kinds.BY_SHAPE.values()):
        monkeypatch.setenv(f"HARMLESS_{number}", value)
    monkeypatch.setenv("SOME_API_KEY", SECRETS["password setting"])
    return work


def leaked(text: str) -> list[str]:
    """The kinds that can be found, plainly or in base64."""
    return [
        kind
        for kind, value in SECRETS.items()
        if value in text or base64.b64encode(value.encode()).decode() in text
    ]


def database_texts(path: Path) -> Iterator[str]:
    with sqlite3.connect(path) as database:
        yield "\n".join(database.iterdump())


def kept(home: Path) -> Iterator[tuple[str, str]]:
    """Every file Hermes wrote, but for .env and the checkpoints of the user's own files."""
    for folder, _, names in os.walk(home):
        for name in names:
            path = Path(folder, name)
            if name != ".env" and "checkpoints" not in path.parts:
                yield str(path), path.read_bytes().decode("utf-8", "replace")


def test_no_secret_leaves_the_process(planted, hermes, hermes_home, tmp_path):  # noqa: F811
    with ModelServer([*calls(), "All done."]) as server:
        done = hermes("chat", "--json", "--yolo", "-q", "look around", *at(server))
        sent = "\n".join(
            json.dumps(request.body, ensure_ascii=False) for request in server.requests
        )
    assert done.returncode == 0
    assert "first line" in sent
    assert sent.count("[redacted]") > 200
    assert leaked(sent) == []
    assert leaked(done.stdout) == []
    assert leaked(done.stderr) == []
    session = json.loads(done.stdout.splitlines()[0])["session_id"]
    for form in ("json", "markdown", "html", "text"):
        shown = hermes("sessions", "export", session, "--format", form)
        assert leaked(shown.stdout + shown.stderr) == []
    assert leaked("\n".join(database_texts(hermes_home / "state.db"))) == []
    assert {path: kinds_ for path, text in kept(hermes_home) if (kinds_ := leaked(text))} == {}


def test_only_dotenv_values_are_redacted_from_user_messages(planted, hermes):  # noqa: F811
    passphrase, key = kinds.IN_DOTENV["MY_PASSPHRASE"], kinds.BY_SHAPE["github"]
    with ModelServer(["ok"]) as server:
        hermes("chat", "-q", f"is {passphrase} good, and {key}?", *at(server))
        (request,) = server.requests
    said = request.body["messages"][-1]["content"]
    assert passphrase not in said
    assert key in said  # theirs to give
