"""Removal of secrets from text before it reaches a file, a screen or a model."""

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any
from urllib.parse import quote, quote_plus

import msgspec

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
    # A digit distinguishes a key from a long hyphenated name.
    body = f"(?=[A-Za-z_-]*[0-9]){characters}{{{least},}}"
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


MIN_LENGTH = 6  #: Shorter values would match everywhere.
MIN_LENGTH_ANYWHERE = 8  #: Shorter values match only as a whole word.


class Redactor:
    """Redacts known secret values, in any common encoding, and everything shaped like a key.

    The rest tells what was there: `sk-…[redacted]`. Redacting twice changes nothing more.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._known: list[tuple[str, str]] = []  #: Spellings, each with its secret.
        self.learn(*secrets)

    def learn(self, *secrets: str) -> None:
        """Redact these values too, from now on."""
        values = {secret.strip() for secret in secrets}
        known = dict(self._known) | {
            spelling: value
            for value in values
            if len(value) >= MIN_LENGTH and value not in REDACTION_MARK
            for spelling in (_encodings(value) if len(value) >= MIN_LENGTH_ANYWHERE else (value,))
        }
        # Longest first, because one secret may be the beginning of another.
        self._known = sorted(known.items(), key=lambda item: len(item[0]), reverse=True)

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


def _encodings(secret: str) -> Iterator[str]:
    yield secret
    yield quote(secret, safe="")
    yield quote_plus(secret)
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    for shift in range(3):
        yield from _base64_core(secret.encode("utf-8", "replace"), shift)


def _base64_core(secret: bytes, shift: int) -> Iterator[str]:
    """Yield the characters that depend on `secret` alone if it starts `shift` bytes into a group.

    This also finds it inside a longer encoded text, such as `user:password`.
    """
    bits_before, bits_after = 8 * shift, 8 * (shift + len(secret))
    first, last = -(-bits_before // 6), bits_after // 6
    padded = bytes(shift) + secret
    for encoded in (base64.b64encode(padded), base64.urlsafe_b64encode(padded)):
        yield encoded.decode()[first:last]
