"""What simple programs would print: `echo`, `printf`, decoders and what is piped through them."""

import base64
import binascii
import re
from collections.abc import Callable

from hermes.security.shell.expansion import unescape
from hermes.security.shell.model import UNKNOWN, Invocation

LONGEST = 20_000
_PATH_PRINTERS = frozenset({"which", "command", "type", "readlink", "realpath", "whereis"})
_NOT_TEXT = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_PASSES_ON = frozenset(
    {"cat", "tee", "head", "tail", "sort", "pv", "sponge", "strings", "dos2unix"}
)


def printed(invocation: Invocation) -> str | None:
    """The text on its standard output; None when that cannot be told."""
    if any(redirect.writes for redirect in invocation.redirects):
        return None
    name = invocation.name
    if name == "echo":
        return _echo(list(invocation.arguments))
    if name == "printf":
        return _printf(list(invocation.arguments))
    plain = [word for word in invocation.arguments if not word.startswith("-")]
    if name in _PATH_PRINTERS:
        return " ".join(plain)
    if name == "basename" and plain:
        return plain[0].rstrip("/").rpartition("/")[2].removesuffix(plain[1] if plain[1:] else "")
    if name == "mktemp":
        return "/tmp/mktemp"
    if name == "pwd":
        return invocation.folder or "."
    return _filtered(invocation, plain)


def _filtered(invocation: Invocation, plain: list[str]) -> str | None:
    """What comes out of a filter whose input is known."""
    given = given_to(invocation)
    if given is None or len(given) > LONGEST:
        return None
    name, options = invocation.name, "".join(invocation.arguments)
    if name in _PASSES_ON and (name == "tee" or not plain):
        return given
    if name == "openssl" and re.search(r"base64|-a\b", invocation.text):
        name = "base64"
    for tool, wanted, decode in _DECODERS:
        if name == tool and re.search(wanted, options):
            return _decoded(given, decode)
    return _translated(given, plain) if name == "tr" else None


def given_to(invocation: Invocation) -> str | None:
    """The text on its standard input, when that is known."""
    if invocation.stdin:
        return invocation.stdin
    return printed(invocation.upstream[-1]) if invocation.upstream else None


def _echo(words: list[str]) -> str:
    escapes = False
    while words and re.fullmatch(r"-[neE]+", words[0]):
        escapes = escapes or "e" in words[0]
        del words[0]
    text = " ".join(words)
    return unescape(text) if escapes or "\\x" in text or "\\0" in text else text


def _printf(words: list[str]) -> str:
    while words and words[0] in ("--", "-v"):
        del words[: 2 if words[0] == "-v" else 1]
    if not words:
        return ""
    form, values = unescape(words[0]), words[1:]
    pieces: list[str] = []
    while True:
        left = list(values)
        pieces.append(re.sub(r"%(-?\d*(?:\.\d+)?)([sbqdixXocu%])", _filler(left), form))
        if not left or len(left) == len(values) or sum(map(len, pieces)) > LONGEST:
            return "".join(pieces)
        values = left


def _filler(values: list[str]) -> Callable[[re.Match[str]], str]:
    def fill(found: re.Match[str]) -> str:
        if found[2] == "%":
            return "%"
        value = values.pop(0) if values else ""
        return {"b": unescape(value), "c": value[:1]}.get(found[2], value)

    return fill


def _base64(text: str) -> bytes:
    clean = re.sub(r"[^A-Za-z0-9+/]", "", text)
    return base64.b64decode(clean + "=" * (-len(clean) % 4))


_DECODERS: tuple[tuple[str, str, Callable[[str], bytes]], ...] = (
    ("base64", r"-\w*[dD]|--decode", _base64),
    ("gbase64", r"-\w*[dD]|--decode", _base64),
    ("base32", r"-\w*[dD]|--decode", lambda text: base64.b32decode(text.strip())),
    ("xxd", r"-\w*r", lambda text: bytes.fromhex(re.sub(r"[^0-9a-fA-F]", "", text))),
    ("rev", "", lambda text: "\n".join(x[::-1] for x in text.split("\n")).encode()),
    ("tac", "", lambda text: "\n".join(reversed(text.split("\n"))).encode()),
)


def _decoded(text: str, decode: Callable[[str], bytes]) -> str | None:
    try:
        found = decode(text).decode("utf-8")
    except (binascii.Error, ValueError):
        return None
    return None if _NOT_TEXT.search(found) else found


def _translated(text: str, sets: list[str]) -> str | None:
    if len(sets) != 2 or UNKNOWN in "".join(sets):
        return None
    old, new = (_characters(each) for each in sets)
    if not new:
        return None
    new += new[-1] * (len(old) - len(new))
    return text.translate({ord(a): b for a, b in zip(old, new, strict=False)})


_CLASSES = {"[:upper:]": "A-Z", "[:lower:]": "a-z"}


def _characters(text: str) -> str:
    """`a-z` written out."""
    text = unescape(_CLASSES.get(text, text))
    return re.sub(
        r"(.)-(.)",
        lambda found: "".join(map(chr, range(ord(found[1]), min(ord(found[2]), 0x17F) + 1))),
        text,
        flags=re.DOTALL,
    )
