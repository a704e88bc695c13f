"""Folding of text to the plain form in which rules search for words.

Line breaks are neither added nor removed, so line numbers are those of the source.
"""

import html
import re
import unicodedata
from collections.abc import Iterator

# Characters that look like Latin letters but are not, and how they read.
#
# Only those that normalisation (NFKD) keeps: full-width, mathematical and accented letters are
# already plain by then. Capital letters are separate because some look like another letter than
# their lower-case form (Η reads H, η reads n).

_LOOKALIKES = {
    # Cyrillic
    "аӕ": "a", "вьъ": "b", "сҫ": "c", "ԁ": "d", "еєҽ": "e", "ԍ": "g", "һнң": "h", "іӏ": "i",
    "ј": "j", "к": "k", "м": "m", "пи": "n", "оөф": "o", "р": "p", "ԛ": "q", "гѓ": "r", "ѕ": "s",
    "т": "t", "ц": "u", "ѵ": "v", "ԝшщ": "w", "хҳ": "x", "уү": "y", "АӒ": "A", "ВЬ": "B", "С": "C",
    "ЕЁ": "E", "НҢ": "H", "ІӀ": "I", "Ј": "J", "К": "K", "М": "M", "О": "O", "Р": "P", "Ѕ": "S",
    "Т": "T", "Х": "X", "УҮ": "Y",
    # Greek
    "αά": "a", "β": "b", "ϲ": "c", "εέ": "e", "η": "n", "ιί": "i", "ϳ": "j", "κ": "k", "οσό": "o",
    "ρ": "p", "τ": "t", "υμύ": "u", "ν": "v", "ωώ": "w", "χ": "x", "γ": "y", "ζ": "z", "Α": "A",
    "Β": "B", "Ε": "E", "Ζ": "Z", "Η": "H", "Ι": "I", "Κ": "K", "Μ": "M", "Ν": "N", "Ο": "O",
    "Ρ": "P", "Τ": "T", "Υ": "Y", "Χ": "X",
    # Armenian, Cherokee, Lisu
    "օՕ": "o", "ոռ": "n", "ս": "u", "հ": "h", "ց": "g", "զգ": "q", "Ꭺꓮᗅ": "A", "Ᏼᏼꓐᗷ": "B",
    "Ꮯꓚᑕ": "C", "Ꭰꓓᗞᗪꓷ": "D", "Ꭼꓰ": "E", "ꓝᖴ": "F", "ᏀꓖᏳ": "G", "Ꮋꓧᕼ": "H", "ᎥꓲⲒ": "i", "Ꭻꓙᒍ": "J",
    "Ꮶꓗ": "K", "Ꮮꓡᒪ": "L", "Ꮇꓟᗰ": "M", "ꓠⲚ": "N", "ꓳⲞ": "O", "Ꮲꓑᑭ": "P", "Ꭱꓣᖇ": "R", "Ꮪꓢ": "S",
    "Ꭲꓔ": "T", "ꓴᑌ": "U", "ᏙꓦᐯᏤ": "V", "Ꮃꓪ": "W", "ꓫ᙭": "X", "Ꮍꓬ": "Y", "Ꮓꓜ": "Z",
    # Latin letters that normalisation keeps, small capitals among them
    "ɑᴀⱥ": "a", "ʙɓƀ": "b", "ᴄƈȼ": "c", "ᴅđɖɗ": "d", "ᴇɇɛǝə": "e", "ꜰƒ": "f", "ɢɡǥɠ": "g",
    "ʜħɦ": "h", "ɪıɨɩ": "i", "ᴊɉȷ": "j", "ᴋƙ": "k", "ʟłƚɫ": "l", "ᴍɱ": "m", "ɴɲŋƞ": "n", "ᴏøɵ": "o",
    "ᴘƥ": "p", "ʀɍɾ": "r", "ꜱʂƨ": "s", "ᴛŧƭ": "t", "ᴜʉʊ": "u", "ᴠʋ": "v", "ᴡ": "w", "ʏɏƴ": "y",
    "ᴢƶ": "z",
}  # fmt: skip


def lookalike_letters() -> dict[int, str]:
    """Return code point → plain letter, for `str.translate`."""
    table = {ord(char): plain for chars, plain in _LOOKALIKES.items() for char in chars}
    for start in (0x1F150, 0x1F170, 0x1F1E6):  # white on black, and the letters that form flags
        table |= {start + offset: chr(ord("a") + offset) for offset in range(26)}
    # The invisible tag characters mirror ASCII one to one.
    return table | {0xE0000 + code: chr(code) for code in range(0x20, 0x7F)}


# Invisible characters: text that a reader does not see but a model does.
#
# Not findings: a leading byte order mark; the joiners inside an emoji; the tags of the three
# subdivision flags; joiners and separators after a letter of a script whose spelling needs them.

_INVISIBLE = re.compile(
    "[\u180e\u200b-\u200d\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff"
    "\U000e0000-\U000e007f\U000e0100-\U000e01ef]"
)
IGNORED = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb"
    "\U000e0000-\U000e001f\U000e007f\U000e0100-\U000e01ef]"
)
"""All invisible characters, removed before words are searched."""

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


def find_invisible(text: str) -> Iterator[tuple[str, int]]:
    """Yield the id and position of each invisible character that is out of place."""
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


_LETTERS = lookalike_letters()
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
    """Return `text` in plain lower case: no look-alikes, accents, invisible characters or
    entities."""
    if "&" in text:
        text = _ENTITY.sub(lambda found: re.sub(r"[\r\n]", " ", html.unescape(found[0])), text)
    if not text.isascii():
        text = unicodedata.normalize("NFKD", IGNORED.sub("", text))
        text = _MARKS.sub("", text).translate(_LETTERS).lower().translate(_LETTERS)
        text = unicodedata.normalize("NFC", text)
    text = text.lower()
    if "\\" in text:
        text = _ESCAPED_BREAK.sub("  ", text)
    if "<" in text:
        text = _TAG.sub(_keep_breaks, _COMMENT_IN_WORD.sub(_keep_breaks, text))
    return _LINK_TARGET.sub("]", _EMPHASIS_IN_WORD.sub("", text))


def _keep_breaks(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n")
