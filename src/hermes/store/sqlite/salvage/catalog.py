"""Where tables begin and what columns they have, from the table of tables."""

import re
from collections.abc import Iterable, Iterator

import msgspec

from hermes.store.sqlite.salvage.btree import cells, is_leaf, leaves
from hermes.store.sqlite.salvage.pages import Pages

_CONSTRAINT = re.compile(r"(constraint|primary|unique|check|foreign)\b", re.IGNORECASE)
_NAME = re.compile(r'"((?:[^"]|"")+)"|`([^`]+)`|\[([^]]+)\]|(\w+)')
_TOKEN = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/|.", re.DOTALL)


class Table(msgspec.Struct, frozen=True):
    root: int
    columns: tuple[str, ...]


def read_catalog(pages: Pages, free: set[int], wanted: Iterable[str]) -> dict[str, Table]:
    """The tables of the schema by name. Where the first page does not lead to all the `wanted`
    ones, the pages it lost are looked for."""
    found = dict(_tables(pages, leaves(pages, 1)))
    if not found.keys() >= set(wanted):
        strays = (n for n in range(2, pages.count + 1) if n not in free and is_leaf(pages, n))
        found = dict(_tables(pages, strays)) | found
    return found


def column_names(statement: str) -> tuple[str, ...]:
    """The columns of a CREATE TABLE statement, in order."""
    parts, depth = [""], 0
    for token in _TOKEN.findall(statement.partition("(")[2]):
        depth += (token == "(") - (token == ")")
        if depth < 0:
            break
        if token == "," and depth == 0:
            parts.append("")
        elif not token.startswith(("--", "/*")):
            parts[-1] += token
    defined = [part.strip() for part in parts]
    matches = [_NAME.match(part) for part in defined if not _CONSTRAINT.match(part)]
    return tuple(next(filter(None, match.groups())) for match in matches if match)


def _tables(pages: Pages, numbers: Iterable[int]) -> Iterator[tuple[str, Table]]:
    for number in numbers:
        for cell in cells(pages, number):
            match cell and cell.record.values:
                case ("table", str(name), str(), int(root), str(statement)):
                    yield name, Table(root, column_names(statement))
                case _:
                    continue
