"""A change of a skill as it was asked for, and the rules for what it may name."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Protocol

import msgspec

from hermes.core.errors import UsageError
from hermes.skills.history.changes import Who
from hermes.skills.parse import LONGEST_NAME
from hermes.skills.skill import LINKED_FOLDERS, SKILL_FILE, Skill

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
MOST_CATEGORIES = 2
LONGEST_PATH = 200


class ChangeRefused(UsageError):
    """Nothing was changed; the hint says what to do instead."""


class Catalogue(Protocol):
    """All skills there are, of every source."""

    def all(self) -> Iterable[Skill]: ...

    def get(self, name: str) -> Skill:
        """Raises `SkillNotFound`."""
        ...


Check = Callable[[Mapping[str, bytes]], Sequence[str]]
"""Reasons not to keep files, by name. A reason says what, but not where: what was there before is
not held against a change."""


class Action(StrEnum):
    CREATE = "create"
    PATCH = "patch"
    EDIT = "edit"
    DELETE = "delete"
    WRITE_FILE = "write_file"
    REMOVE_FILE = "remove_file"


class Limits(msgspec.Struct, frozen=True):
    skill_chars: int = 100_000
    """Of a SKILL.md."""
    file_bytes: int = 1_048_576
    """Of any other file."""
    files: int = 100
    """Of one skill."""


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """Fields as in the parameters of `skill_manage`; those an action does not need are empty."""

    action: Action
    name: str
    content: str = ""
    category: str = ""
    old_string: str = ""
    new_string: str = ""
    replace_all: bool = False
    file_path: str = ""
    file_content: str = ""
    reason: str = ""
    session: str = ""
    who: Who = Who.AGENT


def check_name(name: str) -> None:
    if len(name) > LONGEST_NAME or not _NAME.fullmatch(name):
        raise ChangeRefused(
            f"{name!r} cannot be the name of a skill",
            hint=f"lower-case letters, digits and single hyphens, at most {LONGEST_NAME}, "
            "for example: deploy-blog",
        )


def check_category(category: str) -> None:
    parts = category.split("/") if category else []
    if len(parts) > MOST_CATEGORIES or not all(_NAME.fullmatch(part) for part in parts):
        raise ChangeRefused(
            f"{category!r} cannot be a category",
            hint="one or two names, for example: research or devops/containers",
        )


def linked_path(path: str) -> str:
    """`path` when it can only be a file in one of the folders a skill may link to."""
    parts = path.split("/")
    plain = path.isprintable() and "\\" not in path and len(path) <= LONGEST_PATH
    if not plain or any(part.startswith(".") or part != part.strip() or not part for part in parts):
        raise ChangeRefused(
            f"{path!r} cannot be a file of a skill",
            hint="a path below the skill, without hidden names, for example: references/api.md",
        )
    if parts[0] not in LINKED_FOLDERS or len(parts) < 2:
        raise ChangeRefused(
            f"{path!r} is not in {', '.join(f'{each}/' for each in LINKED_FOLDERS)}",
            hint=f"put it into one of them; {SKILL_FILE} is changed with patch or edit",
        )
    return str(PurePosixPath(path))
