"""A whole chat in each place: the same calls do the same, and a kill leaves nothing behind."""

import json
import os
import pwd
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from hermes.core.events import ToolFinished, TurnFinished, from_json
from hermes.core.messages import ToolCall
from hermes.core.testing import ModelServer
from tests.integration.chat.conftest import HERMES, at
from tests.integration.terminal.conftest import Sshd
from tests.integration.terminal.docker_engine import IMAGE, docker_engine
from tests.integration.terminal.parts import program

PLACES = ["local", "sandbox", "ssh", "docker"]


class Place:
    """`hermes` with a backend, and how to look for what it left."""

    def __init__(self, name: str, home: Path, work: Path, environment: dict[str, str]) -> None:
        self.name, self.work = name, work
        self._environment = {**os.environ, **environment, "HERMES_HOME": str(home)}

    def start(self, server: ModelServer, *arguments: str) -> "subprocess.Popen[str]":
        command = [*HERMES, "chat", "--json", "-q", "go", *at(server), *arguments]
        return subprocess.Popen(
            command, cwd=self.work, env=self._environment, stdout=subprocess.PIPE, text=True
        )

    def chat(self, *calls: tuple[str, dict[str, Any]]) -> list[ToolFinished]:
        script = [
            ToolCall(f"c{n}", name, json.dumps(arguments))
            for n, (name, arguments) in enumerate(calls)
        ]
        with ModelServer([*script, "done"]) as server:
            output, _ = self.start(server).communicate(timeout=120)
        events = [from_json(line.encode()) for line in output.splitlines()]
        assert isinstance(events[-1], TurnFinished)
        assert events[-1].exit_reason == "answered", events[-1]
        return [event for event in events if isinstance(event, ToolFinished)]


def settings_of(name: str, request: pytest.FixtureRequest) -> tuple[dict[str, Any], dict[str, str]]:
    """`terminal` settings, and variables that the client programs need."""
    if name == "docker":
        engine = docker_engine()
        chosen = {"docker_image": IMAGE, "docker_network": "none", "container_program": "docker"}
        return chosen | {"container_memory": 256}, engine.environment
    if name == "ssh":
        sshd: Sshd = request.getfixturevalue("sshd")
        user = pwd.getpwuid(os.geteuid()).pw_name
        folder = sshd.folder
        return {
            "ssh_host": "127.0.0.1",
            "ssh_user": user,
            "ssh_port": sshd.port,
            "ssh_key": str(folder / "user"),
            "ssh_options": [f"UserKnownHostsFile={folder}/known_hosts"],
            "cwd": str(request.getfixturevalue("outside_tmp")),
        }, {}
    if name == "sandbox":
        program("bwrap")
    return {}, {}


@pytest.fixture
def outside_tmp(tmp_path):
    """A folder that is not in /tmp, which is private in a sandbox."""
    folder = Path("/var/tmp") / f"hermes-test-{os.getpid()}-{tmp_path.name}"
    folder.mkdir(mode=0o700)
    yield folder
    subprocess.run(["rm", "-rf", str(folder)], check=True)


@pytest.fixture(params=PLACES)
def place(request, hermes_home, outside_tmp):
    settings, environment = settings_of(request.param, request)
    hermes_home.mkdir()
    config = {"terminal": {"backend": request.param, **settings}, "approvals": {"mode": "off"}}
    (hermes_home / "config.yaml").write_text(yaml.safe_dump(config))
    environment = {key: value for key, value in environment.items() if key != "HOME"}
    return Place(request.param, hermes_home, outside_tmp, environment)


def test_the_same_calls_do_the_same_everywhere(place):
    results = place.chat(
        ("terminal", {"command": "mkdir -p sub && cd sub && export GREETING=hello"}),
        ("terminal", {"command": 'echo "$GREETING from $(basename "$PWD")"'}),
        ("write_file", {"path": "a.txt", "content": "one\ntwo\n"}),
        ("patch", {"path": "a.txt", "old_string": "two", "new_string": "three"}),
        ("read_file", {"path": "a.txt"}),
        ("search_files", {"pattern": "thr", "path": "."}),
        ("terminal", {"command": "cat a.txt; exit 3"}),
        ("terminal", {"command": "read line; echo got $line", "background": True}),
        ("process", {"action": "list"}),
        (
            "execute_code",
            {"code": "from hermes_tools import read_file\nprint(read_file('a.txt')['content'])"},
        ),
        ("terminal", {"command": "sleep 60", "timeout": 1}),
    )
    texts = [event.result for event in results]
    assert texts[1] == "hello from sub"
    assert texts[2].startswith("created a.txt")
    assert "+three" in texts[3]
    assert texts[4] == "1|one\n2|three"
    assert "a.txt:2:three" in texts[5]
    assert texts[6] == "one\nthree\n[exit code 3]"
    assert "proc_" in texts[7]
    assert "1 running" in texts[8]
    assert json.loads(texts[9])["output"] == "1|one\n2|three"
    assert "stopped after 1 s" in texts[10]
    assert [event.failed for event in results] == [False] * 10 + [True]


def running(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if mark in words and process.status() != psutil.STATUS_ZOMBIE:
            found.append(process)
    return found


def eventually(holds: Callable[[], bool]) -> None:
    """The time limit of the test is the only clock."""
    while not holds():
        time.sleep(0.05)


def test_a_killed_agent_leaves_nothing_running(place):
    first, second = (f"8{os.getpid()}{n}{len(place.name)}" for n in (1, 2))
    calls = [
        ToolCall("c1", "terminal", json.dumps({"command": f"sleep {first}", "background": True})),
        ToolCall("c2", "terminal", json.dumps({"command": f"sleep {second}"})),
    ]
    with ModelServer(calls) as server:
        chat = place.start(server)
        eventually(lambda: bool(running(first)) and bool(running(second)))
        chat.send_signal(signal.SIGKILL)
        chat.wait()
        eventually(lambda: not running(first) and not running(second))
        if place.name == "docker":
            engine = docker_engine()
            eventually(lambda: not engine.call("ps", "-aq", "--filter", "label=hermes=1"))
    chat.stdout.close()  # type: ignore[union-attr] # it is a pipe


SKILL = """---
name: brew-tea-of-the-test
description: Brew tea
required_environment_variables: [{name: KETTLE_KEY}]
required_credential_files: [{path: kettle.json}]
---
sh "${HERMES_SKILL_DIR}/scripts/kettle.sh"
"""


@pytest.fixture
def nothing_left():
    """Over SSH the other machine is this one."""
    yield
    there = Path.home() / ".cache" / "hermes" / "skills" / "brew-tea-of-the-test"
    subprocess.run(
        ["rm", "-rf", str(there), str(Path.home() / ".hermes" / "kettle.json")], check=True
    )


def test_a_skill_works_wherever_commands_run(place, hermes_home, nothing_left):
    folder = hermes_home / "skills" / "brew-tea-of-the-test"
    (folder / "scripts").mkdir(parents=True)
    (folder / "SKILL.md").write_text(SKILL)
    (folder / "scripts" / "kettle.sh").write_text(
        'echo "key ${KETTLE_KEY:+given}, cup $(cat ~/.hermes/kettle.json 2>/dev/null)"'
    )
    (hermes_home / ".env").write_text("KETTLE_KEY=steam-4711-secret\n")
    (hermes_home / "kettle.json").write_text("blue")
    elsewhere = place.name in ("ssh", "docker")
    there = f"$HOME/.cache/hermes/skills/{folder.name}" if elsewhere else folder
    command = f'sh "{there}/scripts/kettle.sh"'
    view, done = place.chat(
        ("skill_view", {"name": folder.name}), ("terminal", {"command": command})
    )
    assert command in view.result
    assert "key given" in done.result, done.result
    if elsewhere:
        assert "cup blue" in done.result, "its credential file was brought along"
