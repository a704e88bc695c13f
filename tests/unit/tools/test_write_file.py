"""Writing files, and where it is not allowed."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from hermes.core.errors import ToolArgumentsInvalid, ToolDenied, ToolError
from hermes.core.tool import Tool
from hermes.security.paths import Guard
from hermes.terminal.local_files import LocalFiles
from hermes.tools.write_file import write_file_tool

Use = Callable[..., Awaitable[str]]


@pytest.fixture
def tool(files: LocalFiles, guard: Guard, workspace: Path) -> Tool:
    return write_file_tool(files, guard, lambda: str(workspace))


async def test_a_file_is_written_with_its_folders(tool: Tool, use: Use, workspace: Path) -> None:
    text = await use(tool, path="a/b.txt", content="één\ntwo")
    assert text == "created a/b.txt: 9 bytes, 2 lines"
    assert (workspace / "a/b.txt").read_text() == "één\ntwo"
    assert await use(tool, path="a/b.txt", content="x\n") == "replaced a/b.txt: 2 bytes, 1 line"
    assert await use(tool, path="empty", content="") == "created empty: 0 bytes, 0 lines"


async def test_line_ends_stay_as_given(tool: Tool, use: Use, workspace: Path) -> None:
    await use(tool, path="a.txt", content="one\r\ntwo\n")
    assert (workspace / "a.txt").read_bytes() == b"one\r\ntwo\n"


async def test_a_link_inside_the_workspace_stays_a_link(
    tool: Tool, use: Use, workspace: Path
) -> None:
    (workspace / "real.txt").write_text("old")
    (workspace / "link.txt").symlink_to("real.txt")
    await use(tool, path="link.txt", content="new")
    assert (workspace / "link.txt").is_symlink()
    assert (workspace / "real.txt").read_text() == "new"


async def test_failures_are_one_line(tool: Tool, use: Use, workspace: Path) -> None:
    (workspace / "file").touch()
    with pytest.raises(ToolError, match=r"^cannot write file/below: not a directory$"):
        await use(tool, path="file/below", content="x")
    with pytest.raises(ToolError, match=r"^cannot write \.: is a directory$"):
        await use(tool, path=".", content="x")
    with pytest.raises(ToolArgumentsInvalid, match="not valid text"):
        await use(tool, path="a", content="\ud800")


@pytest.mark.parametrize(
    "path",
    [
        "~/.ssh/authorized_keys", "~/.bashrc", "~/.zshrc", "~/.aws/credentials", "~/.netrc",
        "~/.config/fish/config.fish", "~/.hermes/.env", "~/.hermes/config.yaml",
        "~/.hermes/profiles/x/config.yaml", "/etc/passwd", "/usr/bin/ls", "/boot/x", "/dev/sda",
        "../.ssh/config", "/proc/self/mem",
    ],
)  # fmt: skip
async def test_protected_files_are_refused_before_and_at_the_write(
    tool: Tool, use: Use, path: str
) -> None:
    concern = tool.examine({"path": path, "content": "x"})
    assert concern is not None
    assert concern.refused
    with pytest.raises(ToolDenied, match="must not be written"):
        await use(tool, path=path, content="x")


async def test_a_link_does_not_get_around_the_list(
    tool: Tool, use: Use, workspace: Path, user_home: Path
) -> None:
    (user_home / ".ssh").mkdir()
    (workspace / "innocent").symlink_to(user_home / ".ssh")
    concern = tool.examine({"path": "innocent/authorized_keys"})
    assert concern is not None
    assert concern.refused
    with pytest.raises(ToolDenied):
        await use(tool, path="innocent/authorized_keys", content="x")
    assert list((user_home / ".ssh").iterdir()) == []


async def test_a_store_that_is_itself_a_link_is_still_protected(
    tool: Tool, workspace: Path, user_home: Path
) -> None:
    (workspace / "keys").mkdir()
    (user_home / ".ssh").symlink_to(workspace / "keys")
    concern = tool.examine({"path": "keys/authorized_keys"})
    assert concern is not None
    assert concern.refused


def test_outside_the_workspace_a_person_is_asked(tool: Tool, tmp_path: Path) -> None:
    concern = tool.examine({"path": str(tmp_path / "elsewhere.txt")})
    assert concern is not None
    assert not concern.refused
    assert concern.kind == "write outside the workspace"
    assert tool.examine({"path": "inside.txt"}) is None
    assert tool.examine({"path": "../work/inside.txt"}) is None
