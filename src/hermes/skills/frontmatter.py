"""Read the YAML frontmatter of a SKILL.md.

Other agents, editors and models write it in many ways. The reader accepts whatever can be
understood and returns a warning for everything it had to guess.
"""

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from hermes.skills.skill import SkillInvalid

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
_COMPLETE_VALUE = re.compile(r"""(\[.*\]|\{.*\}|"(\\.|[^"\\])*"|'([^']|'')*')(\s+#.*)?$""")


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


# A parser for the simple YAML of most frontmatter, about four times as fast as PyYAML. It gives
# the same result as PyYAML or none: texts over several lines, comments, escapes and unusual
# numbers are left to PyYAML.

MAX_SIMPLE_INDENT = 20
"""Spaces before a line."""

_SIMPLE_LINES = re.compile(
    r"^( *)(- |)(?:([A-Za-z_][A-Za-z0-9_-]{0,60}):(?: +|$))?(.*)$", re.MULTILINE
)
"""Groups: indentation, dash of a list entry, key of a field, value."""
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
"""Words that YAML reads as booleans or null, in any letter case."""


class _NotSimple(Exception):
    """The text needs a complete YAML parser."""


def parse_simple_yaml(text: str) -> dict[str, Any] | None:
    """Return the fields in `text`, or None when it needs a complete YAML parser."""
    if "#" in text or not text.replace("\n", "").isprintable():
        return None
    lines = _SimpleYamlReader([row for row in _SIMPLE_LINES.findall(text) if any(row[1:])])
    try:
        fields = lines.table(0)
    except _NotSimple:
        return None
    return fields if fields and lines.at == len(lines.rows) else None


class _SimpleYamlReader:
    """Reads rows as matched by `_SIMPLE_LINES`; `at` is the next row.

    A table or list ends at the first row that does not belong to it. When a row belongs to nothing,
    `at` does not reach the end.
    """

    def __init__(self, rows: list[tuple[str, str, str, str]]) -> None:
        self.rows, self.at = rows, 0

    def table(self, depth: int) -> dict[str, Any]:
        """Read the fields that are indented by `depth` spaces."""
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
        """Read what belongs to a key at `depth` without a value on its line."""
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
                # Read the dash as indentation: the other fields of the entry follow at that depth.
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
"""Characters of the frontmatter."""
MAX_DEPTH = 100
NESTING_CHARACTERS = "[{:-?"
"""Every level of nesting needs at least one of these."""

_FENCE = re.compile(r"^-{3,}[ \t]*$", re.MULTILINE)
_OTHER_ENDS = re.compile(r"^(?:\.\.\.|[ \t]+---)[ \t]*$", re.MULTILINE)
_INVISIBLE = "\ufeff\u200b\u2060"
"""Marks that editors and web pages leave before the first character."""
_WRAPPERS = ("<!--", "```", "~~~")
"""What may precede or surround the frontmatter."""


class Frontmatter(NamedTuple):
    """The frontmatter of a SKILL.md and the text after it."""

    fields: dict[str, Any]
    """As written, including unknown ones."""
    body: str
    warnings: tuple[str, ...] = ()


class _YamlProblem(Exception):
    """The text is not valid YAML. The message is shown to the user."""


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
    repairs: tuple[str, ...] = ()
    try:
        data = _load_yaml(text)
        if isinstance(data, str):
            raise _YamlProblem("it holds text instead of fields")
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


def _load_yaml(text: str) -> Any:
    if len(text) > MAX_CHARS:
        raise _YamlProblem(f"it has more than {MAX_CHARS:,} characters")
    plain = parse_simple_yaml(text)
    if plain is not None:
        return plain
    import yaml  # most frontmatter is simple enough to be read without it

    try:
        if sum(map(text.count, NESTING_CHARACTERS)) > MAX_DEPTH:
            _check_depth(yaml, text)
        return yaml.load(text, Loader=yaml.CSafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        # Add one for the opening fence and one because lines are counted from 1.
        where = f"line {mark.line + 2}: " if mark else ""
        raise _YamlProblem(f"{where}{error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise _YamlProblem("there is a character YAML does not allow") from error
    except RecursionError as error:
        raise _YamlProblem("it is nested too deeply") from error
    except (ValueError, OverflowError, TypeError) as error:  # a date such as 2026-13-45
        raise _YamlProblem(str(error)) from error


def _check_depth(yaml: Any, text: str) -> None:
    """Raise RecursionError for excessively nested text, on which the C parser would crash."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise RecursionError
