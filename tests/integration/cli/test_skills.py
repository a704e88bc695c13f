"""`hermes skills`: list, view, install, and the history of what the agent wrote."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest

from hermes.cli.main import find_entry
from hermes.config.home import Home
from hermes.core.errors import UsageError
from hermes.skills.history import SkillHistory
from hermes.skills.hub.contents import HubError
from hermes.skills.index import SkillIndex
from hermes.skills.skill import SkillUsage, bundled_folder, skill_roots
from hermes.skills.writing.draft import DraftAction, SkillDraft
from hermes.skills.writing.writer import SkillWriter, WritingOptions
from tests.cases import cases
from tests.unit.cli.terminal import Hermes, call
from tests.unit.skills.skill_files import put

CASES = cases(__file__)


def hermes_skills(home: Path, *arguments: str) -> tuple[int, str, str]:
    return call("skills", Home(home), *arguments)


def test_skills_is_a_command() -> None:
    assert find_entry("skills") is not None


@pytest.mark.parametrize(("arguments", "says"), CASES["commands without skills succeed and"])
def test_commands_without_skills_succeed_and_create_nothing(hermes_home, arguments, says):
    assert hermes_skills(hermes_home, *arguments) == (0, says, "")
    assert not hermes_home.exists()


@pytest.mark.parametrize("arguments", CASES["mistake is one line with a way on"])
def test_a_mistake_is_one_line_with_a_way_on(hermes_home: Path, arguments: tuple[str, ...]) -> None:
    with pytest.raises((UsageError, HubError)) as mistake:
        hermes_skills(hermes_home, *arguments)
    assert "\n" not in str(mistake.value)
    assert mistake.value.exit_code == 2


def test_install_reports_that_the_skill_stays_hidden(hermes_home: Path, tmp_path: Path) -> None:
    head = "---\nname: mine\ndescription: What it does.\nplatforms: [windows]\n---\nDo it.\n"
    (tmp_path / "SKILL.md").write_text(head)
    code, _, notes = hermes_skills(hermes_home, "install", str(tmp_path), "--yes")
    assert (code, notes) == (0, "it stays hidden here: only for windows\n")


def test_a_folder_is_installed_and_listed(hermes_home: Path, tmp_path: Path) -> None:
    (tmp_path / "SKILL.md").write_text("---\nname: mine\ndescription: What it does.\n---\nDo it.\n")
    with pytest.raises(UsageError, match="--yes"):
        hermes_skills(hermes_home, "install", str(tmp_path))
    code, out, _ = hermes_skills(hermes_home, "install", str(tmp_path), "--yes")
    assert (code, "scan:     nothing suspicious" in out) == (0, True)
    assert "mine [hub, community] What it does." in hermes_skills(hermes_home, "list")[1]


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
    out = hermes_skills(hermes_home, "reset", "notes", "--yes").expect().out
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


TEXT = "---\nname: {name}\ndescription: How {name} works\n---\n\nStep one.\n"


class Command(Hermes):
    def __init__(self, home: Path) -> None:
        super().__init__("skills", home)
        self.usage = SkillUsage(self.home.skills / ".usage.json")

    def agent(self, action: str, name: str, review: str = "auto", **fields: Any) -> None:
        """The agent changes a skill."""
        home = self.home.skills
        options = WritingOptions(review)
        writer = SkillWriter(
            home,
            SkillIndex(skill_roots(home)),
            SkillHistory(home),
            lambda _: (),
            options,
            self.usage,
        )
        draft = SkillDraft(action=DraftAction(action), name=name, session="s1", **fields)
        asyncio.run(writer.manage(draft))

    def create(self, name: str, review: str = "auto") -> None:
        self.agent("create", name, review, content=TEXT.format(name=name), reason=f"learnt {name}")


@pytest.fixture
def hermes(hermes_home: Path) -> Command:
    return Command(hermes_home)


def test_with_nothing_there_it_says_so_and_makes_nothing(hermes, hermes_home):
    assert hermes("log") == (0, "no change of skills is recorded yet\n", "")
    assert hermes("log", "x").out == "no change of x is recorded yet\n"
    assert hermes("log", "--json").document == []
    assert hermes("pending").out == "nothing waits for you; changes are kept at once\n"
    assert hermes("pending", "--json").document == []
    assert hermes("stale").out == "no skill the agent wrote was idle for 90 days\n"
    assert hermes("diff") == (2, "", "hermes: no change of skills is recorded yet\n  \n")
    assert hermes("undo", "abcd").code == 2
    assert not (hermes_home / "skills").exists()


def test_log_and_diff(hermes):
    hermes.create("deploy")
    hermes.agent(
        "patch", "deploy", old_string="one", new_string="1\x1b[2J", reason="a\x1b]0;x\x07b"
    )
    newest, first = hermes("log").out.splitlines()
    assert first.endswith("agent  deploy: learnt deploy  [s1]")
    assert newest.endswith("deploy: a ]0;x b  [s1]")
    assert "\x1b" not in newest
    (only,) = hermes("log", "deploy", "-n", "1", "--json").document
    assert (only["skills"], only["action"], only["session"]) == (["deploy"], "patch", "s1")
    shown = hermes("diff").out
    assert "-Step one.\n+Step 1.\n" in shown
    assert "+name: deploy" in hermes("diff", first[:8]).out
    assert "\x1b[31m-Step one." in hermes("diff", typed="").out
    assert hermes("diff", "ffffffff").err == (
        "hermes: no change has the id 'ffffffff'\n  list the ids: `hermes skills log`\n"
    )


def test_undo_asks(hermes):
    hermes.create("deploy")
    (commit,) = hermes("log", "--json").document
    identity = commit["id"][:8]
    assert hermes("undo", identity).code == 2
    refused = hermes("undo", identity, typed="\n")
    assert (refused.code, refused.out.splitlines()[-1][-19:]) == (1, "nothing was changed")
    done = hermes("undo", identity, typed="y\n")
    assert f"{identity} is undone, as change " in done.out
    assert not (hermes.home.skills / "deploy").exists()
    hermes("undo", identity, "--yes").expect(2, err="is already undone")


def test_pending_changes_can_be_shown_approved_and_rejected(hermes):
    hermes.create("deploy", "ask")
    hermes.create("garden", "ask")
    first, second, hint = hermes("pending").out.splitlines()
    assert "agent  create deploy: learnt deploy" in first
    assert "`approve ID`" in hint
    assert "+name: garden" in hermes("pending", second[:8]).out
    assert len(hermes("pending", "--json").document) == 2
    assert hermes("reject", second[:8]).out == f"{second[:8]} rejected: create garden\n"
    hermes("approve", first[:8]).expect(
        2, err=f"was not shown yet (`hermes skills pending {first[:8]}`"
    )
    assert not (hermes.home.skills / "deploy/SKILL.md").exists()
    assert "+name: deploy" in hermes("pending", first[:8]).out
    outcome = hermes("approve", "nothing", first[:8]).expect(
        2, err="there is no proposal 'nothing'"
    )
    assert outcome.out.startswith("deploy created (change ")
    assert (hermes.home.skills / "deploy/SKILL.md").exists()
    assert hermes("pending").out.startswith("nothing waits for you")


def test_pending_change_is_shown_against_the_current_file(hermes):
    hermes.create("deploy")
    hermes.agent("patch", "deploy", "ask", old_string="one", new_string="two")
    (identity,) = [one["id"] for one in hermes("pending", "--json").document]
    assert "+Step two.\n" in hermes("pending", identity).out
    file = hermes.home.skills / "deploy/SKILL.md"
    file.write_text(file.read_text().replace("Step one.", "Step one.\nBy hand."))
    hermes("approve", identity).expect(2, err=f"`hermes skills pending {identity}` shows")
    assert "+Step two.\n By hand." in hermes("pending", identity).out
    assert hermes("approve", identity).code == 0
    assert file.read_text().endswith("Step two.\nBy hand.\n")


def test_pending_change_that_no_longer_applies_is_reported(hermes):
    hermes.create("deploy")
    hermes.agent("patch", "deploy", "ask", old_string="one", new_string="two")
    file = hermes.home.skills / "deploy/SKILL.md"
    file.write_text(file.read_text().replace("Step one.", "Anew."))
    identity = hermes("pending").out.split()[0]
    hermes("pending", identity).expect(
        out="+Step two.",
        err="it does not fit any more: old_string is not in it; `hermes skills reject",
    )
    assert hermes("reject", identity).code == 0


def test_a_deleted_skill_that_comes_back_is_still_the_agent_s(hermes):
    hermes.create("deploy")
    hermes.agent("delete", "deploy")
    assert hermes.usage.get("deploy").written_by == ""
    identity = hermes("log", "--json").document[0]["id"]
    assert hermes("undo", identity, "--yes").code == 0
    assert hermes.usage.get("deploy").written_by == "agent"
    old = time.time() - 100 * 86_400
    os.utime(hermes.home.skills / "deploy/SKILL.md", (old, old))
    assert hermes("stale").out.startswith("deploy  idle 100d")


def test_stale_retire_and_back(hermes):
    hermes.create("deploy")
    old = time.time() - 100 * 86_400
    os.utime(hermes.home.skills / "deploy/SKILL.md", (old, old))
    assert hermes("stale").out.splitlines()[0] == "deploy  idle 100d, 0 uses  How deploy works"
    assert hermes("stale", "--days", "200").out.startswith("no skill the agent wrote was idle")
    assert "is retired" in hermes("retire", "deploy").out
    assert hermes("stale").out.splitlines()[-1] == "retired: deploy"
    assert hermes("unretire", "deploy").out == "deploy is back\n"
    assert hermes("retire", "nothing").code == 2
    document = hermes("stale", "--json").document
    assert (document["stale"][0]["name"], document["retired"]) == ("deploy", [])
