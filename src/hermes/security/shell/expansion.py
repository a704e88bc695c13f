"""Expansion of `${…}`, `{a,b}` and `$'…'`, and predicted output, as far as the text alone tells."""

import base64
import binascii
import fnmatch
import posixpath
import re
from collections.abc import Callable

from hermes.security.shell.model import SPLIT, UNKNOWN, CommandTooComplex, Invocation

Lookup = Callable[[str], str | None]

MOST_BRACES = 256
LONGEST_VALUE = 2_000  #: Longer values are not expanded; the result counts as unknown.

LONGEST_RANGE = 32  #: Numbers of `{1..1000}` that are generated.

_BRACES = re.compile(
    r"\{([^{}]*,[^{}]*|(-?\d{1,9}|[a-zA-Z])\.\.(-?\d{1,9}|[a-zA-Z])(?:\.\.-?\d+)?)\}"
)
_PARTS = re.compile(
    r"\$\{(?P<mark>[!#]?)(?P<name>\w+|[@*?$!#-])(?P<index>\[[^\]]*\])?(?P<rest>.*)\}\Z", re.DOTALL
)
_DEFAULT = re.compile(r"(:?)([-=+?])")
_OPENING = re.compile(r"(?<!\\)(?:\$\((?!\()|`)")
_PLAIN_VARIABLE = re.compile(r"(?<!\\)\$(?:\{(\w+)\}|(\w+))")


def expand(text: str, lookup: Lookup, argument: Callable[[], str]) -> str:
    """Return the value of `${…}`; `argument` returns the value of the words after its operator."""
    parts = _PARTS.match(text)
    if parts is None:
        return UNKNOWN
    name, rest = parts["name"], parts["rest"]
    if parts["mark"] == "#":
        return "0"
    if parts["mark"] == "!":
        name = lookup(name) or UNKNOWN
        if rest or parts["index"] or not re.fullmatch(r"\w+", name):
            return UNKNOWN
    value = _array_element(lookup(name), parts["index"])
    default = _DEFAULT.match(rest)
    if default:
        return _or_default(value, default[2], argument)
    if value is None or UNKNOWN in value:
        return UNKNOWN
    return _apply_operator(value, rest, lookup) if rest else value


def _array_element(value: str | None, index: str | None) -> str | None:
    """Return one element of an array, whose elements are separated by SPLIT."""
    if value is None:
        return None
    elements = value.split(SPLIT)
    if index is None:
        return elements[0] if len(elements) > 1 else value
    if index in ("[@]", "[*]"):
        return value
    if re.fullmatch(r"\[-?\d{1,6}\]", index):
        position = int(index[1:-1])
        return elements[position] if -len(elements) <= position < len(elements) else ""
    return UNKNOWN


def _or_default(value: str | None, operator: str, argument: Callable[[], str]) -> str:
    """`${x:-word}` and similar. A variable not set in the command may be set outside."""
    if operator == "+":
        return argument()
    if operator == "?":
        return UNKNOWN if value is None else value
    return value or argument()


def _apply_operator(value: str, rest: str, lookup: Lookup) -> str:
    """Apply an operator of `${x…}` to the value."""
    if len(value) > LONGEST_VALUE or len(rest) > LONGEST_VALUE:
        return UNKNOWN
    rest = substitute(rest, lookup)
    if rest in _CASES:
        return _CASES[rest](value)
    piece = re.fullmatch(r":\s*\(?(-?\d{1,6})\)?\s*(?::\s*\(?(-?\d{1,6})\)?\s*)?", rest)
    if piece:
        return _slice(value, int(piece[1]), piece[2])
    replaced = re.fullmatch(r"(//|/#|/%|/)((?:\\.|[^/\\])+)(?:/(.*))?", rest, re.DOTALL)
    if replaced:
        return _replace(
            value, replaced[1], _strip_quotes(replaced[2]), _strip_quotes(replaced[3] or "")
        )
    cut = re.fullmatch(r"(##|#|%%|%)(.*)", rest, re.DOTALL)
    if cut:
        return _strip_affix(value, cut[1], _strip_quotes(cut[2]))
    return UNKNOWN


_CASES: dict[str, Callable[[str], str]] = {
    "^^": str.upper,
    ",,": str.lower,
    "^": lambda value: value[:1].upper() + value[1:],
    ",": lambda value: value[:1].lower() + value[1:],
    "@U": str.upper,
    "@L": str.lower,
    "@u": lambda value: value[:1].upper() + value[1:],
    "@Q": lambda value: value,
    "@E": lambda value: unescape(value),
    "@P": lambda value: value,
}


def _slice(value: str, start: int, length: str | None) -> str:
    elements: list[str] | str = value.split(SPLIT) if SPLIT in value else value
    begin = start if start >= 0 else max(len(elements) + start, 0)
    end = len(elements)
    if length is not None:
        end = begin + int(length) if int(length) >= 0 else len(elements) + int(length)
    found = elements[begin:end]
    return found if isinstance(found, str) else SPLIT.join(found)


def _replace(value: str, operator: str, pattern: str, new: str) -> str:
    body = _as_regex(pattern)
    if body is None:
        return UNKNOWN
    body = {"/#": rf"\A(?:{body})", "/%": rf"(?:{body})\Z"}.get(operator, body)
    return re.sub(body, lambda _: new, value, count=0 if operator == "//" else 1)


def _strip_affix(value: str, operator: str, pattern: str) -> str:
    body = _as_regex(pattern)
    if body is None:
        return UNKNOWN
    compiled = re.compile(body, re.DOTALL)
    sizes = range(len(value) + 1)
    for size in reversed(sizes) if len(operator) == 2 else sizes:
        end = len(value) - size
        if operator[0] == "#" and compiled.fullmatch(value, 0, size):
            return value[size:]
        if operator[0] == "%" and compiled.fullmatch(value, end):
            return value[:end]
    return value


def _as_regex(pattern: str) -> str | None:
    """Return a shell pattern as a regular expression; None if it is too complex."""
    if len(pattern) > 64 or pattern.count("*") > 4 or UNKNOWN in pattern:
        return None
    return fnmatch.translate(pattern).removeprefix("(?s:").removesuffix(")\\Z")


def _strip_quotes(text: str) -> str:
    return re.sub(r"\\(.)|['\"]", lambda found: found[1] or "", text, flags=re.DOTALL)


def substitute(text: str, lookup: Lookup) -> str:
    """Replace plain `$x` and `${x}` in text by their values where known."""

    def value(found: re.Match[str]) -> str:
        known = lookup(found[1] or found[2])
        return UNKNOWN if known is None else known

    return _PLAIN_VARIABLE.sub(value, text) if "$" in text else text


def substitutions(text: str) -> list[str]:
    """Return the contents of `$(…)` and of backticks in text that is expanded but not quoted."""
    found: list[str] = []
    at = 0
    while opening := _OPENING.search(text, at):
        at = opening.start()
        if text[at] == "`":
            end = text.find("`", at + 1)
            found.append(text[at + 1 : end if end >= 0 else len(text)])
        else:
            end = _find_closing(text, at + 2)
            found.append(text[at + 2 : end])
        if end < 0:
            break
        at = end + 1
    return found


def _find_closing(text: str, at: int) -> int:
    depth = 1
    for position in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        if not depth:
            return position
    return len(text)


def expand_braces(word: str) -> list[str]:
    """Return `a{b,c}` as `ab ac`."""
    if "{" not in word:
        return [word]
    words = [word]
    while any(_BRACES.search(each) for each in words):
        words = [piece for each in words for piece in _expand_one_brace(each)]
        if len(words) > MOST_BRACES:
            raise CommandTooComplex
    return words


def _expand_one_brace(word: str) -> list[str]:
    found = _BRACES.search(word)
    if not found:
        return [word]
    choices = found[1].split(",") if "," in found[1] else _expand_range(found)
    pieces = [word[: found.start()] + choice + word[found.end() :] for choice in choices]
    return [piece for piece in pieces if piece]


def _expand_range(found: re.Match[str]) -> list[str]:
    """Return `{1..3}` and `{a..c}`, or the beginning of a long range."""
    first, last = found[2], found[3]
    if first.isalpha() and last.isalpha():
        low, high = ord(first), ord(last)
        step = 1 if low <= high else -1
        return [chr(code) for code in range(low, high + step, step)]
    if first.isalpha() or last.isalpha():
        return [f"{first}..{last}"]
    low, high = int(first), int(last)
    step = 1 if low <= high else -1
    return [str(number) for number in range(low, high + step, step)[:LONGEST_RANGE]]


_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|(0?[0-7]{1,3})|c(.)|(.))",
    re.DOTALL,
)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v",
            "e": "\x1b", "E": "\x1b"}  # fmt: skip


def unescape(text: str) -> str:
    """Return the text inside `$'…'`, or printed by `printf` and `echo -e`."""
    if "\\" not in text:
        return text

    def char(found: re.Match[str]) -> str:
        for group, base in ((1, 16), (2, 16), (3, 16), (4, 8)):
            if found[group]:
                code = int(found[group], base)
                return chr(code) if 0 < code < 0xD800 else ""
        return "" if found[5] else _LETTERS.get(found[6], found[6])

    return _ESCAPE.sub(char, text)


# The predictable output of simple programs: `echo`, `printf`, decoders and filters.

LONGEST = 20_000
_PATH_PRINTERS = frozenset({"which", "command", "type", "readlink", "realpath", "whereis"})
_NOT_TEXT = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_PASSES_ON = frozenset(
    {"cat", "tee", "head", "tail", "sort", "pv", "sponge", "strings", "dos2unix"}
)


def predict_output(invocation: Invocation) -> str | None:
    """Return the text on its standard output; None if unknown."""
    if any(redirect.writes for redirect in invocation.redirects):
        return None
    name = invocation.name
    if name == "echo":
        return _echo_output(list(invocation.arguments))
    if name == "printf":
        return _printf_output(list(invocation.arguments))
    plain = [word for word in invocation.arguments if not word.startswith("-")]
    if name in _PATH_PRINTERS:
        return " ".join(plain)
    found = _place_output(invocation, plain)
    return _filter_output(invocation, plain) if found is None else found


def _place_output(invocation: Invocation, plain: list[str]) -> str | None:
    """Return the output of a program that prints names of files or folders."""
    name = invocation.name
    if name == "basename" and plain:
        return plain[0].rstrip("/").rpartition("/")[2].removesuffix(plain[1] if plain[1:] else "")
    if name == "dirname" and plain:
        return posixpath.dirname(plain[0].rstrip("/")) or "."
    listed = name == "ls" and plain and all("*" in word.rpartition("/")[2] for word in plain)
    if listed or (name == "ls" and plain and re.search(r"(^|\s)-\w*d", invocation.text)):
        return "\n".join(plain)  # patterns stay patterns
    if name in ("mktemp", "pwd"):
        return "/tmp/mktemp" if name == "mktemp" else invocation.folder or "."
    if name in ("find", "fd", "fdfind"):
        return _found_output(invocation)
    for program, arguments, output in _KNOWN_PLACES:
        if name.rstrip(".0123456789") == program:
            found = arguments.fullmatch(invocation.text)
            if found is not None:
                return found.expand(output)
    return None


_KNOWN_PLACES = (
    ("python",
     re.compile(r"-m site --user-site|-c import site; ?print\(site\.getusersitepackages\(\)\)"),
     "~/.local/lib/python3/site-packages"),
    ("python",
     re.compile(r"-c import (site|sysconfig); ?print\(\1\.get\w+\(['\"\w]*\)(\[['\"\w]+\])?\)"),
     "/usr/lib/python3/site-packages"),
    ("git", re.compile(r"rev-parse (?:--git-dir|--git-common-dir|--absolute-git-dir)"), ".git"),
    ("git", re.compile(r"rev-parse --show-toplevel"), "."),
    ("git", re.compile(r"rev-parse --git-path (\S+)"), r".git/\1"),
    ("npm", re.compile(r"root (?:-g|--global)"), "/usr/lib/node_modules"),
    ("xdg-user-dir", re.compile(r"(?!DESKTOP|CONFIG)[A-Z]+"), "~/Documents"),
)  # fmt: skip
"""Programs that print a folder, with their arguments."""


def _found_output(invocation: Invocation) -> str | None:
    """Return the folder outside the current one that a search prints files of, and a gap."""
    words = invocation.arguments
    where = next((word for word in words if word[:1] in ("/", "~")), "")
    acts = any(re.match(r"-(exec|ok|delete|print.)|-[xX]\Z|--exec", word) for word in words)
    return f"{where.rstrip('/')}/{UNKNOWN}" if where and not acts else None


def _filter_output(invocation: Invocation, plain: list[str]) -> str | None:
    """Return the output of a filter whose input is known."""
    given = known_input(invocation)
    if given is None or len(given) > LONGEST:
        return None
    name, options = invocation.name, "".join(invocation.arguments)
    if name in _PASSES_ON and (name == "tee" or not plain):
        return given
    if name == "openssl" and re.search(r"base64|-a\b", invocation.text):
        name = "base64"
    for tool, wanted, decode in _DECODERS:
        if name == tool and re.search(wanted, options):
            return _decode(given, decode)
    return _translate(given, plain) if name == "tr" else None


def known_input(invocation: Invocation) -> str | None:
    """Return the text on its standard input, if known."""
    if invocation.stdin:
        return invocation.stdin
    return predict_output(invocation.upstream[-1]) if invocation.upstream else None


def _echo_output(words: list[str]) -> str:
    escapes = False
    while words and re.fullmatch(r"-[neE]+", words[0]):
        escapes = escapes or "e" in words[0]
        del words[0]
    text = " ".join(words)
    return unescape(text) if escapes or "\\x" in text or "\\0" in text else text


def _printf_output(words: list[str]) -> str:
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


def _decode_base64(text: str) -> bytes:
    clean = re.sub(r"[^A-Za-z0-9+/]", "", text)
    return base64.b64decode(clean + "=" * (-len(clean) % 4))


_DECODERS: tuple[tuple[str, str, Callable[[str], bytes]], ...] = (
    ("base64", r"-\w*[dD]|--decode", _decode_base64),
    ("gbase64", r"-\w*[dD]|--decode", _decode_base64),
    ("base32", r"-\w*[dD]|--decode", lambda text: base64.b32decode(text.strip())),
    ("xxd", r"-\w*r", lambda text: bytes.fromhex(re.sub(r"[^0-9a-fA-F]", "", text))),
    ("rev", "", lambda text: "\n".join(x[::-1] for x in text.split("\n")).encode()),
    ("tac", "", lambda text: "\n".join(reversed(text.split("\n"))).encode()),
)


def _decode(text: str, decode: Callable[[str], bytes]) -> str | None:
    try:
        found = decode(text).decode("utf-8")
    except (binascii.Error, ValueError):
        return None
    return None if _NOT_TEXT.search(found) else found


def _translate(text: str, sets: list[str]) -> str | None:
    if len(sets) != 2 or UNKNOWN in "".join(sets):
        return None
    old, new = (_expand_character_set(each) for each in sets)
    if not new:
        return None
    new += new[-1] * (len(old) - len(new))
    return text.translate({ord(a): b for a, b in zip(old, new, strict=False)})


_CLASSES = {"[:upper:]": "A-Z", "[:lower:]": "a-z"}


def _expand_character_set(text: str) -> str:
    """Return `a-z` written out."""
    text = unescape(_CLASSES.get(text, text))
    return re.sub(
        r"(.)-(.)",
        lambda found: "".join(map(chr, range(ord(found[1]), min(ord(found[2]), 0x17F) + 1))),
        text,
        flags=re.DOTALL,
    )
