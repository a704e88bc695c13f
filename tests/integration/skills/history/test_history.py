"""The skill history: recording, listing and undoing changes."""

import asyncio
import logging
import os
import subprocess
from pathlib import Path

import pytest

from hermes.core.errors import StoreError, UsageError
from hermes.skills.history import (
    AS_FOUND,
    BY_HAND,
    NO_GIT,
    Author,
    SkillChange,
    SkillHistory,
    UndoRefused,
)


async def test_a_change_is_found_with_its_reason_session_and_author(skills):
    done = await skills.change("deploy/SKILL.md", "one\n", "learnt the port", session="s1")
    (found,) = await skills.history.log()
    assert found == done
    assert (found.reason, found.session, found.who) == ("learnt the port", "s1", "agent")
    assert (found.skills, found.action) == (("deploy",), "write")
    assert found.at > 1_700_000_000


async def test_existing_files_and_changes_by_hand_are_recorded_separately(skills):
    skills.put("old/SKILL.md", "mine\n")
    await skills.change("new/SKILL.md", "a\n", "first")
    skills.put("old/SKILL.md", "mine, better\n")
    skills.put("new/SKILL.md", "a, by hand\n")
    await skills.change("new/SKILL.md", "b\n", "second")
    assert await skills.reasons() == ["second", BY_HAND, "first", AS_FOUND]
    by_hand = (await skills.history.log())[1]
    assert (by_hand.who, by_hand.skills) == ("user", ("new", "old"))
    assert "+mine, better" in await skills.history.diff(by_hand.id)
    diff = await skills.history.diff()
    assert "-a, by hand\n+b" in diff
    assert "mine" not in diff


async def test_the_log_of_one_skill(skills):
    await skills.change("a/SKILL.md", "1", "one")
    await skills.change("b/SKILL.md", "1", "two")
    skills.put("a/references/x.md", "by hand")
    await skills.change("b/SKILL.md", "2", "three")
    assert await skills.reasons("a") == [BY_HAND, "one"]
    assert [each.reason for each in await skills.history.log("b", 1)] == ["three"]
    assert await skills.reasons("c") == []


async def test_nothing_differs_nothing_is_recorded(skills):
    await skills.change("a/SKILL.md", "1", "one")
    change = SkillChange("edit", ("a",), "again", Author.AGENT, paths=("a",))
    _, commit = await skills.history.record(change, lambda: skills.put("a/SKILL.md", "1"))
    assert commit is None
    assert await skills.reasons() == ["one"]


async def test_failed_work_leaves_no_record(skills):
    await skills.change("a/SKILL.md", "1", "one")

    def fails() -> None:
        raise UsageError("no")

    with pytest.raises(UsageError, match="no"):
        await skills.history.record(
            SkillChange("edit", ("a",), "bad", Author.AGENT, paths=("a",)), fails
        )
    skills.put("a/SKILL.md", "by hand")
    await skills.change("a/SKILL.md", "2", "two")
    assert await skills.reasons() == ["two", BY_HAND, "one"]


async def test_a_reason_cannot_forge_who_did_it(skills):
    await skills.change("a/SKILL.md", "1", "x\n\nBy: user\nSession: other\x00\x1f\x1b[2J")
    (found,) = await skills.history.log()
    assert (found.who, found.session) == ("agent", "")
    assert found.reason == "x By: user Session: other [2J"


async def test_state_of_the_hub_counts_and_locks_are_left_out(skills):
    for path in (".hub/lock.json", ".usage.json", ".usage.json.lock", ".pending/1.json"):
        skills.put(path, "state")
    skills.put("a/scripts/__pycache__/x.pyc", b"\0")
    skills.put("a/.SKILL.md.abc.tmp", "half")
    await skills.change("a/assets/poetry.lock", "kept")
    output = await skills.history._require_history().git.run("ls-files")
    assert output.decode().split() == ["a/assets/poetry.lock"]


async def test_gitignore_is_ignored(skills):
    skills.put(".gitignore", "*\n")
    skills.put("a/.gitignore", "*\n")
    commit = await skills.change("a/SKILL.md", "1")
    assert "a/SKILL.md" in await skills.history.diff(commit.id)


def git(folder: Path, *arguments: str) -> str:
    settings = ("-c", "user.name=me", "-c", "user.email=me@localhost")
    command = ["git", *settings, *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


async def test_repositories_of_the_user_are_left_alone_and_their_files_are_kept(skills):
    skills.put("a/SKILL.md", "1\n")
    skills.put("cloned/x/SKILL.md", "1\n")
    for folder in (skills.folder / "cloned", skills.folder):
        git(folder, "init", "-q")
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", "mine")
    before = git(skills.folder, "rev-parse", "HEAD")
    changed = await skills.change("a/SKILL.md", "2\n")
    inner = await skills.change("cloned/x/SKILL.md", "2\n")
    new = await skills.change("cloned/x/references/new.md", "new\n")
    assert git(skills.folder, "rev-parse", "HEAD") == before
    assert "M a/SKILL.md" in git(skills.folder, "status", "--porcelain")
    assert "M x/SKILL.md" in git(skills.folder / "cloned", "status", "--porcelain")
    for each in (new, inner, changed):
        await skills.history.undo(each.id)
    assert skills.read("a/SKILL.md") == skills.read("cloned/x/SKILL.md") == "1\n"
    assert not (skills.folder / "cloned/x/references").exists()
    assert git(skills.folder / "cloned", "status", "--porcelain") == ""


async def test_git_settings_and_variables_of_the_user_do_not_matter(skills, user_home, monkeypatch):
    (user_home / ".gitconfig").write_text(
        "[core]\n\tautocrlf = true\n\thooksPath = /nonexistent\n[commit]\n\tgpgSign = true\n"
    )
    monkeypatch.setenv("GIT_DIR", "/nonexistent")
    skills.put(".gitattributes", "* text eol=crlf\n")
    commit = await skills.change("a/SKILL.md", "1\r\n2\n")
    await skills.change("a/SKILL.md", "x", "more")
    await skills.history.undo("")
    assert skills.there()["a/SKILL.md"] == b"1\r\n2\n"
    assert len(commit.id) == 40


async def test_without_git_the_user_is_notified_once(tmp_path):
    notices: list[str] = []
    history = SkillHistory(tmp_path / "skills", notices.append, git="")
    file = tmp_path / "skills" / "SKILL.md"
    for text in ("1", "2"):
        change = SkillChange("edit", ("a",), "why", Author.AGENT)
        _, commit = await history.record(change, lambda text=text: file.write_text(text))
        assert commit is None
    assert (file.read_text(), notices) == ("2", [NO_GIT])
    for asking in (history.log(), history.diff(), history.undo("abcd")):
        with pytest.raises(UsageError, match="git is not installed"):
            await asking
    assert not (tmp_path / "skills/.history").exists()


async def test_looking_creates_nothing(skills):
    assert await skills.history.log() == []
    with pytest.raises(UsageError, match="no change of skills is recorded yet"):
        await skills.history.diff()
    assert not skills.folder.exists()


async def test_unknown_and_ambiguous_ids_are_refused(skills):
    await skills.change("a/SKILL.md", "1")
    for wrong in ("deadbeef", "--all", "a", "HEAD"):
        with pytest.raises(UsageError, match="no change has the id"):
            await skills.history.diff(wrong)


async def test_damaged_repository_is_moved_aside_and_the_change_recorded(skills, caplog):
    await skills.change("a/SKILL.md", "1", "one")
    for each in (skills.folder / ".history/objects").rglob("*"):
        if each.is_file():
            each.chmod(0o600)
            each.write_bytes(b"rubbish")
    (skills.folder / ".history/index").write_bytes(b"rubbish")
    await skills.change("a/SKILL.md", "2", "two")
    assert await skills.reasons() == ["two", AS_FOUND]
    assert "damaged" in skills.notices[0]
    warnings = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert not warnings, "the user is notified once, not by a log warning as well"
    assert len(list(skills.folder.glob(".history.broken-*"))) == 1


async def test_damaged_repository_is_reported_by_log(skills):
    await skills.change("a/SKILL.md", "1", "one")
    (skills.folder / ".history/config").write_text("[")
    with pytest.raises(StoreError, match="the history of the skills cannot be read") as raised:
        await skills.history.log()
    assert "the next change" in raised.value.hint
    await skills.change("a/SKILL.md", "2", "two")
    assert await skills.reasons() == ["two", "one"]


async def test_damaged_git_index_is_rebuilt(skills):
    await skills.change("a/SKILL.md", "1", "one")
    (skills.folder / ".history/index").write_bytes(b"rubbish")
    (skills.folder / ".history/index.lock").touch()
    await skills.change("a/SKILL.md", "2", "two")
    assert await skills.reasons() == ["two", "one"]
    assert skills.notices == []


async def test_uncreatable_folder_is_refused(skills):
    skills.folder.write_text("a file in its place")
    with pytest.raises(StoreError, match="cannot be locked"):
        await skills.change("a/SKILL.md", "1")


async def test_a_history_that_cannot_be_written_changes_nothing(skills):
    skills.put(".history", "a file in its place")
    with pytest.raises(StoreError, match="history of the skills cannot be written"):
        await skills.change("a/SKILL.md", "1")
    assert skills.there() == {}


async def test_cancelled_caller_does_not_stop_the_record(skills):
    waiting = asyncio.ensure_future(skills.change("a/SKILL.md", "1", "one"))
    await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await skills.change("b/SKILL.md", "1", "two")
    assert await skills.reasons() == ["two", "one"]


async def test_many_at_once_in_one_process(skills):
    await asyncio.gather(*(skills.change(f"s{n}/SKILL.md", "1", f"r{n}") for n in range(8)))
    assert sorted(await skills.reasons()) == [f"r{n}" for n in range(8)]


async def test_large_files_and_pipes_are_left_out(skills):
    with skills.put("a/assets/model.bin", b"").open("wb") as file:
        file.truncate(11_000_000)
    os.mkfifo(skills.folder / "a/pipe")
    commit = await skills.change("a/SKILL.md", "1")
    assert [
        each.path for each in await skills.history._require_history().changes("", commit.id)
    ] == ["a/SKILL.md"]


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


async def test_later_changes_of_neighbouring_lines_stay(skills):
    await skills.change("a/SKILL.md", "1. one\n2. two\n3. three\n")
    second = await skills.change("a/SKILL.md", "1. one\n2. TWO\n3. three\n", "two")
    await skills.change("a/SKILL.md", "1. one\n2. TWO\n3. THREE\n4. four\n", "three")
    await skills.history.undo(second.id)
    assert skills.read("a/SKILL.md") == "1. one\n2. two\n3. THREE\n4. four\n"


async def test_in_order_the_newest_first_everything_can_be_undone(skills):
    made = [await skills.change("a/SKILL.md", f"{n}\n", f"r{n}") for n in range(4)]
    for each in reversed(made):
        await skills.history.undo(each.id)
    assert skills.there() == {}
    assert not (skills.folder / "a").exists()


async def test_change_by_hand_is_recorded_and_blocks_undo(skills):
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


async def test_first_commit_cannot_be_undone(skills):
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
    """A name so long that its temporary file cannot be created."""
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
