"""What the agent learnt, as a user looks at it and decides: `hermes skills log`, `undo`, …"""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest

from hermes.skills.history import SkillHistory
from hermes.skills.index import SkillIndex
from hermes.skills.skill import SkillUsage, skill_roots
from hermes.skills.writing.draft import DraftAction, SkillDraft
from hermes.skills.writing.writer import SkillWriter, WritingOptions
from tests.unit.cli.terminal import Hermes

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
    outcome = hermes("approve", "nothing", first[:8]).expect(
        2, err="there is no proposal 'nothing'"
    )
    assert outcome.out.startswith("deploy created (change ")
    assert (hermes.home.skills / "deploy/SKILL.md").exists()
    assert hermes("pending").out.startswith("nothing waits for you")


def test_pending_change_is_shown_against_the_current_file(hermes):
    hermes.create("deploy")
    hermes.agent("patch", "deploy", "ask", old_string="one", new_string="two")
    file = hermes.home.skills / "deploy/SKILL.md"
    file.write_text(file.read_text().replace("Step one.", "Step one.\nBy hand."))
    (identity,) = [one["id"] for one in hermes("pending", "--json").document]
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
