"""Who sees which skill."""

from collections.abc import Set as AbstractSet

from hermes.skills.shelf import Rule, Shelf
from hermes.skills.skill import Circle, Conditions, Skill


def visible(skill: Skill, circle: Circle) -> bool:
    """Whether it stands in lists, prompts and among the commands."""
    return not hidden_because(skill, circle)


def hidden_because(skill: Skill, circle: Circle) -> str:
    """The reason in a few words; "" when it is visible."""
    return unusable_because(skill, circle) or _unmet(skill.conditions, circle)


def unusable_because(skill: Skill, circle: Circle) -> str:
    """The same for a skill that was asked for by name: conditions do not count then."""
    if skill.name in circle.disabled:
        return "switched off in the settings"
    return _elsewhere(skill.platforms, circle)


def hidden_numbers(shelf: Shelf, circle: Circle) -> AbstractSet[int]:
    """Those of the skills on a shelf that are not visible."""
    off = {shelf.numbers[name] for name in circle.disabled if name in shelf.numbers}
    return off.union(
        *(
            rule.numbers
            for rule in shelf.rules
            if _elsewhere(rule.platforms, circle) or not _met(rule, circle)
        )
    )


def _elsewhere(platforms: tuple[str, ...], circle: Circle) -> str:
    if not platforms or circle.system in platforms:
        return ""
    return f"only for {', '.join(platforms)}"


def _met(conditions: Conditions | Rule, circle: Circle) -> bool:
    tools, toolsets = circle.tools, circle.toolsets
    if not (tools or toolsets):
        return True
    return (
        tools.issuperset(conditions.requires_tools)
        and toolsets.issuperset(conditions.requires_toolsets)
        and tools.isdisjoint(conditions.fallback_for_tools)
        and toolsets.isdisjoint(conditions.fallback_for_toolsets)
    )


def _unmet(conditions: Conditions, circle: Circle) -> str:
    if _met(conditions, circle):
        return ""
    needs = (
        *(name for name in conditions.requires_tools if name not in circle.tools),
        *(name for name in conditions.requires_toolsets if name not in circle.toolsets),
    )
    if needs:
        return f"needs {', '.join(needs)}"
    there = (
        *(name for name in conditions.fallback_for_tools if name in circle.tools),
        *(name for name in conditions.fallback_for_toolsets if name in circle.toolsets),
    )
    return f"not needed beside {', '.join(there)}"
