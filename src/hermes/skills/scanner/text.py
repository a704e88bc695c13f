"""Findings in text: orders in prose, invisible characters, links, encoded texts and secrets."""

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Final, cast

import msgspec

from hermes.security import REDACTION_MARK, SECRET_SHAPES
from hermes.security.injection import InjectionFinding, explain
from hermes.security.tables import read_patterns
from hermes.skills.scanner.pieces import is_warning
from hermes.skills.scanner.report import FindingCategory, Severity
from hermes.skills.scanner.rules import (
    RULES,
    TABLES,
    LineIndex,
    RuleHit,
    ScanRule,
    cap_severity,
    find_all,
    table_pattern,
)
from hermes.skills.scanner.signatures import HERMES_FILE, is_credential_store, is_env_file

# Orders to the agent, as data

_MAX_GAP: Final = 160  #: Characters between two parts of an order.


class ProseOrder(msgspec.Struct, frozen=True):
    """Parts that follow each other in one paragraph.

    They are searched one after another, so that the time stays linear in the length of the text.
    """

    rule: ScanRule
    parts: tuple[re.Pattern[str], ...]

    def places(self, text: str) -> Iterator[int]:
        first, *rest = self.parts
        for match in first.finditer(text):
            end = match.end()
            for part in rest:
                stop = text.find("\n", end, end + _MAX_GAP)
                found = part.search(text, end, stop if stop >= 0 else end + _MAX_GAP)
                if found is None:
                    break
                end = found.end()
            else:
                yield match.start()


@cache
def _orders() -> tuple[ProseOrder, ...]:
    orders = []
    for heading, expression in read_patterns(Path(__file__).with_name("orders.txt")):
        facts, _, why = heading.partition(": ")
        category, name, severity = facts.split()
        rule = ScanRule(FindingCategory(category), name, cast("Severity", severity), why)
        parts = expression.replace(" >> ", "\n").replace(" ", r"\s+").split("\n")
        orders.append(ProseOrder(rule, tuple(re.compile(part, re.IGNORECASE) for part in parts)))
    return tuple(orders)


_OWN_NEGATION: Final = frozenset({"never_asks", "hides_deeds", "claims_safety"})
"""Rules about prohibitions: a `never` before them is part of the order."""
_WRAPPED = re.compile(r"(?<=\S)\n(?![\s#>|*-]|\d+[.)]\s|```)")
_NEGATED = table_pattern("text_negated")
_SENTENCE = re.compile(r"[.!?]\s|\n\s*\n|\n[-*|>#\d]")
_COMPOUND = table_pattern("text_compound")
_CONFIG_GIVEN = re.compile(r"\s(?:-K|--config)[ =]?-(?:\s|$)")
"""curl reads its options, including the password, from its input."""
_CONTEXT_CHARS: Final = 200
_MAX_PLACES: Final = 50  #: Places of one order that are checked.


def prose_hits(text: str) -> Iterator[RuleHit]:
    """Find orders in prose. Line breaks inside a paragraph count as spaces."""
    flat = _WRAPPED.sub(" ", text)
    lines = LineIndex(text)
    for order in _orders():
        rule = order.rule
        for start in islice(order.places(flat), _MAX_PLACES):
            sentence = _SENTENCE.split(text[max(0, start - _CONTEXT_CHARS) : start])[-1]
            negated = rule.id not in _OWN_NEGATION and bool(_NEGATED.search(sentence))
            row = text[text.rfind("\n", 0, start) + 1 : start].lstrip().startswith("|")
            if not negated and not row and not is_warning(sentence):
                yield RuleHit(rule, lines.at(start))
                break


def injection_hits(text: str, found: list[InjectionFinding]) -> Iterator[RuleHit]:
    """Convert findings of the injection scan.

    That scan ignores hyphens: `ignore all instructions-only changes` is not an order, so findings
    that depend on such a word have a lower severity.
    """
    known = [finding for finding in found if finding.id in TABLES.injections]
    if not known:
        return
    plain = _COMPOUND.sub("x", text)
    sure = {(each.id, each.line) for each in (explain(plain) if plain != text else known)}
    for finding in known:
        rule = RULES[TABLES.injections[finding.id]]
        if (finding.id, finding.line) not in sure:
            rule = cap_severity(rule, "medium")
        if finding.id == "exfil_curl" and _CONFIG_GIVEN.search(finding.excerpt):
            rule = cap_severity(rule, "low")
        yield RuleHit(rule, finding.line - 1)


# Invisible characters


_RUN = re.compile(
    "(?:[\U000e0020-\U000e007f](?<!\U0001f3f4)){8,}|[\u200b-\u200d\u2060-\u2064\ufeff]{6,}"
    "|[\ufe00-\ufe0f\U000e0100-\U000e01ef]{4,}|[\u3164\uffa0\u115f\u1160]{6,}"
)
_TURNS = re.compile("[\u202a-\u202e\u2066-\u2069]")
_RIGHT_TO_LEFT = re.compile("[\u05d0-\u08ff]")
_IN_WORD = re.compile("[A-Za-z][\u200b-\u200d\u2060\ufeff\u00ad][A-Za-z]")
_TERMINAL = re.compile("\x1b\\[|\x1b\\]|\x08{2,}")
_MANY_SPLIT_WORDS: Final = 3


def hidden_character_hits(text: str, *, code: bool) -> Iterator[RuleHit]:
    """`code` means that the text is run, so a reader must see what the machine reads."""
    if text.isascii() and "\x1b" not in text and "\b" not in text:
        return
    turned = RULES["turned_code" if code else "turned_text"]
    if not code and _RIGHT_TO_LEFT.search(text):
        why = "text is turned around, as some scripts need it"
        turned = msgspec.structs.replace(turned, severity="low", why=why)
    for rule, pattern, least in (
        (RULES["smuggled_text"], _RUN, 1),
        (turned, _TURNS, 1),
        (RULES["split_words"], _IN_WORD, _MANY_SPLIT_WORDS),
        (RULES["terminal_codes"], _TERMINAL, 1),
    ):
        found = list(islice(find_all(pattern, text), least))
        if len(found) == least:
            yield RuleHit(rule, found[0][0])


def stray_character_hits(found: list[InjectionFinding]) -> Iterator[RuleHit]:
    """Convert findings of the injection scan about invisible characters."""
    for finding in found:
        if finding.id.startswith("invisible"):
            yield RuleHit(RULES["stray_character"], finding.line - 1)


# Paths out of the skill folder


_LINK = re.compile(r"\]\(\s{0,3}<?([^()\s<>]{1,400})")
_UPWARD = re.compile(r"(?:\.\.[/\\]){2,40}[\w.~$-][\w./\\~$-]{0,200}")
_FROM_SKILL = re.compile(r"HERMES_SKILL_DIR\}?[\"']?(?:/\.\.){2,20}(/[\w./-]{1,200})?")
_DECLARED = table_pattern("text_declared")
_PATH = table_pattern("text_path")
_SYSTEM = table_pattern("text_system")


def link_hits(text: str) -> Iterator[RuleHit]:
    """Find paths that climb out of the folder, and Markdown links to sensitive files."""
    for line, match in find_all(_LINK, text):
        target = match[1]
        if target.startswith(("/", "~", "file:")) and (
            is_credential_store(target) or target.startswith("/etc/")
        ):
            yield RuleHit(RULES["link_to_secrets"], line)
    for line, match in find_all(_UPWARD, text):
        if _reaches_sensitive_path(match[0].replace("\\", "/")):
            linked = text[max(0, match.start() - 2) : match.start()] == "]("
            yield RuleHit(RULES["link_to_secrets"] if linked else RULES["outside"], line)
    for line, _ in find_all(_FROM_SKILL, text):
        yield RuleHit(RULES["outside"], line)


def credential_file_hits(text: str) -> Iterator[RuleHit]:
    """Check the credential files in the frontmatter: they must be below the home folder."""
    block = _DECLARED.search(text)
    if block is None:
        return
    lines = LineIndex(text)
    for match in _PATH.finditer(block[1]):
        path = (match[1] or match[2]).replace("\\", "/")
        leaves = path.startswith(("/", "~", "$")) or ".." in path.split("/")
        if leaves or is_credential_store(path):
            yield RuleHit(RULES["foreign_credential"], lines.at(block.start(1) + match.start()))


def _reaches_sensitive_path(path: str) -> bool:
    """Whether a path that goes up ends at a sensitive file or folder."""
    rest = path.replace("../", "")
    far = is_env_file(rest) and path.count("../") > 2
    return far or is_credential_store(rest) or bool(HERMES_FILE.search(path) or _SYSTEM.match(path))


# Encoded texts: base64, hexadecimal, escapes, character codes, split strings

_BASE64 = table_pattern("text_base64")
_HEX = re.compile(r"(?<![0-9A-Fa-f])(?:[0-9A-Fa-f]{2}){20,10000}(?![0-9A-Fa-f])")
_ESCAPES = re.compile(r"(?:\\x[0-9A-Fa-f]{2}|\\[0-3][0-7]{2}|\\u00[0-9A-Fa-f]{2}){4,5000}")
_ESCAPE = re.compile(r"\\x([0-9A-Fa-f]{2})|\\([0-3][0-7]{2})|\\u00([0-9A-Fa-f]{2})")
_CODES = table_pattern("text_codes")
_PLUS = re.compile(r"[\"']\s{0,9}\+\s{0,9}[\"']")
_MIN_CONCATENATIONS: Final = 3
MAX_ENCODED_TEXTS: Final = 200  #: Encoded texts of one file that are decoded.
MAX_DECODED_CHARS: Final = 48_000  #: Their total length.
_MIN_DECODED_BYTES: Final = 12
_TEXT = re.compile(r"[\t\n\r\x20-\x7e]*")
PROGRAMS: Final = (b"\x7fELF", b"MZ\x90", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")


def decode_texts(text: str) -> Iterator[tuple[int, str]]:
    """Yield line (from 0) and decoded text. An executable is returned as `PROGRAM`."""
    count, left = 0, MAX_DECODED_CHARS
    for pattern, decode in _CODECS:
        for line, match in find_all(pattern, text):
            count += 1
            if count > MAX_ENCODED_TEXTS or left <= 0:
                return
            plain = _printable_text(decode(match))
            if plain:
                left -= len(plain)
                yield line, plain


def join_strings(text: str) -> str:
    """Return the text with split strings joined, or "" when there are hardly any."""
    return _PLUS.sub("", text) if len(_PLUS.findall(text)) >= _MIN_CONCATENATIONS else ""


PROGRAM: Final = "\x7fPROGRAM"


def _printable_text(data: bytes) -> str:
    """Return the text, or "" when the data is not text."""
    if data.startswith(PROGRAMS):
        return PROGRAM
    if data[1:2] == b"\0" and data[3:4] == b"\0":  # UTF-16, as PowerShell encodes it
        data = data[::2]
    if len(data) < _MIN_DECODED_BYTES:
        return ""
    plain = data.decode("latin-1")
    return plain if _TEXT.fullmatch(plain) else ""


def _decode_base64(match: re.Match[str]) -> bytes:
    body = match[0].rstrip("=")
    odd = body.isalpha() and (body.islower() or body.isupper())
    if odd or "--" in body or len(body) % 4 == 1:  # a long word or a line of dashes
        return b""
    try:
        return base64.b64decode(
            body + "=" * (-len(body) % 4), altchars=b"-_" if set(body) & set("-_") else None
        )
    except (binascii.Error, ValueError):
        return b""


def _decode_escapes(match: re.Match[str]) -> bytes:
    return bytes(
        int(found[1] or found[3], 16) if found[1] or found[3] else int(found[2], 8)
        for found in _ESCAPE.finditer(match[0])
    )


def _decode_codes(match: re.Match[str]) -> bytes:
    codes = (int(code) for code in re.findall(r"\d+", match[1]))
    return bytes(code for code in codes if code < 256)


_CODECS: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], bytes]], ...]] = (
    (_BASE64, _decode_base64),
    (_HEX, lambda match: bytes.fromhex(match[0])),
    (_ESCAPES, _decode_escapes),
    (_CODES, _decode_codes),
)


# Secrets in the skill itself


_LOOSE_SECRET: Final = frozenset({"authorization", "bearer", "cookie", "://", "=", "pass", "."})
"""Hints of patterns that ordinary examples match too."""
_EXAMPLE = table_pattern("text_example")
_BODY = re.compile(r"[A-Za-z0-9+/=]{32}")
_SHAPES = tuple(shape for shape in SECRET_SHAPES if shape.hints[0] not in _LOOSE_SECRET)


def secret_hits(text: str) -> Iterator[RuleHit]:
    lowered = text.lower()
    for shape in _SHAPES:
        if not any(hint in lowered for hint in shape.hints):
            continue
        redacted = shape.redact(text)
        if redacted == text:
            continue
        start = redacted.find(REDACTION_MARK)
        after = redacted[start + len(REDACTION_MARK) :][:12]
        end = text.find(after, start) if after else len(text)
        if "private key" in shape.hints and not _BODY.search(text, start, start + 300):
            continue  # only the first line of a key, as in code that searches for keys
        if not _EXAMPLE.search(text, max(0, start - 8), max(start + 8, min(end, start + 200))):
            yield RuleHit(RULES["written_secret"], text.count("\n", 0, start))
