"""Going back undoes the agent's work and nothing else."""

import os
from pathlib import Path

import pytest

from hermes.core.errors import UsageError
from hermes.tools.checkpoints import (
    CheckpointOptions,
    Checkpoints,
    SnapshotLimits,
    format_restored,
    rollback,
)

LINES = [f"line {number}\n" for number in range(1, 21)]


def text(**changed: str) -> str:
    lines = list(LINES)
    for key, value in changed.items():
        lines[int(key[1:]) - 1] = f"{value}\n"
    return "".join(lines)


async def test_changes_of_the_agent_are_undone(checkpoints, work, turn):
    work.write("changed.txt", "old\n")
    work.write("deleted/deep.txt", "was there\n")
    work.write("untouched.txt", "same\n")
    async with turn("do it"):
        work.write("changed.txt", "new\n")
        work.remove("deleted/deep.txt")
        work.write("made/new.txt", "hello\n")
    done = await checkpoints.restore(1)
    assert done.restored == ("changed.txt", "deleted/deep.txt")
    assert done.removed == ("made/new.txt",)
    assert not done.kept
    assert work.names == ["changed.txt", "deleted/deep.txt", "untouched.txt"]
    assert work.read("changed.txt") == "old\n"
    assert not (work.folder / "made").exists()


async def test_changes_of_the_user_are_kept(checkpoints, work, turn):
    work.write("both.txt", text())
    work.write("agent.txt", "a1\n")
    async with turn("first"):
        work.write("both.txt", text(n2="agent"))
        work.write("agent.txt", "a2\n")
    work.write("both.txt", text(n2="agent", n18="user"))
    work.write("mine.txt", "made by the user\n")
    done = await checkpoints.restore(1)
    assert work.read("both.txt") == text(n18="user")
    assert work.read("agent.txt") == "a1\n"
    assert work.read("mine.txt") == "made by the user\n"
    assert (done.restored, done.merged, done.removed) == (("agent.txt",), ("both.txt",), ())


async def test_edits_of_the_user_between_turns_survive_all_of_it(checkpoints, work, turn):
    work.write("a.txt", text())
    async with turn("one"):
        work.write("a.txt", text(n2="agent 1"))
    work.write("a.txt", text(n2="agent 1", n10="user"))
    async with turn("two"):
        work.write("a.txt", text(n2="agent 1", n10="user", n18="agent 2"))
    work.write("b.txt", "the user's\n")
    async with turn("three"):
        work.write("b.txt", "the agent's\n")
    assert [each.reason for each in await checkpoints.list()] == ["three", "two", "one"]
    await checkpoints.restore(3)
    assert work.read("a.txt") == text(n10="user")
    assert work.read("b.txt") == "the user's\n"


@pytest.mark.parametrize(
    ("before", "agent", "user", "reason"),
    [
        ("x\n", "agent\n", "user\n", "you changed the same lines since"),
        (None, "agent\n", "user\n", "the agent made it and you changed it since"),
        ("x\n", None, "user\n", "the agent deleted it and you made it anew"),
        ("x\n", "agent\n", None, "you deleted it since"),
        ("a\0b", "a\0c", "a\0d", "you changed the same lines since"),
    ],
)
async def test_conflict_keeps_users_version(checkpoints, work, turn, before, agent, user, reason):
    work.write("other.txt", "1\n")
    for step in (before, agent, user):
        if step is before and step is not None:
            work.write("a", step)
        if step is agent:
            async with turn("it"):
                work.write("other.txt", "2\n")
                work.remove("a") if step is None else work.write("a", step)
        if step is user:
            work.remove("a") if step is None else work.write("a", step)
    done = await checkpoints.restore(1)
    assert done.kept == {"a": reason}
    assert (work.read("a") if user is not None else None) == user
    assert work.read("other.txt") == "1\n", "the rest is restored"
    assert f"left as they are:\n  a: {reason}" in format_restored(done)
    forced = await checkpoints.restore(2, force=True)
    assert not forced.kept
    assert (work.read("a") if "a" in work.names else None) == before


async def test_rollback_can_be_undone(checkpoints, work, turn):
    work.write("a.txt", "1\n")
    async with turn("change"):
        work.write("a.txt", "2\n")
        work.write("new.txt", "n\n")
    assert "`/rollback 1` undoes this." in await rollback(checkpoints, "1")
    assert work.names == ["a.txt"]
    newest = (await checkpoints.list())[0]
    assert (newest.kind, newest.reason) == ("rollback", "rollback to 1")
    await checkpoints.restore(1)
    assert (work.read("a.txt"), work.read("new.txt")) == ("2\n", "n\n")
    await checkpoints.restore(3)
    assert work.read("a.txt") == "1\n", "the numbers moved on; the turn can still be undone"


async def test_one_file_or_folder_can_be_restored(checkpoints, work, turn):
    for name in ("a.txt", "src/b.txt", "src/c.txt"):
        work.write(name, "1\n")
    async with turn("change"):
        for name in ("a.txt", "src/b.txt", "src/c.txt"):
            work.write(name, "2\n")
    assert "restored: src/b.txt" in await rollback(checkpoints, "1 src/b.txt")
    found = [work.read(name) for name in ("a.txt", "src/b.txt", "src/c.txt")]
    assert found == ["2\n", "1\n", "2\n"]
    await checkpoints.restore(2, "src")
    assert work.read("src/c.txt") == "1\n"
    assert work.read("a.txt") == "2\n"
    work.remove("a.txt")
    await checkpoints.restore(3, str(work.folder / "a.txt"))
    assert work.read("a.txt") == "1\n", "who names a file that is gone wants it back"
    with pytest.raises(UsageError, match="is not in"):
        await checkpoints.restore(1, "../elsewhere")
    with pytest.raises(UsageError, match="was not changed"):
        await checkpoints.restore(1, "nothing.txt")


async def test_modes_links_names_and_bytes_are_restored(checkpoints, work, turn):
    odd = os.fsdecode(b"caf\xe9\nname")
    work.write("run.sh", "#!/bin/sh\n")
    (work.folder / "run.sh").chmod(0o755)
    (work.folder / "link").symlink_to("run.sh")
    work.write(odd, b"\xff\r\n\0")
    work.write(
        ".gitattributes", "* text=auto eol=lf\n*.txt filter=lfs working-tree-encoding=UTF-16\n"
    )
    work.write("crlf.txt", b"a\r\nb\r\n")
    async with turn("change"):
        (work.folder / "run.sh").chmod(0o644)
        work.remove("link")
        work.write("link", "a file now\n")
        work.remove(odd)
        work.write("crlf.txt", b"a\nb\n")
    done = await checkpoints.restore(1)
    assert done.restored == ("caf\\xe9\nname", "crlf.txt", "link", "run.sh")
    assert (work.folder / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (work.folder / "link").readlink() == Path("run.sh")
    assert (work.folder / odd).read_bytes() == b"\xff\r\n\0"
    assert (work.folder / "crlf.txt").read_bytes() == b"a\r\nb\r\n"


async def test_ignored_files_are_neither_stored_nor_removed(checkpoints, work, turn):
    work.write(".gitignore", "data/\n.env\n")
    work.write("data/precious.csv", "1,2\n")
    work.write("node_modules/x/index.js", "x\n")
    async with turn("open up"):
        work.write(".gitignore", ".env\n")
        work.write("data/more.csv", "by the agent\n")
        work.write("node_modules/x/index.js", "y\n")
    done = await checkpoints.restore(1)
    assert work.read(".gitignore") == "data/\n.env\n"
    assert work.read("data/precious.csv") == "1,2\n", "it was there before, unseen"
    assert set(done.kept) == {"data/precious.csv", "data/more.csv"}
    assert work.read("node_modules/x/index.js") == "y\n"


async def test_nested_repositories_are_stored_without_touching_their_git(checkpoints, work, turn):
    work.write("sub/.git/HEAD", "ref: refs/heads/main\n")
    (work.folder / "sub/.git/objects").mkdir()
    (work.folder / "sub/.git/refs").mkdir()
    work.write("sub/a.txt", "1\n")
    work.write("sub/.hidden", "h\n")
    async with turn("change"):
        work.write("sub/a.txt", "2\n")
        work.remove("sub/.hidden")
        work.write("sub/new.txt", "n\n")
    await checkpoints.restore(1)
    assert work.names == ["sub/.git/HEAD", "sub/.hidden", "sub/a.txt"]
    assert work.read("sub/a.txt") == "1\n"


async def test_folder_swapped_for_a_link_is_not_written_through(checkpoints, work, turn, tmp_path):
    work.write("sub/a.txt", "1\n")
    async with turn("change"):
        work.write("sub/a.txt", "2\n")
    work.remove("sub/a.txt")
    (work.folder / "sub").rmdir()
    (tmp_path / "a.txt").write_text("outside\n")
    (work.folder / "sub").symlink_to(tmp_path)
    done = await checkpoints.restore(1, "sub/a.txt")
    assert "link" in done.kept["sub/a.txt"]
    assert (tmp_path / "a.txt").read_text() == "outside\n"


async def test_turn_that_was_killed_counts_until_the_next_one(checkpoints, work, turn):
    work.write("a.txt", "1\n")
    assert await checkpoints.take("killed") is not None
    work.write("a.txt", "2\n")
    async with turn("next"):
        work.write("a.txt", "3\n")
    await checkpoints.restore(1)
    assert work.read("a.txt") == "2\n"
    await checkpoints.restore(3)
    assert work.read("a.txt") == "1\n"


async def test_file_too_large_to_store_is_not_removed(store, work, user_home):
    options = CheckpointOptions(limits=SnapshotLimits(file_bytes=100))
    checkpoints = Checkpoints(store, work.folder, user_home, options)
    work.write("big.bin", "x" * 101)
    record = await checkpoints.take("shrink")
    assert record is not None
    work.write("big.bin", "x")
    await checkpoints.finish(record)
    done = await checkpoints.restore(1)
    assert done.kept == {"big.bin": "it was too big to keep"}
    assert work.read("big.bin") == "x"
