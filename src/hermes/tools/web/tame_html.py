"""HTML of strangers, made safe for `html.parser`: it needs hours for a page of broken tags, and
raises on some declarations."""

import re

_TAG = re.compile(
    r"<(/?[a-zA-Z][a-zA-Z0-9:-]{0,30}+)"
    r"((?:[^<>\"'=]++|=\s*+\"[^\"]{0,10000}+\"|=\s*+'[^']{0,10000}+'|[\"'=]){0,160}+(?=>)"
    r"|[^<>]{0,2000}+)>"
)
"""A value in quotes may hold ">". Every part is bounded and never tried again."""
_DECLARATION = re.compile(r"<[!?][^<>]{0,2000}>")
_ATTRIBUTE = re.compile(
    r"(?<![\w-])(style|class|id|hidden|href)\b(?:\s*=\s*(\"[^\"]*\"|'[^']*'|[^\s\"'>]+))?",
    re.IGNORECASE,
)
"""Those that tell something of what a reader sees."""


def tamed(html: str) -> str:
    """Whole tags with few attributes, and text without "<"."""
    html = _DECLARATION.sub("", _without_comments(html))
    pieces: list[str] = []
    place = 0
    for tag in _TAG.finditer(html):
        known = [_attribute(*found.groups()) for found in _ATTRIBUTE.finditer(tag[2] or "")]
        pieces += [
            html[place : tag.start()].replace("<", "&lt;"),
            f"<{' '.join([tag[1], *known])}>",
        ]
        place = tag.end()
    return "".join([*pieces, html[place:].replace("<", "&lt;")])


def _without_comments(html: str) -> str:
    pieces: list[str] = []
    place = 0
    while (start := html.find("<!--", place)) >= 0:
        pieces.append(html[place:start])
        end = html.find("-->", start + 4)
        if end < 0:
            return "".join(pieces)
        place = end + 3
    return "".join([*pieces, html[place:]])


def _attribute(name: str, value: str | None) -> str:
    """With quotes that are closed: else the tag would take in what follows it."""
    bare = (value or "").strip("\"'").replace('"', "&quot;")
    return f'{name}="{bare}"'
