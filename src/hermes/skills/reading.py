"""The text of a file of a skill, whatever lies under its name."""

import os
import stat
from pathlib import Path
from typing import NamedTuple

from hermes.skills.skill import Skill, SkillInvalid
from hermes.util.text import human_size

LARGEST = 500_000
"""Bytes of a SKILL.md; a model could not read more anyway."""

_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
"""Without blocking: a named pipe must not hold anybody up."""
_GARBAGE = dict.fromkeys((*range(9), *range(14, 27), *range(28, 32), *range(127, 160), 0xFFFD))
"""Control characters but those of lines, pages and colours, and what could not be decoded."""
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


class Stamp(NamedTuple):
    """What changes with a file. The inode tells of a replacement within one tick of the clock."""

    mtime_ns: int
    size: int
    inode: int

    @classmethod
    def of(cls, found: os.stat_result) -> "Stamp":
        return cls(found.st_mtime_ns, found.st_size, found.st_ino)


class Reading(NamedTuple):
    text: str
    stamp: Stamp
    warnings: tuple[str, ...] = ()


def read(path: Path | str, largest: int = LARGEST) -> Reading:
    """Raises `SkillInvalid` for what is no text, and OSError."""
    descriptor = os.open(path, _FLAGS)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise SkillInvalid("it is no regular file", hint="put the file itself there")
        if found.st_size > largest:
            raise SkillInvalid(
                f"it has {human_size(found.st_size)}, and at most {human_size(largest)} are read",
                hint="move the details into files in references/",
            )
        data = os.read(descriptor, found.st_size + 1)
    finally:
        os.close(descriptor)
    text, warnings = decode(data)
    return Reading(text, Stamp.of(found), warnings)


def instructions(skill: Skill) -> str:
    """The text of its SKILL.md. Raises `SkillInvalid`."""
    try:
        return read(skill.file).text
    except OSError as error:
        raise SkillInvalid(
            f"the skill {skill.name!r} does not load: {why(error)}", hint=f"look at {skill.file}"
        ) from error


def decode(data: bytes) -> tuple[str, tuple[str, ...]]:
    """The text, and what was wrong with it. Raises `SkillInvalid` for binary data."""
    # One with NULs is UTF-32, which begins in the same way.
    if data.startswith(_UTF16) and "\0" not in (text := data.decode("utf-16", "replace")):
        return text, ("saved as UTF-16; UTF-8 is expected",)
    if b"\0" not in data:
        try:
            return data.decode().removeprefix("\ufeff"), ()
        except UnicodeDecodeError:
            text = data.decode("cp1252", "replace")
        if not is_garbled(text):
            return text, ("not UTF-8; it is read as Windows-1252",)
    raise SkillInvalid("it holds binary data", hint="save it as UTF-8 text")


def is_garbled(text: str) -> bool:
    """Whether more than a fiftieth of it are characters that texts do not hold."""
    return (len(text) - len(text.translate(_GARBAGE))) * 50 > len(text)


def why(error: OSError) -> str:
    """In a few words for a person."""
    return f"it cannot be read: {(error.strerror or str(error)).lower()}"
