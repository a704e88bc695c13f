"""What is known of a skill: the head of its SKILL.md and where it lies."""

import os
import re
import unicodedata
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

import hermes
from hermes.core.errors import UsageError

SKILL_FILE = "SKILL.md"
CATEGORY_FILE = "DESCRIPTION.md"
SKILL_DIRECTORY = "${HERMES_SKILL_DIR}"
"""In instructions: the folder of the skill."""
LINKED_FOLDERS = ("references", "templates", "scripts", "assets")


class SkillInvalid(UsageError):
    """A SKILL.md that cannot be used; the message says why, the hint what to correct."""


class SkillNotFound(UsageError):
    """No skill has this name; the hint names those that come close."""


class Source(StrEnum):
    """Where a skill comes from. Of two with one name, the earlier one here counts."""

    USER = "user"
    """`<home>/skills`: written by the user or by the agent, or a changed copy of another one."""
    HUB = "hub"
    """`<home>/skills/.hub/skills`: installed, and never changed in place."""
    EXTERNAL = "external"
    """A folder of `skills.external_dirs`."""
    PLUGIN = "plugin"
    """Registered by a plugin; named `plugin:skill`."""
    BUNDLED = "bundled"
    """Comes with Hermes, and is never changed in place."""


class SkillRoot(msgspec.Struct, frozen=True):
    """A folder that holds skills, at most two categories deep."""

    path: Path
    source: Source
    plugin: str = ""
    """The plugin that brought it; `path` is then the folder of one skill."""
    name: str = ""
    """What the plugin calls that skill; empty: as its SKILL.md does."""


class RequiredVariable(msgspec.Struct, frozen=True):
    """An environment variable that a skill needs."""

    name: str
    prompt: str = ""
    """What the user is asked."""
    help: str = ""
    """How to get it."""
    required_for: str = ""


class CredentialFile(msgspec.Struct, frozen=True):
    path: str
    """Below the home folder."""
    description: str = ""


class SkillSetting(msgspec.Struct, frozen=True):
    """A value in `skills.config.<key>`."""

    key: str
    description: str
    default: Any = None
    prompt: str = ""


class Conditions(msgspec.Struct, frozen=True):
    """When a skill is shown; see `visible`."""

    requires_tools: tuple[str, ...] = ()
    requires_toolsets: tuple[str, ...] = ()
    fallback_for_tools: tuple[str, ...] = ()
    fallback_for_toolsets: tuple[str, ...] = ()


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    """Lower case, digits and hyphens; with `plugin:` before it for one of a plugin."""
    description: str
    folder: Path
    source: Source
    category: str = ""
    """The folders between the root and the skill, such as `research`; "" for none."""
    version: str = ""
    author: str = ""
    license: str = ""
    platforms: tuple[str, ...] = ()
    """Of macos, linux, windows; empty: all."""
    tags: tuple[str, ...] = ()
    related: tuple[str, ...] = ()
    conditions: Conditions = Conditions()
    variables: tuple[RequiredVariable, ...] = ()
    credential_files: tuple[CredentialFile, ...] = ()
    settings: tuple[SkillSetting, ...] = ()
    warnings: tuple[str, ...] = ()
    """What was wrong in the head, but could be read all the same."""

    @property
    def file(self) -> Path:
        return self.folder / SKILL_FILE

    @property
    def is_own(self) -> bool:
        """Whether it may be changed where it lies."""
        return self.source is Source.USER


class BrokenSkill(msgspec.Struct, frozen=True):
    """A SKILL.md that does not load."""

    file: Path
    source: Source
    reason: str

    @property
    def folder(self) -> Path:
        """Which is called as the skill should be; where none is, what does not load."""
        return self.file.parent if self.file.name.lower() == SKILL_FILE.lower() else self.file


class VisibilityContext(msgspec.Struct, frozen=True):
    """For whom skills are looked for. With neither tools nor toolsets, conditions do not count."""

    system: str
    """linux, macos or windows."""
    tools: frozenset[str] = frozenset()
    toolsets: frozenset[str] = frozenset()
    disabled: frozenset[str] = frozenset()
    """`skills.disabled` and those of the platform, as they are listed."""


# Names of skills.

_PLAIN_NAME = re.compile(r"[a-z0-9]+(?:[-.][a-z0-9]+)*")


def normalize_name(text: str) -> str:
    """`text` as the name of a skill: `PDF Tools_2` is `pdf-tools-2`; "" when nothing is left."""
    if _PLAIN_NAME.fullmatch(text):
        return text
    folded = unicodedata.normalize("NFKC", text).lower()
    kept = "".join(each if _is_name_character(each) else " " for each in folded)
    return "-".join(filter(None, (part.strip(".") for part in kept.split())))


def canonical_name(text: str) -> str:
    """As the skill is listed that somebody calls so, also as `category/name` or `plugin:name`."""
    plugin, colon, last = text.strip().rpartition("/")[2].rpartition(":")
    return f"{plugin.strip()}{colon}{normalize_name(last)}"


def _is_name_character(char: str) -> bool:
    """Letters and digits of any script, with the marks that belong to them."""
    return char.isalnum() or char == "." or unicodedata.category(char).startswith("M")


# Settings of skills: `skills.config.<key>` in config.yaml.


def setting_value(setting: SkillSetting, config: Mapping[str, Any]) -> Any:
    """What is set, else the default; None for neither. `config` is `skills.config`."""
    value: Any = config
    for part in setting.key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    if value is None:
        value = config.get(setting.key)
    return setting.default if value is None else value


def unset_settings(skill: Skill, config: Mapping[str, Any]) -> tuple[SkillSetting, ...]:
    """Settings with neither a value nor a default."""
    return tuple(each for each in skill.settings if setting_value(each, config) in (None, ""))


def settings_block(skill: Skill, config: Mapping[str, Any], file: str) -> str:
    """What the model is told of them; "" when nothing is set. `file` is config.yaml as shown."""
    values = ((each.key, setting_value(each, config)) for each in skill.settings)
    lines = [f"{key} = {format_setting(value)}" for key, value in values if value not in (None, "")]
    return "\n".join([f"[Skill config (from {file}):", *lines, "]"]) if lines else ""


def format_setting(value: Any) -> str:
    """On one line, with `~` as the folder it stands for."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ", ".join(map(format_setting, value))
    text = " ".join(str(value).split())
    return os.path.expanduser(text) if text.startswith("~") else text  # noqa: PTH111 - `~x` may stay


# Which folders hold skills, in the order in which they count.

HUB_FOLDER = Path(".hub", "skills")
"""Below the user's skills: what was installed."""

THIRD_PARTY = frozenset({Source.HUB, Source.EXTERNAL})
"""Written by strangers: what they say is looked at before it reaches a prompt."""


def skill_roots(
    own: Path,
    *,
    external: Iterable[Path] = (),
    plugins: Iterable[SkillRoot] = (),
    bundled: Path | None = None,
) -> tuple[SkillRoot, ...]:
    """`own` is `<home>/skills`, `external` are the folders of `skills.external_dirs` with `~` and
    variables replaced, `plugins` the folders or SKILL.md that plugins registered.
    A folder that is named twice counts where it is named first."""
    found = [
        SkillRoot(own, Source.USER),
        SkillRoot(own / HUB_FOLDER, Source.HUB),
        *(SkillRoot(path, Source.EXTERNAL) for path in external),
        *(replace(each, path=_skill_folder(each.path)) for each in plugins),
        *([SkillRoot(bundled, Source.BUNDLED)] if bundled else []),
    ]
    by_path: dict[Path, SkillRoot] = {}
    for root in found:
        path = root.path.absolute()
        by_path.setdefault(path, replace(root, path=path))
    return tuple(by_path.values())


def bundled_folder() -> Path | None:
    """The skills that come with Hermes; None when there are none."""
    return _packaged_folder("skills")


def optional_folder() -> Path | None:
    """Further skills that come with Hermes, for `hermes skills install`."""
    return _packaged_folder("optional-skills")


def _packaged_folder(name: str) -> Path | None:
    """In the installed package, or in the checkout above its sources."""
    package = Path(hermes.__file__).parent
    places = (package / "bundled" / name, package.parent.parent / name)
    return next((place for place in places if place.is_dir()), None)


def _skill_folder(path: Path) -> Path:
    return path.parent if path.name == SKILL_FILE else path


class VisibilityRule(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """On what it depends whether some skills are shown; see `Skill` and `Conditions`."""

    numbers: tuple[int, ...]
    platforms: tuple[str, ...]
    requires_tools: tuple[str, ...]
    requires_toolsets: tuple[str, ...]
    fallback_for_tools: tuple[str, ...]
    fallback_for_toolsets: tuple[str, ...]


# Who sees which skill.


def is_visible(skill: Skill, circle: VisibilityContext) -> bool:
    """Whether it stands in lists, prompts and among the commands."""
    return not hidden_reason(skill, circle)


def hidden_reason(skill: Skill, circle: VisibilityContext) -> str:
    """The reason in a few words; "" when it is visible."""
    return unusable_reason(skill, circle) or _condition_reason(skill.conditions, circle)


def unusable_reason(skill: Skill, circle: VisibilityContext) -> str:
    """The same for a skill that was asked for by name: conditions do not count then."""
    if skill.name in circle.disabled:
        return "switched off in the settings"
    return platform_reason(skill.platforms, circle)


def platform_reason(platforms: tuple[str, ...], circle: VisibilityContext) -> str:
    if not platforms or circle.system in platforms:
        return ""
    return f"only for {', '.join(platforms)}"


def conditions_met(conditions: Conditions | VisibilityRule, circle: VisibilityContext) -> bool:
    tools, toolsets = circle.tools, circle.toolsets
    if not (tools or toolsets):
        return True
    return (
        tools.issuperset(conditions.requires_tools)
        and toolsets.issuperset(conditions.requires_toolsets)
        and tools.isdisjoint(conditions.fallback_for_tools)
        and toolsets.isdisjoint(conditions.fallback_for_toolsets)
    )


def _condition_reason(conditions: Conditions, circle: VisibilityContext) -> str:
    if conditions_met(conditions, circle):
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


MAX_SKILL_DEPTH = 3
"""Folders from the root to that of a skill: two categories and its own."""
