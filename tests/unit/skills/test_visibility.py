import pytest

from hermes.skills.prompt import hidden_skills
from hermes.skills.skill import VisibilityContext, hidden_reason, is_visible
from tests.unit.skills.making import parsed, put, skills_in

TOOLS = frozenset({"terminal", "web_search"})
TOOLSETS = frozenset({"terminal", "web"})
CIRCLE = VisibilityContext(
    system="linux", tools=TOOLS, toolsets=TOOLSETS, disabled=frozenset({"off"})
)
UNKNOWN = VisibilityContext(system="linux")

CASES = {
    "nothing said": ("", ""),
    "this platform": ("platforms: [linux, macos]", ""),
    "another platform": ("platforms: [macos, windows]", "only for macos, windows"),
    "no platforms": ("platforms: []", ""),
    "tool is there": ("requires_tools: [terminal]", ""),
    "one tool is missing": ("requires_tools: [terminal, browser]", "needs browser"),
    "toolset is there": ("requires_toolsets: [web]", ""),
    "toolset is missing": ("requires_toolsets: [homeassistant]", "needs homeassistant"),
    "fallback is needed": ("fallback_for_tools: [image_generate]", ""),
    "fallback is not needed": (
        "fallback_for_tools: [image_generate, web_search]",
        "not needed beside web_search",
    ),
    "fallback for a toolset": ("fallback_for_toolsets: [web]", "not needed beside web"),
}


@pytest.mark.parametrize("case", CASES)
def test_when_a_skill_is_shown(case: str, tmp_path):
    head, reason = CASES[case]
    text = f"---\nname: x\ndescription: d\n{head}\n---\nx"
    skill = parsed(text)
    assert hidden_reason(skill, CIRCLE) == reason
    assert is_visible(skill, CIRCLE) is (not reason)
    put(tmp_path, "x", text)
    assert hidden_skills(skills_in(tmp_path).table(), CIRCLE) == ({0} if reason else set())


@pytest.mark.parametrize("case", [case for case in CASES if "platform" not in case])
def test_without_known_tools_conditions_do_not_count(case: str):
    skill = parsed(f"---\nname: x\ndescription: d\n{CASES[case][0]}\n---\nx")
    assert is_visible(skill, UNKNOWN)


def test_a_platform_counts_also_without_known_tools():
    skill = parsed("---\nname: x\ndescription: d\nplatforms: [macos]\n---\nx")
    assert not is_visible(skill, UNKNOWN)


def test_a_skill_can_be_switched_off(tmp_path):
    put(tmp_path, "off")
    put(tmp_path, "on")
    skills = skills_in(tmp_path)
    assert hidden_reason(skills.get("off"), CIRCLE) == "switched off in the settings"
    assert hidden_skills(skills.table(), CIRCLE) == {skills.table().numbers["off"]}
