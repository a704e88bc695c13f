"""`hermes skills list`, `view` and `reset` for the skills of this machine."""

import asyncio
from pathlib import Path

import pytest

from hermes.core.errors import UsageError
from hermes.skills.history import SkillHistory
from hermes.skills.index import SkillIndex
from hermes.skills.skill import bundled_folder, skill_roots
from hermes.skills.writing.draft import DraftAction, SkillDraft
from hermes.skills.writing.writer import SkillWriter
from tests.unit.cli.test_skills import hermes_skills
from tests.unit.skills.skill_files import put


def test_guessed_values_are_reported_with_the_skill(hermes_home: Path):
    put(hermes_home / "skills", "tools", "---\nname: My Tools\ndescription: d\n---\nBody\n")
    code, out, notes = hermes_skills(hermes_home, "view", "my-tools")
    assert (code, out.splitlines()[-1]) == (0, "Body")
    assert "warning: the name 'My Tools' is taken as 'my-tools'" in notes


def test_only_files_inside_the_skill_are_shown(hermes_home: Path):
    folder = put(hermes_home / "skills", "tools")
    (folder / "notes.md").write_text("A note\n")
    (folder / "logo.png").write_bytes(b"\x89PNG\0")
    assert hermes_skills(hermes_home, "view", "tools", "notes.md")[1] == "A note\n"
    assert "holds no text" in hermes_skills(hermes_home, "view", "tools", "logo.png")[1]
    for wrong in ("../tools/SKILL.md", "/etc/passwd", "nothing.md", "x" * 5000, "."):
        with pytest.raises(UsageError):
            hermes_skills(hermes_home, "view", "tools", wrong)


def test_broken_skill_is_listed_under_its_own_name(hermes_home: Path):
    put(hermes_home / "skills", "a/whole")
    put(hermes_home / "skills", "a/torn", "---\n[\n---\n")
    (hermes_home / "skills" / "a" / "lost").symlink_to("/nowhere/at/all")
    out = hermes_skills(hermes_home, "list", "--source", "user")[1]
    assert "  torn [user, broken: its head is not valid YAML" in out
    assert "  lost [user, broken: the link leads nowhere" in out


@pytest.mark.parametrize("damage", [b"{", b"\xff\xfe\x00", b'{"skills": {"a": 1}}', b'{"\xff": 1}'])
def test_a_damaged_list_of_what_is_installed_hides_nothing(hermes_home: Path, damage: bytes):
    put(hermes_home / "skills", "mine")
    hub = put(hermes_home / "skills/.hub/skills", "theirs").parents[1]
    (hub / "lock.json").write_bytes(damage)
    code, out, notes = hermes_skills(hermes_home, "list")
    assert code == 0
    assert "  mine [user] Does mine" in out and "  theirs [hub] Does theirs" in out
    assert "the list of installed skills is damaged" in notes
    assert "install the skills again" in notes


def test_empty_entry_of_external_dirs_is_reported(hermes_home: Path):
    hermes_home.mkdir()
    (hermes_home / "config.yaml").write_text("skills: {external_dirs: ['']}\n")
    notes = hermes_skills(hermes_home, "list")[2]
    assert notes == "warning: skills.external_dirs has an empty entry, which is left out\n"


def test_a_broken_copy_of_a_bundled_skill_is_dropped(hermes_home: Path):
    copy = put(hermes_home / "skills", "productivity/notes", "---\n[\n---\n")
    (copy / ".overlay.json").write_text('{"name":"notes","source":"bundled","hash":""}')
    code, out, _ = hermes_skills(hermes_home, "reset", "notes", "--yes")
    assert code == 0
    assert out.startswith("dropped your copy of notes: the bundled skill counts again")
    assert not copy.exists()


def test_the_first_change_of_a_bundled_skill_is_shown_without_the_copying(hermes_home: Path):
    draft = SkillDraft(
        action=DraftAction.PATCH,
        name="notes",
        old_string="version: 1.0.0",
        new_string="version: 1.0.1",
        reason="a new version",
    )
    skills = SkillIndex(skill_roots(hermes_home / "skills", bundled=bundled_folder()))
    history = SkillHistory(hermes_home / "skills")
    writer = SkillWriter(hermes_home / "skills", skills, history, lambda _: ())
    asyncio.run(writer.manage(draft))
    code, out, _ = hermes_skills(hermes_home, "diff")
    first, how, *lines = out.splitlines()
    assert (code, how) == (0, "in a copy of the bundled one:")
    assert first.endswith("notes: a new version")
    changed = [line for line in lines if line[0] in "+-"]
    assert changed == ["--- a/SKILL.md", "+++ b/SKILL.md", "-version: 1.0.0", "+version: 1.0.1"]
    mark = hermes_home / "skills" / "productivity" / "notes" / ".overlay.json"
    assert mark.exists(), "the rest was copied"
