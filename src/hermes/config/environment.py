"""Variables: the environment of the process, the `.env` file of a home, `${NAME}` in settings, and
names that hold secrets.

Only this module reads the environment. Loaded at every start, so it imports neither YAML nor the
settings.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from hermes.config.home import current_home, unusable
from hermes.util.lazy import late_pattern

Parts = tuple[str, ...]
"""The parts of a dotted key."""

# `${NAME}` in text. A name that is not set stays as written; a bare `$NAME` is never replaced.
#
# A credential with an unset name counts as missing, because the remaining text is not a secret.

_REFERENCE = late_pattern(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def is_reference(text: str) -> bool:
    """Return whether the text is exactly one `${NAME}`."""
    return _REFERENCE.fullmatch(text) is not None


def expand_text(text: str, variables: Mapping[str, str]) -> str:
    if "${" not in text:
        return text
    return _REFERENCE.sub(lambda match: variables.get(match[1], match[0]), text)


def expand(value: Any, variables: Mapping[str, str]) -> Any:
    """Return a copy of `value` with every text expanded."""
    if isinstance(value, str):
        return expand_text(value, variables)
    if isinstance(value, Mapping):
        return {key: expand(held, variables) for key, held in value.items()}
    if isinstance(value, list):
        return [expand(held, variables) for held in value]
    return value


def unset_names(text: str) -> tuple[str, ...]:
    """Return the names that are left in expanded text because they are not set."""
    return tuple(dict.fromkeys(_REFERENCE.findall(text))) if "${" in text else ()


def unset_in(value: Any, parts: Parts = ()) -> Iterator[tuple[Parts, tuple[str, ...]]]:
    """Yield the keys inside the expanded `value` with unset names, and the names."""
    if isinstance(value, str):
        if names := unset_names(value):
            yield parts, names
    elif isinstance(value, Mapping):
        for key, held in value.items():
            yield from unset_in(held, (*parts, str(key)))
    elif isinstance(value, list):
        for at, held in enumerate(value):
            yield from unset_in(held, (*parts, str(at)))


def describe_unset(names: tuple[str, ...]) -> str:
    """Return `${A} and ${B} are not set`."""
    written = " and ".join(f"${{{name}}}" for name in names)
    return f"{written} {'are' if names[1:] else 'is'} not set"


# Names of secrets, and masking of values.

MARKERS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL", "PASSWD", "AUTH")
"""A variable whose name contains one of these counts as a secret."""

PLAIN = frozenset(
    [
        "SSH_AUTH_SOCK",
        "XAUTHORITY",
        "GIT_AUTHOR_NAME",
        "GIT_AUTHOR_EMAIL",
        "GIT_AUTHOR_DATE",
        "KEYTIMEOUT",
        "PYTHON_KEYRING_BACKEND",
        "TERMINAL_SSH_KEY",
        "TOKENIZERS_PARALLELISM",
    ]
)
"""Names that contain a marker but hold a path, a name or a number. Without the first ones `git
push`, `git commit` and graphical programs do not work in child processes."""

SHORTEST_SECRET = 6
"""Shorter values are not redacted: they occur in harmless words, so that answers, logs and tool
results would become unreadable."""

_SETTINGS = late_pattern(r"(^|_)(api_key|key|token|secret|password|passwd|credential)$")
_NOT_SECRET = frozenset({"record_key", "ssh_key"})
_BLOCKS = frozenset({"env", "headers"})
"""Blocks of an MCP server in which every value may be a secret."""
_USERINFO = late_pattern(r"(?<=://)([^/@\s:]*):([^/@\s]+)@")


def is_secret_variable(name: str) -> bool:
    upper = name.upper()
    return upper not in PLAIN and any(marker in upper for marker in MARKERS)


def is_secret_setting(parts: Parts) -> bool:
    last = parts[-1].lower()
    if last in _NOT_SECRET:
        return False
    in_block = len(parts) > 1 and parts[0] == "mcp_servers" and parts[-2] in _BLOCKS
    # A key in capitals is a variable, as in `skills.config` or `env`.
    is_variable = parts[-1].isupper() and is_secret_variable(parts[-1])
    return in_block or is_variable or bool(_SETTINGS.search(last))


def is_short_secret(parts: Parts, value: str) -> bool:
    """Return whether a setting or variable is a secret that is too short to be redacted."""
    is_short = 0 < len(value) < SHORTEST_SECRET and not is_reference(value)
    return is_short and is_secret_setting((*parts[:-1], parts[-1].lower()))


def mask(value: str) -> str:
    """Return enough of a long key to recognise it, and nothing of a short one."""
    if not value or is_reference(value):
        return value
    return f"{value[:4]}…{value[-4:]}" if len(value) >= 20 else "********"


def mask_settings(value: Any, secrets: frozenset[str] = frozenset(), parts: Parts = ()) -> Any:
    """Return `value` as plain data with secret settings, known secrets and URL passwords masked."""
    if isinstance(value, msgspec.Struct):
        value = msgspec.to_builtins(value)
    if isinstance(value, Mapping):
        return {
            str(key): mask_settings(held, secrets, (*parts, str(key)))
            for key, held in value.items()
        }
    if isinstance(value, list | tuple):
        return [mask_settings(held, secrets, (*parts, str(at))) for at, held in enumerate(value)]
    if not isinstance(value, str):
        return value
    if value in secrets or (parts and is_secret_setting(parts)):
        return mask(value)
    return _USERINFO.sub(r"\1:********@", value)


# The `.env` file: variables and secrets of one home.
#
# Read as UTF-8 (a byte order mark is allowed), else as latin-1. Supports comments, blank lines,
# `export`, single and double quotes (also over several lines), `${NAME}`, any line ends.

_BINDING = late_pattern(
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
_OTHER_LINE = late_pattern(r"[^\r\n]*(?:\r\n|\n|\r|$)")
_SKIPPED = late_pattern(r"[^\S\r\n]*(?:\#[^\r\n]*)?(?:\r\n|\n|\r|$)")
_ESCAPE = late_pattern(r"""\\([\\'"abfnrtv])""")
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_PLAIN = late_pattern(r"[A-Za-z0-9_@%+:,./^=-]+")


class Piece(NamedTuple):
    """A section of the file: an assignment, or text to keep unchanged."""

    text: str
    name: str = ""
    value: str | None = None
    literal: bool = False  #: Single quotes: `${NAME}` stays as written.


class Binding(NamedTuple):
    """The value that a line assigns."""

    name: str
    value: str  #: Empty for a credential with something unset in it.
    unset: tuple[str, ...] = ()  #: Names it refers to and that are not set.


def read_dotenv(path: Path, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables of the file; none if it does not exist. Raises ConfigError."""
    return dotenv_values(parse_dotenv(read_dotenv_text(path)), environ or {})


def read_dotenv_text(path: Path) -> str:
    """Return the text of the file; "" if it does not exist."""
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


def parse_dotenv(text: str) -> list[Piece]:
    pieces: list[Piece] = []
    position = 0
    while position < len(text):
        match = _SKIPPED.match(text, position)
        piece = Piece(match[0]) if match else _assignment(text, position)
        pieces.append(piece)
        position += len(piece.text)
    return pieces


def dotenv_values(pieces: list[Piece], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables; later lines take precedence."""
    return {each.name: each.value for each in bindings(pieces, environ)}


def bindings(pieces: list[Piece], environ: Mapping[str, str]) -> list[Binding]:
    """Return the bindings in order; `${NAME}` uses earlier lines, then the environment."""
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
    """Return `text` with `name` set, in place or at the end; the rest is kept."""
    ending = "\r\n" if "\r\n" in text else "\n"
    pieces = parse_dotenv(text)
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
    return "".join(piece.text for piece in parse_dotenv(text) if piece.name != name)


def quote(value: str) -> str:
    """Quote `value` for .env, so that also a shell reads it back, except for a few odd values."""
    if _PLAIN.fullmatch(value):
        return value
    if "'" not in value and "\\" not in value:
        return f"'{value}'"
    escaped = value.replace("\\", "\\\\")
    if "${" in value:  # inside double quotes this would be a reference
        return "'" + escaped.replace("'", "\\'") + "'"
    return '"' + escaped.replace('"', '\\"').replace("\n", "\\n") + '"'


def _assignment(text: str, position: int) -> Piece:
    match = _BINDING.match(text, position)
    if match is None or not _SKIPPED.fullmatch(match["rest"]):
        # Invalid, for example an open quote: keep the line and ignore it.
        line = _OTHER_LINE.match(text, position)
        return Piece(line[0] if line else text[position:])
    name = match["quoted_name"] or match["name"]
    if match["single"] is not None:
        value = re.sub(r"\\([\\'])", r"\1", match["single"])
        return Piece(match[0], name, value, literal=True)
    if match["double"] is not None:
        value = _ESCAPE.sub(lambda each: _ESCAPED.get(each[1], each[1]), match["double"])
        return Piece(match[0], name, value)
    if match["plain"] is None:
        return Piece(match[0], name)
    return Piece(match[0], name, re.sub(r"(^|\s+)#.*", "", match["plain"]).rstrip())


_FALSE = frozenset({"", "0", "false", "no", "off", "n"})


def variables() -> Mapping[str, str]:
    """Return all variables, as they are now."""
    return os.environ


def variable(name: str) -> str | None:
    """Return a variable of the process (not of .env). Empty values, and credentials with an
    unset `${NAME}`, count as not set."""
    value = os.environ.get(name)
    return None if not value or (is_secret_variable(name) and unset_names(value)) else value


def flag(name: str) -> bool:
    """Return whether a variable such as HERMES_QUIET is on."""
    return os.environ.get(name, "").strip().lower() not in _FALSE


def no_color() -> bool:
    """Return whether colours are off: NO_COLOR is set, or the terminal has none."""
    return bool(os.environ.get("NO_COLOR")) or term_is_dumb()


def term_is_dumb() -> bool:
    """Return whether the terminal cannot move its cursor."""
    return os.environ.get("TERM", "").lower() in ("dumb", "unknown")


def editor() -> str | None:
    """Return the command of the user's editor, or None."""
    return variable("VISUAL") or variable("EDITOR")


def export_variable(name: str, value: str) -> None:
    """Set a variable of .env for code in this process that reads the environment itself, such as
    plugins. Child processes do not get it: see `child_environment`."""
    os.environ[name] = value


def search_path() -> str:
    return os.environ.get("PATH", os.defpath)


def child_environment(
    passthrough: Iterable[str] = (), saved: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the environment for a process that runs commands of the agent.

    It excludes variables with secret-looking names (see `MARKERS`) and all variables of
    .env. Names in `passthrough` are included, with the saved value if there is one. Variables with
    only the path of a socket or a file, such as SSH_AUTH_SOCK, are included: they are not secrets,
    and git over SSH needs them.

    `saved` are the variables of .env; by default the file of the current home is read.
    """
    if saved is None:
        saved = read_dotenv(current_home().env_file, os.environ)
    child = {
        name: value
        for name, value in os.environ.items()
        if name not in saved and not is_secret_variable(name)
    }
    for name in passthrough:
        value = saved.get(name) or os.environ.get(name)
        if value is not None:
            child[name] = value
    return child
