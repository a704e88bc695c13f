"""The head of a SKILL.md: the YAML between two lines of `---`, however it was written.

Other agents, editors and models write it in many ways. Whatever can be understood is, and what had
to be guessed is said in a warning.
"""

import json
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from hermes.skills.skill import SkillInvalid

# Heads as other agents, editors and models write them, turned into what they meant.

_LEADING_COMMENTS = re.compile(r"(?:\s*<!--(?:(?!-->).)*-->)+\s*(?=---)", re.DOTALL)
_FENCED_HEAD = re.compile(
    r"\s*(`{3,}|~{3,})ya?ml[ \t]*\n(?:---[ \t]*\n)?(?P<head>(?:(?!---|\1).*\n)+)"
    r"(?:---[ \t]*\n)?\1[ \t]*(?:\n|$)"
)
_SKILL_FIELD = re.compile(r"^(?:name|description)[:：]", re.MULTILINE)
"""It is no example that the instructions begin with."""
_WRAPPED = re.compile(r"\s*(`{3,}|~{3,})\w*\n(?=---)")
_FIELD = re.compile(r"^(?P<lead>[ ]*(?:- +)?)(?P<key>[A-Za-z_][\w.-]*):[ ]+(?P<value>\S.*?)\s*$")
_UNSPACED_KEY = re.compile(r"^([A-Za-z_][\w-]*)[:：](?!//)[ \u00a0]*(?=\S)", re.MULTILINE)
"""A key with another colon, or another space after it, or none."""
_BLOCK = re.compile(r"[|>][-+]?\d?$")
_COMPLETE_VALUE = re.compile(r"""(\[.*\]|\{.*\}|"(\\.|[^"\\])*"|'([^']|'')*')(\s+#.*)?$""")


def _unwrap(text: str) -> tuple[str, tuple[str, ...]]:
    """Without comments before the head, or the code fence a model put around it or everything."""
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
    """What was meant, when tabs indent it or values that need quotes have none."""
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
    """-1 for an empty line, which ends everything."""
    return len(line) - len(line.lstrip()) if line.strip() else -1


def _quote(value: str) -> str:
    plain = re.fullmatch(r"-?\d+(\.\d+)?|true|false|null|~", value, re.IGNORECASE)
    if plain:
        return value
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        value = value[1:-1]
    return json.dumps(value, ensure_ascii=False)


# The YAML in which most heads are written, read by lines: many times as quick as all of YAML.
#
# What is understood here means the same there. Anything else, such as text over several lines,
# comments, escapes or numbers in odd forms, is left to a parser of the whole language.

MAX_SIMPLE_INDENT = 20
"""Spaces before a line."""

_SIMPLE_LINES = re.compile(
    r"^( *)(- |)(?:([A-Za-z_][A-Za-z0-9_-]{0,60}):(?: +|$))?(.*)$", re.MULTILINE
)
"""Spaces, the dash of a list, the key of a field, and what follows."""
_QUOTED = r'"[^"\\,]*"|\'[^\',]*\''
_ENTRY = rf"(?:[A-Za-z][\w+/.-]*(?: [\w+/.-]+)*|{_QUOTED})"
_VALUES: tuple[tuple[re.Pattern[str], Callable[[str], Any]], ...] = (
    (re.compile(r"[0-9]+\.[0-9]+\.[0-9]+"), str),
    (re.compile(rf"\[{_ENTRY}(?:, *{_ENTRY})*\]"), lambda text: _parse_entries(text)),
    (re.compile(r'"[^"\\]*"|\'[^\']*\''), lambda text: text[1:-1]),
    (re.compile(r"[0-9]+\.[0-9]+"), float),
    (re.compile(r"0|[1-9][0-9]{0,8}"), int),
    (re.compile(r"\[ *\]"), lambda _: []),
)
_RESERVED_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null"})
"""Words with a meaning of their own, in any letter case."""


class _NotSimple(Exception):
    """It takes more than is understood here."""


def parse_simple_yaml(text: str) -> dict[str, Any] | None:
    """The fields in `text`; None when only a whole parser can tell."""
    if "#" in text or not text.replace("\n", "").isprintable():
        return None
    lines = _SimpleYamlReader([row for row in _SIMPLE_LINES.findall(text) if any(row[1:])])
    try:
        fields = lines.table(0)
    except _NotSimple:
        return None
    return fields if fields and lines.at == len(lines.rows) else None


class _SimpleYamlReader:
    """Rows as `_LINES` finds them; those before `at` are read. A table or list ends at the first
    row that does not belong to it; where that belongs to nothing at all, not all are read."""

    def __init__(self, rows: list[tuple[str, str, str, str]]) -> None:
        self.rows, self.at = rows, 0

    def table(self, depth: int) -> dict[str, Any]:
        """Fields that stand `depth` spaces to the right."""
        if depth > MAX_SIMPLE_INDENT:
            raise _NotSimple
        fields: dict[str, Any] = {}
        while self.at < len(self.rows):
            spaces, dash, key, value = self.rows[self.at]
            if len(spaces) != depth or dash:
                break
            if not key or key.lower() in _RESERVED_WORDS:
                raise _NotSimple
            self.at += 1
            fields[key] = _parse_value(value) if value else self._below(depth)
        return fields

    def _below(self, depth: int) -> Any:
        """What belongs to a key at `depth` with nothing beside it."""
        spaces, dash, _, _ = self.rows[self.at] if self.at < len(self.rows) else ("", "", "", "")
        if dash and len(spaces) >= depth:
            return self._list(len(spaces))
        return self.table(len(spaces)) if len(spaces) > depth else None

    def _list(self, depth: int) -> list[Any]:
        entries: list[Any] = []
        while self.at < len(self.rows):
            spaces, dash, key, value = self.rows[self.at]
            if len(spaces) != depth or not dash:
                break
            if key:
                # As if the dash were spaces: the other fields of the entry stand below this one.
                self.rows[self.at] = (f"{spaces}  ", "", key, value)
                entries.append(self.table(depth + 2))
            else:
                self.at += 1
                entries.append(_parse_value(value))
        return entries


def _parse_value(written: str) -> Any:
    text = written.rstrip(" ")
    if text[:1].isalpha() and ": " not in text and text[-1] != ":":
        return _check_text(text)
    for form, meaning in _VALUES:
        if form.fullmatch(text):
            return meaning(text)
    raise _NotSimple


def _parse_entries(written: str) -> list[str]:
    entries = map(str.strip, written[1:-1].split(","))
    return [each[1:-1] if each[0] in "\"'" else _check_text(each) for each in entries]


def _check_text(word: str) -> str:
    if word.lower() in _RESERVED_WORDS:
        raise _NotSimple
    return word


MAX_CHARS = 64_000
"""Characters of a head."""
MAX_DEPTH = 100
NESTING_CHARACTERS = "[{:-?"
"""Each level of nesting needs one of them."""

_FENCE = re.compile(r"^-{3,}[ \t]*$", re.MULTILINE)
_OTHER_ENDS = re.compile(r"^(?:\.\.\.|[ \t]+---)[ \t]*$", re.MULTILINE)
_INVISIBLE = "\ufeff\u200b\u2060"
"""Marks that editors and web pages leave before the first character."""
_WRAPPERS = ("<!--", "```", "~~~")
"""What may stand around a head, or before it."""


class Frontmatter(NamedTuple):
    fields: dict[str, Any]
    """As they were written, also those nobody here knows."""
    body: str
    warnings: tuple[str, ...] = ()


class _YamlProblem(Exception):
    """The message is for a person."""


def read_frontmatter(text: str) -> Frontmatter:
    """Raises `SkillInvalid` when there is a head and it cannot be understood."""
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
            fields, mended = _parse_fields(inside[: end.start()])
        except _YamlProblem as error:
            problem = error
        else:
            return Frontmatter(fields, inside[end.end() :].strip("\n"), (*warnings, *mended))
    else:
        problem = _YamlProblem("the --- after it is missing")
    return _read_unclosed(inside, problem, warnings)


def _read_unclosed(inside: str, problem: _YamlProblem, warnings: tuple[str, ...]) -> Frontmatter:
    """The head when its last line is missing: up to the first line that is no field."""
    lines = inside.split("\n")
    count = next((at for at, line in enumerate(lines) if not _is_field_line(line)), len(lines))
    try:
        fields, mended = _parse_fields("\n".join(lines[:count])) if count else ({}, ())
    except _YamlProblem:
        fields, mended = {}, ()
    if not fields:
        raise SkillInvalid(
            f"its head is not valid YAML: {problem}",
            hint='write `key: value` lines between two --- lines; a value with a colon in "quotes"',
        )
    body = "\n".join(lines[count:]).strip("\n")
    return Frontmatter(fields, body, (*warnings, "the --- after its head is missing", *mended))


def _is_field_line(line: str) -> bool:
    return bool(line.strip()) and (
        line[0] in " \t-" or re.match(r"[A-Za-z_][\w.-]*:(\s|$)", line) is not None
    )


def _parse_fields(text: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The fields, and what had to be mended. Raises `_NotYaml`."""
    mended: tuple[str, ...] = ()
    try:
        data = _load_yaml(text)
        if isinstance(data, str):
            raise _YamlProblem("it holds text instead of fields")
    except _YamlProblem as error:
        try:
            data = _load_yaml(_repair_yaml(text))
        except _YamlProblem:
            raise error from None
        mended = (f"its head is not quite YAML: {error}",)
    if isinstance(data, dict):
        return {str(key): value for key, value in data.items()}, mended
    if data is None:
        return {}, ("its head is empty",)
    kind = "a list" if isinstance(data, list) else "text"
    return {}, (f"its head holds {kind} instead of fields",)


def _load_yaml(text: str) -> Any:
    if len(text) > MAX_CHARS:
        raise _YamlProblem(f"it has more than {MAX_CHARS:,} characters")
    plain = parse_simple_yaml(text)
    if plain is not None:
        return plain
    yaml = import_module("yaml")
    try:
        if sum(map(text.count, NESTING_CHARACTERS)) > MAX_DEPTH:
            _check_depth(yaml, text)
        return yaml.load(text, Loader=yaml.CSafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        # One for the fence, and lines are counted from 1.
        where = f"line {mark.line + 2}: " if mark else ""
        raise _YamlProblem(f"{where}{error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise _YamlProblem("there is a character YAML does not allow") from error
    except RecursionError as error:
        raise _YamlProblem("it is nested too deeply") from error
    except (ValueError, OverflowError, TypeError) as error:  # a date such as 2026-13-45
        raise _YamlProblem(str(error)) from error


def _check_depth(yaml: Any, text: str) -> None:
    """Raise RecursionError for absurdly deep text, on which the C parser would crash."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise RecursionError
