"""From a repository to an installed skill and on: what is on the disk at every step."""

import asyncio
import json
import os
from pathlib import Path

import msgspec
import pytest

from hermes.core.errors import ConfigError, UsageError
from hermes.skills.hub.contents import InstallRefused, InvalidContent, NotAvailable, file_hashes
from hermes.skills.hub.hub import (
    Hub,
    HubOptions,
    UpdateState,
    audit_installed,
    check_update,
    check_updates,
    restore_skill,
)
from hermes.skills.hub.store import ABANDONED_SECONDS, PendingInstall, read_events
from hermes.skills.index import SkillIndex
from hermes.skills.skill import Source, skill_roots
from tests.integration.skills_hub.samples import dangerous
from tests.integration.skills_hub.wire import GitHub, below, skill

PDF = skill("pdf", "Old words.", files={"scripts/fill.sh": b"#!/bin/sh\necho 1\n"})
NEW = skill("pdf", "New words.", files={"references/a.md": b"# A\n"})


@pytest.fixture
def repo(github: GitHub) -> GitHub:
    github.commit("any/repo", {**below("pdf", PDF), **below("word", skill("word"))})
    return github


async def installed(hub: Hub, identifier: str = "any/repo/pdf", category: str = "") -> Path:
    one = await hub.prepare(identifier, category=category)
    return hub.accept(one).folder(hub.store.skills, one.name)


def left_in_quarantine(hub: Hub) -> list[Path]:
    return list(hub.store.quarantine.iterdir())


async def test_an_installed_skill_is_found_by_the_agent(hub: Hub, repo: GitHub, hermes_home: Path):
    folder = await installed(hub, category="Office Work")
    assert folder == hermes_home / "skills/.hub/skills/office-work/pdf"
    assert (folder / "scripts/fill.sh").stat().st_mode & 0o111
    found = SkillIndex(skill_roots(hermes_home / "skills")).get("pdf")
    assert (found.source, found.category) == (Source.HUB, "office-work")
    assert left_in_quarantine(hub) == []
    assert hermes_home.stat().st_mode & 0o077 == 0


async def test_the_lock_knows_origin_and_hashes(hub: Hub, repo: GitHub):
    await installed(hub)
    lock = json.loads(hub.store.lock_file.read_text())
    entry = lock["skills"]["pdf"]
    assert lock["version"] == 1
    assert entry["identifier"] == "any/repo/pdf"
    assert entry["origin"]["version"] == repo.heads["any/repo", "main"]
    assert set(entry["files"]) == set(PDF)
    assert [event.what for event in read_events(hub.store.log_file)] == ["installed"]


async def test_a_dangerous_skill_is_refused_even_by_force_and_can_be_looked_at(hub, github):
    github.commit("any/repo", below("bad", dangerous("bad")))
    one = await hub.prepare("any/repo/bad")
    assert one.report.verdict == "dangerous"
    with pytest.raises(InstallRefused):
        hub.accept(one, force=True)
    assert hub.store.lock().skills == {}
    assert not hub.store.skills.exists()
    held, files = hub.quarantine.find("bad") or pytest.fail("it is not in quarantine")
    assert files == one.files
    assert held.findings
    assert hub.quarantine.clean("bad") == ["bad"]
    assert left_in_quarantine(hub) == []
    assert [event.what for event in read_events(hub.store.log_file)] == ["refused"]


async def test_skill_refused_twice_is_kept_once(hub: Hub, github: GitHub):
    github.commit("any/repo", below("bad", dangerous("bad")))
    for _ in range(2):
        with pytest.raises(InstallRefused):
            hub.accept(await hub.prepare("any/repo/bad"))
    assert len(left_in_quarantine(hub)) == 1


async def test_a_change_after_the_scan_is_noticed(hub: Hub, repo: GitHub):
    one = await hub.prepare("any/repo/pdf")
    (one.staged / "SKILL.md").write_text("---\nname: pdf\ndescription: d\n---\nEvil.\n")
    with pytest.raises(InvalidContent, match="after the scan"):
        hub.accept(one)
    assert hub.store.lock().skills == {}


async def test_installed_name_is_not_replaced_from_another_source(hub: Hub, repo: GitHub):
    await installed(hub)
    repo.commit("other/repo", below("pdf", skill("pdf", "Mine.")))
    with pytest.raises(UsageError, match="from any/repo/pdf"):
        hub.accept(await hub.prepare("other/repo/pdf"), force=True)


async def test_the_short_and_the_long_identifier_are_one_skill(hub: Hub, github: GitHub):
    github.commit("any/repo", below("skills/pdf", PDF))
    await installed(hub, "any/repo/pdf")
    assert hub.installed("pdf").identifier == "any/repo/skills/pdf"
    hub.check_name(await hub.prepare("any/repo/skills/pdf"))


async def test_community_skill_does_not_replace_a_bundled_one(options: HubOptions, repo: GitHub):
    async with Hub(options, lambda name: "bundled" if name == "pdf" else "") as hub:
        with pytest.raises(UsageError, match="the bundled skill pdf"):
            hub.accept(await hub.prepare("any/repo/pdf"))
        hub.accept(await hub.prepare("any/repo/pdf"), force=True)


async def test_updates_are_found_and_installed_with_their_difference(hub: Hub, repo: GitHub):
    folder = await installed(hub, category="office")
    assert (await check_updates(hub))[0].state is UpdateState.CURRENT
    repo.commit("any/repo", {**below("pdf", NEW), "README.md": b"x"})
    [one] = await check_updates(hub)
    assert one.state is UpdateState.NEWER
    assert left_in_quarantine(hub) == []
    found = await check_update(hub, "pdf", hub.installed("pdf"))
    assert found.candidate is not None
    assert "-Old words." in found.candidate.difference
    assert "+New words." in found.candidate.difference
    entry = hub.accept(found.candidate)
    assert entry.updated_at
    assert entry.category == "office"
    assert not (folder / "scripts").exists()
    assert (folder / "references/a.md").read_bytes() == b"# A\n"
    assert audit_installed(hub).clean


async def test_push_to_other_files_is_not_an_update(hub: Hub, repo: GitHub):
    await installed(hub)
    repo.commit("any/repo", {**below("pdf", PDF), "README.md": b"changed\n"})
    assert (await check_updates(hub))[0].state is UpdateState.CURRENT


async def test_an_update_that_turned_dangerous_leaves_the_old_version(hub: Hub, repo: GitHub):
    folder = await installed(hub)
    repo.commit("any/repo", below("pdf", dangerous("pdf")))
    found = await check_update(hub, "pdf", hub.installed("pdf"))
    assert found.candidate is not None
    with pytest.raises(InstallRefused):
        hub.accept(found.candidate, force=True)
    assert b"Old words." in (folder / "SKILL.md").read_bytes()
    assert audit_installed(hub).clean


async def test_skill_removed_from_its_repository_is_reported_as_gone(hub: Hub, repo: GitHub):
    await installed(hub)
    repo.commit("any/repo", below("word", skill("word")))
    assert (await check_updates(hub))[0].state is UpdateState.GONE
    repo.limited = True
    [one] = await check_updates(hub)
    assert (one.state, "rate limit" in one.reason) == (UpdateState.UNKNOWN, True)


async def test_an_audit_notices_every_kind_of_tampering(hub: Hub, repo: GitHub):
    folder = await installed(hub)
    assert audit_installed(hub).clean
    (folder / "SKILL.md").write_text("---\nname: pdf\ndescription: d\n---\nOther.\n")
    (folder / "scripts/fill.sh").unlink()
    (folder / ".hidden").write_text("x")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__/a.pyc").write_bytes(b"x")
    [one] = audit_installed(hub).skills
    assert (one.changed, one.missing, one.added) == (
        ("SKILL.md",),
        ("scripts/fill.sh",),
        (".hidden",),
    )
    assert read_events(hub.store.log_file)[-1].what == "tampered"
    await restore_skill(hub, "pdf")
    assert audit_installed(hub).clean
    assert not (folder / ".hidden").exists()


async def test_an_audit_notices_links_missing_folders_and_strays(hub: Hub, repo: GitHub):
    folder = await installed(hub)
    (folder / "notes").symlink_to("/etc/passwd")
    assert "link" in audit_installed(hub).skills[0].problem
    folder.rename(hub.store.skills / "elsewhere")
    found = audit_installed(hub)
    assert "missing" in found.skills[0].problem
    assert found.strays == (str(hub.store.skills / "elsewhere"),)


async def test_restoring_does_not_bring_another_version(hub: Hub, repo: GitHub):
    await installed(hub)
    repo.commit("any/repo", below("pdf", NEW))
    with pytest.raises(NotAvailable, match="another version"):
        await restore_skill(hub, "pdf")
    assert left_in_quarantine(hub) == []


async def test_uninstalling_leaves_nothing(hub: Hub, repo: GitHub):
    await installed(hub, category="office")
    hub.uninstall("pdf")
    assert list(hub.store.skills.iterdir()) == []
    assert hub.store.lock().skills == {}
    with pytest.raises(NotAvailable):
        hub.uninstall("pdf")


async def test_two_installs_at_once_both_stay(options: HubOptions, repo: GitHub):
    async def one(name: str) -> None:
        async with Hub(options) as hub:
            candidate = await hub.prepare(f"any/repo/{name}")
            await asyncio.to_thread(hub.accept, candidate)

    await asyncio.gather(one("pdf"), one("word"))
    async with Hub(options) as hub:
        assert set(hub.store.lock().skills) == {"pdf", "word"}
        assert audit_installed(hub).clean


async def test_a_damaged_lock_is_not_overwritten(hub: Hub, repo: GitHub):
    await installed(hub)
    hub.store.lock_file.write_text("{")
    with pytest.raises(ConfigError, match="damaged"):
        await installed(hub, "any/repo/word")
    assert hub.store.lock_file.read_text() == "{"


async def test_an_old_interrupted_change_is_ended_before_the_quarantine_is_swept(hub, repo):
    one = await hub.prepare("any/repo/pdf")
    entry = hub.accept(one)
    hub.uninstall("pdf")
    staged = hub.quarantine.stage("pdf", PDF)
    note = PendingInstall("pdf", entry, staged.relative_to(hub.store.root).as_posix(), "trash/x")
    (hub.store.root / "pending.json").write_bytes(msgspec.json.encode(note))
    past = staged.stat().st_mtime - ABANDONED_SECONDS - 10
    os.utime(staged.parent, (past, past))
    await hub.prepare("any/repo/word")
    assert audit_installed(hub).clean
    assert list(hub.store.lock().skills) == ["pdf"]


async def test_a_lock_whose_hashes_were_changed_is_noticed(hub: Hub, repo: GitHub):
    folder = await installed(hub)
    text = hub.store.lock_file.read_text()
    entry = hub.installed("pdf")
    (folder / "SKILL.md").write_bytes(NEW["SKILL.md"])
    forged = file_hashes(NEW)["SKILL.md"]
    hub.store.lock_file.write_text(text.replace(entry.files["SKILL.md"], forged))
    (one,) = audit_installed(hub).skills
    assert "inconsistent" in one.problem


async def test_vanishing_quarantine_folder_is_ignored(hub: Hub, repo: GitHub):
    await hub.prepare("any/repo/pdf")
    (hub.store.quarantine / "gone").symlink_to("nowhere")
    await hub.prepare("any/repo/word")
