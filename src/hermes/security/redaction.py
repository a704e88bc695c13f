"""Removal of secrets from text before it reaches a file, a screen or a model."""

import base64
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from itertools import pairwise
from typing import Any
from urllib.parse import quote, quote_plus

import msgspec

from hermes.config.environment import SHORTEST_SECRET
from hermes.util.lazy import late_pattern

# The shapes of secrets, as data.
#
# A shape matches only unmistakable text: long random bodies after a vendor's prefix, or a value in
# a place that names it a secret. Git hashes, UUIDs, base64 images and ordinary assignments
# (`max_tokens=4096`, `password=None`) match none of them.

REDACTION_MARK = "…[redacted]"

_END = r"(?![A-Za-z0-9_-])"

_ESCAPES = (
    r"\\[abfnrtv0]",
    r"\\x[0-9A-Fa-f]{2}",
    r"\\u[0-9A-Fa-f]{4}",
    r"%[0-9A-Fa-f]{2}",
    "[0-9]m",
)
"""A line break, a blank or a colour as written in JSON, in code, in a URL or for a terminal. Its
last letter does not belong to the word that follows."""


def _prefix_pattern(prefix: str) -> str:
    """Return a pattern for `prefix` that is not the end of a longer word.

    The look-behind comes last: searching a pattern that begins with a literal is many times faster.
    """
    literal = re.escape(prefix)
    return f"(?P<keep>{literal}){_starts_word('[A-Za-z0-9_-]', literal)}"


def _starts_word(letters: str, literal: str) -> str:
    """Return a pattern: `literal`, just matched, has none of `letters` before it, except in an
    escape."""
    after = "|".join(f"(?<={escape}{literal})" for escape in _ESCAPES)
    return f"(?:(?<!{letters}{literal})|{after})"


def _words_any_case(*names: str) -> str:
    """Return a pattern for whole words in any letter case, split at the first letter for speed."""
    return "|".join(
        f"{first}(?<![A-Za-z]{first})(?i:{name[1:]})"
        for name in names
        for first in (name[0], name[0].upper())
    )


def _always(_match: re.Match[str]) -> bool:
    return True


@cache
def _compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a pattern when its hint is first seen; most processes never need most of them."""
    return re.compile(pattern)


class SecretShape(msgspec.Struct, frozen=True):
    """One kind of secret. The group `keep` of `pattern` stays readable before the mark."""

    hints: tuple[str, ...]  #: Lower-case texts; the pattern is tried only where one of them occurs.
    pattern: str
    is_secret: Callable[[re.Match[str]], bool] = _always
    """Final check of a match, for places that also hold ordinary values."""

    def redact(self, text: str) -> str:
        return _compile_pattern(self.pattern).sub(self._stub, text)

    def _stub(self, match: re.Match[str]) -> str:
        return f"{match['keep']}{REDACTION_MARK}" if self.is_secret(match) else match[0]


# Vendor prefixes, separated by blanks, with the characters and minimum length of what follows.
_WORD, _DASHED, _HEX = "[A-Za-z0-9]", "[A-Za-z0-9_-]", "[0-9a-f]"
_PREFIXES: tuple[tuple[str, str, int], ...] = (
    ("sk-ant- sk-proj- sk-or-v1- sk-svcacct- sk-admin-", _DASHED, 20),
    ("tvly- dckr_pat_ sq0atp- sq0csp- ya29.", _DASHED, 20),
    ("xoxa- xoxb- xoxe- xoxp- xoxr- xoxs- xapp-", _DASHED, 10),
    ("glpat- gldt-", _DASHED, 18),
    ("hvs.", _DASHED, 24),
    ("figd_", _DASHED, 32),
    ("nvapi-", _DASHED, 40),
    ("pypi-", _DASHED, 80),
    ("sk_live_ sk_test_ rk_live_ rk_test_", _WORD, 16),
    ("ghp_ gho_ ghu_ ghs_ ghr_ hf_ r8_", _WORD, 30),
    ("lin_api_ phx_", _WORD, 32),
    ("npm_ nfp_", _WORD, 36),
    ("gsk_ csk- xai- pplx- ntn_", _WORD, 40),
    ("EAAC", _WORD, 60),
    ("fc- dapi key-", _HEX, 32),
    ("rubygems_ sbp_", _HEX, 40),
    ("dop_v1_", _HEX, 60),
    ("shpat_ shpss_", "[A-Fa-f0-9]", 32),
    ("whsec_", "[A-Za-z0-9+/=]", 24),
    ("glc_", "[A-Za-z0-9+/=]", 32),
    ("glsa_", "[A-Za-z0-9_]", 32),
    ("github_pat_", "[A-Za-z0-9_]", 40),
    ("SG.", r"[A-Za-z0-9_.-]", 40),
    ("AGE-SECRET-KEY-1", "[A-Z0-9]", 40),
    ("ATATT3", r"[A-Za-z0-9_=-]", 60),
)


def _vendor_key(prefix: str, characters: str, least: int) -> SecretShape:
    # A digit, or many letters in a row, distinguishes a key from a long hyphenated name.
    body = f"(?=[A-Za-z_-]*[0-9]|[A-Za-z]{{20}}){characters}{{{least},}}"
    return SecretShape((prefix.lower(),), _prefix_pattern(prefix) + body)


_PLACEHOLDER = late_pattern(
    r"none|null|nil|true|false|str|string|bytes|optional.*|your.*|change_?me|example.*|dummy"
    r"|x+|[*.]+|[<{\[(%$].*|.*[(\[{].*",
    re.IGNORECASE,
)


def _is_real(value: str) -> bool:
    """Return whether it is not a placeholder, not code, and not redacted already."""
    return REDACTION_MARK not in value and not _PLACEHOLDER.fullmatch(value)


def _is_real_value(match: re.Match[str]) -> bool:
    return _is_real(match["value"])


def _is_assigned_secret(match: re.Match[str]) -> bool:
    """Names like `token` also occur before ordinary values, so the value must look random."""
    name, value = match["name"], match["value"]
    if not _is_real(value):
        return False
    if name.lower().startswith(("pass", "pwd")):
        return bool(match["quote"]) or name.isupper() or any(c.isdigit() for c in value)
    if name.isupper() and match["equals"] == "=":
        return True
    return any(c.isdigit() for c in value) and any(c.isalpha() for c in value)


_KEY_KINDS = ("api", "access", "account", "auth", "encryption", "master", "private", "secret")
_NAMES = _words_any_case(
    "passwords?",
    "passwd",
    "passphrase",
    "pwd",
    "token",
    *(f"{kind}[_-]?token" for kind in ("access", "auth", "bearer", "bot", "id", "refresh")),
    "secret",
    "client[_-]?secret",
    "app[_-]?secret",
    *(f"{kind}[_-]?key" for kind in (*_KEY_KINDS, "signing", "shared[_-]?access")),
)
_AUTHORIZATION = r"(?:" + _words_any_case("authorization") + r")[\"']?\s{0,3}[:=]\s{0,3}[\"']?"
_SCHEMES = "bearer|basic|token|apikey|api-key|bot"

_PLACES = (
    SecretShape(
        ("private key",),
        r"(?P<keep>-----BEGIN [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----)(?!…)(?:[\s\S]*?-----END "
        r"[A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----|(?:\s|\\n|[A-Za-z0-9+/=]{16,})+)",
    ),
    SecretShape(
        ("sk-",), _prefix_pattern("sk-") + r"(?:[a-z0-9]{1,12}-)*(?=[A-Za-z_]*[0-9])\w{20,}"
    ),
    SecretShape(("akia",), _prefix_pattern("AKIA") + f"[A-Z0-9]{{16}}{_END}"),
    SecretShape(("asia",), _prefix_pattern("ASIA") + f"[A-Z0-9]{{16}}{_END}"),
    SecretShape(("aiza",), _prefix_pattern("AIza") + f"[A-Za-z0-9_-]{{35}}{_END}"),
    SecretShape(("1//0",), _prefix_pattern("1//0") + "[A-Za-z0-9_-]{40,}"),
    SecretShape(("sk",), _prefix_pattern("SK") + f"[0-9a-f]{{32}}{_END}"),
    SecretShape(("eyj",), _prefix_pattern("eyJ") + r"[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}"),
    # Bot tokens of Telegram and Discord.
    SecretShape((":",), rf"(?P<keep>\d(?<!\d\d)\d{{7,9}}:)[A-Za-z0-9_-]{{35}}{_END}"),
    SecretShape(
        (".",), r"(?P<keep>[MNO](?<![\w-][MNO]))[\w-]{23,27}\.[\w-]{6}\.[\w-]{27,40}" + _END
    ),
    SecretShape(
        ("hooks.slack.com",),
        r"(?P<keep>hooks\.slack\.com/(?:services|workflows)/)[A-Za-z0-9/_-]{20,}",
    ),
    SecretShape(("/api/webhooks/",), r"(?P<keep>/api/webhooks/\d{10,25}/)[A-Za-z0-9_-]{20,}"),
    SecretShape(
        ("authorization",),
        rf"(?P<keep>{_AUTHORIZATION}(?i:{_SCHEMES})\s+)(?P<value>[^\s\"',;]{{6,}})",
        _is_real_value,
    ),
    SecretShape(
        ("authorization",),
        rf"(?P<keep>{_AUTHORIZATION})(?P<value>(?=[^\s\d]*\d)[^\s\"',;]{{8,}})",
        _is_real_value,
    ),
    SecretShape(
        ("bearer",),
        rf"(?P<keep>(?:{_words_any_case('bearer')})\s+)(?=[^\s\d]*\d)[A-Za-z0-9._~+/=-]{{16,}}",
    ),
    SecretShape(
        ("cookie",),
        rf"(?P<keep>(?:{_words_any_case('cookie')})[\"']?:\s{{0,3}}[\"']?)"
        r"(?P<value>[\w.-]+=[^\r\n\"']{8,})",
        _is_real_value,
    ),
    SecretShape(
        ("://",),
        r"(?P<keep>://[^\s/:@\"'<>]{0,80}:)(?P<value>[^\s/@\"'<>]{1,200})(?=@)",
        _is_real_value,
    ),
    SecretShape(
        ("=",),
        rf"(?P<keep>[?&](?:{_NAMES}|(?i:key|auth|sig|signature"
        r"|x-amz-(?:signature|credential|security-token)))=)(?P<value>[^&\s\"'<>#]{4,})",
        _is_real_value,
    ),
    SecretShape(
        ("pass", "pwd", "token", "secret", "key"),
        rf"(?P<keep>(?P<name>{_NAMES})[\"']?(?P<equals>\s{{0,3}}(?:=>|:=|[:=])\s{{0,3}})"
        r"(?P<quote>[\"']?))(?P<value>[^\s\"',;&]{6,})",
        _is_assigned_secret,
    ),
)

SECRET_SHAPES = (
    *(
        _vendor_key(prefix, characters, least)
        for prefixes, characters, least in _PREFIXES
        for prefix in prefixes.split()
    ),
    *_PLACES,
)


MIN_LENGTH_ANYWHERE = 8  #: Shorter values match only as a whole word.


class Redactor:
    """Redacts known secret values, in any common encoding, and everything shaped like a key.

    The rest tells what was there: `sk-…[redacted]`. Redacting twice changes nothing more.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._known: list[tuple[str, str]] = []  #: Spellings, each with its secret.
        self._values = frozenset[str]()
        self._disguises: DisguiseFinder | None = None  #: Made when the first text arrives.
        self.learn(*secrets)

    def learn(self, *secrets: str) -> None:
        """Redact these values too, from now on."""
        # A reference to a variable, as in settings, is not the value of that variable.
        values = {secret.strip() for secret in secrets if "${" not in secret}
        known = dict(self._known) | {
            spelling: value
            for value in values
            if len(value) >= SHORTEST_SECRET and value not in REDACTION_MARK
            for spelling in (_spellings(value) if len(value) >= MIN_LENGTH_ANYWHERE else (value,))
        }
        # Longest first, because one secret may be the beginning of another.
        self._known = sorted(known.items(), key=lambda item: len(item[0]), reverse=True)
        self._values |= {value for value in values if len(value) >= MIN_LENGTH_ANYWHERE}
        self._disguises = None

    def redact(self, text: str) -> str:
        if text.startswith(("{", "[")):
            text = self._redact_json(text)
        # Removing one secret can expose the beginning of another that was attached to it. Each
        # round leaves fewer characters outside the marks, so the loop ends.
        while (redacted := _redact_shapes(self.redact_known(text))) != text:
            text = redacted
        return text

    def _redact_json(self, text: str) -> str:
        """Redact the strings inside JSON, whose escapes hide where words begin."""
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            return text
        cleaned = self._redact_value(value)
        return text if cleaned == value else msgspec.json.encode(cleaned).decode()

    def _redact_value(self, value: Any) -> Any:
        match value:
            case str():
                return self.redact(value)
            case list():
                return [self._redact_value(item) for item in value]
            case dict():
                return {self.redact(key): self._redact_value(item) for key, item in value.items()}
            case _:
                return value

    def redact_known(self, text: str) -> str:
        """Redact only the known values, in text of a user, who may mean a key of their own."""
        for spelling, secret in self._known:
            if spelling not in text:
                continue
            stub = _redacted_stub(secret)
            if len(spelling) >= MIN_LENGTH_ANYWHERE:
                text = text.replace(spelling, stub)
            else:
                text = re.sub(rf"(?<!\w){re.escape(spelling)}(?!\w)", stub, text)
        if self._values and len(text) >= MIN_LENGTH_ANYWHERE:
            if self._disguises is None:
                self._disguises = DisguiseFinder(self._values)
            for start, end in reversed(self._disguises.find(text)):
                text = f"{text[:start]}{REDACTION_MARK}{text[end:]}"
        return text


def _redact_shapes(text: str) -> str:
    lowered = text.lower()
    for shape in SECRET_SHAPES:
        for hint in shape.hints:
            if hint in lowered:
                text = shape.redact(text)
                break
    return text


def _redacted_stub(secret: str) -> str:
    """Return `sk-…[redacted]` for a value of a known shape, else only the mark."""
    stub = _redact_shapes(secret)
    return (
        stub
        if stub.endswith(REDACTION_MARK) and len(stub) < len(REDACTION_MARK) + 16
        else REDACTION_MARK
    )


def _spellings(secret: str) -> Iterator[str]:
    yield secret
    yield quote(secret, safe="")
    yield quote_plus(secret)
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]


# Disguised spellings of known values.
#
# A text is compared by its skeleton: the ASCII letters and digits in lower case, without blanks,
# punctuation, control characters, escape sequences and everything invisible. An encoding of a
# secret has a skeleton too, so a form is found however it is wrapped, split or decorated. What
# a skeleton cannot show (compressed data, two encodings with line breaks between) is decoded.

_PIECE = 16  #: Characters of a secret that must not be visible in a row.
_GRAM = 8
_BREAK = 0x7F  #: Stands for a mark in a prepared text; part of no form.
_KEPT = bytes([*b"0123456789abcdefghijklmnopqrstuvwxyz", _BREAK])
_LOWER = bytes(range(256)).lower()
_DROPPED = bytes(byte for byte in range(256) if byte not in _KEPT + _KEPT.upper())
_LETTERS, _LETTERS_ROT13 = "abcdefghijklmnopqrstuvwxyz", "nopqrstuvwxyzabcdefghijklm"
_ROT13 = bytes.maketrans(_LETTERS.encode(), _LETTERS_ROT13.encode())

_ANSI = late_pattern(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,2000}(?:\x07|\x1b\\)|[@-Z\\-_])")
_STYLED = late_pattern(
    "[²³¹\u1d2c-\u1d6a\u2070-\u214f\u2460-\u24ea\uff10-\uff5a\U0001d400-\U0001d7ff]"
)
"""Letters and digits in another form: wide, raised, in a circle, for formulas."""

_DUMP_LINE = late_pattern(
    r"^[ \t]*[0-9a-fA-F]{1,8}(?:[:|][ \t]*|[ \t]+)"
    r"(?P<shown>(?:[0-9a-fA-F]{2,8}(?: {1,2}|$)){2,})?(?P<rest>.*)$",
    re.MULTILINE,
)
"""A line of a hex or octal dump, or one with a number before it."""

_RUN_LENGTH = 24
_RUN_BYTES = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-"
_RUN_MASK = bytes(b"x"[0] if byte in _RUN_BYTES else b" "[0] for byte in range(256))
_RUN = late_pattern(r"[A-Za-z0-9+/_-]+(?:\r?\n[ \t]*[A-Za-z0-9+/_-]+(?==*\s*(?:\n|\Z)))*")
_HEX_RUN = late_pattern(r"(?:[0-9a-fA-F]{2})*")
_BASE32_RUN = late_pattern(r"(?:[A-Za-z2-7]{8})*")
_UNPACKED_LIMIT = 1 << 20

Span = tuple[int, int]


class DisguiseFinder:
    """Finds encoded, split, reversed and decorated spellings of known values, and their pieces."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._forms: list[tuple[bytes, int]] = []  #: Skeletons, each with its shortest match.
        self._short: list[bytes] = []  #: Skeletons that have no aligned gram for sure.
        for skeleton, least in {form for secret in secrets for form in _forms(secret)}:
            if least >= 2 * _GRAM - 1:
                self._forms.append((skeleton, least))
            elif len(skeleton) >= MIN_LENGTH_ANYWHERE and skeleton not in b"redacted":
                self._short += (skeleton, skeleton[::-1])
        self._grams = frozenset[int]().union(
            *(_cast(skeleton[shift:]) for skeleton, _ in self._forms for shift in range(_GRAM))
        )
        self._places: dict[bytes, list[tuple[bytes, int, int]]] = {}

    def find(self, text: str) -> list[Span]:
        """Return the parts of `text` that contain a known value, in order and not overlapping."""
        prepared = _prepare(text)
        spans = self._find_forms(prepared)
        if _DUMP_LINE.search(prepared):
            view = _DUMP_LINE.sub(_strip_dump_line, prepared)
            for start, end in self._find_forms(view):
                stop = text.find("\n", end)
                spans.append((text.rfind("\n", 0, start) + 1, len(text) if stop < 0 else stop))
        spans += self._find_encoded(prepared, 2)
        return _merge(spans)

    def _find_forms(self, prepared: str) -> list[Span]:
        raw = prepared.encode("ascii", "replace")
        skeleton = raw.translate(_LOWER, _DROPPED)
        if len(skeleton) < MIN_LENGTH_ANYWHERE:
            return []
        matches = [
            (found.start(), found.end())
            for form in self._short
            if form in skeleton
            for found in re.finditer(re.escape(form), skeleton)
        ]
        if not self._grams.isdisjoint(_cast(skeleton)):
            matches += self._match_pieces(skeleton)
        backwards = skeleton[::-1]
        if not self._grams.isdisjoint(_cast(backwards)):
            size = len(skeleton)
            matches += [(size - end, size - start) for start, end in self._match_pieces(backwards)]
        if not matches:
            return []
        dropped = frozenset(_DROPPED)
        at = [index for index, byte in enumerate(raw) if byte not in dropped]
        return [(at[start], at[end - 1] + 1) for start, end in matches]

    def _match_pieces(self, skeleton: bytes) -> list[Span]:
        """Extend every known gram of `skeleton` to the longest match."""
        if not self._places:
            for form, least in self._forms:
                for offset in range(len(form) - _GRAM + 1):
                    gram = form[offset : offset + _GRAM]
                    self._places.setdefault(gram, []).append((form, least, offset))
        found: list[Span] = []
        for index in range(0, len(skeleton) - _GRAM + 1, _GRAM):
            for form, least, offset in self._places.get(skeleton[index : index + _GRAM], ()):
                start, end = index, index + _GRAM
                shift = offset - index
                while start and start + shift and skeleton[start - 1] == form[start + shift - 1]:
                    start -= 1
                while (
                    end < len(skeleton)
                    and end + shift < len(form)
                    and skeleton[end] == form[end + shift]
                ):
                    end += 1
                if end - start >= least:
                    found.append((start, end))
        return found

    def _find_encoded(self, prepared: str, levels: int) -> list[Span]:
        """Return the runs of Base64, Base32 and hex digits that contain a known value."""
        mask = prepared.encode("ascii", "replace").translate(_RUN_MASK)
        wanted, spans, position = b"x" * _RUN_LENGTH, list[Span](), 0
        while (position := mask.find(wanted, position)) >= 0:
            run = _RUN.match(prepared, position)
            if run is None:  # cannot happen: the mask has the characters of the pattern
                break
            position = run.end()
            if any(self._is_inside(inner, levels - 1) for inner in _decode_run(run[0])):
                spans.append(run.span())
        return spans

    def _is_inside(self, text: str, levels: int) -> bool:
        return bool(self._find_forms(text)) or bool(levels and self._find_encoded(text, levels))


def _cast(skeleton: bytes) -> Iterable[int]:
    """Return the aligned groups of eight bytes as numbers."""
    return memoryview(skeleton[: len(skeleton) // _GRAM * _GRAM]).cast("Q")


def _prepare(text: str) -> str:
    """Return a text of the same length: marks, escape sequences and wide letters replaced."""
    if REDACTION_MARK in text:
        text = text.replace(REDACTION_MARK, chr(_BREAK) * len(REDACTION_MARK))
    if "\x1b" in text:
        text = _ANSI.sub(lambda match: " " * len(match[0]), text)
    if not text.isascii():
        text = _STYLED.sub(_plain_letter, text)
    return text


def _plain_letter(match: re.Match[str]) -> str:
    import unicodedata  # rarely needed

    plain = unicodedata.normalize("NFKC", match[0])
    return plain if len(plain) == 1 else match[0]


def _strip_dump_line(match: re.Match[str]) -> str:
    shown, rest = match["shown"] or "", match["rest"]
    if shown:
        rest = " " * len(rest)  # the column of characters
    return f"{' ' * (len(match[0]) - len(shown) - len(rest))}{shown}{rest}"


def _merge(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _decode_run(run: str) -> Iterator[str]:
    """Yield what a run of letters and digits may encode, as Latin-1."""
    data = "".join(run.split())
    hexadecimal, base32 = _HEX_RUN.match(data), _BASE32_RUN.match(data)
    found = [
        # Other characters before the run move its groups.
        *(base64.urlsafe_b64decode(data[at : at + (len(data) - at) // 4 * 4]) for at in range(4)),
        bytes.fromhex(hexadecimal[0] if hexadecimal else ""),
        base64.b32decode(base32[0] if base32 else "", casefold=True),
    ]
    for decoded in map(_unpack, found):
        # Only text can contain a value; most runs are words and decode to noise.
        if decoded.isascii() or decoded.count(0) * 3 > len(decoded):
            yield decoded.decode("latin-1")


def _unpack(data: bytes) -> bytes:
    """Return the beginning of compressed data as plain bytes, other data unchanged."""
    with suppress(zlib.error, OSError):  # it only begins like compressed data
        if data[:2] == b"\x1f\x8b" or data[:1] == b"\x78":
            return zlib.decompressobj(47).decompress(data, _UNPACKED_LIMIT)
        if data[:3] == b"BZh":
            import bz2  # rarely needed

            return bz2.BZ2Decompressor().decompress(data, _UNPACKED_LIMIT)
    return data


def _forms(secret: str) -> Iterator[tuple[bytes, int]]:
    """Yield the skeletons of `secret` in each encoding, with the length of the shortest match."""
    data = secret.encode("utf-8", "replace")
    pieces = len(data) > _PIECE and _has_secret_pieces(secret)

    def form(encoded: str | bytes, piece: int) -> tuple[bytes, int]:
        raw = encoded.encode("ascii", "replace") if isinstance(encoded, str) else encoded
        skeleton = raw.translate(_LOWER, _DROPPED)
        return skeleton, min(piece, len(skeleton)) if pieces else len(skeleton)

    yield form(secret, _PIECE)
    yield form(form(secret, 0)[0].translate(_ROT13), _PIECE)
    for template, width in _BYTE_TEMPLATES:
        yield form("".join(template % byte for byte in data), width * _PIECE)
    for start in (0, 1):  # 16-bit numbers, as `od` and `hexdump` print them
        words = [low + 256 * high for low, high in pairwise(data[start:])][::2]
        yield form("".join(f"{word:04x}" for word in words), 2 * _PIECE - 4)
        yield form("".join(f"{word:06o}" for word in words), 3 * _PIECE - 6)
    for shift in range(5):
        yield form(_core(data, shift, 5, base64.b32encode), 24)
    for shift in range(3):
        yield form(_core(data, shift, 6, base64.b64encode), 20)


_BYTE_TEMPLATES = (
    ("%02x", 2), ("x%02x", 3), ("0x%02x", 4), ("u%04x", 5), ("%03o", 3), ("%d", 2),
)  # fmt: skip
"""Each byte as a number, with the letters that an escape has before it, and the least width."""


def _has_secret_pieces(secret: str) -> bool:
    """Return whether a part of the value is a secret too: not for addresses, paths and prose."""
    if "://" in secret or secret[0] in "/~." or any(letter in " \t\n{}" for letter in secret):
        return False
    return any(letter.isdigit() for letter in secret) or not (secret.islower() or secret.isupper())


def _core(data: bytes, shift: int, bits: int, encode: Callable[[bytes], bytes]) -> bytes:
    """Return the characters that depend on `data` alone if it starts `shift` bytes into a group.

    `bits` is how many a character stands for. This also finds the value inside a longer encoded
    text, such as `user:password`.
    """
    first, last = -(-8 * shift // bits), 8 * (shift + len(data)) // bits
    return encode(bytes(shift) + data)[first:last]
