"""Editing files by text and by patch, as a model does it."""

import asyncio
import os
from pathlib import Path

import pytest

from hermes.core.cancel import CancelToken
from hermes.core.errors import Interrupted, ToolArgumentsInvalid, ToolDenied, ToolError
from hermes.core.tool import ToolContext
from hermes.terminal import LocalFiles
from tests.unit.tools.editing.test_patch_format import envelope
from tests.workspace import make_tool


@pytest.fixture
def tool(files, guard, reads):
    return make_tool("patch", files=files, guard=guard, reads=reads)


@pytest.fixture
def apply(tool, use):
    """Calls the tool with a patch of these lines."""
    return lambda *lines: use(tool, mode="patch", patch=envelope(*lines))


async def test_replacement_returns_its_diff(tool, use, workspace):
    path = workspace / "a.py"
    path.write_text("".join(f"x{n} = {n}\n" for n in range(1, 9)))
    text = await use(tool, path="a.py", old_string="x4 = 4", new_string="x4 = 40")
    assert text == (
        "changed a.py\n@@ -1,7 +1,7 @@\n x1 = 1\n x2 = 2\n x3 = 3\n-x4 = 4\n+x4 = 40\n"
        " x5 = 5\n x6 = 6\n x7 = 7"
    )
    assert "x4 = 40\n" in path.read_text()
    await use(tool, path="a.py", old_string="x8 = 8\n", new_string="")
    assert path.read_text().endswith("x7 = 7\n")
    text = await use(tool, path="a.py", old_string=" = ", new_string="=", replace_all=True)
    assert " = " not in path.read_text()


async def test_line_ends_mark_mode_and_invalid_bytes_are_kept(tool, use, workspace):
    path = workspace / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfcaf\xe9\r\none\r\ntwo\r\n")
    path.chmod(0o640)
    text = await use(tool, path="a.txt", old_string="one\ntwo", new_string="1\n2\n3")
    assert path.read_bytes() == b"\xef\xbb\xbfcaf\xe9\r\n1\r\n2\r\n3\r\n"
    assert path.stat().st_mode & 0o777 == 0o640
    assert " caf\ufffd" in text
    await use(tool, path="a.txt", old_string="1\r\n2\r\n", new_string="x\r\n")
    assert path.read_bytes().endswith(b"\r\nx\r\n3\r\n")


async def test_looser_match_is_mentioned(tool, use, workspace):
    (workspace / "a.py").write_text("if x:\n    if y:\n        go()\n")
    text = await use(
        tool, path="a.py", old_string="if y:\n    go()\n", new_string="if y:\n    stop()\n"
    )
    assert text.startswith("changed a.py (found by looking past indentation)\n@@")
    assert (workspace / "a.py").read_text() == "if x:\n    if y:\n        stop()\n"


async def test_new_syntax_errors_are_reported(tool, use, workspace):
    (workspace / "a.json").write_text('{"a": 1}\n')
    text = await use(tool, path="a.json", old_string="1}", new_string="1")
    assert text.splitlines()[-1].startswith("[syntax error: line 2:")


async def test_externally_changed_file_adds_a_warning(files, guard, reads, tool, use, workspace):
    path = workspace / "a.txt"
    path.write_text("one\ntwo\n")
    await use(make_tool("read_file", files=files, guard=guard, reads=reads), path="a.txt")
    path.write_text("one\ntwo\nthree\n")
    text = await use(tool, path="a.txt", old_string="one", new_string="1")
    assert text.startswith("warning: a.txt had been changed since you last saw it\nchanged a.txt")
    text = await use(tool, path="a.txt", old_string="two", new_string="2")
    assert text.startswith("changed a.txt"), "its own change is no news"
    path.write_text("nothing of it\n")
    with pytest.raises(ToolError, match=r"not in the file.*had been changed since"):
        await use(tool, path="a.txt", old_string="three words here", new_string="2")


async def test_uneditable_files_are_refused(tool, use, workspace):
    (workspace / "b.bin").write_bytes(b"a\0b")
    with (workspace / "huge").open("wb") as file:
        file.truncate(1 << 30)
    os.mkfifo(workspace / "pipe")
    for path, reason in {
        "nowhere": "there is no file",
        "b.bin": "binary",
        "huge": "larger than 10 MB",
        "pipe": "device, pipe",
        ".": "is a folder",
    }.items():
        with pytest.raises(ToolError, match=reason):
            await use(tool, path=path, old_string="a", new_string="b")
    with pytest.raises(ToolArgumentsInvalid, match="path is empty"):
        await use(tool, old_string="a", new_string="b")
    with pytest.raises(ToolArgumentsInvalid, match="not valid text"):
        await use(tool, path="b.bin", old_string="\ud800", new_string="b")


async def test_patch_over_several_files(apply, workspace):
    (workspace / "a.py").write_text("class A:\n    def f(self):\n        return 1\n\n    x = 1\n")
    (workspace / "b.txt").write_text("bye\n")
    (workspace / "c.txt").write_text("keep\nold\n")
    text = await apply(
        "*** Update File: a.py", "@@ class A:", "     def f(self):", "-        return 1",
        "+        return 2",
        "*** Add File: new/d.txt", "+hello",
        "*** Delete File: b.txt",
        "*** Update File: c.txt", "*** Move to: e.txt", " keep", "-old", "+new",
    )  # fmt: skip
    assert (workspace / "a.py").read_text().count("return 2") == 1
    assert (workspace / "new/d.txt").read_text() == "hello\n"
    assert not (workspace / "b.txt").exists()
    assert not (workspace / "c.txt").exists()
    assert (workspace / "e.txt").read_text() == "keep\nnew\n"
    lines = [line for line in text.splitlines() if line[:1] not in "@ +-"]
    assert lines[:2] == ["changed a.py", "created new/d.txt"]
    assert lines[2:] == ["moved c.txt to e.txt", "deleted b.txt"]
    assert "-        return 1\n+        return 2" in text


async def test_unified_diff_with_wrong_numbers(tool, use, workspace):
    (workspace / "a.txt").write_bytes(b"top\r\n" * 5 + b"one\r\ntwo\r\nthree\r\n")
    diff = "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
    await use(tool, mode="patch", patch=diff)
    assert (workspace / "a.txt").read_bytes().endswith(b"one\r\n2\r\nthree\r\n")

    # The numbers choose between equal places.
    (workspace / "a.txt").write_text("x\n" * 9)
    await use(tool, mode="patch", patch="--- a.txt\n+++ a.txt\n@@ -4 +4 @@\n-x\n+y\n")
    assert (workspace / "a.txt").read_text() == "x\n" * 3 + "y\n" + "x\n" * 5


async def test_hunks_are_located(apply, workspace):
    path = workspace / "a.py"
    path.write_text("def f():\n    go()\n\ndef g():\n    go()\n\ndef h():\n    go()\n")
    with pytest.raises(ToolError, match=r"a\.py: hunk 1 fits 3 places: lines 2, 5, 8"):
        await apply("*** Update File: a.py", "-    go()", "+    no()")
    await apply("*** Update File: a.py", "@@ def g():", "-    go()", "+    no()")
    assert path.read_text().splitlines()[4] == "    no()"
    with pytest.raises(ToolError, match="there is no line 'def k"):
        await apply("*** Update File: a.py", "@@ def k():", "-x", "+y")
    with pytest.raises(ToolError, match=r"hunk 1 are not in the file; the closest is\n1\|def f"):
        await apply("*** Update File: a.py", " def f(x):", "-    gone()", "+y")


async def test_lines_are_added_below_a_header_and_at_the_end(apply, workspace):
    path = workspace / "a.txt"
    path.write_text("one\ntwo")
    await apply("*** Update File: a.txt", "@@ one", "+1.5", "@@", "+3", "*** End of File")
    assert path.read_text() == "one\n1.5\ntwo\n3"


async def test_failed_section_changes_nothing(apply, workspace):
    (workspace / "a.txt").write_text("one\n")
    (workspace / "b.txt").write_text("two\n")
    patch = ("*** Update File: a.txt", "-one", "+1", "*** Update File: b.txt", "-gone", "+2")
    with pytest.raises(ToolError, match=r"b\.txt: the lines of hunk 1 are not in the file"):
        await apply(*patch)
    assert (workspace / "a.txt").read_text() == "one\n"


async def test_written_files_are_rolled_back_when_a_later_one_fails(tool, use, workspace):
    (workspace / "a.txt").write_text("one\n")
    (workspace / "d.txt").write_text("gone\n")
    name = "n" * 300
    patch = envelope(
        "*** Update File: a.txt", "-one", "+1",
        "*** Add File: new.txt", "+x",
        f"*** Add File: {name}", "+x",
        "*** Delete File: d.txt",
    )  # fmt: skip
    with pytest.raises(ToolError, match="too long"):
        await use(tool, mode="patch", patch=patch)
    (workspace / "file").touch()
    patch = patch.replace(name, "file/below")
    with pytest.raises(ToolError, match="not a directory; nothing was changed"):
        await use(tool, mode="patch", patch=patch)
    assert (workspace / "a.txt").read_text() == "one\n"
    assert sorted(path.name for path in workspace.iterdir()) == ["a.txt", "d.txt", "file"]


@pytest.mark.parametrize(
    ("section", "reason"),
    [
        (["*** Add File: a.txt", "+x"], "exists already"),
        (["*** Update File: nowhere", "-x", "+y"], "there is no file"),
        (["*** Delete File: nowhere"], "there is no file"),
        (["*** Update File: a.txt", "*** Move to: b.txt"], "exists already"),
        (["*** Update File: a.txt", " one"], "changes nothing"),
    ],
)
async def test_impossible_sections_are_refused(apply, workspace, section, reason):
    (workspace / "a.txt").write_text("one\n")
    (workspace / "b.txt").write_text("two\n")
    with pytest.raises(ToolError, match=reason):
        await apply(*section)


async def test_sections_build_on_each_other(apply, workspace):
    text = await apply(
        "*** Add File: a.txt", "+one", "*** Update File: a.txt", "-one", "+two",
        "*** Update File: a.txt", " two", "+three",
    )  # fmt: skip
    assert text.startswith("created a.txt")
    assert (workspace / "a.txt").read_text() == "two\nthree\n"


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
async def test_every_path_of_a_patch_is_examined(tool, use, workspace, tmp_path, ends):
    (workspace / "a.txt").write_text("one\n")
    outside = tmp_path / "elsewhere.txt"
    patch = envelope("*** Update File: a.txt", "-one", "", "+1", f"*** Add File: {outside}", "+x")
    patch = patch.replace("\n", ends)
    concern = await tool.examine({"mode": "patch", "patch": patch})
    assert (concern.kind, concern.refused) == ("write outside the workspace", False)
    move = envelope("*** Update File: a.txt", "*** Move to: ~/.ssh/authorized_keys")
    concern = await tool.examine({"patch": move})
    assert concern.refused
    with pytest.raises(ToolDenied, match="must not be written"):
        await use(tool, mode="patch", patch=move)
    assert (workspace / "a.txt").exists()
    assert await tool.examine({"path": "a.txt", "old_string": "a"}) is None
    assert await tool.examine({"mode": "patch", "patch": "no patch"}) is None
    both = envelope(*(f"*** Add File: {tmp_path}/{name}\n+x" for name in "ab"))
    concern = await tool.examine({"patch": both})
    assert concern.subject == f"{tmp_path}/a, {tmp_path}/b"


async def test_long_diff_is_cut(tool, use, workspace):
    (workspace / "a.txt").write_text("a\n" * 5_000)
    text = await use(tool, path="a.txt", old_string="a", new_string="b", replace_all=True)
    assert len(text) < 7_000
    assert "more lines of the diff]" in text


class SlowFiles(LocalFiles):
    """Writing takes a while, as on another machine."""

    def __init__(self, folder: Path, began: asyncio.Event) -> None:
        super().__init__(lambda: str(folder), folder, ripgrep="")
        self._began = began

    async def write(self, path: str, data: bytes) -> None:
        self._began.set()
        await asyncio.sleep(0.02)
        await super().write(path, data)


async def test_cancelled_call_leaves_no_partial_change(guard, reads, workspace):
    began = asyncio.Event()
    tool = make_tool("patch", files=SlowFiles(workspace, began), guard=guard, reads=reads)
    patch = envelope(*(f"*** Add File: {name}.txt\n+x" for name in "abc"))
    call = ToolContext("session", "call", CancelToken(), print)
    running = asyncio.ensure_future(call.cancel.guard(tool.handler(call, {"patch": patch})))
    await began.wait()
    call.cancel.cancel("enough")
    with pytest.raises(Interrupted):
        await running
    assert sorted(path.name for path in workspace.iterdir()) == ["a.txt", "b.txt", "c.txt"]


async def test_cancel_before_the_first_write_changes_nothing(user_home, guard, reads, workspace):
    call = ToolContext("session", "call", CancelToken(), print)

    class Stopped(LocalFiles):
        async def stat(self, path):
            call.cancel.cancel("enough")
            return await super().stat(path)

    tool = make_tool(
        "patch", files=Stopped(lambda: str(workspace), user_home), guard=guard, reads=reads
    )
    with pytest.raises(Interrupted):
        await tool.handler(call, {"patch": envelope("*** Add File: a.txt", "+x")})
    assert list(workspace.iterdir()) == []
