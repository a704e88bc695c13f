"""Writing files, and where it is not allowed."""

import os

import pytest

from hermes.core.errors import ToolArgumentsInvalid, ToolDenied, ToolError
from hermes.terminal import LocalFiles
from tests.workspace import make_tool


@pytest.fixture
def tool(files, guard, reads):
    return make_tool("write_file", files=files, guard=guard, reads=reads)


async def test_file_is_written_with_its_folders(tool, use, workspace):
    text = await use(tool, path="a/b.txt", content="één\ntwo")
    assert text == "created a/b.txt: 9 bytes, 2 lines"
    assert (workspace / "a/b.txt").read_text() == "één\ntwo"
    assert await use(tool, path="a/b.txt", content="x\n") == "replaced a/b.txt: 2 bytes, 1 line"
    assert await use(tool, path="empty", content="") == "created empty: 0 bytes, 0 lines"
    await use(tool, path="a.txt", content="one\r\ntwo\n")
    assert (workspace / "a.txt").read_bytes() == b"one\r\ntwo\n"


async def test_link_inside_the_workspace_stays_a_link(tool, use, workspace):
    (workspace / "real.txt").write_text("old")
    (workspace / "link.txt").symlink_to("real.txt")
    await use(tool, path="link.txt", content="new", overwrite=True)
    assert (workspace / "link.txt").is_symlink()
    assert (workspace / "real.txt").read_text() == "new"


async def test_file_errors_are_one_line(tool, use, workspace):
    (workspace / "file").touch()
    with pytest.raises(ToolError, match=r"^cannot write file/below: not a directory$"):
        await use(tool, path="file/below", content="x")
    with pytest.raises(ToolError, match=r"^cannot write \.: is a directory$"):
        await use(tool, path=".", content="x")
    with pytest.raises(ToolArgumentsInvalid, match="not valid text"):
        await use(tool, path="a", content="\ud800")
    os.mkfifo(workspace / "pipe")
    with pytest.raises(ToolError, match="device, pipe or socket"):
        await use(tool, path="pipe", content="x")


@pytest.mark.parametrize(
    "path",
    [
        "~/.ssh/authorized_keys", "~/.bashrc", "~/.zshrc", "~/.aws/credentials", "~/.netrc",
        "~/.config/fish/config.fish", "~/.hermes/.env", "~/.hermes/config.yaml",
        "~/.hermes/profiles/x/config.yaml", "/etc/passwd", "/usr/bin/ls", "/boot/x", "/dev/sda",
        "../.ssh/config", "/proc/self/mem",
    ],
)  # fmt: skip
async def test_protected_files_are_refused_before_and_at_the_write(tool, use, path):
    concern = await tool.examine({"path": path, "content": "x"})
    assert concern.refused
    with pytest.raises(ToolDenied, match="must not be written"):
        await use(tool, path=path, content="x")


async def test_link_does_not_bypass_protected_files(tool, use, workspace, user_home):
    (user_home / ".ssh").mkdir()
    (workspace / "innocent").symlink_to(user_home / ".ssh")
    concern = await tool.examine({"path": "innocent/authorized_keys"})
    assert concern.refused
    with pytest.raises(ToolDenied):
        await use(tool, path="innocent/authorized_keys", content="x")
    assert list((user_home / ".ssh").iterdir()) == []


async def test_store_that_is_itself_a_link_is_still_protected(tool, workspace, user_home):
    (workspace / "keys").mkdir()
    (user_home / ".ssh").symlink_to(workspace / "keys")
    concern = await tool.examine({"path": "keys/authorized_keys"})
    assert concern.refused


async def test_writing_outside_the_workspace_needs_approval(tool, use, tmp_path):
    concern = await tool.examine({"path": str(tmp_path / "elsewhere.txt")})
    assert not concern.refused
    assert concern.kind == "write outside the workspace"
    assert await tool.examine({"path": "inside.txt"}) is None
    assert await tool.examine({"path": "../work/inside.txt"}) is None
    # A path that was not examined before needs approval in the call.
    with pytest.raises(ToolDenied, match="outside the workspace"):
        await use(tool, path=str(tmp_path / "unseen.txt"), content="x")
    assert not (tmp_path / "unseen.txt").exists()


async def test_link_changed_after_approval_is_examined_again(tool, use, workspace, tmp_path):
    (workspace / "inside").mkdir()
    (workspace / "link").symlink_to("inside")
    assert await tool.examine({"path": "link/a.txt"}) is None
    (workspace / "link").unlink()
    (workspace / "link").symlink_to(tmp_path)
    with pytest.raises(ToolDenied, match="outside the workspace"):
        await use(tool, path="link/a.txt", content="x")
    assert not (tmp_path / "a.txt").exists()


async def test_isolated_backend_refuses_only_protected_files(files, guard, reads, use, tmp_path):
    tool = make_tool("write_file", files=files, guard=guard, reads=reads, isolated=True)
    outside = str(tmp_path / "elsewhere.txt")
    assert await tool.examine({"path": outside}) is None
    await use(tool, path=outside, content="x")
    concern = await tool.examine({"path": "~/.bashrc"})
    assert concern.refused


async def test_line_ends_and_byte_order_mark_are_kept(tool, use, workspace):
    path = workspace / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    text = await use(tool, path="a.txt", content="1\n2\n3\n", overwrite=True)
    assert path.read_bytes() == b"\xef\xbb\xbf1\r\n2\r\n3\r\n"
    assert text.endswith("3 lines (CRLF line ends and byte order mark kept)")
    await use(tool, path="a.txt", content="\ufeff1\r\n2\n")
    assert path.read_bytes() == b"\xef\xbb\xbf1\r\n2\n", "content with ends of its own"


async def test_unread_file_is_not_replaced(files, guard, tool, use, workspace, reads):
    path = workspace / "a.txt"
    path.write_text("the user's\n")
    with pytest.raises(ToolError, match=r"^a.txt exists and you have not read it$") as refused:
        await use(tool, path="a.txt", content="new\n")
    assert refused.value.hint == "read it first, use patch, or pass overwrite=true"
    read_file = make_tool("read_file", files=files, guard=guard, reads=reads)
    await use(read_file, path="a.txt")
    assert (await use(tool, path="a.txt", content="new\n")).startswith("replaced")
    assert (await use(tool, path="a.txt", content="newer\n")).startswith("replaced"), "its own"
    path.write_text("the user's again\n")
    with pytest.raises(ToolError, match=r"^a.txt was changed since you last read it$"):
        await use(tool, path="a.txt", content="newest\n")
    assert path.read_text() == "the user's again\n"
    text = await use(tool, path="a.txt", content="newest\n", overwrite=True)
    assert text == "replaced a.txt: 7 bytes, 1 line"


async def test_empty_file_is_replaced_unread(tool, use, workspace):
    (workspace / "a.txt").touch()
    assert (await use(tool, path="a.txt", content="new\n")).startswith("replaced")


async def test_syntax_error_is_reported(tool, use, workspace):
    text = await use(tool, path="a.py", content="def f(:\n    pass\n")
    assert "[syntax error: line 1:" in text
    text = await use(tool, path="a.py", content="# more\ndef f(:\n    pass\n")
    assert "syntax error" not in text, "it was there before"
    assert "syntax error" not in await use(tool, path="a.py", content="x = 1\n")


async def test_change_during_the_call_stops_the_write(user_home, guard, reads, use, workspace):
    (workspace / "a.txt").write_text("old")

    class Meanwhile(LocalFiles):
        async def read(self, path, *, most):
            found = await super().read(path, most=most)
            (workspace / "a.txt").write_text("the user saved it")
            return found

    tool = make_tool(
        "write_file", files=Meanwhile(lambda: str(workspace), user_home), guard=guard, reads=reads
    )
    with pytest.raises(ToolError, match="changed by another program just now"):
        await use(tool, path="a.txt", content="x", overwrite=True)
    assert (workspace / "a.txt").read_text() == "the user saved it"


async def test_huge_file_is_replaced_without_being_read(tool, use, workspace):
    with (workspace / "huge").open("wb") as file:
        file.truncate(1 << 30)
    text = await use(tool, path="huge", content="x", overwrite=True)
    assert text == "replaced huge: 1 byte, 1 line"


async def test_names_that_are_not_utf_8(tool, use, workspace):
    path = workspace / os.fsdecode(b"caf\xe9.txt")
    path.write_text("old\n")
    text = await use(tool, path="caf\\xe9.txt", content="new\n", overwrite=True)
    assert "replaced caf\\xe9.txt" in text
    assert path.read_text() == "new\n"
    assert len(list(workspace.iterdir())) == 1
