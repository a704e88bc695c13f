"""Whether the skills and toolsets that a job names are there, when it is made."""

from collections.abc import Sequence

from hermes.app.extensions import Extensions
from hermes.app.skill_shelf import skill_roots
from hermes.app.tools import find_toolsets
from hermes.config.home import Home
from hermes.config.loader import Loaded
from hermes.core.errors import UsageError
from hermes.skills.collection import Skills
from hermes.skills.skill import SkillNotFound
from hermes.tools.toolsets import OF_SERVERS, PRESETS, expand


def check_skills(home: Home, loaded: Loaded, names: Sequence[str]) -> None:
    """Raises `SkillNotFound` that names those that come close."""
    plugins = Extensions.in_force()
    roots = skill_roots(loaded, home, plugins.skills if plugins else ())
    skills = Skills(roots, home.cache / "skills.json")
    for name in names:
        try:
            skills.get(name)
        except SkillNotFound:
            if plugins or not loaded.settings.plugins.enabled:
                raise  # else it may be one of a plugin


def check_toolsets(loaded: Loaded, names: Sequence[str]) -> None:
    """Raises `UsageError` that says which there are."""
    found = find_toolsets(loaded)
    # What MCP servers have, only these know.
    own = [each for each in names if not each.lstrip("-").startswith(OF_SERVERS)]
    try:
        expand(own, found.known)
    except UsageError as error:
        if loaded.settings.plugins.enabled and not Extensions.in_force():
            return  # it may be one of a plugin
        known = ", ".join(name for name in found.known if name not in PRESETS)
        raise UsageError(str(error), hint=f"the toolsets are {known}") from None
