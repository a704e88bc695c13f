"""Read the YAML frontmatter of a SKILL.md.

Other agents, editors and models write it in many ways. The reader accepts whatever can be
understood and returns a warning for everything it had to guess.
"""

import json
import re
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
    import yaml  # 15 ms; only a process that finds new or changed skills needs it

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
