"""Whether a reply can serve as notes. Nothing here asks a model."""

import re
import zlib

from hermes.context.compressor.notes import SECTIONS, Notes, parse_notes

LEAST_SECTIONS = 3
LEAST_CHARS, MOST_LEAST_CHARS = 80, 300
"""A reply shorter than this says too little; the limit goes with the size it may have."""
REPETITIVE = 0.12
"""A text that packs to a smaller part than this says the same over and over."""
LEAST_TO_PACK = 400
"""Characters below which packing says nothing."""

_THOUGHT = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.S | re.I)
_FENCE = re.compile(r"\A```\w*\n(.*?)\n?```\s*\Z", re.S)
_REFUSAL = re.compile(
    r"\W{0,4}(?:i(?:['’]m| am) (?:very )?(?:sorry|unable|not able)|sorry,|i apologi[sz]e|"
    r"i can(?:['’]|no)t |as an ai|unfortunately, i)",
    re.I,
)
_HINTS = {f"({what})" for what in SECTIONS.values()}
_EMPTY = re.compile(r"[-*\s]*\(?(?:none|n/a|nothing|empty)?\)?[.\s]*", re.I)


class Unusable(Exception):
    """The reply cannot serve; the text says why."""


def checked(reply: str, tokens: int) -> Notes:
    """The notes in a reply that may have so many tokens. Raises `Unusable`."""
    notes = parse_notes(cleaned(reply))
    told = {name: _told(body) for name, body in notes.sections.items()}
    if len(told) < LEAST_SECTIONS:
        raise Unusable("the sections are missing")
    least = max(LEAST_CHARS, min(MOST_LEAST_CHARS, tokens // 2))
    if sum(map(len, told.values())) < least:
        raise Unusable("it says too little")
    return Notes({name: body for name, body in told.items() if body}).fitted(tokens)


def cleaned(reply: str) -> str:
    """A reply without thoughts and fences. Raises `Unusable` for what is no notes on anything."""
    text = _THOUGHT.sub("", reply).strip()
    if fenced := _FENCE.match(text):
        text = fenced[1].strip()
    if not text:
        raise Unusable("it was empty")
    if _REFUSAL.match(text):
        raise Unusable("it was a refusal")
    if _repetitive(text):
        raise Unusable("it repeats itself")
    return text


def _told(body: str) -> str:
    """A section without hints of the form and words for nothing."""
    lines = [line for line in body.splitlines() if line.strip() not in _HINTS]
    text = "\n".join(lines).strip()
    return "" if _EMPTY.fullmatch(text) else text


def _repetitive(text: str) -> bool:
    halves = (text, text[len(text) // 2 :])
    return any(
        len(zlib.compress(half.encode("utf-8", "replace"))) < REPETITIVE * len(half)
        for half in halves
        if len(half) >= LEAST_TO_PACK
    )
