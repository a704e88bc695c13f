"""Parse a SKILL.md into a `Skill`.

Other agents, editors and models write its YAML frontmatter in many ways. The parser accepts
whatever can be understood and returns a warning for everything it had to guess.
"""

import datetime as dt
import json
import math
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from hermes.skills.skill import (
    Conditions,
    CredentialFile,
    Skill,
    SkillInvalid,
    SkillRoot,
    SkillSetting,
    SkillVariable,
    Stamp,
    normalize_name,
)
from hermes.util.text import human_size

# Frontmatter as other agents, editors and models write it

_LEADING_COMMENTS = re.compile(r"(?:\s*<!--(?:(?!-->).)*-->)+\s*(?=---)", re.DOTALL)
_FENCED_HEAD = re.compile(
    r"\s*(`{3,}|~{3,})ya?ml[ \t]*\n(?:---[ \t]*\n)?(?P<head>(?:(?!---|\1).*\n)+)"
    r"(?:---[ \t]*\n)?\1[ \t]*(?:\n|$)"
)
_SKILL_FIELD = re.compile(r"^(?:name|description)[:：]", re.MULTILINE)
"""Tells frontmatter from a YAML example at the start of the instructions."""
_WRAPPED = re.compile(r"\s*(`{3,}|~{3,})\w*\n(?=---)")
_FIELD = re.compile(r"^(?P<lead>[ ]*(?:- +)?)(?P<key>[A-Za-z_][\w.-]*):[ ]+(?P<value>\S.*?)\s*$")
_UNSPACED_KEY = re.compile(r"^([A-Za-z_][\w-]*)[:：](?!//)[ \u00a0]*(?=\S)", re.MULTILINE)
"""A key followed by a full-width colon, by a non-breaking space, or by no space."""
_BLOCK = re.compile(r"[|>][-+]?\d?$")
_COMPLETE_VALUE = re.compile(
    r"""(\[(?!.*\]\s+\[).*\]|\{.*\}|"(\\.|[^"\\])*"|'([^']|'')*')(\s+#.*)?$"""
)


def _unwrap(text: str) -> tuple[str, tuple[str, ...]]:
    """Remove comments before the frontmatter, or a code fence around it or around the whole file.

    Returns the text and the warnings.
    """
    comments = _LEADING_COMMENTS.match(text)
    if comments:
        return text[comments.end() :], ()
    fenced = _FENCED_HEAD.match(text)
    if fenced and _SKILL_FIELD.search(fenced["head"]):
        whole = f"---\n{fenced['head']}---\n{text[fenced.end() :]}"
        return whole, ("its head stands in a code fence",)
    wrapped = _WRAPPED.match(text)
    if wrapped is None:
        return text, ()
    inner = text[wrapped.end() :].rstrip()
    return inner.removesuffix(wrapped[1]), ("all of it stands in a code fence",)


def _repair_yaml(text: str) -> str:
    """Return the intended YAML when tabs indent it or values lack necessary quotes."""
    lines = [line.expandtabs(2) for line in _UNSPACED_KEY.sub(r"\1: ", text).split("\n")]
    result: list[str] = []
    at = 0
    while at < len(lines):
        line, at = lines[at], at + 1
        field = _FIELD.match(line)
        if field is None:
            result.append(line)
            continue
        more = at
        while more < len(lines) and _indent(lines[more]) > _indent(line):
            more += 1
        if _BLOCK.match(field["value"]):
            result += [line, *lines[at:more]]
        elif _COMPLETE_VALUE.match(field["value"]):
            result.append(line)
            continue
        else:
            value = " ".join([field["value"], *(each.strip() for each in lines[at:more])])
            result.append(f"{field['lead']}{field['key']}: {_quote(value)}")
        at = more
    return "\n".join(result)


def _indent(line: str) -> int:
    """Return the indentation of a line; -1 for an empty line, which ends every block."""
    return len(line) - len(line.lstrip()) if line.strip() else -1


def _quote(value: str) -> str:
    plain = re.fullmatch(r"-?\d+(\.\d+)?|true|false|null|~", value, re.IGNORECASE)
    if plain:
        return value
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        value = value[1:-1]
    return json.dumps(value, ensure_ascii=False)


MAX_CHARS = 64_000  #: Characters of the frontmatter.
MAX_DEPTH = 100
NESTING_CHARACTERS = "[{:-?"  #: Every level of nesting needs at least one of these.

_FENCE = re.compile(r"^-{3,}[ \t]*$", re.MULTILINE)
_OTHER_ENDS = re.compile(r"^(?:\.\.\.|[ \t]+---)[ \t]*$", re.MULTILINE)
_INVISIBLE = "\ufeff\u200b\u2060"
"""Marks that editors and web pages leave before the first character."""
_WRAPPERS = ("<!--", "```", "~~~")  #: What may precede or surround the frontmatter.


class Frontmatter(NamedTuple):
    """The frontmatter of a SKILL.md and the text after it."""

    fields: dict[str, Any]  #: As written, including unknown ones.
    body: str
    warnings: tuple[str, ...] = ()


class _YamlProblem(Exception):
    """The text is not valid YAML. The message is shown to the user."""


class _YamlTooComplex(_YamlProblem):
    """The text exceeds a limit, so it is not repaired."""


def read_frontmatter(text: str) -> Frontmatter:
    """Split a SKILL.md into fields and body.

    Raises `SkillInvalid` when there is frontmatter that cannot be understood.
    """
    text = text.lstrip(_INVISIBLE)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    warnings: tuple[str, ...] = ()
    if text.lstrip().startswith(_WRAPPERS):
        text, warnings = _unwrap(text)
    start = text.lstrip()
    first = _FENCE.match(start)
    if first is None:
        if start.startswith("+++\n"):
            raise SkillInvalid(
                "its head is TOML (+++)", hint="write it as YAML between two lines of ---"
            )
        return Frontmatter({}, start, (*warnings, "it has no head (--- … ---)"))
    inside = start[first.end() + 1 :]
    end = _FENCE.search(inside) or _OTHER_ENDS.search(inside)
    if end is not None:
        try:
            fields, repairs = _parse_fields(inside[: end.start()])
        except _YamlProblem as error:
            problem = error
        else:
            return Frontmatter(fields, inside[end.end() :].strip("\n"), (*warnings, *repairs))
    else:
        problem = _YamlProblem("the --- after it is missing")
    return _read_unclosed(inside, problem, warnings)


def _read_unclosed(inside: str, problem: _YamlProblem, warnings: tuple[str, ...]) -> Frontmatter:
    """Read frontmatter without its closing line: it ends at the first line that is not a field."""
    lines = inside.split("\n")
    count = next((at for at, line in enumerate(lines) if not _is_field_line(line)), len(lines))
    try:
        fields, repairs = _parse_fields("\n".join(lines[:count])) if count else ({}, ())
    except _YamlProblem:
        fields, repairs = {}, ()
    if not fields:
        raise SkillInvalid(
            f"its head is not valid YAML: {problem}",
            hint='write `key: value` lines between two --- lines; a value with a colon in "quotes"',
        )
    body = "\n".join(lines[count:]).strip("\n")
    return Frontmatter(fields, body, (*warnings, "the --- after its head is missing", *repairs))


def _is_field_line(line: str) -> bool:
    return bool(line.strip()) and (
        line[0] in " \t-" or re.match(r"[A-Za-z_][\w.-]*:(\s|$)", line) is not None
    )


def _parse_fields(text: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the fields and warnings about repairs. Raises `_YamlProblem`."""
    simple = _read_simple(text)
    if simple is not None:
        return simple, ()
    repairs: tuple[str, ...] = ()
    try:
        data = _load_yaml(text)
        if isinstance(data, str):
            raise _YamlProblem("it holds text instead of fields")
    except _YamlTooComplex:
        raise
    except _YamlProblem as error:
        try:
            data = _load_yaml(_repair_yaml(text))
        except _YamlProblem:
            raise error from None
        repairs = (f"its head is not quite YAML: {error}",)
    if isinstance(data, dict):
        return {str(key): value for key, value in data.items()}, repairs
    if data is None:
        return {}, ("its head is empty",)
    kind = "a list" if isinstance(data, list) else "text"
    return {}, (f"its head holds {kind} instead of fields",)


_WORDS = r"[A-Za-z](?:[ -\"$-9;-~]|:(?=[!-~])|(?<=[!-~])#)*"
_ITEM = r"[A-Za-z][\w /.+-]*"
_SIMPLE_LINE = re.compile(
    rf"( *)(- )?([A-Za-z_][\w-]*):"
    rf"(?: +(?:({_WORDS}|\d+\.\d+\.\d+)|\[((?:{_ITEM}(?:, *{_ITEM})*)?)\]))? *"
)
_NOT_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null"})


def _read_simple(text: str) -> dict[str, Any] | None:
    """Return frontmatter of plain words, lists of them and nested tables; None for any other.

    It is what YAML makes of it, in a tenth of the time, which an index of many skills needs.
    """
    deep = sum(map(text.count, NESTING_CHARACTERS)) > MAX_DEPTH
    if deep or not text.isascii() or len(text) > MAX_CHARS:
        return None
    levels: list[tuple[int, Any]] = [(0, {})]  #: The indentation of each open table and list.
    key: str | None = None  #: The key before, if it has no value, so that a block may follow.
    for line in text.split("\n"):
        found = _SIMPLE_LINE.fullmatch(line)
        if found is None:
            if line.strip(" "):
                return None
            continue
        indent, is_item = len(found[1]), found[2] is not None
        if key is not None and indent + is_item > levels[-1][0]:
            block: Any = [] if is_item else {}
            levels[-1][1][key] = block
            levels.append((indent, block))
        while levels[-1][0] > indent or (isinstance(levels[-1][1], list) and not is_item):
            levels.pop()
        if levels[-1][0] != indent or isinstance(levels[-1][1], list) is not is_item:
            return None
        if is_item:
            levels[-1][1].append({})
            levels.append((indent + 2, levels[-1][1][-1]))
        value = _simple_value(found[4], found[5])
        if value is None or found[3].lower() in _NOT_WORDS:
            return None
        key = found[3] if value == "" else None
        levels[-1][1][found[3]] = value or (None if value == "" else [])
    return levels[0][1] or None


def _simple_value(text: str | None, items: str | None) -> str | list[str] | None:
    """Return "" for a missing value, and None for words that YAML does not read as text."""
    if items is not None:
        words = [each.strip() for each in items.split(",")] if items else []
        return words if _NOT_WORDS.isdisjoint(map(str.lower, words)) else None
    plain = (text or "").rstrip()
    return None if plain.lower() in _NOT_WORDS else plain


def _load_yaml(text: str) -> Any:
    if len(text) > MAX_CHARS:
        raise _YamlProblem(f"it has more than {MAX_CHARS:,} characters")
    import yaml  # 15 ms; only a process that finds new or changed skills needs it

    from hermes.util.yaml_loader import YamlTooComplex, load_yaml

    try:
        return load_yaml(text)
    except YamlTooComplex as error:
        raise _YamlTooComplex(_describe_problem(error)) from error
    except yaml.MarkedYAMLError as error:
        raise _YamlProblem(_describe_problem(error)) from error
    except yaml.YAMLError as error:
        raise _YamlProblem("there is a character YAML does not allow") from error
    except (ValueError, OverflowError, TypeError) as error:  # a date such as 2026-13-45
        raise _YamlProblem(str(error)) from error


def _describe_problem(error: Any) -> str:
    mark = error.problem_mark or error.context_mark
    # Add one for the opening fence and one because lines are counted from 1.
    where = f"line {mark.line + 2}: " if mark else ""
    return f"{where}{error.problem or error.context}"


# Coercion of fields; values of the wrong type are dropped with a warning

Scalar = str | int | float | bool
FLAGS = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}

LARGEST_INTEGER = 2**53


@lru_cache(1000, typed=True)
def _normalize_key(key: Any) -> str:
    return str(key).strip().lower().replace("-", "_")


class FieldReader:
    """Reads the fields of one table. Keys match in any letter case and with `-` or `_`."""

    def __init__(self, warnings: list[str], block: Mapping[Any, Any]) -> None:
        self.warnings = warnings
        # Zero and false are values; None, "" and empty lists and tables count as missing.
        self._fields = {
            _normalize_key(key): value for key, value in block.items() if value or value == 0
        }

    def with_fallbacks(self, *others: "FieldReader") -> "FieldReader":
        """Return a reader that also finds fields of `others`; earlier readers take precedence."""
        both = FieldReader(self.warnings, {})
        for each in reversed((self, *others)):
            both._fields.update(each._fields)
        return both

    def raw(self, key: str) -> Any:
        """Return the value, or None when the field is missing or empty."""
        return self._fields.get(key)

    def text(self, key: str) -> str:
        """Return the value as text on one line, or ""."""
        known = as_text(self._fields.get(key, ""))
        if known is None:
            self.warnings.append(f"{key} is not text; it is ignored")
            return ""
        return " ".join(known.split())

    def prose(self, key: str) -> str:
        """Like `text`; a list of texts is joined."""
        value = self._fields.get(key)
        if not isinstance(value, list) or None in (parts := [as_text(part) for part in value]):
            return self.text(key)
        return " ".join("; ".join(map(str, parts)).split())

    def words(self, key: str) -> tuple[str, ...]:
        """Return the items of a list or of a comma-separated text, without duplicates."""
        value = self._fields.get(key)
        if value is None:
            return ()
        if isinstance(value, list | tuple):
            items = [as_text(item) for item in value]
        else:
            known = as_text(value)
            items = [known] if known is None else list(known.strip("[] ").split(","))
        if None in items:
            self.warnings.append(f"{key} holds more than a list of words")
        words = (" ".join(item.split()) for item in items if item)
        return tuple(dict.fromkeys(word for word in words if word))

    def flag(self, key: str, *, default: bool) -> bool:
        """Return a truth value, also one that is written as text."""
        if key not in self._fields:
            return default
        known = FLAGS.get(str(as_text(self._fields[key])).strip().lower())
        if known is None:
            self.warnings.append(f"{key} is neither true nor false; it is ignored")
        return default if known is None else known

    def entries(self, key: str, main: str) -> Iterator["FieldReader"]:
        """Yield a reader for each entry of a list.

        An entry is a table with the field `main`, or just the value of `main`. A table keyed by
        `main` is accepted too.
        """
        value = self.raw(key)
        if isinstance(value, str):
            value = value.split(",")
        if isinstance(value, Mapping) and main not in FieldReader([], value)._fields:
            value = [
                {main: name, **more}
                if isinstance(more, Mapping)
                else {main: name, "description": more}
                for name, more in value.items()
            ]
        for item in [value] if isinstance(value, Mapping) else value or ():
            block = item if isinstance(item, Mapping) else {main: item}
            entry = FieldReader(self.warnings, block)
            if entry.text(main):
                yield entry
            else:
                self.warnings.append(f"an entry of {key} has no {main}; it is ignored")

    def block(self, key: str) -> Mapping[str, Any]:
        """Return a table, also when it is written as JSON text."""
        value = self.raw(key)
        if isinstance(value, str) and value.lstrip().startswith("{"):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                self.warnings.append(f"{key} is not valid JSON; it is ignored")
                return {}
        return value if isinstance(value, Mapping) else {}


def as_text(value: Any) -> str | None:
    """Return a scalar as text, or None for any other value."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dt.date):
        return value.isoformat()
    return str(value) if isinstance(value, int | float) else None


def plain_value(value: Any) -> Scalar | list[Scalar] | None:
    """Return a scalar or a list of scalars that JSON and YAML can hold, or None."""
    if isinstance(value, list):
        items = [_scalar(item) for item in value]
        return [item for item in items if item is not None]
    return _scalar(value)


def _scalar(value: Any) -> Scalar | None:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and abs(value) > LARGEST_INTEGER:
        return str(value)
    if isinstance(value, str | int | float | bool):
        return value
    return as_text(value)


# Markdown comments, which authors write for each other

_CODE = re.compile(r"[ \t>]*(`{3,}(?!.*`)|~{3,})")  #: The first line of a code block.
_OPEN, _CLOSE = "<!--", "-->"


def strip_comments(text: str) -> str:
    """Remove comments that have lines of their own. Comments in code and within a line stay."""
    if _OPEN not in text:
        return text
    lines = text.split("\n")
    hidden = comment_lines(lines)
    return "\n".join(line for number, line in enumerate(lines) if number not in hidden)


def comment_lines(lines: Sequence[str]) -> frozenset[int]:
    """Return the numbers of the lines that contain only comments."""
    hidden: set[int] = set()
    fence, start = "", -1
    for number, line in enumerate(map(str.strip, lines)):
        if fence:
            if line.strip("> \t").startswith(fence) and not line.strip(f"> \t{fence[0]}"):
                fence = ""
        elif line.startswith(_OPEN):
            start = number
        elif start < 0 and (code := _CODE.match(line)):
            fence = code[1]
        if start >= 0 and _CLOSE in line:
            if line.find(_CLOSE) == len(line) - len(_CLOSE):
                hidden.update(range(start, number + 1))
            start = -1
    return frozenset(hidden)


# Reading files of a skill

MAX_FILE_BYTES = 500_000  #: Size limit of a SKILL.md; a model could not read more anyway.

_OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
"""Non-blocking, so that opening a named pipe does not hang."""
_GARBAGE = dict.fromkeys((*range(9), *range(14, 27), *range(28, 32), *range(127, 160), 0xFFFD))
"""Control characters except those for lines, pages and colours, and the replacement character."""
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def stamp_of(found: os.stat_result) -> Stamp:
    """Return what changes whenever a file changes.

    The inode detects a replacement within one tick of the file system clock.
    """
    return hash((found.st_mtime_ns, found.st_size, found.st_ino))


class FileText(NamedTuple):
    """The decoded text of a file."""

    text: str
    stamp: Stamp
    warnings: tuple[str, ...] = ()


def read_text_file(path: Path | str, largest: int = MAX_FILE_BYTES) -> FileText:
    """Read a regular text file. Raises OSError, and `SkillInvalid` for anything else."""
    descriptor = os.open(path, _OPEN_FLAGS)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise SkillInvalid("it is not a regular file", hint="put the file itself there")
        if found.st_size > largest:
            raise SkillInvalid(
                f"it has {human_size(found.st_size)}, and at most {human_size(largest)} are read",
                hint="move the details into files in references/",
            )
        data = os.read(descriptor, found.st_size + 1)
    finally:
        os.close(descriptor)
    text, warnings = decode(data)
    return FileText(text, stamp_of(found), warnings)


def read_instructions(skill: Skill) -> str:
    """Return the text of the SKILL.md of a skill. Raises `SkillInvalid`."""
    try:
        return read_text_file(skill.file).text
    except OSError as error:
        raise SkillInvalid(
            f"the skill {skill.name!r} does not load: {describe_os_error(error)}",
            hint=f"look at {skill.file}",
        ) from error


def decode(data: bytes) -> tuple[str, tuple[str, ...]]:
    """Return the text and warnings about its encoding. Raises `SkillInvalid` for binary data."""
    # UTF-32 starts with the same bytes; decoded as UTF-16 it contains NULs.
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
    """Whether more than 2 % of the characters are control or replacement characters."""
    return (len(text) - len(text.translate(_GARBAGE))) * 50 > len(text)


def describe_os_error(error: OSError) -> str:
    """Return the error in a few words for a user."""
    return f"it cannot be read: {(error.strerror or str(error)).lower()}"


MAX_NAME_LENGTH = 64
MAX_DESCRIPTION_LENGTH = 1024

PLATFORM_NAMES = {
    **dict.fromkeys(("macos", "mac", "darwin", "osx", "mac os"), "macos"),
    **dict.fromkeys(("windows", "win", "win32", "win64"), "windows"),
    "linux": "linux",
    "wsl": "linux",
}
ALL_PLATFORMS = frozenset({"all", "any", "*", "cross-platform"})

FIELDS_WITHOUT_EFFECT = {
    "allowed_tools": "allowed-tools permits nothing: approvals follow your settings",
    "model": "model has no effect: `/model` chooses the model",
    "agent": "agent has no effect: there is one kind of subagent",
    "hooks": "hooks of a skill have no effect: they are set in config.yaml",
}
"""Fields of Claude Code that are not followed, with the reason for the user."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MARKS = re.compile(r"[*_`]{1,3}(?=\S)|(?<=\S)[*_`]{1,3}")


def read_skill(file: Path, root: SkillRoot) -> Skill:
    """Read and parse a SKILL.md. Raises `SkillInvalid`."""
    try:
        found = read_text_file(file)
    except OSError as error:
        raise SkillInvalid(describe_os_error(error), hint=f"look at {file}") from error
    return parse_skill(found.text, file.parent, root, found.warnings)


def parse_skill(
    text: str, folder: Path, root: SkillRoot, warnings: tuple[str, ...] = (), *, brief: bool = False
) -> Skill:
    """Parse the text of a SKILL.md. Raises `SkillInvalid`.

    `brief` leaves out what an index does not need.
    """
    head = read_frontmatter(text)
    notes = [*warnings, *head.warnings]
    top = FieldReader(notes, head.fields)
    metadata = FieldReader(notes, top.block("metadata"))
    fields = FieldReader(notes, metadata.block("hermes")).with_fallbacks(metadata, top)
    name = root.name or _name(_as_written(top, "name", text), folder.name, notes)
    details: dict[str, Any] = {}
    if not brief:
        notes += [why for key, why in FIELDS_WITHOUT_EFFECT.items() if top.raw(key)]
        details = {
            "version": _as_written(top, "version", text) or fields.text("version"),
            "author": top.prose("author") or fields.prose("author"),
            "license": top.text("license"),
            "related": fields.words("related_skills"),
            "variables": _variables(fields, notes),
            "credential_files": _credential_files(fields, notes),
            "settings": _settings(fields, notes),
            "is_forked": top.raw("context") == "fork",
            "argument_names": tuple(" ".join(top.words("arguments")).split()),
        }
    return Skill(
        name=f"{root.plugin}:{name}" if root.plugin else name,
        description=_description(top.prose("description"), head, notes),
        folder=folder,
        source=root.source,
        category=category_of(folder, root) or fields.text("category"),
        platforms=_platforms(fields, notes),
        tags=fields.words("tags"),
        conditions=Conditions(*map(fields.words, Conditions.__struct_fields__)),
        is_user_only=fields.flag("disable_model_invocation", default=False),
        is_model_only=not fields.flag("user_invocable", default=True),
        argument_hint=_argument_hint(top),
        warnings=tuple(dict.fromkeys(notes)),
        **details,
    )


def first_paragraph(body: str) -> str:
    """Return the first paragraph on one line, without Markdown marks.

    Headings, fences and rules are skipped. The first heading is used when there is no paragraph.
    """
    title = ""
    lines: list[str] = []
    for line in map(str.strip, strip_comments(body).splitlines()):
        if line.startswith("#"):
            title = title or line.lstrip("# ")
        elif line and not set(line) <= set("-=*_`~"):
            lines.append(line.lstrip("> "))
            continue
        if lines:
            break
    return _MARKS.sub("", " ".join(lines) or title)


def _name(written: str, folder: str, notes: list[str]) -> str:
    name = normalize_name(written)
    if not name:
        if written:
            notes.append(f"{written!r} cannot be a name; that of the folder is taken")
        name = normalize_name(folder)
    elif name != written:
        notes.append(
            f"the name {written[:MAX_NAME_LENGTH]!r} is taken as {name[:MAX_NAME_LENGTH]!r}"
        )
    if not name:
        reason = f"{written!r} cannot be a name" if written else "it has no name"
        raise SkillInvalid(reason, hint="write `name: my-skill` in its head")
    if len(name) > MAX_NAME_LENGTH:
        notes.append(f"the name is cut at {MAX_NAME_LENGTH} characters")
        name = name[:MAX_NAME_LENGTH].rstrip("-.")
    return name


def _description(written: str, head: Frontmatter, notes: list[str]) -> str:
    text = _printable(written)
    if not text:
        text = _printable(first_paragraph(head.body))
        if not text:
            raise SkillInvalid(
                "it has neither a description nor instructions",
                hint="add `description: what it does and when to use it` to its head",
            )
        notes.append("it has no description; its first paragraph is taken")
    elif not head.body or head.body.isspace():
        notes.append("it has no instructions")
    if len(text) > MAX_DESCRIPTION_LENGTH:
        notes.append(f"the description is cut at {MAX_DESCRIPTION_LENGTH:,} characters")
        text = text[: MAX_DESCRIPTION_LENGTH - 1] + "…"
    return text


def _printable(text: str) -> str:
    """Return the text on one line, without unprintable characters."""
    text = " ".join(text.split())
    return text if text.isprintable() else "".join(filter(str.isprintable, text)).strip()


def _argument_hint(top: FieldReader) -> str:
    value = top.raw("argument_hint")
    if isinstance(value, list):  # YAML reads `[file]` without quotes as a list
        return _printable(" ".join(f"[{as_text(each)}]" for each in value))
    return _printable(top.text("argument_hint"))


def category_of(folder: Path, root: SkillRoot) -> str:
    """Return the folders between the root and a skill folder, or ""."""
    if root.plugin or folder == root.path:
        return root.plugin
    return str(folder)[len(str(root.path)) + 1 :].rpartition("/")[0]


def _as_written(top: FieldReader, key: str, text: str) -> str:
    """Return a value as written in the file: YAML reads `1.10` as 1.1 and `off` as false."""
    if isinstance(top.raw(key), float | bool):
        written = re.search(rf"^{key}:[ \t]*([\w.+-]+)", text, re.MULTILINE | re.IGNORECASE)
        if written:
            return written[1]
    return top.text(key)


def _platforms(fields: FieldReader, notes: list[str]) -> tuple[str, ...]:
    words = [word.lower() for word in fields.words("platforms")]
    if not ALL_PLATFORMS.isdisjoint(words):
        return ()
    notes += [f"the platform {word!r} is not known" for word in words if word not in PLATFORM_NAMES]
    return tuple(dict.fromkeys(PLATFORM_NAMES.get(word, word) for word in words))


def _variables(fields: FieldReader, notes: list[str]) -> tuple[SkillVariable, ...]:
    found = {
        each.text("name"): SkillVariable(
            name=each.text("name"),
            prompt=each.text("prompt") or each.text("description"),
            help=each.text("help"),
            required_for=each.text("required_for"),
        )
        for each in fields.entries("required_environment_variables", "name")
    }
    if fields.raw("prerequisites"):
        legacy = FieldReader(notes, fields.block("prerequisites")).words("env_vars")
        found = {**{name: SkillVariable(name) for name in legacy}, **found}
    wrong = [name for name in found if not _VARIABLE.fullmatch(name)]
    notes += [f"{name!r} is not the name of a variable; it is ignored" for name in wrong]
    return tuple(each for name, each in found.items() if name not in wrong)


def _credential_files(fields: FieldReader, notes: list[str]) -> tuple[CredentialFile, ...]:
    found: list[CredentialFile] = []
    for each in fields.entries("required_credential_files", "path"):
        path = each.text("path")
        parts = PurePosixPath(path).parts
        below = not path.startswith(("/", "~", "\\")) and ".." not in parts and parts
        if not below or not path.isprintable():
            notes.append(
                f"the credential file {path!r} is not below the home folder; it is ignored"
            )
        else:
            found.append(CredentialFile(path, each.text("description")))
    return tuple(found)


def _settings(fields: FieldReader, notes: list[str]) -> tuple[SkillSetting, ...]:
    found: list[SkillSetting] = []
    for each in fields.entries("config", "key"):
        key, description = each.text("key"), each.text("description")
        if not description:
            notes.append(f"the setting {key!r} has no description; it is ignored")
            continue
        prompt = each.text("prompt") or description
        found.append(SkillSetting(key, description, plain_value(each.raw("default")), prompt))
    return tuple(found)


def is_inside(path: Path, folder: Path) -> bool:
    """Whether a path is in a folder after following links."""
    try:
        return path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):  # a link to itself, a NUL
        return False
