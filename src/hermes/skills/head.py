"""The head of a SKILL.md: the YAML between two lines of `---`, however it was written.

Other agents, editors and models write it in many ways. Whatever can be understood is, and what had
to be guessed is said in a warning.
"""

import re
from importlib import import_module
from typing import Any, NamedTuple

from hermes.skills.plain_yaml import read_plain
from hermes.skills.skill import SkillInvalid

LARGEST = 64_000
"""Characters of a head."""
DEEPEST = 100
OPENERS = "[{:-?"
"""Each level of nesting needs one of them."""

_FENCE = re.compile(r"^-{3,}[ \t]*$", re.MULTILINE)
_OTHER_ENDS = re.compile(r"^(?:\.\.\.|[ \t]+---)[ \t]*$", re.MULTILINE)
_INVISIBLE = "\ufeff\u200b\u2060"
"""Marks that editors and web pages leave before the first character."""
_WRAPPERS = ("<!--", "```", "~~~")
"""What may stand around a head, or before it."""


class Head(NamedTuple):
    fields: dict[str, Any]
    """As they were written, also those nobody here knows."""
    body: str
    warnings: tuple[str, ...] = ()


class _NotYaml(Exception):
    """The message is for a person."""


def read_head(text: str) -> Head:
    """Raises `SkillInvalid` when there is a head and it cannot be understood."""
    text = text.lstrip(_INVISIBLE)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    warnings: tuple[str, ...] = ()
    if text.lstrip().startswith(_WRAPPERS):
        text, warnings = _dialects().unwrapped(text)
    start = text.lstrip()
    first = _FENCE.match(start)
    if first is None:
        if start.startswith("+++\n"):
            raise SkillInvalid(
                "its head is TOML (+++)", hint="write it as YAML between two lines of ---"
            )
        return Head({}, start, (*warnings, "it has no head (--- … ---)"))
    inside = start[first.end() + 1 :]
    end = _FENCE.search(inside) or _OTHER_ENDS.search(inside)
    if end is not None:
        try:
            fields, mended = _fields(inside[: end.start()])
        except _NotYaml as error:
            problem = error
        else:
            return Head(fields, inside[end.end() :].strip("\n"), (*warnings, *mended))
    else:
        problem = _NotYaml("the --- after it is missing")
    return _unclosed(inside, problem, warnings)


def _unclosed(inside: str, problem: _NotYaml, warnings: tuple[str, ...]) -> Head:
    """The head when its last line is missing: up to the first line that is no field."""
    lines = inside.split("\n")
    count = next((at for at, line in enumerate(lines) if not _continues(line)), len(lines))
    try:
        fields, mended = _fields("\n".join(lines[:count])) if count else ({}, ())
    except _NotYaml:
        fields, mended = {}, ()
    if not fields:
        raise SkillInvalid(
            f"its head is not valid YAML: {problem}",
            hint='write `key: value` lines between two --- lines; a value with a colon in "quotes"',
        )
    body = "\n".join(lines[count:]).strip("\n")
    return Head(fields, body, (*warnings, "the --- after its head is missing", *mended))


def _continues(line: str) -> bool:
    return bool(line.strip()) and (
        line[0] in " \t-" or re.match(r"[A-Za-z_][\w.-]*:(\s|$)", line) is not None
    )


def _fields(text: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The fields, and what had to be mended. Raises `_NotYaml`."""
    mended: tuple[str, ...] = ()
    try:
        data = _load(text)
        if isinstance(data, str):
            raise _NotYaml("it holds text instead of fields")
    except _NotYaml as error:
        try:
            data = _load(_dialects().mended(text))
        except _NotYaml:
            raise error from None
        mended = (f"its head is not quite YAML: {error}",)
    if isinstance(data, dict):
        return {str(key): value for key, value in data.items()}, mended
    if data is None:
        return {}, ("its head is empty",)
    kind = "a list" if isinstance(data, list) else "text"
    return {}, (f"its head holds {kind} instead of fields",)


def _load(text: str) -> Any:
    if len(text) > LARGEST:
        raise _NotYaml(f"it has more than {LARGEST:,} characters")
    plain = read_plain(text)
    if plain is not None:
        return plain
    yaml = import_module("yaml")
    try:
        if sum(map(text.count, OPENERS)) > DEEPEST:
            _check_depth(yaml, text)
        return yaml.load(text, Loader=yaml.CSafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        # One for the fence, and lines are counted from 1.
        where = f"line {mark.line + 2}: " if mark else ""
        raise _NotYaml(f"{where}{error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise _NotYaml("there is a character YAML does not allow") from error
    except RecursionError as error:
        raise _NotYaml("it is nested too deeply") from error
    except (ValueError, OverflowError, TypeError) as error:  # a date such as 2026-13-45
        raise _NotYaml(str(error)) from error


def _check_depth(yaml: Any, text: str) -> None:
    """Raise RecursionError for absurdly deep text, on which the C parser would crash."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise RecursionError


def _dialects() -> Any:
    return import_module("hermes.skills.dialects")
