"""Sessions driven by acpx, the command-line client of the protocol."""

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest

from hermes.core.messages import ToolCall
from hermes.core.testing import ModelServer, Step
from tests.installed import node24_program
from tests.integration.acp.conftest import SETTINGS
from tests.screens.chat import HERMES

pytestmark = pytest.mark.internet


def acpx(work: Path, home: Path, server: ModelServer, *words: str) -> list[dict]:
    """Run acpx and return the messages of both sides."""
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(SETTINGS.format(url=server.url))
    program = node24_program("acpx")
    path = f"{Path(program[0]).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [*program, "--agent", shlex.join([*HERMES, "acp"]), "--cwd", work, *words],
        env={**os.environ, "PATH": path},
        cwd=work,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode in (0, 5), done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


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
