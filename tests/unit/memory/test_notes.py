"""Memory files on a real disk, with other writers around."""

import fcntl
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from hermes.core.errors import ToolError
from hermes.memory.notes import (
    LOCK_FILE,
    MAX_BYTES,
    MemoryScope,
    NoteFile,
    NoteLocation,
    note_locations,
)

WRITER = """
import sys
from pathlib import Path
from hermes.memory.notes import MemoryScope, NoteFile, note_locations

folder, name = Path(sys.argv[1]), sys.argv[2]
file = NoteFile(folder, note_locations(folder, MemoryScope(chat="c"))["chat"], 60)
for number in range(15):
    file.change(lambda before: (*before, f"{name} {number}"))
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "home" / "memories"


@pytest.fixture
def notes(root: Path) -> NoteFile:
    return NoteFile(root, note_locations(root, MemoryScope())["memory"], lock_seconds=10)


def add(entry: str):
    return lambda before: (*before, entry)


def test_reading_makes_nothing(root: Path, notes: NoteFile) -> None:
    assert notes.read() == ()
    assert not root.parent.exists()


def test_files_and_folders_are_for_the_owner_alone(root: Path) -> None:
    place = note_locations(root, MemoryScope(user="telegram:42"))["user"]
    NoteFile(root, place, 10).change(add("likes tea"))
    assert place.file.read_text() == "likes tea\n"
    assert (place.file.parent / "OWNER").read_text() == "user telegram:42\n"
    below = [root, *root.rglob("*")]
    folders = {stat.S_IMODE(path.stat().st_mode) for path in below if path.is_dir()}
    files = {stat.S_IMODE(path.stat().st_mode) for path in below if path.is_file()}
    assert (folders, files) == ({0o700}, {0o600})


def test_a_file_people_can_read_is_closed_when_it_is_written(root: Path, notes: NoteFile) -> None:
    root.mkdir(parents=True)
    file = root / "MEMORY.md"
    file.write_text("by hand")
    file.chmod(0o644)
    assert notes.change(add("by us")) == ("by hand", "by us")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text() == "by hand\n§\nby us\n"


def test_what_was_written_by_hand_in_between_is_kept(root: Path, notes: NoteFile) -> None:
    notes.change(add("one"))
    (root / "MEMORY.md").write_text("one, corrected\n§\ntwo\n")
    assert notes.change(add("three")) == ("one, corrected", "two", "three")


def test_a_change_by_hand_in_the_very_moment_of_a_write_is_kept(
    root: Path, notes: NoteFile
) -> None:
    notes.change(add("one"))
    asked: list[tuple[str, ...]] = []

    def edit(before: tuple[str, ...]) -> tuple[str, ...]:
        asked.append(before)
        if len(asked) == 1:
            (root / "MEMORY.md").write_text("by hand")
        return (*before, "ours")

    assert notes.change(edit) == ("by hand", "ours")
    assert asked == [("one",), ("by hand",)]


def test_a_file_that_never_rests_is_given_up_and_left_alone(root: Path, notes: NoteFile) -> None:
    notes.change(add("one"))
    count = iter(range(1000))

    def edit(before: tuple[str, ...]) -> tuple[str, ...]:
        (root / "MEMORY.md").write_text("x" * next(count))
        return (*before, "ours")

    with pytest.raises(ToolError, match="keeps changing"):
        notes.change(edit)
    assert "ours" not in (root / "MEMORY.md").read_text()


def test_a_failed_edit_changes_nothing(root: Path, notes: NoteFile) -> None:
    notes.change(add("one"))

    def edit(before: tuple[str, ...]) -> tuple[str, ...]:
        raise ToolError("no")

    with pytest.raises(ToolError, match="no"):
        notes.change(edit)
    assert notes.read() == ("one",)
    assert notes.change(add("two")) == ("one", "two")


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"good\n\xff\xfe", "byte 5 is not UTF-8"),
        (b"good\0", "binary data"),
        (b"x" * (MAX_BYTES + 1), "more than 1,000,000 bytes"),
    ],
)
def test_a_damaged_file_is_named_and_kept(
    root: Path, notes: NoteFile, data: bytes, problem: str
) -> None:
    root.mkdir(parents=True)
    (root / "MEMORY.md").write_bytes(data)
    for attempt in (notes.read, lambda: notes.change(add("x"))):
        with pytest.raises(ToolError, match=problem) as caught:
            attempt()
        assert str(root / "MEMORY.md") in caught.value.hint
    assert (root / "MEMORY.md").read_bytes() == data


def test_what_the_disk_refuses_is_one_clear_line(root: Path, notes: NoteFile) -> None:
    (root / "MEMORY.md").mkdir(parents=True)
    with pytest.raises(ToolError, match=r"cannot read MEMORY\.md: is a directory"):
        notes.read()
    in_the_way = root.parent / "file"
    in_the_way.write_text("")
    elsewhere = NoteFile(in_the_way, NoteLocation(in_the_way / "MEMORY.md"), 10)
    with pytest.raises(ToolError, match=r"cannot write MEMORY\.md: file exists"):
        elsewhere.change(add("x"))


def test_a_link_to_a_file_elsewhere_stays_one(tmp_path: Path, root: Path, notes: NoteFile) -> None:
    root.mkdir(parents=True)
    real = tmp_path / "synced.md"
    real.write_text("one")
    (root / "MEMORY.md").symlink_to(real)
    notes.change(add("two"))
    assert (root / "MEMORY.md").is_symlink()
    assert real.read_text() == "one\n§\ntwo\n"


def test_who_cannot_have_the_lock_says_so_and_gets_it_later(root: Path) -> None:
    notes = NoteFile(root, note_locations(root, MemoryScope())["memory"], lock_seconds=0.05)
    notes.change(add("one"))
    descriptor = os.open(root / LOCK_FILE, os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with pytest.raises(ToolError, match="another process holds the lock"):
        notes.change(add("two"))
    assert notes.read() == ("one",)
    os.close(descriptor)
    assert notes.change(add("two")) == ("one", "two")


def test_processes_that_write_at_the_same_time_lose_nothing(root: Path) -> None:
    names = ("a", "b", "c")
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(root), name], stderr=subprocess.PIPE)
        for name in names
    ]
    for writer in writers:
        _, problem = writer.communicate(timeout=60)
        assert writer.returncode == 0, problem.decode()
    found = NoteFile(root, note_locations(root, MemoryScope(chat="c"))["chat"], 10).read()
    assert sorted(found) == sorted(f"{name} {number}" for name in names for number in range(15))
    for name in names:
        own = [entry for entry in found if entry.startswith(name)]
        assert own == [f"{name} {number}" for number in range(15)]
    assert not list(root.rglob("*.tmp"))


def test_a_file_where_the_folder_should_be_is_an_error_of_ours(root: Path, notes: NoteFile) -> None:
    root.parent.mkdir()
    root.write_text("not a folder")
    with pytest.raises(ToolError, match=r"cannot read MEMORY\.md: not a directory"):
        notes.read()
    with pytest.raises(ToolError, match=r"cannot write MEMORY\.md"):
        notes.change(add("x"))


def test_a_pipe_in_the_place_of_the_notes_does_not_hang(root: Path, notes: NoteFile) -> None:
    root.mkdir(parents=True)
    os.mkfifo(root / "MEMORY.md")
    with pytest.raises(ToolError, match="it is a pipe"):
        notes.read()


def test_what_could_not_be_read_again_is_not_written(root: Path, notes: NoteFile) -> None:
    notes.change(add("Old."))
    with pytest.raises(ToolError, match="cannot have more than 1,000,000 bytes"):
        notes.change(add("x" * MAX_BYTES))
    assert notes.read() == ("Old.",)
