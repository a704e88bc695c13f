"""Heads as other agents, editors and models write them, turned into what they meant.

Few collections need it, so it is loaded when the first such head is found.
"""

import json
import re

_COMMENTS = re.compile(r"(?:\s*<!--(?:(?!-->).)*-->)+\s*(?=---)", re.DOTALL)
_FENCED_HEAD = re.compile(
    r"\s*(`{3,}|~{3,})ya?ml[ \t]*\n(?:---[ \t]*\n)?(?P<head>(?:(?!---|\1).*\n)+)"
    r"(?:---[ \t]*\n)?\1[ \t]*(?:\n|$)"
)
_OURS = re.compile(r"^(?:name|description)[:：]", re.MULTILINE)
"""It is no example that the instructions begin with."""
_WRAPPED = re.compile(r"\s*(`{3,}|~{3,})\w*\n(?=---)")
_FIELD = re.compile(r"^(?P<lead>[ ]*(?:- +)?)(?P<key>[A-Za-z_][\w.-]*):[ ]+(?P<value>\S.*?)\s*$")
_CRAMPED = re.compile(r"^([A-Za-z_][\w-]*)[:：](?!//)[ \u00a0]*(?=\S)", re.MULTILINE)
"""A key with another colon, or another space after it, or none."""
_BLOCK = re.compile(r"[|>][-+]?\d?$")
_WHOLE = re.compile(r"""(\[.*\]|\{.*\}|"(\\.|[^"\\])*"|'([^']|'')*')(\s+#.*)?$""")


def unwrapped(text: str) -> tuple[str, tuple[str, ...]]:
    """Without comments before the head, or the code fence a model put around it or everything."""
    comments = _COMMENTS.match(text)
    if comments:
        return text[comments.end() :], ()
    fenced = _FENCED_HEAD.match(text)
    if fenced and _OURS.search(fenced["head"]):
        whole = f"---\n{fenced['head']}---\n{text[fenced.end() :]}"
        return whole, ("its head stands in a code fence",)
    wrapped = _WRAPPED.match(text)
    if wrapped is None:
        return text, ()
    inner = text[wrapped.end() :].rstrip()
    return inner.removesuffix(wrapped[1]), ("all of it stands in a code fence",)


def mended(text: str) -> str:
    """What was meant, when tabs indent it or values that need quotes have none."""
    lines = [line.expandtabs(2) for line in _CRAMPED.sub(r"\1: ", text).split("\n")]
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
        elif _WHOLE.match(field["value"]):
            result.append(line)
            continue
        else:
            value = " ".join([field["value"], *(each.strip() for each in lines[at:more])])
            result.append(f"{field['lead']}{field['key']}: {_quoted(value)}")
        at = more
    return "\n".join(result)


def _indent(line: str) -> int:
    """-1 for an empty line, which ends everything."""
    return len(line) - len(line.lstrip()) if line.strip() else -1


def _quoted(value: str) -> str:
    plain = re.fullmatch(r"-?\d+(\.\d+)?|true|false|null|~", value, re.IGNORECASE)
    if plain:
        return value
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        value = value[1:-1]
    return json.dumps(value, ensure_ascii=False)
