"""What a skill is, where skills are found, in which sessions one is visible, and its use."""

import logging
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

import hermes
from hermes.core.errors import UsageError
from hermes.util import files

log = logging.getLogger(__name__)

SKILL_FILE = "SKILL.md"
CATEGORY_FILE = "DESCRIPTION.md"
SKILL_DIRECTORY = "${HERMES_SKILL_DIR}"  #: Placeholder in instructions for the folder of the skill.
OTHER_SKILL_DIRECTORY = "${CLAUDE_SKILL_DIR}"  #: The same in skills for Claude Code.
LINKED_FOLDERS = ("references", "templates", "scripts", "assets")
MAX_SKILL_DEPTH = 3
"""Levels below a root at which a skill folder may be: two categories and its own folder."""


class SkillInvalid(UsageError):
    """A SKILL.md that cannot be used. The message says why, the hint what to correct."""


class SkillNotFound(UsageError):
    """No skill has this name. The hint lists similar names."""


class Source(StrEnum):
    """Where a skill comes from, in order of precedence when two skills have the same name."""

    USER = "user"
    """`<home>/skills`: written by the user or the agent, including changed copies of other skills.
    """
    HUB = "hub"  #: `<home>/skills/.hub/skills`: installed, never changed in place.
    EXTERNAL = "external"  #: A folder of `skills.external_dirs`.
    PLUGIN = "plugin"  #: Registered by a plugin; named `plugin:skill`.
    BUNDLED = "bundled"  #: Comes with Hermes, never changed in place.


class SkillRoot(msgspec.Struct, frozen=True):
    """A folder with skills, at most `MAX_SKILL_DEPTH` levels deep."""

    path: Path
    source: Source
    plugin: str = ""  #: The plugin that registered it; `path` is then the folder of one skill.
    name: str = ""  #: The name that the plugin gives the skill; "" uses the name in SKILL.md.


class SkillVariable(msgspec.Struct, frozen=True):
    """An environment variable that a skill needs."""

    name: str
    prompt: str = ""  #: The question for the user.
    help: str = ""  #: How to obtain the value.
    required_for: str = ""


class CredentialFile(msgspec.Struct, frozen=True):
    """A file with credentials that a skill needs."""

    path: str  #: Relative to the home folder.
    description: str = ""


class SkillSetting(msgspec.Struct, frozen=True):
    """A setting that a skill declares, stored as `skills.config.<key>`."""

    key: str
    description: str
    default: Any = None
    prompt: str = ""


class Conditions(msgspec.Struct, frozen=True, gc=False):
    """Tools and toolsets that decide whether a skill is visible; see `hidden_reason`."""

    requires_tools: tuple[str, ...] = ()
    requires_toolsets: tuple[str, ...] = ()
    fallback_for_tools: tuple[str, ...] = ()
    fallback_for_toolsets: tuple[str, ...] = ()


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    """The parsed frontmatter of one SKILL.md."""

    name: str
    """Lower-case letters, digits and hyphens; with the prefix `plugin:` for a skill of a plugin."""
    description: str
    folder: Path
    source: Source
    category: str = ""  #: The folders between the root and the skill, such as `research`, or "".
    version: str = ""
    author: str = ""
    license: str = ""
    platforms: tuple[str, ...] = ()  #: A subset of macos, linux and windows; empty for all.
    tags: tuple[str, ...] = ()
    related: tuple[str, ...] = ()
    conditions: Conditions = Conditions()
    variables: tuple[SkillVariable, ...] = ()
    credential_files: tuple[CredentialFile, ...] = ()
    settings: tuple[SkillSetting, ...] = ()
    is_user_only: bool = False  #: `disable-model-invocation`: only the user calls it.
    is_model_only: bool = False  #: `user-invocable: false`: it is not a command.
    is_forked: bool = False  #: `context: fork`: a subagent is to do the work.
    argument_hint: str = ""
    argument_names: tuple[str, ...] = ()  #: `arguments`: names of the words after the command.
    warnings: tuple[str, ...] = ()  #: Problems in the frontmatter that did not prevent loading.

    @property
    def file(self) -> Path:
        return self.folder / SKILL_FILE

    @property
    def is_own(self) -> bool:
        """Whether the skill may be changed in place."""
        return self.source is Source.USER


Stamp = int
"""A hash of modification time in nanoseconds, size and inode of a file. The garbage collector does
not track numbers: a tuple for each skill would make it run while the index is read."""


class SkillEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What lists, prompts, commands and search need of a skill; see `Skill`."""

    name: str
    description: str
    category: str
    tags: str  #: Separated by blanks.
    source: Source
    root: int  #: Position in the roots of the index.
    folder: str  #: Relative to the root.
    platforms: tuple[str, ...] = ()
    conditions: Conditions | None = None
    is_user_only: bool = False
    is_model_only: bool = False
    argument_hint: str = ""


class BrokenSkill(msgspec.Struct, frozen=True):
    """A SKILL.md that does not load."""

    file: Path
    source: Source
    reason: str

    @property
    def folder(self) -> Path:
        """The folder named like the skill; the file itself when it is not in a skill folder."""
        return self.file.parent if self.file.name.lower() == SKILL_FILE.lower() else self.file


class VisibilityContext(msgspec.Struct, frozen=True):
    """The session for which skills are selected.

    Conditions are ignored when neither tools nor toolsets are given.
    """

    system: str  #: linux, macos or windows.
    tools: frozenset[str] = frozenset()
    toolsets: frozenset[str] = frozenset()
    disabled: frozenset[str] = frozenset()
    """Canonical names from `skills.disabled` and the list for the current platform."""


# Names

_PLAIN_NAME = re.compile(r"[a-z0-9]+(?:[-.][a-z0-9]+)*")


def normalize_name(text: str) -> str:
    """Return `text` as a skill name: `PDF Tools_2` becomes `pdf-tools-2`. Return "" if nothing is
    left of it."""
    if _PLAIN_NAME.fullmatch(text):
        return text
    folded = unicodedata.normalize("NFKC", text).lower()
    # A name has dots, and letters, digits and combining marks of any script.
    spaced = "".join(
        each if each.isalnum() or each == "." or unicodedata.category(each)[0] == "M" else " "
        for each in folded
    )
    return "-".join(filter(None, (part.strip(".") for part in spaced.split())))


def canonical_name(text: str) -> str:
    """Return the listed name of a skill that is given as `category/name` or `plugin:name` too."""
    plugin, colon, last = text.strip().rpartition("/")[2].rpartition(":")
    return f"{plugin.strip()}{colon}{normalize_name(last)}"


# Settings: `skills.config.<key>` in config.yaml


def setting_value(setting: SkillSetting, config: Mapping[str, Any]) -> Any:
    """Return the value of a setting, else its default, else None. `config` is `skills.config`."""
    value: Any = config
    for part in setting.key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    if value is None:
        value = config.get(setting.key)
    return setting.default if value is None else value


def unset_settings(skill: Skill, config: Mapping[str, Any]) -> tuple[SkillSetting, ...]:
    """Return the settings that have neither a value nor a default."""
    return tuple(each for each in skill.settings if setting_value(each, config) in (None, ""))


def settings_block(skill: Skill, config: Mapping[str, Any], file: str) -> str:
    """Return the block about settings for the model, or "" when nothing is set.

    `file` is the path of config.yaml as it is displayed.
    """
    values = ((each.key, setting_value(each, config)) for each in skill.settings)
    lines = [f"{key} = {format_setting(value)}" for key, value in values if value not in (None, "")]
    return "\n".join([f"[Skill config (from {file}):", *lines, "]"]) if lines else ""


def format_setting(value: Any) -> str:
    """Return a setting value on one line, with a leading `~` expanded."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ", ".join(map(format_setting, value))
    text = " ".join(str(value).split())
    # Path.expanduser raises for an unknown user; os.path leaves `~unknown` as it is.
    return os.path.expanduser(text) if text.startswith("~") else text  # noqa: PTH111


# Folders

HUB_FOLDER = Path(".hub", "skills")  #: Installed skills, relative to the user's skill folder.

THIRD_PARTY = frozenset({Source.HUB, Source.EXTERNAL})
"""Sources whose texts are scanned for prompt injection before they reach a prompt."""


def skill_roots(
    own: Path,
    *,
    external: Iterable[Path] = (),
    plugins: Iterable[SkillRoot] = (),
    bundled: Path | None = None,
) -> tuple[SkillRoot, ...]:
    """Return all folders with skills, in order of precedence.

    `own` is `<home>/skills`. `external` are the folders of `skills.external_dirs` with `~` and
    variables expanded. `plugins` are folders or SKILL.md files registered by plugins. A folder that
    is given twice keeps its first place.
    """
    found = [
        SkillRoot(own, Source.USER),
        SkillRoot(own / HUB_FOLDER, Source.HUB),
        *(SkillRoot(path, Source.EXTERNAL) for path in external),
        *(
            replace(each, path=each.path.parent) if each.path.name == SKILL_FILE else each
            for each in plugins
        ),
        *([SkillRoot(bundled, Source.BUNDLED)] if bundled else []),
    ]
    by_path: dict[Path, SkillRoot] = {}
    for root in found:
        path = root.path.absolute()
        by_path.setdefault(path, replace(root, path=path))
    return tuple(by_path.values())


def bundled_folder() -> Path | None:
    """Return the folder of the skills that come with Hermes, or None."""
    return _packaged_folder("skills")


def optional_folder() -> Path | None:
    """Return the folder of optional skills, which `hermes skills install` offers, or None."""
    return _packaged_folder("optional-skills")


def _packaged_folder(name: str) -> Path | None:
    """Look in the installed package, then in the checkout that contains its sources."""
    package = Path(hermes.__file__).parent
    places = (package / "bundled" / name, package.parent.parent / name)
    return next((place for place in places if place.is_dir()), None)


# Visibility


def is_offered(skill: Skill | SkillEntry, context: VisibilityContext) -> bool:
    """Whether the model sees a skill: in the prompt and in lists."""
    return not skill.is_user_only and not hidden_reason(skill, context)


def is_command(skill: Skill | SkillEntry, context: VisibilityContext) -> bool:
    """Whether the user can call a skill as a slash command."""
    return not skill.is_model_only and not hidden_reason(skill, context)


def hidden_reason(skill: Skill | SkillEntry, context: VisibilityContext) -> str:
    """Return why a skill is hidden, in a few words, or "" when it is visible."""
    return unusable_reason(skill, context) or _condition_reason(skill.conditions, context)


def unusable_reason(skill: Skill | SkillEntry, context: VisibilityContext) -> str:
    """Return why a skill cannot be loaded by name, or "". Conditions do not apply here."""
    if skill.name in context.disabled:
        return "switched off in the settings"
    if skill.platforms and context.system not in skill.platforms:
        return f"only for {', '.join(skill.platforms)}"
    return ""


def _condition_reason(conditions: Conditions | None, context: VisibilityContext) -> str:
    tools, toolsets = context.tools, context.toolsets
    if conditions is None or not (tools or toolsets):
        return ""
    needs = (
        *(name for name in conditions.requires_tools if name not in tools),
        *(name for name in conditions.requires_toolsets if name not in toolsets),
    )
    if needs:
        return f"needs {', '.join(needs)}"
    present = (
        *(name for name in conditions.fallback_for_tools if name in tools),
        *(name for name in conditions.fallback_for_toolsets if name in toolsets),
    )
    return f"not needed with {', '.join(present)}" if present else ""


# Use: how often and when each skill was last used, and who wrote it

LOCK_TIMEOUT = 2.0  #: Seconds to wait for the lock. Losing a count is better than delaying a turn.


class UsageRecord(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The use of one skill."""

    count: int = 0
    last: float = 0.0  #: Seconds since 1970; 0 for never.
    written_by: str = ""  #: `user`, `agent` or `review`; "" when unknown.
    written_at: float = 0.0


_records_decoder = msgspec.json.Decoder(dict[str, UsageRecord])


class SkillUsage:
    """The usage file `<home>/skills/.usage.json`, shared by all processes.

    A damaged file counts as empty; the next write renames it to `.usage.json.damaged`.
    """

    def __init__(self, file: Path, patience: float = LOCK_TIMEOUT) -> None:
        self._file, self._patience = file, patience

    def all(self) -> Mapping[str, UsageRecord]:
        """Return the records by skill name."""
        try:
            return self._read()
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            log.debug("the use counts of skills cannot be read: %s", error)
            return {}

    def get(self, name: str) -> UsageRecord:
        return self.all().get(name, UsageRecord())

    def record(self, name: str, now: float) -> None:
        """Count a use of a skill at `now`, in seconds since 1970."""

        def used(use: UsageRecord) -> UsageRecord:
            return msgspec.structs.replace(use, count=use.count + 1, last=max(use.last, now))

        self._update(name, used)

    def record_author(self, name: str, who: str, now: float) -> None:
        """Record that `who` wrote or changed a skill."""
        self._update(name, lambda use: msgspec.structs.replace(use, written_by=who, written_at=now))

    def remove(self, name: str) -> None:
        """Remove the record of a deleted skill."""
        self._update(name, lambda _use: None)

    def _read(self) -> dict[str, UsageRecord]:
        try:
            return _records_decoder.decode(self._file.read_bytes())
        except FileNotFoundError:
            return {}

    def _read_or_reset(self) -> dict[str, UsageRecord]:
        try:
            return self._read()
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            aside = self._file.replace(f"{self._file}.damaged")
            log.warning("the use counts of skills are damaged: %s; they are in %s", error, aside)
            return {}

    def _update(self, name: str, change: Callable[[UsageRecord], UsageRecord | None]) -> None:
        """Change one record under the lock. Failures are logged: the counts are a convenience."""
        try:
            with files.file_lock(Path(f"{self._file}.lock"), self._patience):
                records = self._read_or_reset()
                changed = change(records.pop(name, UsageRecord()))
                if changed is not None:
                    records[name] = changed
                data = msgspec.json.format(msgspec.json.encode(records), indent=1)
                files.write_bytes(self._file, data, mode=0o600)
        except (OSError, UnicodeEncodeError) as error:  # includes the timeout of the lock
            log.warning("a use of the skill %s was not counted: %s", name, error)
