"""Folding of text to the form in which rules search for words; whether a phrase is only mentioned.

Line breaks are neither added nor removed by folding, so line numbers are those of the source.
"""

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

from hermes.util.lazy import late_pattern

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

_INVISIBLE = late_pattern(
    "[\u180e\u200b-\u200d\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff"
    "\U000e0000-\U000e007f\U000e0100-\U000e01ef]"
)
IGNORED = late_pattern(
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
_LEGITIMATE = late_pattern(
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
_ENTITY = late_pattern(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]{2,8});")
_MARKS = late_pattern("[\u0300-\u036f\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20df\ufe20-\ufe2f]")
_ESCAPED_BREAK = late_pattern(r"\\[nrt](?![a-z]{0,12}\\)")
_TAG = late_pattern(
    r"</?(?:b|i|u|s|em|strong|span|font|mark|small|big|sub|sup|code|tt|kbd|a|br|wbr)\b[^<>]{0,200}>"
)
_COMMENT_IN_WORD = late_pattern(r"(?<=\w)<!--[^<>]{0,60}-->(?=\w)")
_EMPHASIS_IN_WORD = late_pattern(r"(?<=[^\W_])(?:\*{1,3}|~~|`|__)(?=[^\W_])")
_LINK_TARGET = late_pattern(r"\]\([^()\s]{0,300}\)")


def fold(text: str) -> str:
    """Return `text` in plain lower case: no look-alikes, accents, invisible characters or
    entities."""
    if "&" in text:
        import html  # its table of names takes a while to load

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


# Whether a phrase addresses the reader or is only mentioned.
#
# A document about prompt injection names the phrases an attacker uses. Such a mention is quoted, or
# is the object of a reporting verb (`tries to make the agent ignore …`), and the words around it
# tell the topic. Both are required: quotation marks alone, or the word «attack» alone, excuse
# nothing. A plain instruction in the sentence itself is never excused this way.

_BEFORE: Final = 300
_AFTER: Final = 200  #: Characters around a phrase that are searched for the topic.

_ABOUT = late_pattern(
    r"inject|jailbr|attack|adversar|malicious|untrusted|red.?team|owasp|exploit|vulnerab|poison|"
    r"payload|guardrail|hostile|take.?over|\bscan(?:s|ned|ner)?\b|social engineering|manipulat|"
    r"suspicious|detect|sanitiz|classifier|\b(?:phrases?|texts?|contents?|inputs?|instructions?|"
    r"messages?|strings?|patterns?|wording|requests?|things?|lines?|comments?|claims?|prompts?|"
    r"anything|something|attempts?|commands?)\W{1,4}(?:like|such as|saying|that says?|that tells?|"
    r"containing|e\.g|including|reading|similar)|treat(?:ed)? (?:it |them |this |that |these |"
    r"those |any |all |such )?\W?(?:\w+ ){0,3}as (?:\w+ ){0,2}(?:data|inert|information)|"
    r"\bas \W?data\b|planted|test.?case|must (?:not|never) (?:obey|follow|comply)|(?:do not|don.t|"
    r"never) (?:obey|comply)",
    re.IGNORECASE,
)
_QUOTES = (('"', '"'), ("“", "”"), ("«", "»"), ("`", "`"), ("「", "」"), ("„", "“"), ("'", "'"))
_LONGEST_QUOTE: Final = 400

_TELLING = (
    r"(?:tell|tells|telling|told|ask|asks|asking|asked|instruct|instructs|instructing|instructed|"
    r"direct|directs|directing|order|orders|ordering|try|tries|trying|tried|attempt|attempts|"
    r"attempting|attempted|trick|tricks|tricking|convince|convinces|convincing|persuade|persuades|"
    r"want|wants|urge|urges|urging|request|requests|requesting|cause|causes|causing|get|gets|force|"
    r"forces|forcing|says|say|saying|said|claim|claims|claiming|demand|demands|demanding|"
    r"manipulate|manipulates|manipulating|command|commands|coerce|coerces|designed|meant|used|"
    r"instruction|instructions|attacker|attackers)"
)
_REPORTED = late_pattern(
    rf"(?<![a-z])(?:{_TELLING} (?:[a-z0-9]{{1,14}} ){{0,5}}to|could|might|would|"
    r"(?:make|makes|making|let|lets|have|has|having) (?:the |an? |your |its |their "
    r")?[a-z0-9]{1,14}|"
    r"(?:to|could|might|would) (?:[a-z0-9]{1,14} ){1,6}(?:and|or))"
    r"(?: (?:just|simply|then|also|blindly|either)){0,2} $"
)
_IN_FIRST_PERSON = late_pattern(
    r"(?<![a-z])(?:(?:i|we) (?:want|need|order|ask|tell|command|instruct|request|urge|expect|"
    r"demand|would)|i m|i am|please|hereby|must now|you (?:must|have|need|are)) [a-z0-9 ]{0,40}$"
)
_CONDITION = late_pattern(
    r"(?<![a-z])(?:if|when|whenever|any|should a|even if|attempts|such as|like|never|not|don t|"
    r"(?:that|which) (?:asks?|tells?|tr(?:y|ies)|says?|instructs?|wants?|attempts?)) "
)
_NEGATED = late_pattern(
    r"(?<![a-z])(?:never|not|don t|dont|cannot|can t|mustn t|shouldn t|won t|wouldn t|doesn t|"
    r"didn t|nor|refuse to|refuses to|refuse|avoid|without|instead of|rather than|unable to|(?:did|"
    r"do|have|has|does) (?:i|we|you|it|they))(?: (?:ever|simply|just|blindly|to|be|silently|let|"
    r"have it|casually|accidentally)){0,2} $"
)
_NEGATION = late_pattern(
    r"(?<![a-z])(?:never|not|don t|dont|can t|avoid|nor|did i|did you|(?<!you )(?:can|could|might|"
    r"may|would)|attackers?|malicious) |(?:works?|works? hard|tr(?:y|ies)|attempts?|aims?|tends?|"
    r"designed|meant|allows?|how|ways?|used) to $"
)
_FORBIDDING: Final = 160
_SENTENCE_END = late_pattern(r"[.!?]\s|\n\s*\n")
_FORBIDDEN = late_pattern(
    r"\b(?:never|not|n't|don.t|do not|must not|avoid|cannot|can.t|forbid\w*|prohibit\w*|den(?:y|"
    r"ied|ies)|block\w*|refus\w*|reject\w*|prevent\w*|disallow\w*|without|no)\b|n.t\b|❌|🚫|⛔"
)
_PERMITTED = late_pattern(
    r"(?<![a-z])(?:can|may|could|should|safely|want to|free to|then|simply|just) (?:safely |"
    r"simply |just |also |then |always )?$"
)
_WHOLE = late_pattern(r"all|any|every|your|system")
_FROM_OUTSIDE = late_pattern(
    r" (?:(?:that|which|it|they|you|he|she) )?(?:(?:is|are|may|might|could|can|"
    r"were) )?(?:be )?(?:in|from|inside|found|embedded|contained|within|that|which|coming|inserted|"
    r"hidden|appear|appears|appearing|asking|telling|see|encounter|you see|you find|contains|"
    r"written|present|included|injected|placed|addressed|to the contrary|on|with)\b(?! (?:the |"
    r"your |my )?(?:system|developer|operator|user|prompt|above|start|beginning|you were|you have|"
    r"came before|your|was given|were given)\b)"
)
_CONDITION_AFTER = late_pattern(
    r" (?:if|when|unless|for|in case|as|because|since|until|on|regarding|about) "
)


def is_forbidden(plain: str, start: int) -> bool:
    """Return whether the sentence so far, or the line that opens the list, forbids what follows."""
    before = plain[max(0, start - _FORBIDDING) : start]
    return bool(_FORBIDDEN.search(_SENTENCE_END.split(before)[-1]))


def is_negated(before: str, plain: str, start: int) -> bool:
    """Return whether the words before the phrase forbid it. `Never. Ignore …` forbids nothing."""
    joined = plain[max(0, start - 3) : start].rstrip("*_~\"'`( \t\n")[-1:] not in tuple(".!?;:,…—")
    return joined and bool(_NEGATED.search(before))


def is_denied(before: str) -> bool:
    """Return whether the sentence so far forbids an action, or only says that it can happen."""
    return bool(_NEGATION.search(before))


def is_permitted(before: str, phrase: str, after: str) -> bool:
    """Return whether a reader is told which earlier part of a manual does not apply."""
    if _WHOLE.search(phrase.replace(" ", "")):
        return False
    return bool(
        _PERMITTED.search(before)
        or _CONDITION_AFTER.match(after)
        or before.startswith(("if ", "for ", "when ", "in case "))
    )


def concerns_external_text(after: str) -> bool:
    """`Ignore all instructions found in web pages`: a safeguard, not an attack."""
    return bool(_FROM_OUTSIDE.match(after))


def is_mention(plain: str, start: int, end: int, before: str) -> bool:
    """Return whether the phrase at `start:end` of the folded text is quoted or reported."""
    about = bool(
        _ABOUT.search(plain, max(0, start - _BEFORE), start)
        or _ABOUT.search(plain, end, min(len(plain), end + _AFTER))
    )
    reported = _REPORTED.search(before) and not _IN_FIRST_PERSON.search(before)
    if reported and (about or _CONDITION.search(before)):
        return True
    return about and (_is_quoted(plain, start, end) or _is_identifier(plain, start, end))


def _is_quoted(plain: str, start: int, end: int) -> bool:
    """Between quotation marks on its line, in a table cell, or in a fenced block."""
    left = max(plain.rfind("\n", 0, start) + 1, start - _LONGEST_QUOTE)
    right = plain.find("\n", end, end + _LONGEST_QUOTE)
    head = plain[left:start]
    tail = plain[end : right if right >= 0 else end + _LONGEST_QUOTE]
    for opening, closing in _QUOTES:
        if opening == closing:
            if (head.count(opening) % 2 or head.endswith(opening)) and closing in tail:
                return True
        elif opening in head and closing in tail and head.rfind(opening) >= head.rfind(closing):
            return True
    return (head.lstrip().startswith("|") and "|" in tail) or _is_fenced(plain, start)


def _is_fenced(plain: str, start: int) -> bool:
    window = plain[max(0, start - 4_000) : start]
    fences = window.count("\n```") + window.startswith("```")
    return bool(fences % 2) and "\n```" in plain[start : start + 4_000]


def _is_identifier(plain: str, start: int, end: int) -> bool:
    """An identifier: `test_ignore_previous_instructions`, `ignore-previous-instructions`."""
    words = plain[start:end]
    joint = "_" if "_" in words else "-"
    return joint in words and not any(char.isspace() for char in words)
