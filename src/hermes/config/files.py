"""One YAML file as data, with the line of every key."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import yaml

from hermes.config.home import tilde, unusable
from hermes.config.schema import Parts, join_key
from hermes.core.errors import ConfigError

KEEPING = "the file was not changed; `hermes config edit` opens it"


DEEPEST = 100
OPENERS = "[{:-?"


class Mark(NamedTuple):
    """A place in a file, counted from 1."""

    line: int
    column: int


class Document:
    """The content of a YAML file that holds a block of keys (or nothing)."""

    def __init__(
        self,
        path: Path,
        data: dict[str, Any],
        node: yaml.MappingNode | None = None,
        duplicates: tuple[tuple[Parts, Mark], ...] = (),
    ) -> None:
        self.path = path
        self.data = data
        self.duplicates = duplicates  #: Keys that stand twice in one block; the last one counts.
        self._node = node

    def mark(self, parts: Parts) -> Mark | None:
        """Where the key stands, or None when it is not in the file."""
        node: yaml.Node | None = self._node
        mark = None
        for part in parts:
            if isinstance(node, yaml.MappingNode):
                entries = [entry for entry in node.value if entry[0].value == part]
                if not entries:
                    return None
                key, node = entries[-1]
                mark = _mark(key.start_mark)
            elif isinstance(node, yaml.SequenceNode) and part.isdigit():
                if int(part) >= len(node.value):
                    return None
                node = node.value[int(part)]
                mark = _mark(node.start_mark) if node else None
            else:
                return None
        return mark

    def where(self, parts: Parts) -> str:
        """`file:line:column` of the key, of what holds it, or the file alone."""
        for size in range(len(parts), 0, -1):
            mark = self.mark(parts[:size])
            if mark:
                return f"{tilde(self.path)}:{mark.line}:{mark.column}"
        return tilde(self.path)


def read_document(path: Path) -> Document:
    """Read `path`; a missing or empty file is an empty document. Raises ConfigError."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        return Document(path, {})
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"is not UTF-8 text (byte {error.start})",
            where=tilde(path),
            hint=f"save it as UTF-8; {KEEPING}",
        ) from error
    except OSError as error:
        raise unusable(path, error) from error
    return parse_document(path, text)


def parse_document(path: Path, text: str) -> Document:
    """The same for text that is, or will be, the content of `path`."""
    try:
        return _compose(path, text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{tilde(path)}:{mark.line + 1}:{mark.column + 1}" if mark else tilde(path)
        raise ConfigError(_explain(error, text), where=place, hint=KEEPING) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        column = error.position - text.rfind("\n", 0, error.position)
        character = f"U+{ord(text[error.position]):04X}"
        raise ConfigError(
            f"there is a character YAML does not allow ({character})",
            where=f"{tilde(path)}:{line}:{column}",
            hint=KEEPING,
        ) from error
    except RecursionError as error:
        raise ConfigError("is nested too deeply", where=tilde(path), hint=KEEPING) from error


def _check_depth(text: str) -> None:
    """Raise RecursionError for absurdly deep text, on which the C parser would crash.

    Each level needs one of the `OPENERS`, so that most files need no closer look.
    """
    if sum(map(text.count, OPENERS)) <= DEEPEST:
        return
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise RecursionError


def _compose(path: Path, text: str) -> Document:
    _check_depth(text)
    loader = yaml.CSafeLoader(text)
    try:
        node = loader.get_single_node()
        # Before construction, which writes merged blocks (`<<`) into the nodes.
        duplicates = tuple(_duplicates(node, ()))
        data = None if node is None else loader.construct_document(node)
    finally:
        loader.dispose()
    if data is None:
        return Document(path, {})
    if not isinstance(data, dict) or not isinstance(node, yaml.MappingNode):
        kind = "a list" if isinstance(data, list) else "a single value"
        raise ConfigError(
            f"expected keys and values, found {kind}",
            where=f"{tilde(path)}:1:1",
            hint=f"settings are written as `key: value`; {KEEPING}",
        )
    return Document(path, data, node, duplicates)


def _explain(error: yaml.MarkedYAMLError, text: str) -> str:
    mark = error.problem_mark
    lines = text.splitlines()
    if mark and mark.line < len(lines) and "\t" in lines[mark.line][: mark.column + 1]:
        return "tabs cannot be used for indentation in YAML; use spaces"
    problem = error.problem or "is not valid YAML"
    return f"{problem} ({error.context})" if error.context else problem


def _duplicates(node: yaml.Node | None, path: Parts) -> Iterator[tuple[Parts, Mark]]:
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            name = key.value if isinstance(key.value, str) else join_key(path)
            if name in seen:
                yield (*path, name), _mark(key.start_mark)
            seen.add(name)
            yield from _duplicates(value, (*path, name))
    elif isinstance(node, yaml.SequenceNode):
        for at, value in enumerate(node.value):
            yield from _duplicates(value, (*path, str(at)))


def _mark(mark: Any) -> Mark:
    return Mark(mark.line + 1, mark.column + 1)


# `${NAME}` in text. A name that is not set stays as written; a bare `$NAME` is never touched.
#
# A credential with such a name in it is missing: everybody knows the text that was left there.

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def is_reference(text: str) -> bool:
    """Whether it is a `${NAME}` and nothing else."""
    return _REFERENCE.fullmatch(text) is not None


def expand_text(text: str, variables: Mapping[str, str]) -> str:
    if "${" not in text:
        return text
    return _REFERENCE.sub(lambda match: variables.get(match[1], match[0]), text)


def expand(value: Any, variables: Mapping[str, str]) -> Any:
    """Every text inside `value` expanded; the value itself is not changed."""
    if isinstance(value, str):
        return expand_text(value, variables)
    if isinstance(value, Mapping):
        return {key: expand(held, variables) for key, held in value.items()}
    if isinstance(value, list):
        return [expand(held, variables) for held in value]
    return value


def unset_names(text: str) -> tuple[str, ...]:
    """The names that are left in text that was expanded: nobody set them."""
    return tuple(dict.fromkeys(_REFERENCE.findall(text))) if "${" in text else ()


def unset_in(value: Any, parts: Parts = ()) -> Iterator[tuple[Parts, tuple[str, ...]]]:
    """Where names are left inside `value`, which was expanded, and which."""
    if isinstance(value, str):
        if names := unset_names(value):
            yield parts, names
    elif isinstance(value, Mapping):
        for key, held in value.items():
            yield from unset_in(held, (*parts, str(key)))
    elif isinstance(value, list):
        for at, held in enumerate(value):
            yield from unset_in(held, (*parts, str(at)))


def told(names: tuple[str, ...]) -> str:
    """`${A} and ${B} are not set`."""
    written = " and ".join(f"${{{name}}}" for name in names)
    return f"{written} {'are' if names[1:] else 'is'} not set"


# Which names hold secrets, and showing a value without giving it away.

MARKERS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL", "PASSWD", "AUTH")
"""A variable whose name contains one of these is taken for a secret."""

PLAIN = frozenset(
    {
        "SSH_AUTH_SOCK",
        "XAUTHORITY",
        "GIT_AUTHOR_NAME",
        "GIT_AUTHOR_EMAIL",
        "GIT_AUTHOR_DATE",
        "KEYTIMEOUT",
        "PYTHON_KEYRING_BACKEND",
        "TERMINAL_SSH_KEY",
        "TOKENIZERS_PARALLELISM",
    }
)
"""Names that contain a marker but hold a path, a name or a number. Without the first ones
`git push`, `git commit` and graphical programs stop working in child processes."""

_SETTINGS = re.compile(r"(^|_)(api_key|key|token|secret|password|passwd|credential)$")
_NOT_SECRET = frozenset({"record_key", "ssh_key"})
_BLOCKS = frozenset({"env", "headers"})
"""Blocks of an MCP server in which every value may be a secret."""
_USERINFO = re.compile(r"(?<=://)([^/@\s:]*):([^/@\s]+)@")


def is_secret_variable(name: str) -> bool:
    upper = name.upper()
    return upper not in PLAIN and any(marker in upper for marker in MARKERS)


def is_secret_setting(parts: Parts) -> bool:
    last = parts[-1].lower()
    if last in _NOT_SECRET:
        return False
    in_block = len(parts) > 1 and parts[0] == "mcp_servers" and parts[-2] in _BLOCKS
    return in_block or bool(_SETTINGS.search(last)) or is_secret_variable_like(parts[-1])


def is_secret_variable_like(name: str) -> bool:
    """A key written as a variable, for example inside `skills.config` or `env`."""
    return name.isupper() and is_secret_variable(name)


def mask(value: str) -> str:
    """Enough to recognise a long key by, nothing of a short one."""
    if not value or is_reference(value):
        return value
    return f"{value[:4]}…{value[-4:]}" if len(value) >= 20 else "********"


def mask_settings(value: Any, secrets: frozenset[str] = frozenset(), parts: Parts = ()) -> Any:
    """Plain data of `value` with secret settings, known secrets and passwords in URLs masked."""
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
# Read as UTF-8 (a byte order mark is fine), else as latin-1. Understood: comments, blank lines,
# `export`, single and double quotes (also over several lines), `${NAME}`, any line ends.

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
    literal: bool = False  #: Single quotes: `${NAME}` stays as written.


class Binding(NamedTuple):
    """What a line gives a variable."""

    name: str
    value: str  #: Empty for a credential with something unset in it.
    unset: tuple[str, ...] = ()  #: Names it refers to and that are not set.


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
        return Piece(
            match[0],
            name,
            _ESCAPE.sub(lambda each: _ESCAPED.get(each[1], each[1]), match["double"]),
        )
    if match["plain"] is None:
        return Piece(match[0], name)
    return Piece(match[0], name, re.sub(r"(^|\s+)#.*", "", match["plain"]).rstrip())
