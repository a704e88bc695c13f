"""The other profiles: can they be used?"""

from hermes.app.doctor.findings import Finding, Found, fine, problem, warning
from hermes.app.doctor.scene import Scene
from hermes.config.home import Home, active_profile
from hermes.config.loader import describe, examine
from hermes.config.profiles import list_profiles
from hermes.core.errors import ConfigError
from hermes.util.text import many


def profiles(scene: Scene) -> Found:
    known = list_profiles()
    found = [
        wrong
        for home in known
        if home.root != scene.home.root and (wrong := _fault(home)) is not None
    ]
    chosen = active_profile()
    if chosen not in {home.profile for home in known}:
        text = f"the chosen profile {chosen} does not exist"
        found.append(problem(text, "hermes -p default profile use default"))
    return found or [fine(f"{many(len(known), 'profile')}, {scene.home.profile} in use")]


def _fault(home: Home) -> Finding | None:
    edit = f"hermes -p {home.profile} config edit"
    try:
        problems = [each for each in examine(home).problems if each.severity == "error"]
    except ConfigError as error:
        return warning(f"the profile {home.profile} cannot be used: {error}", error.hint or edit)
    if not problems:
        return None
    return warning(f"the profile {home.profile} cannot be used: {describe(problems[0])}", edit)
