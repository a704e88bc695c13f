"""Invisible characters: text the reader of a file does not see but a model does.

Not findings: a leading byte order mark; the joiners inside an emoji; the tags of the three
subdivision flags; joiners and separators after a letter of a script whose spelling needs them.
"""

import re
from collections.abc import Iterator

_INVISIBLE = re.compile(
    "[\u180e\u200b-\u200d\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff"
    "\U000e0000-\U000e007f\U000e0100-\U000e01ef]"
)
IGNORED = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb"
    "\U000e0000-\U000e001f\U000e007f\U000e0100-\U000e01ef]"
)
"""Everything that shows nothing, removed before words are looked for."""

_EMOJI = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
_JOINING = (
    "[\u0600-\u08ff\u0900-\u0dff\u1000-\u109f\u1780-\u17ff\u1800-\u18af\u1cd0-\u1cff"
    "\ua8e0-\uabff\ufb50-\ufdff\ufe70-\ufefe]"
)
_UNSPACED = "[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u1980-\u19ff\u3040-\u30ff\u3400-\u9fff]"
_LEGITIMATE = re.compile(
    # an emoji joined to the next
    rf"(?<=[{_EMOJI}\ufe0f\u20e3])\u200d(?=[{_EMOJI}])"
    # England, Scotland, Wales
    "|(?<=\U0001f3f4)\U000e0067\U000e0062"
    "(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074|"
    "\U000e0077\U000e006c\U000e0073)"
    "\U000e007f"
    # half forms and word parts of Arabic, Persian, Indic, Burmese, Khmer, Mongolian
    rf"|(?<={_JOINING})[\u200c\u200d](?![\u200b-\u200d])"
    "|(?<=[\u1800-\u18af])\u180e"
    # places for a line break where words are written without spaces
    rf"|(?<={_UNSPACED})\u200b(?![\u200b-\u200d])"
    # a chosen form of a Chinese character
    "|(?<=[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])[\U000e0100-\U000e01ef]"
)


def invisible(text: str) -> Iterator[tuple[str, int]]:
    """The id and the place of each invisible character that has no business there."""
    if text.isascii():
        return
    excused_to = 1 if text.startswith("\ufeff") else 0
    for match in _INVISIBLE.finditer(text):
        if match.start() < excused_to:
            continue
        if legitimate := _LEGITIMATE.match(text, match.start()):
            excused_to = legitimate.end()
        else:
            yield f"invisible unicode U+{ord(match[0]):04X}", match.start()
