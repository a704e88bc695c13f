"""Secrets taken out of text before it reaches a file, a screen or a model."""

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any
from urllib.parse import quote, quote_plus

import msgspec

# What secrets look like, as data.
#
# A shape matches only what nothing else looks like: long random bodies behind a vendor's prefix,
# or
# a value in a place that names it a secret. Git hashes, UUIDs, base64 images and ordinary
# assignments (`max_tokens=4096`, `password=None`) match none of them.

MARK = "…[redacted]"

_END = r"(?![A-Za-z0-9_-])"

_ESCAPES = (
    r"\\[abfnrtv0]",
    r"\\x[0-9A-Fa-f]{2}",
    r"\\u[0-9A-Fa-f]{4}",
    r"%[0-9A-Fa-f]{2}",
    "[0-9]m",
)
"""What a break, a blank or a colour looks like in JSON, in code, in a URL or for a terminal. Its
last letter is none of the word that follows."""


def _starts(prefix: str) -> str:
    """A pattern for `prefix` where no longer word ends in it.

    The look behind comes last: a pattern that begins with a literal is searched many times faster.
    """
    literal = re.escape(prefix)
    return f"(?P<keep>{literal}){_begins('[A-Za-z0-9_-]', literal)}"


def _begins(letters: str, literal: str) -> str:
    """`literal`, just matched, has none of `letters` before it, or only those of an escape."""
    after = "|".join(f"(?<={escape}{literal})" for escape in _ESCAPES)
    return f"(?:(?<!{letters}{literal})|{after})"


def _any_case(*names: str) -> str:
    """A pattern for whole words in any letter case, for the same reason split at the first."""
    return "|".join(
        f"{first}(?<![A-Za-z]{first})(?i:{name[1:]})"
        for name in names
        for first in (name[0], name[0].upper())
    )


def _always(_match: re.Match[str]) -> bool:
    return True


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compiled when its hint is first seen: most programs never see most of them."""
    return re.compile(pattern)


class Shape(msgspec.Struct, frozen=True):
    """One kind of secret. The group `keep` of `pattern` is what stays readable before the mark."""

    hints: tuple[str, ...]
    """Lower-case texts; where none of them is found the pattern is not tried."""
    pattern: str
    is_secret: Callable[[re.Match[str]], bool] = _always
    """The last word on a match, for places where ordinary values stand as well."""

    def redact(self, text: str) -> str:
        return _compiled(self.pattern).sub(self._stub, text)

    def _stub(self, match: re.Match[str]) -> str:
        return f"{match['keep']}{MARK}" if self.is_secret(match) else match[0]


# Vendor prefixes, with the characters and the least length of what follows.
_WORD, _DASHED, _HEX = "[A-Za-z0-9]", "[A-Za-z0-9_-]", "[0-9a-f]"
_PREFIXES: tuple[tuple[str, str, int], ...] = (
    ("sk-ant-", _DASHED, 20),
    ("sk-proj-", _DASHED, 20),
    ("sk-or-v1-", _DASHED, 20),
    ("sk-svcacct-", _DASHED, 20),
    ("sk-admin-", _DASHED, 20),
    ("sk_live_", _WORD, 16),
    ("sk_test_", _WORD, 16),
    ("rk_live_", _WORD, 16),
    ("rk_test_", _WORD, 16),
    ("whsec_", "[A-Za-z0-9+/=]", 24),
    ("ghp_", _WORD, 30),
    ("gho_", _WORD, 30),
    ("ghu_", _WORD, 30),
    ("ghs_", _WORD, 30),
    ("ghr_", _WORD, 30),
    ("github_pat_", "[A-Za-z0-9_]", 40),
    ("glpat-", _DASHED, 18),
    ("gldt-", _DASHED, 18),
    ("glsa_", "[A-Za-z0-9_]", 32),
    ("glc_", "[A-Za-z0-9+/=]", 32),
    ("xoxa-", _DASHED, 10),
    ("xoxb-", _DASHED, 10),
    ("xoxe-", _DASHED, 10),
    ("xoxp-", _DASHED, 10),
    ("xoxr-", _DASHED, 10),
    ("xoxs-", _DASHED, 10),
    ("xapp-", _DASHED, 10),
    ("hf_", _WORD, 30),
    ("gsk_", _WORD, 40),
    ("csk-", _WORD, 40),
    ("xai-", _WORD, 40),
    ("pplx-", _WORD, 40),
    ("nvapi-", _DASHED, 40),
    ("tvly-", _DASHED, 20),
    ("fc-", _HEX, 32),
    ("r8_", _WORD, 30),
    ("npm_", _WORD, 36),
    ("pypi-", _DASHED, 80),
    ("rubygems_", _HEX, 40),
    ("dckr_pat_", _DASHED, 20),
    ("dop_v1_", _HEX, 60),
    ("shpat_", "[A-Fa-f0-9]", 32),
    ("shpss_", "[A-Fa-f0-9]", 32),
    ("sq0atp-", _DASHED, 20),
    ("sq0csp-", _DASHED, 20),
    ("lin_api_", _WORD, 32),
    ("ntn_", _WORD, 40),
    ("figd_", _DASHED, 32),
    ("sbp_", _HEX, 40),
    ("nfp_", _WORD, 36),
    ("phx_", _WORD, 32),
    ("dapi", _HEX, 32),
    ("key-", _HEX, 32),
    ("hvs.", _DASHED, 24),
    ("ya29.", _DASHED, 20),
    ("SG.", r"[A-Za-z0-9_.-]", 40),
    ("AGE-SECRET-KEY-1", "[A-Z0-9]", 40),
    ("ATATT3", r"[A-Za-z0-9_=-]", 60),
    ("EAAC", _WORD, 60),
)


def _vendor(prefix: str, characters: str, least: int) -> Shape:
    # A digit somewhere tells a key from a long hyphenated name.
    body = f"(?=[A-Za-z_-]*[0-9]){characters}{{{least},}}"
    return Shape((prefix.lower(),), _starts(prefix) + body)


_PLACEHOLDER = re.compile(
    r"none|null|nil|true|false|str|string|bytes|optional.*|your.*|change_?me|example.*|dummy"
    r"|x+|[*.]+|[<{\[(%$].*|.*[(\[{].*",
    re.IGNORECASE,
)


def _is_real(value: str) -> bool:
    """Not a placeholder, not code, not redacted before."""
    return MARK not in value and not _PLACEHOLDER.fullmatch(value)


def _is_real_value(match: re.Match[str]) -> bool:
    return _is_real(match["value"])


def _is_assigned_secret(match: re.Match[str]) -> bool:
    """Names like `token` also stand before ordinary values, so the value has to look random."""
    name, value = match["name"], match["value"]
    if not _is_real(value):
        return False
    if name.lower().startswith(("pass", "pwd")):
        return bool(match["quote"]) or name.isupper() or any(c.isdigit() for c in value)
    if name.isupper() and match["equals"] == "=":
        return True
    return any(c.isdigit() for c in value) and any(c.isalpha() for c in value)


_KEY_KINDS = ("api", "access", "account", "auth", "encryption", "master", "private", "secret")
_NAMES = _any_case(
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
_AUTHORIZATION = r"(?:" + _any_case("authorization") + r")[\"']?\s{0,3}[:=]\s{0,3}[\"']?"
_SCHEMES = "bearer|basic|token|apikey|api-key|bot"

_PLACES = (
    Shape(
        ("private key",),
        r"(?P<keep>-----BEGIN [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----)(?!…)"
        r"(?:[\s\S]*?-----END [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
        r"|(?:\s|\\n|[A-Za-z0-9+/=]{16,})+)",
    ),
    Shape(
        ("sk-",),
        _starts("sk-") + r"(?:[a-z0-9]{1,12}-)*(?=[A-Za-z_]*[0-9])\w{20,}",
    ),
    Shape(("akia",), _starts("AKIA") + f"[A-Z0-9]{{16}}{_END}"),
    Shape(("asia",), _starts("ASIA") + f"[A-Z0-9]{{16}}{_END}"),
    Shape(("aiza",), _starts("AIza") + f"[A-Za-z0-9_-]{{35}}{_END}"),
    Shape(("1//0",), _starts("1//0") + "[A-Za-z0-9_-]{40,}"),
    Shape(("sk",), _starts("SK") + f"[0-9a-f]{{32}}{_END}"),
    Shape(("eyj",), _starts("eyJ") + r"[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}"),
    # Bot tokens of Telegram and Discord.
    Shape((":",), rf"(?P<keep>\d(?<!\d\d)\d{{7,9}}:)[A-Za-z0-9_-]{{35}}{_END}"),
    Shape(
        (".",),
        r"(?P<keep>[MNO](?<![\w-][MNO]))[\w-]{23,27}\.[\w-]{6}\.[\w-]{27,40}" + _END,
    ),
    Shape(
        ("hooks.slack.com",),
        r"(?P<keep>hooks\.slack\.com/(?:services|workflows)/)[A-Za-z0-9/_-]{20,}",
    ),
    Shape(
        ("/api/webhooks/",),
        r"(?P<keep>/api/webhooks/\d{10,25}/)[A-Za-z0-9_-]{20,}",
    ),
    Shape(
        ("authorization",),
        rf"(?P<keep>{_AUTHORIZATION}(?i:{_SCHEMES})\s+)(?P<value>[^\s\"',;]{{6,}})",
        _is_real_value,
    ),
    Shape(
        ("authorization",),
        rf"(?P<keep>{_AUTHORIZATION})(?P<value>(?=[^\s\d]*\d)[^\s\"',;]{{8,}})",
        _is_real_value,
    ),
    Shape(
        ("bearer",),
        rf"(?P<keep>(?:{_any_case('bearer')})\s+)(?=[^\s\d]*\d)[A-Za-z0-9._~+/=-]{{16,}}",
    ),
    Shape(
        ("cookie",),
        rf"(?P<keep>(?:{_any_case('cookie')})[\"']?:\s{{0,3}}[\"']?)"
        r"(?P<value>[\w.-]+=[^\r\n\"']{8,})",
        _is_real_value,
    ),
    Shape(
        ("://",),
        r"(?P<keep>://[^\s/:@\"'<>]{0,80}:)(?P<value>[^\s/@\"'<>]{1,200})(?=@)",
        _is_real_value,
    ),
    Shape(
        ("=",),
        rf"(?P<keep>[?&](?:{_NAMES}|(?i:key|auth|sig|signature"
        r"|x-amz-(?:signature|credential|security-token)))=)(?P<value>[^&\s\"'<>#]{4,})",
        _is_real_value,
    ),
    Shape(
        ("pass", "pwd", "token", "secret", "key"),
        rf"(?P<keep>(?P<name>{_NAMES})[\"']?(?P<equals>\s{{0,3}}(?:=>|:=|[:=])\s{{0,3}})"
        r"(?P<quote>[\"']?))(?P<value>[^\s\"',;&]{6,})",
        _is_assigned_secret,
    ),
)

SHAPES = (*(_vendor(*prefix) for prefix in _PREFIXES), *_PLACES)


SHORTEST_SECRET = 6
"""A shorter value would be found everywhere."""
SHORTEST_ANYWHERE = 8
"""A shorter one counts only where it stands alone, not inside a longer word."""


class Redactor:
    """Takes out known secret values, in any common spelling, and everything shaped like a key.

    What is left says what was there: `sk-…[redacted]`. Redacting twice changes nothing more.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._known: list[tuple[str, str]] = []
        self.learn(*secrets)

    def learn(self, *secrets: str) -> None:
        """These are secrets too, from now on."""
        values = {secret.strip() for secret in secrets}
        stubs = dict(self._known) | {
            spelling: _stub_of(value)
            for value in values
            if len(value) >= SHORTEST_SECRET and value not in MARK
            for spelling in (_spellings(value) if len(value) >= SHORTEST_ANYWHERE else (value,))
        }
        # The longest first: one secret may be the beginning of another.
        self._known = sorted(stubs.items(), key=lambda item: len(item[0]), reverse=True)

    def redact(self, text: str) -> str:
        if text.startswith(("{", "[")):
            text = self._redact_json(text)
        # Taking one secret out can bare the beginning of another that was glued to it. Each round
        # leaves fewer characters outside the marks, so the rounds come to an end.
        while (redacted := self._redact_once(text)) != text:
            text = redacted
        return text

    def _redact_json(self, text: str) -> str:
        """JSON hides where words begin behind its escapes, so the strings in it are looked at."""
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
        """Only the known values: for what a person said, who may mean a key of their own."""
        for spelling, stub in self._known:
            if spelling not in text:
                continue
            if len(spelling) >= SHORTEST_ANYWHERE:
                text = text.replace(spelling, stub)
            else:
                text = re.sub(rf"(?<!\w){re.escape(spelling)}(?!\w)", stub, text)
        return text

    def _redact_once(self, text: str) -> str:
        return _redact_shapes(self.redact_known(text))


def _redact_shapes(text: str) -> str:
    lowered = text.lower()
    for shape in SHAPES:
        for hint in shape.hints:
            if hint in lowered:
                text = shape.redact(text)
                break
    return text


def _stub_of(secret: str) -> str:
    """`sk-…[redacted]` for a value of a known shape, else only the mark."""
    stub = _redact_shapes(secret)
    return stub if stub.endswith(MARK) and len(stub) < len(MARK) + 16 else MARK


def _spellings(secret: str) -> Iterator[str]:
    yield secret
    yield quote(secret, safe="")
    yield quote_plus(secret)
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    for shift in range(3):
        yield from _inside_base64(secret.encode("utf-8", "replace"), shift)


def _inside_base64(secret: bytes, shift: int) -> Iterator[str]:
    """The characters that depend on `secret` alone when it begins `shift` bytes into a group.

    This finds it inside a longer encoded text as well, such as `user:password`.
    """
    bits_before, bits_after = 8 * shift, 8 * (shift + len(secret))
    first, last = -(-bits_before // 6), bits_after // 6
    padded = bytes(shift) + secret
    for encoded in (base64.b64encode(padded), base64.urlsafe_b64encode(padded)):
        yield encoded.decode()[first:last]
