"""GitHistory: snapshots and commits of a folder, and undoing one change of a file."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from hermes.store.git_history import (
    Git,
    GitHistory,
    HistoryOptions,
    TooManyFiles,
    TreeChange,
    TreeEntry,
    UndoConflict,
    merge_lines,
)

OPTIONS = {"excluded": ("*.tmp",), "list_nested": lambda _folder: ["inner.txt"]}
CONFIG = "[user]\n\tname = Hermes\n\temail = hermes@localhost\n"


def history_of(folder: Path, **options: object) -> GitHistory:
    folder.mkdir(exist_ok=True)
    git = Git(shutil.which("git") or "git", folder.parent / "store", folder)
    history = GitHistory(git, folder, HistoryOptions(**{**OPTIONS, "config": CONFIG, **options}))
    history.prepare()
    return history


async def file_id(history: GitHistory, text: str) -> str:
    return await history.git.line("hash-object", "-w", "--stdin", data=text.encode())


async def test_snapshot_contains_nested_repositories_and_no_excluded_files(tmp_path: Path):
    history = history_of(tmp_path / "work")
    for name in ("a.txt", "b.tmp", "nested/inner.txt", "nested/.git/HEAD", "nested/other.txt"):
        (tmp_path / "work" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "work" / name).write_text(name)
    shutil.rmtree(tmp_path / "work/nested/.git")
    await Git(shutil.which("git") or "git", tmp_path / "work/nested/.git", tmp_path).run("init")
    snapshot = await history.snapshot()
    assert set(await history.entries(snapshot.tree)) == {"a.txt", "nested/inner.txt"}


async def test_large_files_are_skipped_and_too_many_are_refused(tmp_path: Path):
    history = history_of(tmp_path / "work", max_file_bytes=10, max_files=2)
    (tmp_path / "work/large.txt").write_text("x" * 11)
    assert (await history.snapshot()).skipped == ("large.txt",)
    for number in range(3):
        (tmp_path / "work" / f"{number}.txt").write_text("x")
    with pytest.raises(TooManyFiles, match="more than 2 files"):
        await history.snapshot()


async def test_equal_tree_is_not_committed_twice(tmp_path: Path):
    history = history_of(tmp_path / "work", branch="refs/heads/main")
    assert await history.commit((await history.snapshot()).tree, "nothing") is None
    (tmp_path / "work/a.txt").write_text("1")
    first = await history.commit((await history.snapshot()).tree, "one")
    assert await history.commit((await history.snapshot()).tree, "again") is None
    (tmp_path / "work/a.txt").write_text("2")
    second = await history.commit((await history.snapshot()).tree, "two")
    assert [(each.id, each.message.strip()) for each in await history.log()] == [
        (second, "two"),
        (first, "one"),
    ]
    (change,) = await history.changes("", str(second))
    assert await history.changes(str(first), str(second)) == [change]
    assert "+2" in await history.diff("", str(second), limit=1000)
    assert [each.id for each in await history.log(since=str(first), path="a.txt")] == [second]


async def test_undo_is_a_three_way_merge(tmp_path: Path):
    history = history_of(tmp_path / "work")
    old, new = "1\n2\n3\n4\n5\n", "one\n2\n3\n4\n5\n"
    later, merged = "one\n2\n3\n4\nfive\n", "1\n2\n3\n4\nfive\n"
    ids = {text: await file_id(history, text) for text in (old, new, later, merged, "other\n")}
    plain = {text: TreeEntry("100644", object_id) for text, object_id in ids.items()}
    executable, link = TreeEntry("100755", ids[new]), TreeEntry("120000", ids[later])
    cases = [
        ((plain[old], plain[new], plain[new]), plain[old]),
        ((plain[old], plain[new], plain[old]), plain[old]),
        ((plain[old], plain[new], plain[later]), plain[merged]),
        ((plain[old], plain[new], executable), TreeEntry("100755", ids[old])),
        ((None, plain[new], plain[new]), None),
        ((plain[old], None, None), plain[old]),
        ((plain[old], plain[new], None), UndoConflict.DELETED),
        ((plain[old], None, plain[later]), UndoConflict.RECREATED),
        ((None, plain[new], plain[later]), UndoConflict.CHANGED_NEW),
        ((plain[old], plain[new], link), UndoConflict.CHANGED),
        ((plain[old], plain[new], plain["other\n"]), UndoConflict.SAME_LINES),
    ]
    for (before, after, now), expected in cases:
        result = await history.undo(TreeChange("a", before, after), now)
        assert result == expected, (before, after, now)


@pytest.mark.parametrize(
    ("ours", "theirs", "merged"),
    [
        ("A b c d", "a B c d", "A B c d"),
        ("a x b c d", "A b c d", "A x b c d"),
        ("a b c d", "b c d", "b c d"),
        ("A b c d", "A b C d", "A b C d"),
        ("a b c d x", "a b c", "a b c x"),
        ("A b c d", "x b c d", None),
        ("a x b c d", "a y b c d", None),
        ("a B x c d", "a y d", None),
        ("a b c \0", "A b c d", None),
    ],
)
def test_neighbouring_lines_are_merged_and_equal_ones_conflict(ours, theirs, merged):
    texts = [each.replace(" ", "\n").encode() + b"\n" for each in (ours, "a b c d", theirs)]
    expected = None if merged is None else merged.replace(" ", "\n").encode() + b"\n"
    assert merge_lines(*texts) == expected


async def test_a_git_that_is_given_up_takes_its_helpers_with_it(tmp_path: Path, gone: Any) -> None:
    """As `git-remote-http` is: it holds the pipes open and waits for a server."""
    program = tmp_path / "git"
    program.write_text('#!/bin/sh\nsleep 300 &\necho $! > "$GIT_DIR/helper"\nsleep 300\n')
    program.chmod(0o700)
    running = asyncio.create_task(Git(str(program), tmp_path, tmp_path).run("fetch"))
    while not (helper := (tmp_path / "helper")).exists() or not helper.read_text().strip():
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await gone(int(helper.read_text()))
