"""What this program keeps beyond schema version 6.

The documented tables keep their version, so a program that knows only version 6 still opens the
file. Additions have a counter of their own and only ever add: a column, a table, an index.
"""

from hermes.store import tables
from hermes.store.sqlite import search_schema
from hermes.store.sqlite.migration import Migration

TABLE = "CREATE TABLE IF NOT EXISTS additions_version (version INTEGER NOT NULL)"

_PROJECTIONS = """
CREATE TABLE IF NOT EXISTS projections (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id TEXT NOT NULL REFERENCES sessions(id),
    after_id INTEGER NOT NULL,
    reason TEXT NOT NULL,
    basis TEXT NOT NULL,
    created_at REAL NOT NULL
)
"""

# No reference to `sessions`: what was spent stays known when a conversation is deleted.
_MODEL_CALLS = """
CREATE TABLE IF NOT EXISTS model_calls (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id TEXT NOT NULL,
    timestamp REAL NOT NULL,
    task TEXT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    tool TEXT NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cache_read_tokens INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    reasoning_tokens INTEGER NOT NULL,
    cost_usd REAL,
    seconds REAL NOT NULL
)
"""


def _creation(table: tables.Table) -> str:
    types = {tables.KEY: "INTEGER PRIMARY KEY AUTOINCREMENT"}
    columns = [f"{name} {types.get(kind, kind)}" for name, kind in table.columns]
    if table.key:
        columns.append(f"PRIMARY KEY ({', '.join(table.key)})")
    lines = ",\n    ".join(columns)
    return f"CREATE TABLE IF NOT EXISTS {table.name} (\n    {lines}\n)"


ADDITIONS = (
    Migration(
        1,
        "sessions",
        (("archived_at", "REAL"),),
        (
            _PROJECTIONS,
            "CREATE INDEX IF NOT EXISTS idx_projections_session ON projections(session_id)",
            _MODEL_CALLS,
            "CREATE INDEX IF NOT EXISTS idx_model_calls_session ON model_calls(session_id)",
            *search_schema.STATEMENTS,
            search_schema.REBUILD,
        ),
    ),
    Migration(
        2,
        "model_calls",
        (),
        ("CREATE INDEX IF NOT EXISTS idx_model_calls_time ON model_calls(timestamp)",),
    ),
    Migration(
        3,
        statements=(
            *(_creation(table) for table in tables.TABLES),
            *(index.statement for index in tables.INDEXES),
        ),
    ),
)
VERSION = ADDITIONS[-1].version

OBJECTS = (
    frozenset(
        {
            "additions_version",
            "projections",
            "idx_projections_session",
            "model_calls",
            "idx_model_calls_session",
            "idx_model_calls_time",
        }
    )
    | search_schema.OBJECTS
    | {one.name for one in (*tables.TABLES, *tables.INDEXES)}
)
