"""What a model gets when it reads a file."""

import os

import pytest

from hermes.core.errors import ToolError
from tests.workspace import make_tool


@pytest.fixture
def tool(files, guard, reads):
    return make_tool("read_file", files=files, guard=guard, reads=reads)


async def test_lines_are_numbered(tool, use, workspace):
    (workspace / "a.txt").write_text("one\n\nthree|x\n")
    assert await use(tool, path="a.txt") == "1|one\n2|\n3|three|x"


async def test_partial_page_names_the_next_offset(tool, use, workspace):
    (workspace / "a.txt").write_text("".join(f"{n}\n" for n in range(1, 1_001)))
    first = await use(tool, path="a.txt")
    assert first.endswith("500|500\n[lines 1-500 of 1000; continue with offset=501]")
    assert await use(tool, path="a.txt", offset=1_000) == "1000|1000"
    assert "has 1000 lines" in await use(tool, path="a.txt", offset=2_000)
    assert (await use(tool, path="a.txt", offset=-3, limit=1)).startswith("1|1\n")


async def test_crlf_and_invalid_bytes_are_mentioned(tool, use, workspace):
    (workspace / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ncaf\xe9\r\n")
    text = await use(tool, path="a.txt")
    assert text.splitlines()[:2] == ["1|one", "2|caf�"]
    assert "CRLF" in text
    assert "not UTF-8" in text


async def test_empty_file_is_reported_and_a_huge_line_cut(tool, use, workspace):
    (workspace / "a.txt").touch()
    assert await use(tool, path="a.txt") == "[the file is empty]"
    (workspace / "a.txt").write_text("x" * 10_000_000)
    assert await use(tool, path="a.txt") == f"1|{'x' * 2_000} [… line cut]"


async def test_too_much_at_once_is_refused_with_a_size_that_works(tool, use, workspace):
    (workspace / "a.txt").write_text(("y" * 1_000 + "\n") * 500)
    with pytest.raises(ToolError, match="the limit is 100000") as refusal:
        await use(tool, path="a.txt")
    limit = int(refusal.value.hint.rpartition("limit=")[2])
    assert (await use(tool, path="a.txt", limit=limit)).startswith("1|yyy")


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("READM.md", "README.md"), ("readme.md", "README.md"), ("config.yml", "config.yaml")],
)
async def test_missing_file_suggests_similar_names(tool, use, workspace, wrong, right):
    (workspace / right).touch()
    (workspace / "unrelated").touch()
    with pytest.raises(ToolError, match="there is no file") as missing:
        await use(tool, path=wrong)
    assert right in missing.value.hint
    assert "unrelated" not in missing.value.hint


async def test_other_than_text_files_are_refused_with_a_reason(tool, use, workspace):
    (workspace / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    os.mkfifo(workspace / "pipe")
    for path, reason in {
        "image.png": "binary",
        "pipe": "device, pipe or socket",
        ".": "is a folder",
        "nowhere/at/all": "there is no file",
        "x\0y": "null byte",
    }.items():
        with pytest.raises(ToolError, match=reason):
            await use(tool, path=path)


async def test_configured_limits_hold(files, guard, use, workspace):
    settings = {"tool_output": {"max_lines": 3, "max_line_length": 4}, "file_read_max_chars": 1_000}
    tool = make_tool("read_file", files=files, guard=guard, settings=settings)
    (workspace / "a.txt").write_text("abcdefg\n" * 10)
    text = await use(tool, path="a.txt")
    assert text.splitlines()[-2:] == [
        "3|abcd [… line cut]",
        "[lines 1-3 of 10; continue with offset=4]",
    ]


async def test_reading_credentials_needs_approval(tool, user_home, hermes_home):
    for path in ("~/.ssh/id_rsa", str(user_home / ".aws/credentials"), str(hermes_home / ".env")):
        concern = await tool.examine({"path": path})
        assert concern is not None, path
        assert not concern.refused
    for path in ("src/a.py", "/etc/hosts", "x\0y"):
        assert await tool.examine({"path": path}) is None
    isolated = make_tool("read_file", isolated=True)
    assert await isolated.examine({"path": "~/.ssh/id_rsa"}) is None


TEXT = "".join(f"line {number} of a text that is long enough\n" for number in range(1, 31))


async def test_unchanged_page_is_not_sent_twice(tool, use, workspace, reads):
    (workspace / "a.txt").write_text(TEXT)
    first = await use(tool, path="a.txt")
    note = await use(tool, path="./a.txt")
    assert note == "[unchanged since you read it (lines 1-30); read again to see it]"
    assert await use(tool, path="a.txt") == first, "a repeated read returns the text"
    assert await use(tool, path="a.txt") == note
    assert await use(tool, path="a.txt", offset=2) != note, "another page"
    (workspace / "b.txt").write_text("short\n")
    assert await use(tool, path="b.txt") == await use(tool, path="b.txt") == "1|short"


async def test_page_is_sent_again_after_a_change_or_compaction(tool, use, workspace, reads):
    (workspace / "a.txt").write_text(TEXT)
    first = await use(tool, path="a.txt")
    reads.forget_pages()
    assert await use(tool, path="a.txt") == first
    before = (workspace / "a.txt").stat()
    (workspace / "a.txt").write_text(TEXT.replace("line 7", "LINE 7"))
    os.utime(workspace / "a.txt", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert "LINE 7" in await use(tool, path="a.txt"), "same size and time, other text"
