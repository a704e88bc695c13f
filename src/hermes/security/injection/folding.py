"""Text brought to the plain form in which rules look for words.

Line breaks are neither added nor removed, so a line of the plain form is that line of the source.
"""

import html
import re
import unicodedata

from hermes.security.injection.confusables import letters
from hermes.security.injection.invisible import IGNORED

_LETTERS = letters()
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]{2,8});")
_MARKS = re.compile("[\u0300-\u036f\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20df\ufe20-\ufe2f]")
_ESCAPED_BREAK = re.compile(r"\\[nrt](?![a-z]{0,12}\\)")
_TAG = re.compile(
    r"</?(?:b|i|u|s|em|strong|span|font|mark|small|big|sub|sup|code|tt|kbd|a|br|wbr)\b[^<>]{0,200}>"
)
_COMMENT_IN_WORD = re.compile(r"(?<=\w)<!--[^<>]{0,60}-->(?=\w)")
_EMPHASIS_IN_WORD = re.compile(r"(?<=[^\W_])(?:\*{1,3}|~~|`|__)(?=[^\W_])")
_LINK_TARGET = re.compile(r"\]\([^()\s]{0,300}\)")


def fold(text: str) -> str:
    """`text` in plain small letters: no look-alikes, accents, invisible characters or entities."""
    if "&" in text:
        text = _ENTITY.sub(_decoded, text)
    if not text.isascii():
        text = unicodedata.normalize("NFKD", IGNORED.sub("", text))
        text = _MARKS.sub("", text).translate(_LETTERS).lower().translate(_LETTERS)
        text = unicodedata.normalize("NFC", text)
    text = text.lower()
    if "\\" in text:
        text = _ESCAPED_BREAK.sub("  ", text)
    if "<" in text:
        text = _TAG.sub(_breaks_only, _COMMENT_IN_WORD.sub(_breaks_only, text))
    return _LINK_TARGET.sub("]", _EMPHASIS_IN_WORD.sub("", text))


def _decoded(entity: re.Match[str]) -> str:
    return html.unescape(entity[0]).replace("\n", " ").replace("\r", " ")


def _breaks_only(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n")
