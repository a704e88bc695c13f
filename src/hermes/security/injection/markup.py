"""Orders where only a machine reads them: HTML comments and hidden elements.

Comments and hidden elements are everyday things; what is said in them decides.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

from hermes.security.injection.folding import fold
from hermes.security.injection.mention import spoken_of

_LONGEST: Final = 4_000
"""Characters of a comment or element that are read."""
_ADDRESSED = re.compile(
    r"\b(?:ai|a\.i\.|assistants?|agents?|llms?|language models?|claude|chatgpt|gpt(?:-\d)?|"
    r"copilot|cursor|"
    r"gemini|hermes|codex|bots?|you|your|system|admin|model)\b"
)
_ORDER = re.compile(
    r"(?P<verb>\b(?:ignore|disregard|forget|override|bypass)\b[^.\n]{0,40}\b(?:instructions?|"
    r"prompts?|rules?|"
    r"guidelines?|polic(?:y|ies)|everything|safety|above|user|restrictions?|visible)"
    r"|\bexfiltrate|\b(?:send|upload|post|forward|e-?mail|leak|append|"
    r"submit)\b[^.\n]{0,60}(?:https?://|secret|"
    r"api.?key|tokens?\b|\.env|credential|password|private key|environment variable|history)"
    r"|\b(?:curl|wget)\s+(?:-\S+\s+){0,4}['\"]?https?://"
    r"|\brm\s+-rf|\b(?:reveal|print|output|leak)\b[^.\n]{0,40}(?:secrets?|system prompt|"
    r"api.?keys?|passwords?)"
    r"|\b(?:hidden|secret) instructions?|\byou are now\b|\bnew instructions?\b"
    r"|\b(?:run|execute|install|download|fetch)\b[^.\n]{0,80}(?:https?://|\|\s*(?:ba)?sh\b|"
    r"silently|secretly|"
    r"without (?:asking|telling|informing|confirm)))"
)
_DECEIT = re.compile(
    r"\b(?:do not|don't|never) (?:tell|mention|inform|reveal|alert|notify)\b[^.\n]{0,40}(?:users?|"
    r"human|anyone)"
    r"|\bwithout (?:telling|informing|notifying|alerting)\b"
)
_FORBIDDEN = re.compile(r"(?:\bnot|n't|\bnever|\bavoid|\bwithout|\bdon.t)\s+(?:\w+\s+)?$")
_OPENING = re.compile(r"<([a-z][a-z0-9]{0,20})\b([^<>]{0,600})>", re.IGNORECASE)
_HIDDEN = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*hidden|opacity\s*:\s*0(?:\.0+)?\s*(?:[;\"'!]|$)|"
    r"font-size\s*:\s*(?:0|1px|0\.\d+)|(?:^|\s)hidden(?=[\s=\"'/]|$)|"
    r"(?<![-\w])color\s*:\s*(?:transparent|white|#fff(?:fff)?\b)|"
    r"(?:left|top|text-indent)\s*:\s*-\d{3,}|(?:height|width|max-height)\s*:\s*0(?:px)?\s*[;\"']|"
    r"clip\s*:\s*rect\(\s*0|transform\s*:\s*scale\(\s*0",
    re.IGNORECASE,
)
_TO_A_MACHINE = re.compile(
    r"\b(?:ai|assistants?|llms?|claude|chatgpt|gpt|copilot|hermes|codex)\b[^.\n]{0,30}(?:[:,]|"
    r"\b(?:must|should|"
    r"will|please|reading|read this)\b)|\binstructions?\s*:|\b(?:you must|you should|you will|you "
    r"are)\b[^\n]{0,80}"
    r"\b(?:ignore|send|execute|run|reveal|upload|delete|approve|always|never|instead|say|tell)\b|"
    r"\bsecretly\b"
)


def markup(text: str, phrases: Sequence[int]) -> Iterator[tuple[str, int]]:
    """The ids and lines (from 0) of orders in comments and hidden elements.

    `phrases` are the lines, in order, on which some other rule found something.
    """
    if "<" not in text:
        return
    for name, places in (("html_comment_injection", _comments), ("hidden_div", _hidden)):
        line = counted = 0
        for start, end in places(text):
            line, counted = line + text.count("\n", counted, start), start
            last = line + text.count("\n", start, end)
            found = bisect_left(phrases, line) < bisect_right(phrases, last)
            if (found or _is_order(fold(text[start:end]), name)) and not spoken_of(
                text, start, end, ""
            ):
                yield name, line


def _comments(text: str) -> Iterator[tuple[int, int]]:
    at = text.find("<!--")
    while at >= 0:
        end = text.find("-->", at)
        end = len(text) if end < 0 else end
        yield at + 4, min(end, at + _LONGEST)
        at = text.find("<!--", end)


def _hidden(text: str) -> Iterator[tuple[int, int]]:
    """What stands inside hidden elements."""
    after = 0
    for tag in _OPENING.finditer(text):
        if tag.start() >= after and _HIDDEN.search(tag[2]):
            end = text.find(f"</{tag[1]}", tag.end(), tag.end() + _LONGEST)
            after = end if end >= 0 else min(len(text), tag.end() + _LONGEST)
            yield tag.end(), after


def _is_order(said: str, name: str) -> bool:
    for match in _ORDER.finditer(said):
        if not _FORBIDDEN.search(said, max(0, match.start() - 30), match.start()) and (
            _ADDRESSED.search(said) or "instruction" in match[0]
        ):
            return True
    if _DECEIT.search(said):
        return True
    return name == "hidden_div" and bool(_TO_A_MACHINE.search(said))
