"""Changes of skills are recorded: what, why, by whom, and apart from what was done by hand."""

import asyncio
import logging
import os
import subprocess
from pathlib import Path

import pytest

from hermes.core.errors import StoreError, UsageError
from hermes.skills.history import NO_GIT, SkillHistory
from hermes.skills.history_repo import AS_FOUND, BY_HAND, Author, SkillChange


async def test_a_change_is_found_with_its_reason_session_and_author(skills):
    done = await skills.change("deploy/SKILL.md", "one\n", "learnt the port", session="s1")
    (found,) = await skills.history.log()
    assert found == done
    assert (found.reason, found.session, found.who) == ("learnt the port", "s1", "agent")
    assert (found.skills, found.action) == (("deploy",), "write")
    assert found.at > 1_700_000_000


async def test_what_was_there_before_and_what_is_changed_by_hand_are_recorded_apart(skills):
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


async def test_work_that_fails_leaves_no_record_and_later_changes_are_not_blamed_on_it(skills):
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
    output = await skills.history._require_repository().git.run("ls-files")
    assert output.decode().split() == ["a/assets/poetry.lock"]


async def test_a_gitignore_has_no_say(skills):
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


async def test_without_git_the_work_is_done_and_the_user_is_told_once(tmp_path):
    told: list[str] = []
    history = SkillHistory(tmp_path / "skills", told.append, git="")
    file = tmp_path / "skills" / "SKILL.md"
    for text in ("1", "2"):
        change = SkillChange("edit", ("a",), "why", Author.AGENT)
        _, commit = await history.record(change, lambda text=text: file.write_text(text))
        assert commit is None
    assert (file.read_text(), told) == ("2", [NO_GIT])
    for asking in (history.log(), history.diff(), history.undo("abcd")):
        with pytest.raises(UsageError, match="git is not installed"):
            await asking
    assert not (tmp_path / "skills/.history").exists()


async def test_looking_creates_nothing(skills):
    assert await skills.history.log() == []
    with pytest.raises(UsageError, match="no change of skills is recorded yet"):
        await skills.history.diff()
    assert not skills.folder.exists()


async def test_ids_that_name_nothing(skills):
    await skills.change("a/SKILL.md", "1")
    for wrong in ("deadbeef", "--all", "a", "HEAD"):
        with pytest.raises(UsageError, match="no change has the id"):
            await skills.history.diff(wrong)


async def test_a_damaged_store_is_put_aside_and_the_change_is_recorded(skills, caplog):
    await skills.change("a/SKILL.md", "1", "one")
    for each in (skills.folder / ".history/objects").rglob("*"):
        if each.is_file():
            each.chmod(0o600)
            each.write_bytes(b"rubbish")
    (skills.folder / ".history/index").write_bytes(b"rubbish")
    await skills.change("a/SKILL.md", "2", "two")
    assert await skills.reasons() == ["two", AS_FOUND]
    assert "damaged" in skills.told[0]
    warnings = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert not warnings, "it is told once, not in a warning of the log as well"
    assert len(list(skills.folder.glob(".history.broken-*"))) == 1


async def test_a_damaged_store_is_said_to_whoever_looks(skills):
    await skills.change("a/SKILL.md", "1", "one")
    (skills.folder / ".history/config").write_text("[")
    with pytest.raises(StoreError, match="the history of the skills cannot be read") as told:
        await skills.history.log()
    assert "the next change" in told.value.hint
    await skills.change("a/SKILL.md", "2", "two")
    assert await skills.reasons() == ["two", "one"]


async def test_a_damaged_list_of_files_is_made_anew(skills):
    await skills.change("a/SKILL.md", "1", "one")
    (skills.folder / ".history/index").write_bytes(b"rubbish")
    (skills.folder / ".history/index.lock").touch()
    await skills.change("a/SKILL.md", "2", "two")
    assert await skills.reasons() == ["two", "one"]
    assert skills.told == []


async def test_a_folder_that_cannot_be_made(skills):
    skills.folder.write_text("a file in its place")
    with pytest.raises(StoreError, match="cannot be locked"):
        await skills.change("a/SKILL.md", "1")


async def test_a_history_that_cannot_be_written_changes_nothing(skills):
    skills.put(".history", "a file in its place")
    with pytest.raises(StoreError, match="history of the skills cannot be written"):
        await skills.change("a/SKILL.md", "1")
    assert skills.there() == {}


async def test_somebody_who_stops_waiting_does_not_stop_the_record(skills):
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
        path for path, *_ in await skills.history._require_repository().changed_entries(commit.id)
    ] == ["a/SKILL.md"]
