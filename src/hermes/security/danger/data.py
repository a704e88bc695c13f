"""Databases: tables, rows and whole databases that would be lost."""

import re
from collections.abc import Iterator

from hermes.security.danger.rule import Rule, always, says, verb
from hermes.security.danger.scene import Scene, place
from hermes.security.shell.guesses import HOLDS_TEXT
from hermes.security.shell.model import Invocation
from hermes.security.shell.output import given_to

_COMMENTS = re.compile(r"/\*.*?\*/|--[^\n]*|#[^\n]*(?=\n)", re.DOTALL)
_STRINGS = re.compile(r"'(?:[^'\\]|''|\\.)*'")
_INDIRECT = re.compile(r"\b(execute|prepare|exec|do\s*\$\$|\\gexec)", re.IGNORECASE)
_OBJECTS = (
    "table|database|schema|view|user|role|index|collection|keyspace|column|tablespace|owned|function"
    "|procedure|trigger|sequence|type|domain|extension|partition|measurement|policy|publication"
    "|server|event|constraint|login|snapshot|stream|stage|warehouse|bucket|series|shard"
)
_LOST = re.compile(
    rf"\bdrop\s+((temporary|external|materialized|foreign)\s+)?({_OBJECTS})\b"
    r"|(^|[;\s\"'(])truncate\s+(table\s+)?[\w\"`\[]|\bpurge\s+(table|recyclebin|binary)"
    r"|\breset\s+(master|slave|replica)|\bshutdown\b\s*;?\s*$|\balter\s+table\b[^;]*\bdrop\b"
    r"|\balter\s+user\b|\bset\s+password\b|\balter\s+table\b[^;]*\bdelete\s+where\s+1\b",
    re.IGNORECASE,
)
_NAME = r"[\w.\"`\[\]]+"
_ROWS = re.compile(
    rf"\b(delete\s+(\w+\s+)?from\s+{_NAME}|update\s+{_NAME}\s+set\b)(.*)", re.IGNORECASE | re.DOTALL
)
_WHERE = re.compile(r"\bwhere\b\s*(.*)", re.IGNORECASE | re.DOTALL)
_ALWAYS_TRUE = re.compile(
    r"\(?\s*(1|true|'?(\w+)'?\s*=\s*'?\2'?|1\s*(=|<>|>|<)\s*\d|\w+\s+is\s+not\s+null"
    r"|\w+\s*>=?\s*0|\w+\s+like\s+''|''\s*=\s*'')\s*\)?\s*;?\s*",
    re.IGNORECASE,
)
_NOT_ALONE = re.compile(r"\bon\s+(conflict|duplicate)\b|\bfor\s+update\b", re.IGNORECASE)
_DOCUMENTS = re.compile(
    r"dropDatabase|\.drop\s*\(|dropCollection|dropIndexes|dropUser|dropAllUsers|shutdownServer"
    r"|(deleteMany|\.remove)\s*\(\s*(\{\s*\})?\s*\)|\bflush(all|db)\b|\bscript\s+flush\b"
    r"|\bdebug\s+segfault|\bconfig\s+set\s+(dir|dbfilename)|\b(slave|replica)of\b|\bmodule\s+load\b"
    r"|\beval\b.*\bdel\b|\bshutdown\b",
    re.IGNORECASE,
)
_STARTS = re.compile(r"\s*(drop|truncate|delete|alter|update)\s", re.IGNORECASE)
_SQL_NAMED = re.compile(r"sql|\bdb|database|query|prisma", re.IGNORECASE)
_SQL_TEXT = frozenset({
    "sqlfluff", "sqlfmt", "pg_format", "sqlformat", "prettier", "pbcopy", "xclip", "sh",
    "bash", "python", "python3", "node", "ruby", "perl", "php", "docker", "kubectl", "npx", "ssh",
    "sudo", "env", "time", "timeout", "nohup", "while", "for", "sqlc", "wl-copy", "sponge", "cat",
})  # fmt: skip
"""To these a statement is text; or they start a program that is looked at by itself."""
LONGEST_TEXT = 100_000
"""Longer texts are looked at only so far."""


def lost_by(text: str) -> bool:
    """Whether SQL text loses tables or all rows of one."""
    text = _COMMENTS.sub(" ", text[:LONGEST_TEXT])
    plain = text if _INDIRECT.search(text) else _STRINGS.sub("''", text)
    return bool(_LOST.search(plain)) or any(map(_loses_rows, plain.split(";")))


def _loses_rows(statement: str) -> bool:
    found = _ROWS.search(statement)
    if not found or _NOT_ALONE.search(statement):
        return False
    where = _WHERE.search(found[3])
    return where is None or bool(_ALWAYS_TRUE.fullmatch(where[1].strip()[:200]))


_VALUE = re.compile(r"--?[\w-]+=|-[a-zA-Z]+?(?=[A-Z]{4,}\s)|-[ceqQ](?=[a-z]{4,}\s)")
"""An option before its value: `--execute=`, `-e`."""


def texts(invocation: Invocation, scene: Scene) -> Iterator[str]:
    """Everything the client is given to run."""
    words = [_VALUE.sub("", word, count=1) if word[:1] == "-" else word for word in
             invocation.arguments]  # fmt: skip
    yield from (word for word in words if re.search(r"\s", word))
    yield " ".join(word for word in words if not word.startswith("--"))
    yield given_to(invocation) or ""
    for source in invocation.sources:
        yield source.stdin
        if source.name in ("echo", "printf", "yes"):
            yield source.text
    if scene.texts:
        paths = [*invocation.arguments, *(redirect.target for redirect in invocation.redirects)]
        for source in invocation.upstream[-1:]:
            paths += source.arguments
        yield from (scene.texts.get(place(path, invocation, scene), "") for path in paths)


def loses_data(invocation: Invocation, scene: Scene) -> bool:
    return any(lost_by(text) for text in texts(invocation, scene) if text)


def loses_documents(invocation: Invocation, scene: Scene) -> bool:
    return any(_DOCUMENTS.search(text[:LONGEST_TEXT]) for text in texts(invocation, scene))


def given_statement(invocation: Invocation, scene: Scene) -> bool:
    """A statement that loses data, given to a program nothing is known of: `wp db query "DROP …"`,
    `heroku pg:psql -c …`, `… | manage.py dbshell`."""
    if invocation.name in HOLDS_TEXT or invocation.name in _SQL_TEXT or not invocation.words:
        return False
    named = " ".join(invocation.words[:8])
    return any(
        lost_by(text) and (_STARTS.match(text) or _SQL_NAMED.search(named))
        for text in texts(invocation, scene)
        if _STARTS.search(text)
    )


def flushes(invocation: Invocation, _scene: Scene) -> bool:
    """`printf 'FLUSHALL' | nc host 6379`."""
    text = given_to(invocation) or ""
    return bool(re.search(r"\bflush_?(all|db)\b|\bshutdown\b", text, re.IGNORECASE))


def deletes_keys(invocation: Invocation, _scene: Scene) -> bool:
    """`redis-cli keys '*' | xargs redis-cli del`."""
    deletes = re.search(r"\b(del|unlink)\b", invocation.text, re.IGNORECASE)
    return bool(deletes) and "xargs" in invocation.via


CLIENTS = """
    psql mysql mariadb sqlite3 sqlite sqlcmd duckdb clickhouse clickhouse-client cockroach usql bq
    sqlplus isql osql tsql cqlsh snowsql trino presto pgcli mycli litecli influx vsql db2 beeline
    hive spark-sql impala-shell ksql dolt turso wrangler mysqlsh mssql-cli
"""
MIGRATORS = """
    prisma sequelize sequelize-cli knex typeorm drizzle-kit mix alembic flyway liquibase supabase
    diesel sqlx goose doctrine console hasura dbmate migrate
"""
SQL, DATABASE = "destructive SQL", "deletes a database"
LOST = "deletes database tables or all their rows"
RULES = (
    Rule(SQL, LOST, CLIENTS, loses_data),
    Rule(SQL, LOST, "", given_statement),
    Rule(SQL, DATABASE, "wp", says(r"\bdb\s+(reset|drop|clean)\b|\bsite\s+(empty|delete)\b")),
    Rule(SQL, DATABASE, "drush", says(r"sql[:-](drop|query|cli|sanitize)|site[:-]install")),
    Rule(SQL, DATABASE, "flask", says(r"\bdb\s+downgrade\s+base\b|\bdrop[-_]?(db|all)\b")),
    Rule(SQL, "empties the cache of a server", "nc ncat telnet netcat socat", flushes),
    Rule(SQL, DATABASE, "dropdb dropuser pg_dropcluster", always),
    Rule(SQL, DATABASE, "mysqladmin", verb("drop")),
    Rule(SQL, DATABASE, "mongo mongosh redis-cli valkey-cli keydb-cli", loses_documents),
    Rule(SQL, "deletes keys in bulk", "redis-cli valkey-cli", deletes_keys),
    Rule(
        SQL,
        "replaces what is in the database",
        "pg_restore mongorestore",
        verb("--clean -c --drop"),
    ),
    Rule(
        SQL,
        DATABASE,
        "rails rake",
        says(r"\bdb:(drop|reset|purge|schema:load|truncate_all|migrate:reset)\b"),
    ),
    Rule(
        SQL, DATABASE, "manage.py django-admin", verb("flush reset_db", r"migrate\s+\w+\s+zero\b")
    ),
    Rule(SQL, DATABASE, "artisan php", says(r"\b(migrate:(fresh|reset|refresh)|db:wipe)\b")),
    Rule(
        SQL,
        DATABASE,
        MIGRATORS,
        verb(
            r"reset --force-reset db:drop schema:drop ecto\.drop ecto\.reset clean drop drop-all "
            r"dropAll database:drop doctrine:database:drop",
            r"rollback\s+--all|downgrade\s+base|down-to\s+0|down\s+-all",
        ),
    ),
    Rule(SQL, "deletes data", "etcdctl consul", verb("del delete")),
    Rule(
        SQL,
        "deletes topics or queues",
        "kafka-topics kafka-topics.sh kafka-delete-records.sh rabbitmqadmin rabbitmqctl nats",
        verb("--delete delete purge rm purge_queue delete_queue"),
    ),
    Rule(
        SQL,
        "deletes indices",
        "curl http wget",
        says(r"DELETE\b.*(/_all|:9200/|/\*)|_delete_by_query|(:9200/|/_all)\S*\s.*\bDELETE\b"),
    ),
)
