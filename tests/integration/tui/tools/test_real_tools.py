"""Calls of the real tools, as they look."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.core.cancel import CancelToken
from hermes.core.errors import ToolError
from hermes.core.tool import Tool, ToolContext
from hermes.security import PathGuard
from hermes.terminal import BackgroundProcesses, LocalShell
from hermes.tools.builtin.execute_code import ScriptOutcome, format_outcome
from hermes.tools.editing.files import FileReads
from hermes.tools.web_pages import fence_untrusted
from hermes.tui.skins import DisplayState
from tests.cases import cases
from tests.workspace import make_tool

CASES = cases(__file__)

Show = Callable[..., list[str]]
Run = Callable[..., Awaitable[list[str]]]


@pytest.fixture
async def shell(user_home: Path, workspace: Path) -> AsyncIterator[LocalShell]:
    shell = LocalShell({"PATH": os.environ["PATH"], "HOME": str(user_home)}, workspace)
    yield shell
    await shell.close()


@pytest.fixture
def run(show: Show) -> Run:
    async def run(tool: Tool, **arguments: Any) -> list[str]:
        context = ToolContext("session", "1", CancelToken(), lambda _text: None)
        try:
            result, failed = await tool.handler(context, arguments), False
        except ToolError as error:
            text = f"{error} ({error.hint})" if error.hint else str(error)
            result, failed = msgspec.json.encode({"error": text}).decode(), True
        return show(tool.name, arguments, result, failed=failed)

    return run


@pytest.fixture
async def terminal(shell: LocalShell, guard: PathGuard) -> AsyncIterator[Tool]:
    processes = BackgroundProcesses(shell)
    yield make_tool("terminal", shell=shell, processes=processes, guard=guard)
    await processes.close()


async def test_a_command_that_works(run: Run, terminal: Tool) -> None:
    assert await run(terminal, command="seq 120") == [
        "● terminal seq 120 · 120 lines ✓",
        "   … 117 more lines · ctrl-o shows all", "   118", "   119", "   120",
    ]  # fmt: skip
    assert await run(terminal, command="true") == ["● terminal true · no output ✓"]
    (line, *_) = await run(terminal, command="sleep 60", background=True)
    assert line == "● terminal sleep 60 & ✓"


async def test_a_command_that_fails_shows_its_end(run: Run, terminal: Tool) -> None:
    assert await run(terminal, command="seq 9; exit 3") == [
        "● terminal seq 9; exit 3 · exit code 3 ✗",
        "   … 6 more lines · ctrl-o shows all", "   7", "   8", "   9",
    ]  # fmt: skip
    assert await run(terminal, command="grep x /dev/null") == [
        "● terminal grep x /dev/null · exit code 1 ✓"
    ]


async def test_files_that_are_read_and_searched(run, files, guard, workspace):
    (workspace / "a.py").write_text("".join(f"x{n} = {n}\n" for n in range(1, 200)))
    read = make_tool("read_file", files=files, guard=guard, reads=FileReads())
    assert await run(read, path="a.py") == ["● read_file a.py · 199 lines ✓"]
    assert await run(read, path="a.py", offset=5, limit=10) == [
        "● read_file a.py:5-14 · lines 5-14 of 199 ✓"
    ]
    assert "\n".join(await run(read, path="b.py")).startswith(
        "● read_file b.py ✗\n   there is no file b.py (did you mean"
    )
    search = make_tool("search_files", folder=workspace, files=files, guard=guard)
    assert await run(search, pattern="x1.* =", file_glob="*.py") == [
        '● search_files "x1.* =" in *.py · 111 matches in 1 file ✓'
    ]
    assert await run(search, pattern="*.py", target="files") == ['● search_files "*.py" · 1 file ✓']


async def test_a_changed_file_is_shown_as_a_diff(run, files, guard, workspace):
    (workspace / "a.py").write_text("".join(f"x{n} = {n}\n" for n in range(1, 14)))
    tool = make_tool("patch", files=files, guard=guard, reads=FileReads())
    *lines, last = await run(tool, path="a.py", old_string="x10 = 10", new_string="x10 = (")
    assert last.startswith("   syntax error: line 10: '(' was never closed")
    assert lines == CASES["changed file is shown as a"]
    head, error = await run(tool, path="a.py", old_string="gone", new_string="")
    assert head == "● patch a.py ✗"
    assert error.startswith("   a.py: old_string is not in the file")


async def test_several_files_in_one_patch(run, files, guard, workspace):
    (workspace / "a.txt").write_text("one\ntwo\n")
    (workspace / "old.txt").write_text("x\n")
    patch = (
        "*** Begin Patch\n*** Update File: a.txt\n one\n-two\n+2\n*** Add File: new.txt\n+hello\n"
        "*** Delete File: old.txt\n*** End Patch"
    )
    assert (
        await run(
            make_tool("patch", files=files, guard=guard, reads=FileReads()),
            mode="patch",
            patch=patch,
        )
        == CASES["several files in one patch"]
    )


async def test_a_written_file(run, files, guard, workspace):
    tool = make_tool("write_file", files=files, guard=guard, reads=FileReads())
    assert await run(tool, path="a.txt", content="one\ntwo\n") == [
        "● write_file a.txt · +2 ✓", "   1 + one", "   2 + two",
    ]  # fmt: skip
    assert await run(tool, path="a.txt", content="three\n") == [
        "● write_file a.txt · 1 line ✓", "   1   three",
    ]  # fmt: skip


async def test_a_list_of_tasks(run: Run, display: DisplayState) -> None:
    tool = make_tool("todo")
    todos = [
        {"id": "1", "content": "read", "status": "completed"},
        {"id": "2", "content": "write", "status": "in_progress"},
        {"id": "3", "content": "test"},
        {"id": "4", "content": "rest", "status": "cancelled"},
    ]
    assert await run(tool, todos=todos) == [
        "● todo · 1 done of 4 ✓", "   ☑ read", "   ◐ write", "   ☐ test", "   ☒ rest",
    ]  # fmt: skip
    many = [{"id": str(n), "content": f"task {n}", "status": "pending"} for n in range(30)]
    for each in many[:20]:
        each["status"] = "completed"
    lines = await run(tool, todos=many)
    assert lines[0] == "● todo · 20 done of 30 ✓"
    assert lines[1] == "   … 14 tasks before"
    assert "   ☐ task 20" in lines
    assert len(lines) == 18
    display.set_detail("hidden")
    assert await run(tool, todos=todos) == ["● todo · 1 done of 4 ✓"]


def test_a_script(show: Show) -> None:
    fine = format_outcome(ScriptOutcome(0, "a\nb\nc\n", "", 0.5), 2, 300)
    arguments = {"code": "import os\n\nfor name in os.listdir():\n    print(name)\n"}
    assert show("execute_code", arguments, fine) == [
        "● execute_code for name in os.listdir(): · 2 tool calls ✓", "   a", "   b", "   c",
    ]  # fmt: skip
    broken = format_outcome(ScriptOutcome(1, "a\n", "Traceback:\nValueError: no", 0.5), 0, 300)
    assert show("execute_code", arguments, broken) == [
        "● execute_code for name in os.listdir(): · error ✗", "   Traceback:", "   ValueError: no",
    ]  # fmt: skip


def test_text_from_the_web_is_shown_without_its_fence(show: Show, display: DisplayState) -> None:
    text = fence_untrusted("1. One\n   https://one\n\n2. Two\n   https://two", "results of ddgs")
    assert show("web_search", {"query": "count"}, text) == ["● web_search count · 2 results ✓"]
    display.set_detail("full")
    assert show("web_search", {"query": "count"}, text)[1:] == [
        "   1. One", "      https://one", "   ", "   2. Two", "      https://two",
    ]  # fmt: skip
    page = fence_untrusted("# Title\ntext", "https://one")
    urls = ["https://one", "https://two"]
    assert show("web_extract", {"urls": urls}, f"{page}\n\n{page}") == [
        "● web_extract https://one +1 · 5 lines ✓",
        "   # Title", "   text", "   ", "   # Title", "   text",
    ]  # fmt: skip
