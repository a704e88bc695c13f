"""Texts that are written in a code: base64, hexadecimal, escapes, numbers of characters, pieces."""

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from typing import Final

from hermes.skills.scanner.lines import Lines

_BASE64 = re.compile(
    r"(?<![A-Za-z0-9+/_=-])(?<!base64,)[A-Za-z0-9+/_-]{32,20000}={0,2}(?![A-Za-z0-9+/_-])"
)
_HEX = re.compile(r"(?<![0-9A-Fa-f])(?:[0-9A-Fa-f]{2}){20,10000}(?![0-9A-Fa-f])")
_ESCAPES = re.compile(r"(?:\\x[0-9A-Fa-f]{2}|\\[0-3][0-7]{2}|\\u00[0-9A-Fa-f]{2}){4,5000}")
_ESCAPE = re.compile(r"\\x([0-9A-Fa-f]{2})|\\([0-3][0-7]{2})|\\u00([0-9A-Fa-f]{2})")
_CODES = re.compile(
    r"(?:fromCharCode|\[char\[\]\]|chr)\s*\(?\s*\(?((?:\s*\d{2,3}\s*,){5,5000}\s*\d{2,3})"
)
_PLUS = re.compile(r"[\"']\s{0,9}\+\s{0,9}[\"']")
_PLUSES: Final = 3
MOST: Final = 200
"""Encoded texts of one file that are looked at."""
MOST_DECODED: Final = 48_000
"""Characters they may have together."""
_SHORTEST: Final = 12
_TEXT = re.compile(r"[\t\n\r\x20-\x7e]*")
PROGRAMS: Final = (b"\x7fELF", b"MZ\x90", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")


def decoded(text: str) -> Iterator[tuple[int, str]]:
    """Lines (from 0) and what stands there in plain. A program becomes `PROGRAM`."""
    lines = Lines(text)
    count, left = 0, MOST_DECODED
    for pattern, decode in _CODECS:
        for match in pattern.finditer(text):
            count += 1
            if count > MOST or left <= 0:
                return
            plain = _plain(decode(match))
            if plain:
                left -= len(plain)
                yield lines.at(match.start()), plain


def joined(text: str) -> str:
    """The text with its split strings put together; "" when there are hardly any."""
    return _PLUS.sub("", text) if len(_PLUS.findall(text)) >= _PLUSES else ""


PROGRAM: Final = "\x7fPROGRAM"


def _plain(data: bytes) -> str:
    """The text; "" when it is none."""
    if data.startswith(PROGRAMS):
        return PROGRAM
    if data[1:2] == b"\0" and data[3:4] == b"\0":  # as PowerShell writes it
        data = data[::2]
    if len(data) < _SHORTEST:
        return ""
    plain = data.decode("latin-1")
    return plain if _TEXT.fullmatch(plain) else ""


def _of_base64(match: re.Match[str]) -> bytes:
    body = match[0].rstrip("=")
    odd = body.isalpha() and (body.islower() or body.isupper())
    if odd or "--" in body or len(body) % 4 == 1:  # a word, a rule of dashes
        return b""
    try:
        return base64.b64decode(
            body + "=" * (-len(body) % 4), altchars=b"-_" if set(body) & set("-_") else None
        )
    except (binascii.Error, ValueError):
        return b""


def _of_hex(match: re.Match[str]) -> bytes:
    return bytes.fromhex(match[0])


def _of_escapes(match: re.Match[str]) -> bytes:
    return bytes(
        int(found[1] or found[3], 16) if found[1] or found[3] else int(found[2], 8)
        for found in _ESCAPE.finditer(match[0])
    )


def _of_codes(match: re.Match[str]) -> bytes:
    codes = (int(code) for code in re.findall(r"\d+", match[1]))
    return bytes(code for code in codes if code < 256)


_CODECS: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], bytes]], ...]] = (
    (_BASE64, _of_base64),
    (_HEX, _of_hex),
    (_ESCAPES, _of_escapes),
    (_CODES, _of_codes),
)
