"""The message is edited in the user's own editor, in a file nobody else can read."""

from pathlib import Path

import pytest

from hermes.core.errors import HermesError, UsageError
from hermes.tui.input import edit_in_editor


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script; what it is to do is written into it."""
    path = tmp_path / "my editor"
    path.touch(mode=0o755)
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", f"'{path}' --wait")
    return path


def script(path: Path, commands: str) -> None:
    path.write_text(f"#!/bin/sh\ncd {path.parent}\n{commands}\n")


async def test_what_the_editor_leaves_is_the_message(editor: Path) -> None:
    script(
        editor, 'cp "$2" before; stat -c %a "$2" > mode; echo "$1 $2" > given; echo more >> "$2"'
    )
    assert await edit_in_editor("draft ü\n") == "draft ü\nmore"
    folder = editor.parent
    assert (folder / "before").read_text() == "draft ü\n"
    assert (folder / "mode").read_text() == "600\n"
    option, file = (folder / "given").read_text().split()
    assert (option, Path(file).name) == ("--wait", "message.md")
    assert not Path(file).parent.exists()


async def test_an_editor_that_fails_changes_nothing(editor: Path) -> None:
    script(editor, 'echo "$2" > given; echo lost > "$2"; exit 3')
    with pytest.raises(HermesError, match="ended with code 3; the message is unchanged"):
        await edit_in_editor("draft")
    assert not Path((editor.parent / "given").read_text().strip()).exists()


async def test_an_editor_that_removes_the_file(editor: Path) -> None:
    script(editor, 'rm "$2"')
    with pytest.raises(HermesError, match="cannot be read"):
        await edit_in_editor("draft")


async def test_a_missing_editor_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", "no-such-editor-here")
    with pytest.raises(UsageError, match="cannot find the editor 'no-such-editor-here'"):
        await edit_in_editor("draft")
    monkeypatch.setenv("EDITOR", "'unfinished")
    with pytest.raises(UsageError, match="EDITOR cannot be read"):
        await edit_in_editor("draft")
