"""Skills nobody uses are proposed to be put away, and come back."""

import os

import pytest

from hermes.skills.skill import SkillNotFound
from hermes.skills.writing.draft import ChangeRefused
from hermes.skills.writing.writer import DAY, stale_skills
from tests.unit.skills.writing.conftest import text

NOW = 1_800_000_000.0


def aged(place, name: str, days: float, used: float | None = None) -> None:
    when = NOW - days * DAY
    os.utime(place.skills.get(name).file, (when, when))
    if used is not None:
        place.usage.record(name, NOW - used * DAY)


async def test_only_old_and_unused_skills_of_the_agent_are_proposed(place):
    for name in ("never", "long-ago", "lately", "fresh"):
        await place.create(name, content=text(name, f"About {name} and nothing else"))
    place.put(place.home, "by-hand", text("by-hand"))
    await place.do("patch", "servers", old_string="Do it", new_string="x")
    aged(place, "never", 200)
    aged(place, "long-ago", 300, used=100)
    aged(place, "lately", 300, used=10)
    aged(place, "fresh", 5)
    aged(place, "by-hand", 300)
    aged(place, "servers", 300)
    found = stale_skills(place.skills.skills(), place.usage.all(), NOW)
    assert [(each.name, each.idle_days, each.uses) for each in found] == [
        ("never", 200, 0), ("long-ago", 100, 1),
    ]  # fmt: skip
    assert [
        each.name for each in stale_skills(place.skills.skills(), place.usage.all(), NOW, 150)
    ] == ["never"]


async def test_a_skill_is_put_away_and_comes_back(place):
    await place.create("deploy", category="web")
    commit = await place.retirement.retire("deploy")
    assert (commit.action, commit.reason, commit.who) == ("retire", "not used any more", "user")
    assert place.there() == []
    assert list(place.retirement.retired()) == ["deploy"]
    with pytest.raises(SkillNotFound):
        place.skills.get("deploy")
    await place.retirement.unretire("deploy")
    assert place.there() == ["web/deploy/SKILL.md"]
    assert not (place.home / ".retired").exists()
    assert await place.reasons() == ["used again", "not used any more", "create deploy"]
    assert [each.action for each in await place.history.log("deploy")] == [
        "unretire", "retire", "create",
    ]  # fmt: skip


async def test_undo_brings_it_back_too(place):
    await place.create("deploy")
    commit = await place.retirement.retire("deploy")
    await place.history.undo(commit.id)
    assert place.there() == ["deploy/SKILL.md"]
    assert place.retirement.retired() == {}


async def test_what_is_in_the_way_is_said(place):
    await place.create("deploy")
    await place.retirement.retire("deploy")
    await place.create("deploy")
    for act in (place.retirement.retire, place.retirement.unretire):
        with pytest.raises(ChangeRefused, match="there is something else in"):
            await act("deploy")
    with pytest.raises(SkillNotFound, match="no retired skill is called 'x'") as missing:
        await place.retirement.unretire("x")
    assert missing.value.hint == "retired are: deploy"
    with pytest.raises(ChangeRefused, match="come with Hermes"):
        await place.retirement.retire("servers")
