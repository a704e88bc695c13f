"""What is known of a skill: the head of its SKILL.md and where it lies."""

from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

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


class Root(msgspec.Struct, frozen=True):
    """A folder that holds skills, at most two categories deep."""

    path: Path
    source: Source
    plugin: str = ""
    """The plugin that brought it; `path` is then the folder of one skill."""
    name: str = ""
    """What the plugin calls that skill; empty: as its SKILL.md does."""


class Variable(msgspec.Struct, frozen=True):
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
    variables: tuple[Variable, ...] = ()
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


class Broken(msgspec.Struct, frozen=True):
    """A SKILL.md that does not load."""

    file: Path
    source: Source
    reason: str

    @property
    def folder(self) -> Path:
        """Which is called as the skill should be; where none is, what does not load."""
        return self.file.parent if self.file.name.lower() == SKILL_FILE.lower() else self.file


class Circle(msgspec.Struct, frozen=True):
    """For whom skills are looked for. With neither tools nor toolsets, conditions do not count."""

    system: str
    """linux, macos or windows."""
    tools: frozenset[str] = frozenset()
    toolsets: frozenset[str] = frozenset()
    disabled: frozenset[str] = frozenset()
    """`skills.disabled` and those of the platform, as they are listed."""
