"""Settings of skills: `skills.config.<key>` in config.yaml."""

import os
from collections.abc import Mapping
from typing import Any

from hermes.skills.skill import Skill, SkillSetting


def value_of(setting: SkillSetting, config: Mapping[str, Any]) -> Any:
    """What is set, else the default; None for neither. `config` is `skills.config`."""
    value: Any = config
    for part in setting.key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    if value is None:
        value = config.get(setting.key)
    return setting.default if value is None else value


def unset(skill: Skill, config: Mapping[str, Any]) -> tuple[SkillSetting, ...]:
    """Settings with neither a value nor a default."""
    return tuple(each for each in skill.settings if value_of(each, config) in (None, ""))


def settings_block(skill: Skill, config: Mapping[str, Any], file: str) -> str:
    """What the model is told of them; "" when nothing is set. `file` is config.yaml as shown."""
    values = ((each.key, value_of(each, config)) for each in skill.settings)
    lines = [f"{key} = {shown(value)}" for key, value in values if value not in (None, "")]
    return "\n".join([f"[Skill config (from {file}):", *lines, "]"]) if lines else ""


def shown(value: Any) -> str:
    """On one line, with `~` as the folder it stands for."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ", ".join(map(shown, value))
    text = " ".join(str(value).split())
    return os.path.expanduser(text) if text.startswith("~") else text  # noqa: PTH111 - `~x` may stay
