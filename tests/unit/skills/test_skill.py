"""Visibility of skills, and the folders in which they are found."""

from pathlib import Path

import pytest

from hermes.skills.skill import (
    SkillRoot,
    Source,
    VisibilityContext,
    bundled_folder,
    hidden_reason,
    is_offered,
    optional_folder,
    skill_roots,
)
from tests.cases import cases
from tests.unit.skills.skill_files import parsed, put, skills_in

TABLES = cases(__file__)

TOOLS = frozenset({"terminal", "web_search"})
TOOLSETS = frozenset({"terminal", "web"})
CONTEXT = VisibilityContext(
    system="linux", tools=TOOLS, toolsets=TOOLSETS, disabled=frozenset({"off"})
)
UNKNOWN = VisibilityContext(system="linux")
CASES = TABLES["cases"]


@pytest.mark.parametrize("case", CASES)
def test_visibility_conditions(case: str, tmp_path):
    head, reason = CASES[case]
    text = f"---\nname: x\ndescription: d\n{head}\n---\nx"
    skill = parsed(text)
    assert hidden_reason(skill, CONTEXT) == reason
    assert is_offered(skill, CONTEXT) is (not reason)
    put(tmp_path, "x", text)
    (entry,) = skills_in(tmp_path).entries()
    assert hidden_reason(entry, CONTEXT) == reason
    assert bool(skills_in(tmp_path).listing().hidden(CONTEXT)) is bool(reason)


@pytest.mark.parametrize("case", [case for case in CASES if "platform" not in case])
def test_conditions_are_ignored_without_tools(case: str):
    skill = parsed(f"---\nname: x\ndescription: d\n{CASES[case][0]}\n---\nx")
    assert is_offered(skill, UNKNOWN)


def test_a_platform_counts_also_without_known_tools():
    skill = parsed("---\nname: x\ndescription: d\nplatforms: [macos]\n---\nx")
    assert not is_offered(skill, UNKNOWN)


def test_a_skill_can_be_switched_off(tmp_path):
    put(tmp_path, "off")
    put(tmp_path, "on")
    skills = skills_in(tmp_path)
    assert hidden_reason(skills.get("off"), CONTEXT) == "switched off in the settings"
    listing = skills.listing()
    assert [listing.entries[at].name for at in listing.hidden(CONTEXT)] == ["off"]


def test_folders_count_in_the_documented_order(tmp_path: Path):
    own = tmp_path / "skills"
    found = skill_roots(
        own,
        external=[tmp_path / "shared"],
        plugins=[
            SkillRoot(tmp_path / "mail/inbox/SKILL.md", Source.PLUGIN, "mail"),
            SkillRoot(tmp_path / "cal", Source.PLUGIN, "cal"),
        ],
        bundled=tmp_path / "bundled",
    )
    assert [(root.source, root.path, root.plugin) for root in found] == [
        (Source.USER, own, ""),
        (Source.HUB, own / ".hub/skills", ""),
        (Source.EXTERNAL, tmp_path / "shared", ""),
        (Source.PLUGIN, tmp_path / "mail/inbox", "mail"),
        (Source.PLUGIN, tmp_path / "cal", "cal"),
        (Source.BUNDLED, tmp_path / "bundled", ""),
    ]


def test_a_folder_named_twice_counts_once(tmp_path: Path):
    found = skill_roots(tmp_path, external=[tmp_path, tmp_path / "x", tmp_path / "x"])
    assert [root.source for root in found] == [Source.USER, Source.HUB, Source.EXTERNAL]


def test_bundled_skills_are_found_in_the_checkout():
    checkout = Path(__file__).parents[3]
    for found, name in ((bundled_folder(), "skills"), (optional_folder(), "optional-skills")):
        expected = checkout / name
        assert found == (expected if expected.is_dir() else None)
