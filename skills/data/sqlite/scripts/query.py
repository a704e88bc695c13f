"""Look into an SQLite file and run SQL on it, read-only unless told otherwise.

Without SQL it lists tables with row counts, columns and indexes. With SQL it prints the answer as
a table, CSV or JSON lines. `?` in the SQL takes the values of --param in their order.
Exit code: 0 done, 1 the integrity check failed, 2 an error.
"""
# ruff: noqa: T201 - prints its answer

from __future__ import annotations

import argparse
import csv
import json
import os
import sqlite3
import sys
from pathlib import Path
from typing import Any, Iterable, Iterator  # noqa: UP035 - runs on older Pythons too
from urllib.parse import quote

HEADER = b"SQLite format 3\0"
WIDEST = 60


class Problem(Exception):
    """Something the user has to correct."""


def connect(path: Path, write: bool) -> sqlite3.Connection:
    if not path.is_file():
        raise Problem(f"{path} does not exist")
    with path.open("rb") as file:
        head = file.read(len(HEADER))
    if head and head != HEADER:
        raise Problem(f"{path} is no SQLite file (or it is encrypted)")
    mode = "rw" if write else "ro"
    address = f"file:{quote(str(path.resolve()))}?mode={mode}"
    database = sqlite3.connect(address, uri=True, timeout=10)
    database.text_factory = lambda data: data.decode("utf-8", "replace")
    return database


def name(identifier: str) -> str:
    """An identifier in quotes."""
    return '"' + identifier.replace('"', '""') + '"'


def overview(database: sqlite3.Connection) -> Iterator[str]:
    version = database.execute("PRAGMA user_version").fetchone()[0]
    journal = database.execute("PRAGMA journal_mode").fetchone()[0]
    yield f"SQLite {sqlite3.sqlite_version}, journal {journal}, user_version {version}"
    master = "SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name"
    for table, kind in database.execute(master).fetchall():
        if table.startswith("sqlite_"):
            continue
        try:
            count = database.execute(f"SELECT count(*) FROM {name(table)}").fetchone()[0]
        except sqlite3.Error as error:  # such as a module that is not installed here
            yield f"{kind} {table}: cannot be read: {error}"
            continue
        yield f"{kind} {table}: {count} rows"
        for _, column, type_, required, default, key in database.execute(
            f"PRAGMA table_info({name(table)})"
        ):
            facts = [type_ or "no type", "NOT NULL" if required else "", "KEY" if key else ""]
            facts.append(f"DEFAULT {default}" if default is not None else "")
            yield f"    {column}: {' '.join(fact for fact in facts if fact)}"
        for row in database.execute(f"PRAGMA foreign_key_list({name(table)})"):
            yield f"    {row[3]} -> {row[2]}({row[4] or 'key'})"
        for row in database.execute(f"PRAGMA index_list({name(table)})").fetchall():
            columns = [part[2] for part in database.execute(f"PRAGMA index_info({name(row[1])})")]
            shown = ", ".join(str(column) for column in columns)
            yield f"    index {row[1]}{' UNIQUE' if row[2] else ''} ({shown})"


def check(database: sqlite3.Connection) -> list[str]:
    found = [row[0] for row in database.execute("PRAGMA integrity_check").fetchall()]
    broken = [] if found == ["ok"] else found
    for row in database.execute("PRAGMA foreign_key_check").fetchall():
        broken.append(f"{row[0]} row {row[1]} refers to a missing row of {row[2]}")
    return broken


def plain(value: Any) -> Any:
    """A value that can be shown: binary data becomes a note of its size."""
    return f"<{len(value)} bytes>" if isinstance(value, bytes) else value


def show(names: list[str], rows: Iterable[tuple[Any, ...]], form: str) -> None:
    cells = [[plain(value) for value in row] for row in rows]
    if form == "json":
        for row in cells:
            print(json.dumps(dict(zip(names, row)), ensure_ascii=False))  # noqa: B905 - same length
    elif form == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(cells)
    else:
        texts = [["" if cell is None else str(cell) for cell in row] for row in cells]
        for line in table(names, texts):
            print(line)


def table(names: list[str], rows: list[list[str]]) -> Iterator[str]:
    shown = [[cell.replace("\n", " ")[:WIDEST] for cell in row] for row in [names, *rows]]
    widths = [max(len(row[i]) for row in shown) for i in range(len(names))]
    for number, row in enumerate(shown):
        yield "  ".join(cell.ljust(widths[i]) for i, cell in enumerate(row)).rstrip()
        if number == 0:
            yield "  ".join("-" * width for width in widths)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, help="the SQLite file")
    parser.add_argument("sql", nargs="?", help="one statement; without it: an overview")
    parser.add_argument(
        "--param", action="append", default=[], help="value for a ?; may be repeated"
    )
    parser.add_argument("--format", choices=["table", "csv", "json"], default="table")
    parser.add_argument("--limit", type=int, default=200, help="most rows to print (200; 0: all)")
    parser.add_argument("--plan", action="store_true", help="show how SQLite would run the SQL")
    parser.add_argument("--check", action="store_true", help="check the file for damage")
    parser.add_argument("--write", action="store_true", help="allow changes")
    return parser.parse_args()


def execute(database: sqlite3.Connection, options: argparse.Namespace) -> None:
    sql = f"EXPLAIN QUERY PLAN {options.sql}" if options.plan else options.sql
    cursor = database.execute(sql, options.param)
    if cursor.description is None:
        database.commit()
        print(f"{cursor.rowcount} row(s) changed" if cursor.rowcount >= 0 else "done")
        return
    names = [column[0] for column in cursor.description]
    rows = cursor.fetchmany(options.limit) if options.limit else cursor.fetchall()
    show(names, rows, options.format)
    if options.limit and cursor.fetchone() is not None:
        print(f"... more rows; stopped at {options.limit} (--limit)", file=sys.stderr)
    database.commit()


def run(options: argparse.Namespace) -> int:
    database = connect(options.file, options.write)
    try:
        if options.check:
            broken = check(database)
            print("\n".join(broken) or "ok")
            return 1 if broken else 0
        if options.sql:
            execute(database, options)
        else:
            print("\n".join(overview(database)))
        return 0
    finally:
        database.close()


def main() -> int:
    try:
        return run(arguments())
    except BrokenPipeError:
        raise
    except (Problem, sqlite3.Error, sqlite3.Warning, OSError) as error:
        hint = " (use --write to allow changes)" if "readonly" in str(error) else ""
        print(f"error: {error}{hint}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)
