"""What a model gets when it searches."""

import pytest

from hermes.core.errors import ToolArgumentsInvalid, ToolError
from tests.workspace import make_tool


@pytest.fixture
def tool(files, guard, workspace):
    for name, text in {"a.py": "x = 1\ny = 2\n", "src/b.py": "x = 3\n", "c.md": "x\n"}.items():
        path = workspace / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return make_tool("search_files", folder=workspace, files=files, guard=guard)


@pytest.mark.parametrize("pattern", ["*.py", ".py", "**/*.py"])
async def test_files_are_counted_and_listed(tool, use, pattern):
    text = await use(tool, pattern=pattern, target="files")
    assert text == f"2 files match {pattern} in .:\na.py\nsrc/b.py"


async def test_zero_and_one_file_are_worded_correctly(tool, use):
    assert await use(tool, pattern="*.zig", target="files") == "0 files match *.zig in ."
    text = await use(tool, pattern="*.md", target="files")
    assert text.splitlines()[0] == "1 file matches *.md in .:"


async def test_long_list_is_paged(tool, use, workspace):
    for number in range(120):
        (workspace / f"f{number:03}.txt").touch()
    first = await use(tool, pattern="*.txt", target="files")
    assert first.startswith("120 files match *.txt")
    assert first.endswith("f049.txt\n[shown: 1-50 of 120; continue with offset=50]")
    last = await use(tool, pattern="*.txt", target="files", offset=100)
    assert last.splitlines()[1] == "f100.txt"
    assert last.endswith("[shown: 101-120 of 120]")


async def test_matches_have_place_and_count(tool, use):
    text = await use(tool, pattern=r"x = \d")
    assert text == "2 matches in 2 files:\na.py:1:x = 1\nsrc/b.py:1:x = 3"
    assert await use(tool, pattern="nowhere") == "0 matches in 0 files for 'nowhere'"


async def test_output_modes_files_only_and_count(tool, use):
    files_only = await use(tool, pattern="=", output_mode="files_only")
    assert files_only == "3 matches in 2 files:\na.py\nsrc/b.py"
    count = await use(tool, pattern="=", output_mode="count")
    assert count == "3 matches in 2 files:\na.py: 2\nsrc/b.py: 1"
    around = await use(tool, pattern="y", context=1, file_glob="*.py")
    assert around == "1 match in 1 file:\na.py-1-x = 1\na.py:2:y = 2"


async def test_invalid_regex_and_missing_folder_are_errors(tool, use):
    with pytest.raises(ToolArgumentsInvalid, match="not a valid regular expression"):
        await use(tool, pattern="(")
    with pytest.raises(ToolArgumentsInvalid, match="empty"):
        await use(tool, pattern="")
    with pytest.raises(ToolError, match="no folder or file nowhere"):
        await use(tool, pattern="x", path="nowhere")


async def test_searching_credentials_needs_approval(tool):
    assert await tool.examine({"pattern": "KEY", "path": "~/.ssh"}) is not None
    assert await tool.examine({"pattern": "KEY"}) is None
