"""From a SKILL.md to a `Skill`."""

import re
from pathlib import Path, PurePosixPath
from typing import Any

from hermes.skills.comments import without_comments
from hermes.skills.head import Head, read_head
from hermes.skills.names import plain_name
from hermes.skills.reading import read, why
from hermes.skills.skill import (
    Conditions,
    CredentialFile,
    Root,
    Skill,
    SkillInvalid,
    SkillSetting,
    Variable,
)
from hermes.skills.values import Values, plain

LONGEST_NAME = 64
LONGEST_DESCRIPTION = 1024

SYSTEMS = {
    **dict.fromkeys(("macos", "mac", "darwin", "osx", "mac os"), "macos"),
    **dict.fromkeys(("windows", "win", "win32", "win64"), "windows"),
    "linux": "linux",
    "wsl": "linux",
}
ANY_SYSTEM = frozenset({"all", "any", "*", "cross-platform"})

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MARKS = re.compile(r"[*_`]{1,3}(?=\S)|(?<=\S)[*_`]{1,3}")


def parse_head(text: str) -> tuple[dict[str, Any], str]:
    """The fields as they were written, and the text after them. Raises `SkillInvalid`."""
    head = read_head(text)
    return head.fields, head.body


def read_skill(file: Path, root: Root) -> Skill:
    """Raises `SkillInvalid` with what is wrong and what to correct."""
    try:
        found = read(file)
    except OSError as error:
        raise SkillInvalid(why(error), hint=f"look at {file}") from error
    return skill_of(found.text, file.parent, root, found.warnings)


def skill_of(text: str, folder: Path, root: Root, warnings: tuple[str, ...] = ()) -> Skill:
    """The skill whose SKILL.md holds `text`. Raises `SkillInvalid`."""
    head = read_head(text)
    said = [*warnings, *head.warnings]
    top = Values(said, head.fields)
    metadata = Values(said, top.block("metadata"))
    mine = Values(said, metadata.block("hermes")).before(metadata, top)
    name = root.name or _name(_as_written(top, "name", text), folder.name, said)
    return Skill(
        name=f"{root.plugin}:{name}" if root.plugin else name,
        description=_description(top.prose("description"), head, said),
        folder=folder,
        source=root.source,
        category=category_of(folder, root) or mine.text("category"),
        version=_as_written(top, "version", text) or mine.text("version"),
        author=top.prose("author") or mine.prose("author"),
        license=top.text("license"),
        platforms=_platforms(mine, said),
        tags=mine.words("tags"),
        related=mine.words("related_skills"),
        conditions=Conditions(
            requires_tools=mine.words("requires_tools"),
            requires_toolsets=mine.words("requires_toolsets"),
            fallback_for_tools=mine.words("fallback_for_tools"),
            fallback_for_toolsets=mine.words("fallback_for_toolsets"),
        ),
        variables=_variables(mine, said),
        credential_files=_credential_files(mine, said),
        settings=_settings(mine, said),
        warnings=tuple(dict.fromkeys(said)),
    )


def first_paragraph(body: str) -> str:
    """On one line, without headings, fences and rules; the first heading when there is no more."""
    title = ""
    lines: list[str] = []
    for line in map(str.strip, without_comments(body).splitlines()):
        if line.startswith("#"):
            title = title or line.lstrip("# ")
        elif line and not set(line) <= set("-=*_`~"):
            lines.append(line.lstrip("> "))
            continue
        if lines:
            break
    return _MARKS.sub("", " ".join(lines) or title)


def _name(written: str, folder: str, said: list[str]) -> str:
    name = plain_name(written)
    if not name:
        if written:
            said.append(f"{written!r} cannot be a name; that of the folder is taken")
        name = plain_name(folder)
    elif name != written:
        said.append(f"the name {written[:LONGEST_NAME]!r} is taken as {name[:LONGEST_NAME]!r}")
    if not name:
        reason = f"{written!r} cannot be a name" if written else "it has no name"
        raise SkillInvalid(reason, hint="write `name: my-skill` in its head")
    if len(name) > LONGEST_NAME:
        said.append(f"the name is cut at {LONGEST_NAME} characters")
        name = name[:LONGEST_NAME].rstrip("-.")
    return name


def _description(written: str, head: Head, said: list[str]) -> str:
    text = _printable(written)
    if not text:
        text = _printable(first_paragraph(head.body))
        if not text:
            raise SkillInvalid(
                "it has neither a description nor instructions",
                hint="add `description: what it does and when to use it` to its head",
            )
        said.append("it has no description; its first paragraph is taken")
    elif not head.body or head.body.isspace():
        said.append("it has no instructions")
    if len(text) > LONGEST_DESCRIPTION:
        said.append(f"the description is cut at {LONGEST_DESCRIPTION:,} characters")
        text = text[: LONGEST_DESCRIPTION - 1] + "…"
    return text


def _printable(text: str) -> str:
    """On one line."""
    text = " ".join(text.split())
    return text if text.isprintable() else "".join(filter(str.isprintable, text)).strip()


def category_of(folder: Path, root: Root) -> str:
    """The folders between the root and the skill in `folder`; "" for none."""
    if root.plugin or folder == root.path:
        return root.plugin
    return str(folder)[len(str(root.path)) + 1 :].rpartition("/")[0]


def _as_written(top: Values, key: str, text: str) -> str:
    """What stands in the file: for YAML `1.10` is 1.1, and `off` is false."""
    if isinstance(top.raw(key), float | bool):
        written = re.search(rf"^{key}:[ \t]*([\w.+-]+)", text, re.MULTILINE | re.IGNORECASE)
        if written:
            return written[1]
    return top.text(key)


def _platforms(mine: Values, said: list[str]) -> tuple[str, ...]:
    words = [word.lower() for word in mine.words("platforms")]
    if not ANY_SYSTEM.isdisjoint(words):
        return ()
    said += [f"the platform {word!r} is not known" for word in words if word not in SYSTEMS]
    return tuple(dict.fromkeys(SYSTEMS.get(word, word) for word in words))


def _variables(mine: Values, said: list[str]) -> tuple[Variable, ...]:
    found = {
        each.text("name"): Variable(
            name=each.text("name"),
            prompt=each.text("prompt") or each.text("description"),
            help=each.text("help"),
            required_for=each.text("required_for"),
        )
        for each in mine.entries("required_environment_variables", "name")
    }
    if mine.raw("prerequisites"):
        legacy = Values(said, mine.block("prerequisites")).words("env_vars")
        found = {**{name: Variable(name) for name in legacy}, **found}
    wrong = [name for name in found if not _VARIABLE.fullmatch(name)]
    said += [f"{name!r} is not the name of a variable; it is ignored" for name in wrong]
    return tuple(each for name, each in found.items() if name not in wrong)


def _credential_files(mine: Values, said: list[str]) -> tuple[CredentialFile, ...]:
    found: list[CredentialFile] = []
    for each in mine.entries("required_credential_files", "path"):
        path = each.text("path")
        parts = PurePosixPath(path).parts
        below = not path.startswith(("/", "~", "\\")) and ".." not in parts and parts
        if not below or not path.isprintable():
            said.append(f"the credential file {path!r} is not below the home folder; it is ignored")
        else:
            found.append(CredentialFile(path, each.text("description")))
    return tuple(found)


def _settings(mine: Values, said: list[str]) -> tuple[SkillSetting, ...]:
    found: list[SkillSetting] = []
    for each in mine.entries("config", "key"):
        key, description = each.text("key"), each.text("description")
        if not description:
            said.append(f"the setting {key!r} has no description; it is ignored")
            continue
        prompt = each.text("prompt") or description
        found.append(SkillSetting(key, description, plain(each.raw("default")), prompt))
    return tuple(found)
