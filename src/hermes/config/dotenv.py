"""The `.env` file: variables and secrets of one home.

Read as UTF-8 (a byte order mark is fine), else as latin-1. Understood: comments, blank lines,
`export`, single and double quotes (also over several lines), `${NAME}`, any line ends.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from hermes.config.expand import expand_text, unset_names
from hermes.config.home import unusable
from hermes.config.masking import is_secret_variable

_BINDING = re.compile(
    r"""
    [^\S\r\n]* (?:export[^\S\r\n]+)?
    (?: '(?P<quoted_name>[^']+)' | (?P<name>[^=\#\s]+) )
    [^\S\r\n]*
    (?: =[^\S\r\n]*
        (?: '(?P<single>(?:\\[\s\S]|[^'\\])*)'
          | "(?P<double>(?:\\[\s\S]|[^"\\])*)"
          | (?P<plain>(?!['"])[^\r\n]*)
        )
    )?
    (?P<rest>[^\r\n]*) (?:\r\n|\n|\r|$)
    """,
    re.VERBOSE,
)
_OTHER_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r|$)")
_SKIPPED = re.compile(r"[^\S\r\n]*(?:\#[^\r\n]*)?(?:\r\n|\n|\r|$)")
_ESCAPE = re.compile(r"""\\([\\'"abfnrtv])""")
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_PLAIN = re.compile(r"[A-Za-z0-9_@%+:,./^=-]+")


class Piece(NamedTuple):
    """One stretch of the file: an assignment, or something to keep as it is."""

    text: str
    name: str = ""
    value: str | None = None
    literal: bool = False
    """Single quotes: `${NAME}` stays as written."""


class Binding(NamedTuple):
    """What a line gives a variable."""

    name: str
    value: str
    """Empty for a credential with something unset in it."""
    unset: tuple[str, ...] = ()
    """Names it refers to and that are not set."""


def read_dotenv(path: Path, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of the file; none when it does not exist. Raises ConfigError."""
    return values(parse(read_text(path)), environ or {})


def read_text(path: Path) -> str:
    """The text of the file, empty when it does not exist."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise unusable(path, error) from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def parse(text: str) -> list[Piece]:
    pieces: list[Piece] = []
    position = 0
    while position < len(text):
        match = _SKIPPED.match(text, position)
        piece = Piece(match[0]) if match else _assignment(text, position)
        pieces.append(piece)
        position += len(piece.text)
    return pieces


def values(pieces: list[Piece], environ: Mapping[str, str]) -> dict[str, str]:
    """The variables, later lines winning."""
    return {each.name: each.value for each in bindings(pieces, environ)}


def bindings(pieces: list[Piece], environ: Mapping[str, str]) -> list[Binding]:
    """Line by line; `${NAME}` sees earlier lines before the environment."""
    found: list[Binding] = []
    known = dict(environ)
    for piece in pieces:
        if piece.value is not None:
            value = piece.value if piece.literal else expand_text(piece.value, known)
            unset = () if piece.literal else unset_names(value)
            known[piece.name] = "" if unset and is_secret_variable(piece.name) else value
            found.append(Binding(piece.name, known[piece.name], unset))
    return found


def with_variable(text: str, name: str, value: str) -> str:
    """`text` with `name` set: in place when it is there, else at the end. The rest is kept."""
    ending = "\r\n" if "\r\n" in text else "\n"
    pieces = parse(text)
    places = [at for at, piece in enumerate(pieces) if piece.name == name]
    if not places:
        gap = ending if text and not text.endswith(("\n", "\r")) else ""
        return f"{text}{gap}{name}={quote(value)}{ending}"
    for at in places:
        old = pieces[at].text
        export = "export " if old.lstrip().startswith("export") else ""
        end = old[len(old.rstrip("\r\n")) :] or ending
        pieces[at] = Piece(f"{export}{name}={quote(value)}{end}")
    return "".join(piece.text for at, piece in enumerate(pieces) if at not in places[:-1])


def without_variable(text: str, name: str) -> str:
    return "".join(piece.text for piece in parse(text) if piece.name != name)


def quote(value: str) -> str:
    """`value` so that `parse` and, but for a few odd values, a shell read it back."""
    if _PLAIN.fullmatch(value):
        return value
    if "'" not in value and "\\" not in value:
        return f"'{value}'"
    escaped = value.replace("\\", "\\\\")
    if "${" in value:  # between double quotes this would be a reference
        return "'" + escaped.replace("'", "\\'") + "'"
    return '"' + escaped.replace('"', '\\"').replace("\n", "\\n") + '"'


def _assignment(text: str, position: int) -> Piece:
    match = _BINDING.match(text, position)
    if match is None or not _SKIPPED.fullmatch(match["rest"]):
        # Not understood, for example an open quote: keep the line, take nothing from it.
        line = _OTHER_LINE.match(text, position)
        return Piece(line[0] if line else text[position:])
    name = match["quoted_name"] or match["name"]
    if match["single"] is not None:
        value = re.sub(r"\\([\\'])", r"\1", match["single"])
        return Piece(match[0], name, value, literal=True)
    if match["double"] is not None:
        return Piece(match[0], name, _ESCAPE.sub(_unescape, match["double"]))
    if match["plain"] is None:
        return Piece(match[0], name)
    return Piece(match[0], name, re.sub(r"(^|\s+)#.*", "", match["plain"]).rstrip())


def _unescape(match: re.Match[str]) -> str:
    return _ESCAPED.get(match[1], match[1])
