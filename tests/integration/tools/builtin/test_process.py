"""The process tool over real background processes."""

import asyncio

import pytest

from hermes.core.cancel import CancelToken
from hermes.core.errors import Interrupted, ToolArgumentsInvalid, ToolError
from hermes.core.tool import ToolContext
from hermes.terminal import BackgroundProcesses
from tests.workspace import make_tool


@pytest.fixture
async def processes(shell):
    processes = BackgroundProcesses(shell)
    yield processes
    await processes.close()


@pytest.fixture
def tool(processes, guard):
    return make_tool("process", processes=processes, guard=guard)


async def test_conversation_with_a_process(tool, use, processes):
    name = await processes.start("echo ready; while read -r x; do echo got $x; done; exit 3")
    while "ready" not in await use(tool, action="log", session_id=name):
        await asyncio.sleep(0.01)
    assert "poll" in await use(tool, action="submit", session_id=name, data="one")
    await use(tool, action="write", session_id=name, data="tw")
    await use(tool, action="write", session_id=name, data="o\n")
    await use(tool, action="close", session_id=name)
    ended = await use(tool, action="wait", session_id=name)
    assert ended.startswith("ready\ngot one\ngot two\n[ended after ")
    assert ended.endswith("with exit code 3]")
    again = await use(tool, action="poll", session_id=name)
    assert again.startswith("[no new output]\n[ended")


async def test_log_is_read_in_pages(tool, use, processes):
    name = await processes.start("seq 60000")
    await processes.wait(name, 60)
    page = await use(tool, action="log", session_id=name, offset=5, limit=2)
    assert page.startswith("5\n6\n[lines 5 to 6 of 60000]\n[ended")
    assert (await use(tool, action="log", session_id=name, limit=1)).startswith("60000\n")
    gap = await use(tool, action="log", session_id=name, offset=1, limit=60_000)
    assert "were not kept …]" in gap
    beyond = await use(tool, action="log", session_id=name, offset=70_000)
    assert beyond.startswith("[there are 60000 lines]")
    silent = await processes.start("true")
    await processes.wait(silent, 60)
    assert (await use(tool, action="log", session_id=silent)).startswith("[no output]")


async def test_much_new_output_is_cut(use, processes):
    tool = make_tool("process", processes=processes, settings={"tool_output": {"max_bytes": 100}})
    name = await processes.start("seq 1000")
    assert "bytes left out" in await use(tool, action="wait", session_id=name)


async def test_list(tool, use, processes):
    assert await use(tool, action="list") == "[no background processes]"
    name = await processes.start(
        "sleep 600\n# " + "x" * 500, pty=True, notify=True, watch_patterns=["done"], cwd="/"
    )
    text = await use(tool, action="list")
    assert text.startswith("1 running, at most 32")
    assert f"{name} [running for 0 s] sleep 600 # xxx" in text
    assert "pid " in text
    assert text.endswith("pty, notifies, watches done")
    assert len(text) < 500
    assert (await use(tool, action="kill", session_id=name)).startswith("[killed after")
    assert "[killed after" in await use(tool, action="list")


async def test_wait_ends_with_a_cancel_and_shows_what_comes(tool, processes, workspace):
    name = await processes.start("until [ -e go ]; do sleep 0.01; done; echo came; sleep 600")
    cancel = CancelToken()

    def stop(text):
        assert text == "came\n"
        cancel.cancel("enough")

    call = ToolContext("session", "call", cancel, stop)
    waiting = asyncio.ensure_future(
        tool.handler(call, {"action": "wait", "session_id": name, "timeout": 600})
    )
    await asyncio.sleep(0)
    (workspace / "go").touch()
    with pytest.raises(Interrupted, match="enough"):
        await waiting
    assert processes.state(name).state == "running"


async def test_invalid_calls_are_explained(tool, use):
    with pytest.raises(ToolArgumentsInvalid, match="needs a session_id"):
        await use(tool, action="poll")
    with pytest.raises(ToolError, match="no background process") as caught:
        await use(tool, action="kill", session_id="proc_0")
    assert "list" in caught.value.hint


async def test_input_is_examined_like_a_command(tool, use, processes):
    name = await processes.start("cat")

    async def kinds(action, data):
        concern = await tool.examine({"action": action, "session_id": name, "data": data})
        return {concern.kind, *concern.also} if concern else set()

    assert await kinds("submit", "ls") == set()
    assert "recursive delete" in await kinds("submit", "rm -rf build")
    assert "recursive delete" in await kinds("write", "rm -rf build")
    # In pieces it is still one line.
    await use(tool, action="write", session_id=name, data="ls\nrm -r")
    assert "recursive delete" in await kinds("write", "f build")
    assert await kinds("write", "\x03") == set()
    await use(tool, action="write", session_id=name, data="\x03")
    assert await kinds("write", "f build") == set()
    await use(tool, action="write", session_id=name, data="rm -r")
    assert await kinds("submit", "") == set()
    await use(tool, action="submit", session_id=name, data="")
    assert await kinds("write", "f build") == set()
    # Keys that change what was typed hide it.
    assert await kinds("write", "ls\x7f\x7f")
    assert (
        await tool.examine({"action": "write", "session_id": "proc_0", "data": "rm -rf /"}) is None
    )
    assert await tool.examine({"action": "kill", "session_id": name}) is None


async def test_isolated_backend_denies_only_refused_commands(processes, guard):
    tool = make_tool("process", processes=processes, guard=guard, isolated=True)
    name = await processes.start("cat")
    typing = {"action": "submit", "session_id": name}
    assert await tool.examine({**typing, "data": "rm -rf build"}) is None
    refused = await tool.examine({**typing, "data": "mkfs.ext4 /dev/sda1"})
    assert refused.refused
