"""Change config.yaml and .env, keeping comments, order, permissions and symbolic links.

Only this module imports ruamel.yaml, and only commands that change files import this module. A file
that cannot be parsed is never written. After each change the new text is parsed again with the
parser of the settings and compared with the intended value.
"""

import io
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_origin

import yaml
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.error import YAMLError
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from hermes.config import environment
from hermes.config.document import KEEPING, parse_document, read_document
from hermes.config.environment import Parts, editor, search_path
from hermes.config.home import Home, change_lock, ensure_hermes_home, tilde, unusable
from hermes.config.loader import is_known_variable, is_variable_name, modernise
from hermes.config.own_files import write_own
from hermes.config.schema import (
    MISSING,
    Converter,
    Mismatch,
    bare,
    child,
    find,
    join_key,
    locate,
    members,
    split_key,
    suggestion,
)
from hermes.core.errors import ConfigError, UsageError
from hermes.util.files import write_bytes
from hermes.util.yaml_loader import load_yaml

Change = Callable[[Any], Any]

LOCK_TIMEOUT = 10


def set_value(home: Home, parts: Parts, value: Any) -> None:
    """Write one key to config.yaml."""
    _change(home, lambda data: _put(data, parts, _quoted(value)))


def add_value(home: Home, parts: Parts, item: Any) -> None:
    """Append `item` to a list in config.yaml unless it is there; concurrent additions are kept."""

    def add(data: Any) -> None:
        held = find(data, parts)
        if not isinstance(held, list):
            _put(data, parts, [_quoted(item)])
        elif item not in held:
            held.append(_quoted(item))

    _change(home, add)


def unset_value(home: Home, parts: Parts) -> bool:
    """Remove one key from config.yaml; return False if it was not there."""
    held: Any = read_document(home.config_file).data
    for part in parts:
        held = child(held, part)  # that of MISSING is MISSING
    if held is MISSING:
        return False
    _change(home, lambda data: _remove(data, parts))
    return True


def migrate(home: Home, backup: Path) -> list[str]:
    """Rewrite older forms and return a description of each. The old file is kept as `backup`."""

    def change(data: Any) -> None:
        for move in modernise(data):
            if move.old == move.new:  # only the value changed, and `off` needs quotes
                _put(data, move.new, _quoted(find(data, move.new)))

    moves = modernise(deepcopy(read_document(home.config_file).data))
    if moves:
        try:
            write_bytes(backup, home.config_file.read_bytes(), mode=0o600)
        except OSError as error:
            raise unusable(backup, error) from error
        _change(home, change)
    return [move.text for move in moves]


def set_variable(home: Home, name: str, value: str) -> None:
    """Write one variable to .env, which only its owner may read."""
    _change_variables(home, lambda text: environment.with_variable(text, name, value))


def unset_variable(home: Home, name: str) -> bool:
    """Remove one variable from .env; return False if it was not there."""
    before = environment.read_dotenv_text(home.env_file)
    if environment.without_variable(before, name) == before:
        return False
    _change_variables(home, lambda text: environment.without_variable(text, name))
    return True


def _change_variables(home: Home, change: Callable[[str], str]) -> None:
    with _locked(home):
        text = change(environment.read_dotenv_text(home.env_file))
        _write(home, home.env_file, text)


def _change(home: Home, change: Change) -> None:
    path = home.config_file
    with _locked(home):
        before = read_document(path)
        expected = deepcopy(before.data)
        change(expected)
        text = path.read_text(encoding="utf-8-sig") if path.exists() else ""
        new = _edited(path, text, change)
        after = parse_document(path, new)
        if after.data != expected:
            raise ConfigError(
                "this file cannot be changed without altering other values in it",
                where=tilde(path),
                hint=f"make the change by hand; {KEEPING}",
            )
        _write(home, path, new)


def _edited(path: Path, text: str, change: Change) -> str:
    editor = YAML(typ="rt")
    editor.preserve_quotes = True
    editor.width = 4096
    editor.allow_unicode = True
    mapping, dash = _indentation(text)
    editor.indent(mapping=mapping, sequence=dash + 2, offset=dash)
    try:
        data = editor.load(text)
    except YAMLError as error:
        reason = str(error).strip().splitlines()[0]
        raise ConfigError(f"cannot be edited: {reason}", where=tilde(path), hint=KEEPING) from error
    if data is None:
        # The file has only comments, which ruamel would drop, so they are put back.
        data = CommentedMap()
        change(data)
        gap = "\n" if text and not text.endswith("\n") else ""
        return f"{text}{gap}{_dump(editor, data)}"
    change(data)
    return _dump(editor, data)


def _dump(editor: YAML, data: Any) -> str:
    out = io.StringIO()
    editor.dump(data, out)
    return out.getvalue()


def _quoted(value: Any) -> Any:
    """Return `value` with quotes around text that YAML 1.1 would read as another type.

    Settings are read as YAML 1.1; ruamel writes YAML 1.2, where `off` is text.
    """
    if isinstance(value, Mapping):
        return {_quoted(key): _quoted(held) for key, held in value.items()}
    if isinstance(value, list | tuple):
        return [_quoted(held) for held in value]
    if isinstance(value, str) and _is_read_as_other(value, str):
        return DoubleQuotedScalarString(value)
    return value


def _is_read_as_other(text: str, *kinds: type) -> bool:
    """Return whether YAML reads `text` as another type than `kinds`, or not at all."""
    try:
        return not isinstance(load_yaml(text), kinds)
    except yaml.YAMLError:
        return True


def _indentation(text: str) -> tuple[int, int]:
    """Return the indent of blocks, and of list dashes, that this file uses."""
    mapping, dash = 0, -1
    above = ""
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        deeper = (len(line) - len(line.lstrip())) - (len(above) - len(above.lstrip()))
        if above.split(" #")[0].rstrip().endswith(":"):
            if line.lstrip().startswith("- "):
                dash = deeper if dash < 0 else dash
            elif deeper > 0:
                mapping = mapping or deeper
        above = line
    return mapping or 2, max(dash, 0)


def _put(data: Any, parts: Parts, value: Any) -> None:
    holder = data
    for at, part in enumerate(parts[:-1]):
        inner = child(holder, part)
        if isinstance(inner, str) and parts[: at + 1] == ("model",):
            inner = holder[part] = {"default": inner}
        elif not isinstance(inner, MutableMapping | list):
            if isinstance(holder, list):
                raise UsageError(f"{join_key(parts[: at + 1])} does not exist")
            inner = holder[_real_key(holder, part)] = {}
        holder = inner
    if not isinstance(holder, list):
        holder[_real_key(holder, parts[-1])] = value
    elif not parts[-1].isdigit() or int(parts[-1]) >= len(holder):
        raise UsageError(f"{join_key(parts)} does not exist: the list has {len(holder)} entries")
    else:
        holder[int(parts[-1])] = value


def _remove(data: Any, parts: Parts) -> None:
    """Remove the key, and blocks that are empty without it."""
    holder = data
    for part in parts[:-1]:
        holder = child(holder, part)
    del holder[int(parts[-1]) if isinstance(holder, list) else _real_key(holder, parts[-1])]
    if not holder and len(parts) > 1:
        _remove(data, parts[:-1])


def _real_key(holder: MutableMapping[Any, Any], name: str) -> Any:
    """Return the key as it is in the file: YAML reads an id as a number."""
    return next((key for key in holder if str(key) == name), _quoted(name))


def _write(home: Home, path: Path, text: str) -> None:
    """Replace a file of settings, which may contain secrets: only its owner may read it."""
    try:
        write_own(home.root, path, text.encode(), mode=0o600)
    except OSError as error:
        raise unusable(path, error) from error


@contextmanager
def _locked(home: Home) -> Iterator[None]:
    """Allow one writer at a time, so that concurrent changes are both kept."""
    root = ensure_hermes_home(home)
    with change_lock(root / ".config.lock", LOCK_TIMEOUT, f"the settings in {home.display()}"):
        yield


# The meaning of `hermes config set KEY VALUE`: which file, which key, which value.


class Assignment(NamedTuple):
    """A change: a variable of .env, or a key of config.yaml."""

    variable: str  #: The variable, or empty.
    parts: Parts  #: The key, or empty.
    value: Any


def variable_named(key: str) -> str:
    """Return the variable that `key` names, or "" for a key of config.yaml.

    Variables are in capitals; `openai_api_key` is accepted too.
    """
    if is_variable_name(key):
        return key
    upper = key.upper()
    if is_variable_name(upper) and is_known_variable(upper) and locate((key,)) is None:
        return upper
    return ""


def assign(key: str, text: str, *, force: bool = False) -> Assignment:
    """Determine what setting `key` to `text` means. Raises `UsageError` for invalid values.

    `force` allows unknown keys and, where plugins add words, unknown words.
    """
    variable = variable_named(key)
    if variable:
        return Assignment(variable, (), text)
    parts = split_key(key)
    place = locate(parts)
    if place is not None:
        return Assignment(
            "", place.parts, _value(join_key(place.parts), place.type, text, force=force)
        )
    if force:
        return Assignment("", parts, _parsed(key, text))
    guess = suggestion(key)
    raise UsageError(
        f"there is no setting {key}",
        hint=f"did you mean {guess}?" if guess else "--force writes it all the same",
    )


def _value(key: str, kind: Any, text: str, *, force: bool) -> Any:
    value = text if _is_text(kind, text) else _parsed(key, text)
    if value is None:
        raise UsageError(
            f"{key}: there is no value", hint=f"`hermes config unset {key}` removes it"
        )
    converter = Converter(frozenset({text.strip()} if force else ()))
    try:
        converted = converter.value(kind, value, split_key(key))
    except Mismatch as mismatch:
        raise ConfigError(f"{key}: {mismatch}", hint="nothing was changed") from mismatch
    if converter.problems:
        first = converter.problems[0]
        raise ConfigError(f"{first.key}: {first.message}", hint="nothing was changed")
    # A list or block is written as given, without all its defaults.
    if isinstance(converted, float) and converted.is_integer():
        return int(converted)
    if isinstance(converted, str | int | float):
        return converted
    if isinstance(value, str):  # `a,b` for a list
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def _is_text(kind: Any, text: str) -> bool:
    """Return whether `text` is used verbatim: the key takes text and YAML sees another type."""
    kinds = [bare(member) for member in members(kind)]
    if not any(member is str or get_origin(member) is Literal for member in kinds):
        return False
    if any(member is bool or get_origin(member) in (tuple, dict) for member in kinds):
        return False
    return _is_read_as_other(text, str, dict, list)


def _parsed(key: str, text: str) -> Any:
    try:
        return load_yaml(text)
    except yaml.YAMLError as error:
        raise UsageError(
            f"{key}: the value is not valid YAML", hint="put it in quotes, inside and outside"
        ) from error


# The user's editor.

FALLBACKS = ("nano", "vim", "vi")


def editor_command(*, terminal: bool = True) -> list[str]:
    """Return the user's editor and its arguments. Without a terminal, only a configured editor
    is used. Raises `UsageError`."""
    path = search_path()
    try:
        chosen = shlex.split(editor() or "")
    except ValueError as error:
        raise UsageError(f"EDITOR cannot be read: {error}", hint="set EDITOR") from error
    if chosen:
        if shutil.which(chosen[0], path=path) is None:
            raise UsageError(f"cannot find the editor {chosen[0]!r}", hint="set EDITOR")
        return chosen
    found = [each for each in FALLBACKS if shutil.which(each, path=path)]
    if not terminal or not found:
        raise UsageError("there is no editor to use", hint="set EDITOR")
    return found[:1]
