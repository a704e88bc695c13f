"""The statements that make a store, read from files of SQL. `schema.sql` serves both databases."""

import re
from functools import cache
from pathlib import Path

from hermes.util.lazy import late_pattern

_SECTION = late_pattern(r"^-- Section: (.+)\n", re.MULTILINE)
_COMMENT = late_pattern(r"^--.*\n", re.MULTILINE)
_END = late_pattern(r";\n(?!END|    )")  #: Inside a trigger, an indented line or END follows.
_CREATED = late_pattern(r"CREATE (?:\w+ )?(TABLE|INDEX|VIEW|TRIGGER) IF NOT EXISTS (\w+)")
_COLUMN = late_pattern(r"^    ([a-z]\w*) (.+?),?$", re.MULTILINE)


def read_statements(file: Path) -> dict[str, list[str]]:
    """Return the statements of each section of a file, in order."""
    _, *parts = _SECTION.split(file.read_text("utf-8"))
    texts = zip(parts[::2], parts[1::2], strict=True)
    return {
        name: [each.strip() for each in _END.split(_COMMENT.sub("", text)) if each.strip()]
        for name, text in texts
    }


@cache
def shared_statements() -> dict[str, list[str]]:
    return read_statements(Path(__file__).with_name("schema.sql"))


def created(statement: str, kind: str = "") -> str:
    """Return the name of what a statement creates; "" if it does not create a `kind`."""
    found = _CREATED.match(statement)
    return found[2] if found and kind in ("", found[1]) else ""


def columns_of(statement: str) -> list[tuple[str, str]]:
    """Return the name and type of each column that CREATE TABLE declares."""
    return _COLUMN.findall(statement)


def data_tables() -> list[str]:
    """Return the names of all tables except those that hold a version."""
    names = [created(one, "TABLE") for some in shared_statements().values() for one in some]
    return [name for name in names if name and not name.endswith("_version")]
