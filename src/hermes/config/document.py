"""YAML files with the line of every key, for error messages."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from hermes.config.environment import Parts
from hermes.config.home import tilde, unusable
from hermes.config.schema import join_key
from hermes.core.errors import ConfigError
from hermes.util.yaml_loader import check_limits

KEEPING = "the file was not changed; `hermes config edit` opens it"


class Mark(NamedTuple):
    """A position in a file, counted from 1."""

    line: int
    column: int


class YamlDocument:
    """The content of a YAML file with a mapping at its top, or empty."""

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
        """Return the position of the key, or None if it is not in the file."""
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
        """Return `file:line:column` of the key or of its nearest block, or only the file."""
        for size in range(len(parts), 0, -1):
            mark = self.mark(parts[:size])
            if mark:
                return f"{tilde(self.path)}:{mark.line}:{mark.column}"
        return tilde(self.path)


def read_document(path: Path) -> YamlDocument:
    """Read `path`; a missing or empty file is an empty document. Raises ConfigError."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        return YamlDocument(path, {})
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"is not UTF-8 text (byte {error.start})",
            where=tilde(path),
            hint=f"save it as UTF-8; {KEEPING}",
        ) from error
    except OSError as error:
        raise unusable(path, error) from error
    return parse_document(path, text)


def parse_document(path: Path, text: str) -> YamlDocument:
    """Parse the present or future content of `path`. Raises ConfigError."""
    try:
        return _compose(path, text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{tilde(path)}:{mark.line + 1}:{mark.column + 1}" if mark else tilde(path)
        problem = error.problem or "is not valid YAML"
        problem = f"{problem} ({error.context})" if error.context else problem
        lines = text.splitlines()[mark.line : mark.line + 1] if mark else []
        if mark and lines and "\t" in lines[0][: mark.column + 1]:
            problem = "tabs cannot be used for indentation in YAML; use spaces"
        raise ConfigError(problem, where=place, hint=KEEPING) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        column = error.position - text.rfind("\n", 0, error.position)
        character = f"U+{ord(text[error.position]):04X}"
        raise ConfigError(
            f"there is a character YAML does not allow ({character})",
            where=f"{tilde(path)}:{line}:{column}",
            hint=KEEPING,
        ) from error


def _compose(path: Path, text: str) -> YamlDocument:
    check_limits(text)
    loader = yaml.CSafeLoader(text)
    try:
        node = loader.get_single_node()
        # Before construction, which writes merged blocks (`<<`) into the nodes.
        duplicates = tuple(_duplicates(node, ()))
        data = None if node is None else loader.construct_document(node)
    finally:
        loader.dispose()
    if data is None:
        return YamlDocument(path, {})
    if not isinstance(data, dict) or not isinstance(node, yaml.MappingNode):
        kind = "a list" if isinstance(data, list) else "a single value"
        raise ConfigError(
            f"expected keys and values, found {kind}",
            where=f"{tilde(path)}:1:1",
            hint=f"settings are written as `key: value`; {KEEPING}",
        )
    return YamlDocument(path, data, node, duplicates)


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
