"""One change is taken back, and what came after it stays."""

import os

import pytest

from hermes.core.errors import StoreError, UsageError
from hermes.skills.history import UndoRefused

LINES = "".join(f"line {n}\n" for n in range(20))


async def test_undo_and_undo_of_the_undo(skills):
    await skills.change("a/SKILL.md", "1\n", "one")
    second = await skills.change("a/SKILL.md", "2\n", "two", session="s")
    back = await skills.history.undo(second.short)
    assert skills.read("a/SKILL.md") == "1\n"
    assert (back.reason, back.undoes, back.who) == ("undo: two", second.id, "user")
    again = await skills.history.undo(back.id)
    assert skills.read("a/SKILL.md") == "2\n"
    assert again.reason == "undo: undo: two"
    with pytest.raises(UsageError, match="is already undone"):
        await skills.history.undo(back.id)


async def test_later_changes_elsewhere_in_the_file_stay(skills):
    await skills.change("a/SKILL.md", LINES)
    first = await skills.change("a/SKILL.md", LINES.replace("line 2\n", "LINE 2\n"))
    await skills.change("a/SKILL.md", skills.read("a/SKILL.md").replace("line 17\n", "LINE 17\n"))
    await skills.history.undo(first.id)
    assert skills.read("a/SKILL.md") == LINES.replace("line 17\n", "LINE 17\n")


async def test_a_later_change_of_the_same_lines_is_named_and_nothing_is_half_done(skills):
    await skills.change("a/SKILL.md", "1\n", "one")
    both = await skills.do(
        lambda: (skills.put("a/SKILL.md", "2\n"), skills.put("a/references/x.md", "x\n")),
        reason="two files",
    )
    later = await skills.change("a/references/x.md", "y\n", "later")
    before, log = skills.there(), await skills.reasons()
    with pytest.raises(UndoRefused) as refusal:
        await skills.history.undo(both.id)
    assert f"a/references/x.md was changed again by {later.label}" in str(refusal.value)
    assert refusal.value.hint.startswith(f"undo {later.short} first")
    assert skills.there() == before
    assert await skills.reasons() == log


async def test_in_order_the_newest_first_everything_can_be_undone(skills):
    made = [await skills.change("a/SKILL.md", f"{n}\n", f"r{n}") for n in range(4)]
    for each in reversed(made):
        await skills.history.undo(each.id)
    assert skills.there() == {}
    assert not (skills.folder / "a").exists()


async def test_what_was_changed_by_hand_is_recorded_before_and_is_in_the_way(skills):
    await skills.change("a/SKILL.md", "1\n", "one")
    second = await skills.change("a/SKILL.md", "2\n", "two")
    skills.put("a/SKILL.md", "by hand\n")
    with pytest.raises(UndoRefused, match="changed by hand"):
        await skills.history.undo(second.id)
    assert skills.read("a/SKILL.md") == "by hand\n"
    by_hand = await skills.history.commit()
    await skills.history.undo(by_hand.id)
    assert skills.read("a/SKILL.md") == "2\n"


async def test_a_deleted_skill_comes_back_as_it_was(skills):
    odd = "zwei Wörter/references/日本語 “x”\n.md"
    skills.put("zwei Wörter/SKILL.md", "é\n")
    skills.put(odd, bytes(range(256)))
    skills.put(os.fsdecode(b"zwei W\xc3\xb6rter/assets/\xff.bin"), b"\xff")
    skills.put("zwei Wörter/scripts/run.sh", "#!/bin/sh\n").chmod(0o755)
    (skills.folder / "zwei Wörter/link").symlink_to("SKILL.md")
    before = skills.there()
    there = skills.folder / "zwei Wörter"
    gone = await skills.do(lambda: there.rename(skills.folder / ".trash"), "zwei Wörter")
    assert skills.there() == {}
    await skills.history.undo(gone.id)
    assert skills.there() == before
    assert os.access(there / "scripts/run.sh", os.X_OK)
    assert not os.access(there / "SKILL.md", os.X_OK)
    assert (there / "link").readlink().name == "SKILL.md"
    diff = await skills.history.diff(gone.id)
    assert "zwei Wörter/SKILL.md" in diff


async def test_only_the_right_to_run_it_changed(skills):
    skills.put("a/scripts/x.sh", "1\n")
    commit = await skills.do(lambda: (skills.folder / "a/scripts/x.sh").chmod(0o755))
    await skills.change("a/scripts/x.sh", "2\n")
    await skills.history.undo(commit.id)
    assert skills.read("a/scripts/x.sh") == "2\n"
    assert not os.access(skills.folder / "a/scripts/x.sh", os.X_OK)


async def test_binary_files_that_both_changed_are_refused(skills):
    await skills.change("a/assets/x", b"\0 1\n\n\n\n")
    second = await skills.change("a/assets/x", b"\0 2\n\n\n\n")
    await skills.change("a/assets/x", b"\0 2\n\n\n\n3\n")
    with pytest.raises(UndoRefused):
        await skills.history.undo(second.id)


async def test_the_beginning_cannot_be_undone(skills):
    skills.put("a/SKILL.md", "mine")
    await skills.change("b/SKILL.md", "1")
    first = (await skills.history.log())[-1]
    with pytest.raises(UsageError, match="the history begins with it"):
        await skills.history.undo(first.id)


async def test_a_link_in_the_place_of_a_folder_is_not_followed(skills, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    skills.put("a/references/x.md", "1\n")
    gone = await skills.do((skills.put("b", "") and skills.folder / "a/references/x.md").unlink)
    (skills.folder / "a/references").rmdir()
    (skills.folder / "a/references").symlink_to(outside)
    with pytest.raises(UndoRefused, match=r"cannot be written|changed again"):
        await skills.history.undo(gone.id)
    assert list(outside.iterdir()) == []


async def test_a_link_that_leads_out_is_replaced_not_written_through(skills, tmp_path):
    outside = tmp_path / "precious"
    outside.write_text("precious")
    skills.put("a/x", "1\n")

    def link() -> None:
        (skills.folder / "a/x").unlink()
        (skills.folder / "a/x").symlink_to(outside)

    commit = await skills.do(link)
    await skills.history.undo(commit.id)
    assert not (skills.folder / "a/x").is_symlink()
    assert (skills.read("a/x"), outside.read_text()) == ("1\n", "precious")


async def test_an_undo_that_cannot_be_finished_leaves_all_as_it_was(skills):
    """A name so long that the temporary file beside it cannot be made."""
    long = f"a/references/{'x' * 250}"
    skills.put("a/SKILL.md", "1\n")
    skills.put(long, "1\n")
    both = await skills.do(
        lambda: (skills.put("a/SKILL.md", "2\n"), skills.put(long, "2\n")), reason="both"
    )
    before = skills.there()
    with pytest.raises(StoreError, match="cannot be written"):
        await skills.history.undo(both.id)
    assert skills.there() == before
    await skills.change("b/SKILL.md", "1\n", "next")
    assert (await skills.reasons())[:2] == ["next", "both"]
