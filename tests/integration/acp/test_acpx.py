"""Sessions driven by acpx, the command-line client of the protocol."""

import json
import os
import shlex
import signal
import subprocess
import time
from pathlib import Path

import pytest

from hermes.core.messages import Text, ToolCall
from hermes.core.testing import ModelServer, Slow, Step
from tests.installed import node24_program
from tests.integration.acp.conftest import SETTINGS
from tests.screens.chat import HERMES

pytestmark = pytest.mark.internet


def start_acpx(work: Path, *words: str) -> subprocess.Popen[str]:
    program = node24_program("acpx")
    path = f"{Path(program[0]).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.Popen(
        [*program, "--agent", shlex.join([*HERMES, "acp"]), "--cwd", work, *words],
        env={**os.environ, "PATH": path},
        cwd=work,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def acpx(work: Path, home: Path, server: ModelServer, *words: str) -> list[dict]:
    """Run acpx and return the messages of both sides."""
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(SETTINGS.format(url=server.url))
    return messages_of(start_acpx(work, *words))


def messages_of(process: subprocess.Popen[str]) -> list[dict]:
    output, errors = process.communicate(timeout=120)
    assert process.returncode in (0, 5), errors
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def stop_reason(messages: list[dict]) -> str:
    return next(
        each["result"]["stopReason"]
        for each in reversed(messages)
        if "stopReason" in (each.get("result") or {})
    )


def wait_for(condition) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def updates(messages: list[dict], kind: str) -> list[dict]:
    found = [
        each["params"]["update"] for each in messages if each.get("method") == "session/update"
    ]
    return [each for each in found if each["sessionUpdate"] == kind]


@pytest.mark.parametrize(("policy", "is_gone"), [("--approve-all", True), ("--deny-all", False)])
def test_a_tool_with_permission_is_run(work, hermes_home, policy, is_gone):
    (work / "build").mkdir()
    remove = ToolCall("c1", "terminal", json.dumps({"command": "rm -rf build"}))
    with ModelServer([Step((remove,)), "Done."]) as server:
        how = (policy, "--format", "json", "exec", "clean up")
        messages = acpx(work, hermes_home, server, *how)
    asked = [each for each in messages if each.get("method") == "session/request_permission"]
    assert len(asked) == 1
    assert (work / "build").exists() is not is_gone
    text = "".join(each["content"]["text"] for each in updates(messages, "agent_message_chunk"))
    assert text == "Done."
    assert messages[-1]["result"]["stopReason"] == "end_turn"


def test_an_edit_arrives_as_a_diff_through_the_files_of_the_client(work, hermes_home):
    write = ToolCall("c1", "write_file", json.dumps({"path": "a.txt", "content": "new\n"}))
    with ModelServer([Step((write,)), "Done."]) as server:
        how = ("--approve-all", "--format", "json", "exec", "write it")
        messages = acpx(work, hermes_home, server, *how)
    (diff,) = updates(messages, "tool_call_update")[-1]["content"]
    assert (diff["type"], diff["path"], diff["newText"]) == ("diff", str(work / "a.txt"), "new\n")
    assert any(each.get("method") == "fs/write_text_file" for each in messages)
    assert (work / "a.txt").read_text() == "new\n"


def scripted(request) -> str | Step:
    last = request.body["messages"][-1]
    if last["role"] == "tool":
        return "done"
    match last["content"]:
        case "tell":
            return Step((Text("once upon a time " * 500),), faults=(Slow(0.05),))
        case "wait":
            command = "echo $$ > pid; exec sleep 300"
            return Step((ToolCall("c1", "terminal", json.dumps({"command": command})),))
        case other:
            users = [m["content"] for m in request.body["messages"] if m["role"] == "user"]
            return f"{other}: {' '.join(users)}"


def test_named_sessions_are_cancelled_continued_after_a_restart_and_run_at_once(work, hermes_home):
    with ModelServer(scripted) as server:

        def run(*words: str) -> list[dict]:
            how = ("--approve-all", "--format", "json", "--ttl", "1")
            return acpx(work, hermes_home, server, *how, *words)

        def start(*words: str) -> subprocess.Popen[str]:
            return start_acpx(work, "--approve-all", "--format", "json", "--ttl", "60", *words)

        for name in ("one", "two"):
            run("sessions", "new", "--name", name)
        stream = start("prompt", "-s", "one", "tell")
        wait_for(lambda: server.calls)
        command = start("prompt", "-s", "two", "wait")  # at the same time
        wait_for(lambda: (work / "pid").exists() and (work / "pid").read_text().strip())
        pid = int((work / "pid").read_text())
        os.kill(pid, 0)
        for name, prompt in (("one", stream), ("two", command)):
            run("cancel", "-s", name)
            assert stop_reason(messages_of(prompt)) == "cancelled"
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        for name, first in (("one", "tell"), ("two", "wait")):
            (status,) = run("status", "-s", name)
            os.kill(status["pid"], signal.SIGKILL)
            found = run("prompt", "-s", name, "again")
            methods = [each.get("method") for each in found]
            assert {"initialize", "session/resume"} <= set(methods)
            chunks = updates(found, "agent_message_chunk")
            text = "".join(each["content"]["text"] for each in chunks)
            assert text == f"again: {first} again"
            run("sessions", "close", name)
