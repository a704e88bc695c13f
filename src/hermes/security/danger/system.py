"""The machine, its services and what it reaches: jobs, processes, network shells, databases,
containers, clouds and git history."""

import posixpath
import re
from collections.abc import Iterator

from hermes.security.danger.context import ShellContext, has_option, locate_word, operands
from hermes.security.shell.expansion import known_input
from hermes.security.shell.model import UNKNOWN, Invocation, join_path, program_name
from hermes.security.shell.wrappers import (
    COMMAND_OPTIONS,
    HOLDS_TEXT,
    SHELLS,
    SSH_COMMAND,
    git_option_texts,
    git_settings,
    option_values,
)
from hermes.security.tables import word_list


def changes_jobs(invocation: Invocation, _context: ShellContext) -> bool:
    """Anything `crontab` does except listing."""
    words = list(invocation.arguments)
    if words[:1] == ["-u"]:
        del words[:2]
    return words not in (["-l"], ["-V"])


def removes_many(invocation: Invocation, _context: ShellContext) -> bool:
    """Packages that another program lists."""
    removes = re.search(r"\b(uninstall|remove|rm|un)\b", invocation.text)
    listed = "xargs" in invocation.via or UNKNOWN in invocation.text
    return bool(removes) and listed


# Options, settings and variables whose value is a command.

_SYSTEM_PROGRAM = re.compile(r"/(usr/|opt/homebrew/|nix/store/\S+/)?(local/)?s?bin/[\w.+-]+")
_HELPER_VARIABLES = re.compile(
    r"(GIT_)?(EDITOR|PAGER|SSH|SSH_COMMAND|SEQUENCE_EDITOR|EXTERNAL_DIFF|ASKPASS|PROXY_COMMAND)"
    r"|VISUAL|MANPAGER|LESSOPEN|LESSCLOSE|RSYNC_RSH|SUDO_ASKPASS|SSH_ASKPASS|BROWSER|RUSTC_WRAPPER"
    r"|CARGO_\w*(RUNNER|LINKER|WRAPPER)"
)
_SHELL_META = re.compile(r"[;&|`]|\$\(")
_GIT_HELPERS = word_list("git_helpers")
_GIT_FOLDERS = ("core.hookspath", "include.path", "init.templatedir", "core.attributesfile")


def starts_by_option(invocation: Invocation, _context: ShellContext) -> bool:
    """`sort --compress-program=./x`: a program of the user's own, in a place meant for a usual
    one. What is written there as a command line is examined as well."""
    name, words = invocation.name, invocation.arguments
    values = [value for key, value in invocation.assignments if _HELPER_VARIABLES.fullmatch(key)]
    if name in COMMAND_OPTIONS:
        values += option_values(words, COMMAND_OPTIONS[name])
    elif name == "git":
        values += git_option_texts(words)
        if "config" not in words:
            values += (value for _key, value in git_settings(words))
    if name in ("ssh", "scp", "sftp", "autossh"):
        values += (found for word in words for found in SSH_COMMAND.findall(word))
    if name == "tar":
        values += (word.partition("exec=")[2] for word in words if "exec=" in word)
    return any(map(_is_own_program, values))


def _is_own_program(text: str) -> bool:
    """Return whether a command begins with the path of a file outside the system's folders."""
    first = "".join(text.lstrip("!|").replace(",", " ").split()[:1])
    return "/" in first.rstrip("/") and not _SYSTEM_PROGRAM.fullmatch(first)


def sets_git_command(invocation: Invocation, _context: ShellContext) -> bool:
    """`git config` of something that git runs later."""
    if "config" not in subcommand(invocation)[:1]:
        return False
    return any(_git_runs(key, value) for key, value in git_settings(invocation.arguments))


def _git_runs(key: str, value: str) -> bool:
    if key.startswith(_GIT_FOLDERS) or (key.startswith("include") and key.endswith(".path")):
        return True
    if key.startswith("alias.") or key.endswith(".update"):
        return value.startswith("!")
    if key == "core.fsmonitor" and value.lower() in ("true", "false", "0", "1"):
        return False
    first = "".join(value.lstrip("!").split()[:1])
    usual = program_name(first).removeprefix("git-credential-") in _GIT_HELPERS
    return not usual or bool(_SHELL_META.search(value)) or _is_own_program(value)


_WEAKENING = {
    "GIT_SSL_NO_VERIFY": "1|true", "NODE_TLS_REJECT_UNAUTHORIZED": "0", "PYTHONHTTPSVERIFY": "0",
    "GONOSUMCHECK": ".+", "GONOSUMDB": r".*\*.*", "GOINSECURE": ".+", "GOSUMDB": "off",
    **dict.fromkeys(("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL",
                     "UV_DEFAULT_INDEX", "NPM_CONFIG_REGISTRY", "npm_config_registry", "GOPROXY"),
                    r"https?://(?!(localhost|127\.|pypi\.org|download\.pytorch\.org|registry\.npmjs\.org"
                    r"|registry\.npmmirror\.com|proxy\.golang\.org|goproxy\.(io|cn)|pypi\.tuna|mirrors\.)).*"),
}  # fmt: skip
"""Variables, and values with which a program trusts software or servers that it did not before."""


def trusts_more(invocation: Invocation, _context: ShellContext) -> bool:
    """`GIT_SSL_NO_VERIFY=1 git clone …`, `PIP_INDEX_URL=https://… pip install …`."""
    found = ((_WEAKENING.get(key), value) for key, value in invocation.assignments)
    return any(pattern and re.fullmatch(pattern, value) for pattern, value in found)


def starts_from_file(invocation: Invocation, _context: ShellContext) -> bool:
    """`ENV=./f sh -i`: a shell that first runs a file."""
    start = dict(invocation.assignments).get("ENV", "")
    return bool(start) and (invocation.name in SHELLS or "/" in start)


# Services and processes: stopping them, and turning the machine off.

_DESKTOP = frozenset({"dock", "finder", "systemuiserver", "cfprefsd", "preferences", "simulator"})
"""Parts of a desktop that restart by themselves."""
_SEARCHES = frozenset({"ps", "pgrep", "pidof", "lsof", "top", "netstat", "ss", "find", "seq"})
_INIT_SCRIPT = re.compile(r"/(init|rc\d?)\.d/[\w.@-]+\Z")
_STOPS = frozenset({"stop", "disable", "onestop", "forcestop", "faststop", "kill", "force-stop"})
_MANY = re.compile(r"[*?\[]|\{\d+\.\.\d+\}")  #: A pattern or a range instead of a process number.
MAX_KILLED = 12  #: More processes than a person would name by hand.
_SIGNAL = re.compile(r"-(\d+|[A-Z]\w*|s|n|-signal\S*)|--")
_SERVER_PORT = re.compile(
    r"(?:^|[:\s])(?:\d{1,3}|1433|1521|2375|2379|3306|5432|5672|6379|6443|8086|9092|9200|11211|27017)"
    r"(?=[/\s]|\Z)"
)
"""Ports of databases and other servers that keep data, and those of the system."""
_HARD = re.compile(r"(?:^|\s)(?:-9|-(?:SIG)?KILL|-s\s*(?:9|(?:SIG)?KILL))\b", re.IGNORECASE)


def kills_all(invocation: Invocation, _context: ShellContext) -> bool:
    """`kill -9 -1`, `kill 1`, or every process a search finds."""
    words = list(invocation.arguments)
    if words[:1] in (["-l"], ["-0"], ["-L"]):
        return False
    if words and _SIGNAL.fullmatch(words[0]) and words != ["-1"]:
        del words[: 2 if words[0] in ("-s", "-n", "--signal") else 1]
    if {"-1", "1", "0"} & set(words) or any(_MANY.search(word) for word in words):
        return True
    if len(words) > MAX_KILLED:
        return True
    unknown = not words or any(UNKNOWN in word for word in words)
    if not unknown or not _lists(invocation):
        return False
    server = any(map(_holds_server, invocation.sources))
    return server or bool(_HARD.search(invocation.text)) or _lists_everything(invocation)


def _holds_server(search: Invocation) -> bool:
    """`lsof -ti:5432`: a database, not a server of the project."""
    return search.name == "lsof" and _SERVER_PORT.search(search.text) is not None


def _lists(invocation: Invocation) -> bool:
    """Return whether a search selects what is killed; the owner of a port is one server."""
    searches = [
        each
        for each in invocation.sources
        if each.name in _SEARCHES or (each.name == "ls" and "/proc" in each.text)
    ]
    ports = [each for each in searches if each.name == "lsof" and re.search(r":\d|-i", each.text)]
    port = any(not _holds_server(each) for each in ports)
    return bool(searches) and not port


def _lists_everything(invocation: Invocation) -> bool:
    """`ps aux | awk '{print $2}'`: no step selects processes."""
    sources = invocation.sources
    if len(sources) == 1 and sources[0].name == "pgrep":
        users = option_values(sources[0].arguments, ("-u", "-U", "-g", "-G", "-t", "-s"))
        return set(operands(sources[0])) <= set(users)
    if not sources or sources[0].name != "ps" or re.search(r"-[CpuU]", sources[0].text):
        return False
    return all(
        each.name in ("ps", "tail", "cut", "sort", "tr")
        or (each.name in ("awk", "gawk") and re.fullmatch(r"\{\s*print \$\d+;?\s*\}", each.text))
        for each in sources
    )


def stops_by_script(invocation: Invocation, _context: ShellContext) -> bool:
    """`/etc/init.d/mysql stop`, also `sh /etc/rc.d/…` and from inside that folder."""
    if _STOPS.isdisjoint(invocation.arguments):
        return False
    paths = (
        posixpath.normpath(join_path(invocation.folder, word)) for word in invocation.words[:2]
    )
    return any(_INIT_SCRIPT.search(path) for path in paths)


def kills_by_name(invocation: Invocation, _context: ShellContext) -> bool:
    if has_option(invocation, "l", "0", "V", "--list"):
        return False
    named = operands(invocation)
    return bool(named) and not all(word.lower() in _DESKTOP for word in named)


def matches_all_names(invocation: Invocation, _context: ShellContext) -> bool:
    """`pkill .`"""
    return any(re.fullmatch(r"\^?\.?[*+]?\$?|[a-z]", word) for word in operands(invocation))


def kills_users_of_files(invocation: Invocation, _context: ShellContext) -> bool:
    """`fuser -km /`; a port is one server, like `lsof -ti:3000 | xargs kill`."""
    if not has_option(invocation, "k", "--kill"):
        return False
    port = re.search(r"\d+/(tcp|udp)|-n\s+(tcp|udp)", invocation.text)
    return port is None or _SERVER_PORT.search(invocation.text) is not None


# Shells and programs connected to the network.

_CONNECTS = word_list("connects")
_SPEAKERS = SHELLS | {"script", "python", "python3", "perl"}
_SOCKET = re.compile(r"/dev/(tcp|udp)/")


def network_shell(invocation: Invocation, _context: ShellContext) -> bool:
    targets = [redirect.target for redirect in invocation.redirects]
    return any(_SOCKET.match(path) for path in (*targets, *invocation.arguments))


def shell_output_sent(invocation: Invocation, _context: ShellContext) -> bool:
    """`sh -i 2>&1 | nc host port`."""
    if invocation.name not in _CONNECTS:
        return False
    return any(source.name in _SPEAKERS for source in invocation.upstream)


# Databases

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
    r"|\bgrant\s+(all|super)\b|\bcreate\s+(user|role)\b[^;]*\b(superuser|createrole)\b"
    r"|\balter\s+(user|role)\b|\bset\s+password\b|\brevoke\s+all\b|\bdisable\s+row\s+level\s+security"
    r"|\bset\s+global\b|\bflush\s+(tables\s+with|logs|privileges)|\bshutdown\s+(abort|immediate)"
    r"|\bpg_terminate_backend\s*\((?![^;]*\bwhere\b)|\bvacuum\s+full\b|\balter\s+system\b|\balter\s+table\b[^;]*\bdelete\s+where\s+1\b",
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
    r"|\beval\b.*\bdel\b|\bshutdown\b|\.stepDown\s*\(|\bswapdb\b|--cluster\s+(del-node|reset|fix)|updateMany\s*\(\s*\{\s*\}\s*,|\brenameCollection\b",
    re.IGNORECASE,
)
_STARTS = re.compile(r"\s*(drop|truncate|delete|alter|update)\s", re.IGNORECASE)
_STATEMENT = re.compile(
    r"^\s*(?:(drop|truncate|delete|alter|update)\s|(flush)(?:all|db)\b)",
    re.IGNORECASE | re.MULTILINE,
)
_SQL_NAMED = re.compile(r"sql|\bdb|database|query|prisma", re.IGNORECASE)
_SQL_TEXT = word_list("sql_text")
LONGEST_TEXT = 100_000  #: Longer texts are checked only up to here.


def lost_by(text: str) -> bool:
    """Return whether SQL text loses tables or all rows of one."""
    text = _COMMENTS.sub(" ", text[:LONGEST_TEXT])
    plain = text if _INDIRECT.search(text) else _STRINGS.sub("''", text)
    return bool(_LOST.search(plain)) or any(map(_loses_rows, plain.split(";")))


def is_loss(text: str) -> bool:
    """Return whether text has a statement that loses data at the beginning of a line, whichever
    program reads it."""
    lines = _STATEMENT.finditer(text[:LONGEST_TEXT])
    return any(found[2] or lost_by(text[found.start() :]) for found in lines)


def _loses_rows(statement: str) -> bool:
    found = _ROWS.search(statement)
    if not found or _NOT_ALONE.search(statement):
        return False
    where = _WHERE.search(found[3])
    return where is None or bool(_ALWAYS_TRUE.fullmatch(where[1].strip()[:200]))


_VALUE = re.compile(r"--?[\w-]+=|-[a-zA-Z]+?(?=[A-Z]{4,}\s)|-[ceqQ](?=[a-z]{4,}\s)")
"""An option before its value: `--execute=`, `-e`."""


def texts(invocation: Invocation, context: ShellContext) -> Iterator[str]:
    """Yield everything the client is given to run."""
    words = [_VALUE.sub("", word, count=1) if word[:1] == "-" else word for word in
             invocation.arguments]  # fmt: skip
    yield from (word for word in words if re.search(r"\s", word))
    yield " ".join(word for word in words if not word.startswith("--"))
    yield known_input(invocation) or ""
    for source in invocation.sources:
        yield source.stdin
        if source.name in ("echo", "printf", "yes"):
            yield source.text
    if context.texts:
        paths = [*invocation.arguments, *(redirect.target for redirect in invocation.redirects)]
        for source in invocation.upstream[-1:]:
            paths += source.arguments
        yield from (context.texts.get(locate_word(path, invocation, context), "") for path in paths)


def is_client_in_memory(invocation: Invocation) -> bool:
    """A database that ends with the command."""
    named = [word for word in operands(invocation) if " " not in word]
    if invocation.name == "duckdb" and not invocation.redirects:
        return not named or named[0] == ":memory:"
    return invocation.name in ("sqlite3", "sqlite") and named[:1] == [":memory:"]


def loses_data(invocation: Invocation, context: ShellContext) -> bool:
    if is_client_in_memory(invocation):
        return False
    return any(lost_by(text) for text in texts(invocation, context) if text)


_TEST_DATABASE = re.compile(
    r"(?:^|[\W_])(?:tests?|testing|dev|devel\w*|tmp|temp|sandbox|demo|scratch|fixtures?|ci)"
    r"(?=[\W_]|\d|\Z)|test_|_test|testdb|:memory:",
    re.IGNORECASE,
)
_ACTING = (
    r"\b(pg_(terminate|cancel)_backend|pg_(promote|reload_conf|rotate_logfile|stat_reset\w*|drop_replication_slot"
    r"|switch_wal|import_system_collations|logical_emit_message|wal_replay_pause)|lo_(unlink|import|export)|setval"
    r"|dblink_exec|pg_file_\w+|sp_(configure|executesql|dropuser|droplogin)|xp_\w+|drop_chunks)"
)
"""Functions that change something although they are called in a SELECT."""
_ROW_CHANGES = re.compile(
    rf"(?<!explain )(?<!analyze )\b(delete\s+from\s+{_NAME}|update\s+{_NAME}\s+set\b"
    rf"|replace\s+into|alter\s+table\s+{_NAME}\s+(delete|update)\b|{_ACTING}\s*\()(?!.*\brollback\b\s*;?\s*\Z)",
    re.IGNORECASE | re.DOTALL,
)
_ANY_CHANGE = re.compile(
    r"\b(insert\s+into|alter|create\s+(?!temp)\w+|comment\s+on|copy\s+\w+\s+from|grant|revoke"
    r"|merge\s+into|call|refresh|load\s+data|reindex)\b",
    re.IGNORECASE,
)
_DOCUMENT_CHANGES = re.compile(
    r"\.(delete(One|Many)|update(One|Many)|findOneAnd(Delete|Update|Replace)|replaceOne|bulkWrite|remove"
    r"|createUser|grantRolesToUser)\s*\("
)
_LOCAL_SERVER = re.compile(r"localhost|127\.|::1|/|\.|\Z")


def is_test_database(invocation: Invocation) -> bool:
    """Return whether the name of the database or of its server is one for tests."""
    named = " ".join(value for _, value in invocation.assignments)
    return _TEST_DATABASE.search(f"{invocation.plain} {named}") is not None


def is_remote_database(invocation: Invocation) -> bool:
    """`-h db.example.org`, `postgres://db.example.org/x`."""
    hosts = [*option_values(invocation.arguments, ("-h", "--host", "-S", "--hostname"))]
    hosts += re.findall(r"\w+://(?:[^@\s/]*@)?([\w.-]+)", invocation.plain)
    hosts += [value for key, value in invocation.assignments if key in ("PGHOST", "MYSQL_HOST")]
    return any(not _LOCAL_SERVER.match(host) for host in hosts if host)


def changes_rows(invocation: Invocation, context: ShellContext) -> bool:
    """Rows changed in a database that is not one for tests, or anything in a remote one."""
    if is_test_database(invocation):
        return False
    if invocation.name in ("sqlite3", "sqlite", "duckdb"):
        places = (context.real(word, invocation) for word in operands(invocation)[:1])
        if not any(map(context.is_outside, places)):
            return False
    changes = _ANY_CHANGE if is_remote_database(invocation) else None
    plain = (_STRINGS.sub("''", _COMMENTS.sub(" ", text)) for text in texts(invocation, context))
    return any(
        _ROW_CHANGES.search(text) or (changes and changes.search(text) and " " in text.strip())
        for text in plain
        if text
    )


def changes_documents(invocation: Invocation, context: ShellContext) -> bool:
    """The same for MongoDB and Redis."""
    if is_test_database(invocation):
        return False
    if invocation.name in ("mongo", "mongosh"):
        return any(map(_DOCUMENT_CHANGES.search, texts(invocation, context)))
    remote = is_remote_database(invocation) or "-u" in invocation.arguments
    verbs = r"(^|\s)(del|unlink|set|hset|hdel|expire|rename|[lr]push|[lx]trim|zrem|srem)\s"
    return remote and bool(re.search(verbs, invocation.plain, re.IGNORECASE))


def loses_documents(invocation: Invocation, context: ShellContext) -> bool:
    return any(_DOCUMENTS.search(text[:LONGEST_TEXT]) for text in texts(invocation, context))


_REACHES_OUT = re.compile(
    r"\battach\b|\bwritefile\s*\(|\bload_extension\s*\(|\bedit\s*\("
    r"|(^|\n)\s*\.(shell|system|output|once|save|backup|clone|load|read|open|cd|import|log|excel)\b",
    re.IGNORECASE,
)


def runs_database_script(invocation: Invocation, context: ShellContext) -> bool:
    """`sqlite3 x.db < s.sql`, with statements that write other files or start programs."""
    paths = [each.target for each in invocation.redirects if each.operator == "<"]
    paths += [word[6:].strip() for word in invocation.arguments if word.startswith(".read ")]
    paths += option_values(invocation.arguments, ("-init",))
    return any(_REACHES_OUT.search(context.file_text(path, invocation)) for path in paths if path)


_DELETING_SCRIPT = re.compile(
    r"(?:^|[/_.-])(?:drop|wipe|truncate|purge|nuke|delete|destroy|reset|teardown)[\w.-]*\.(?:sql|js|cql)\Z",
    re.IGNORECASE,
)


def runs_deleting_script(invocation: Invocation, _context: ShellContext) -> bool:
    """`mysql app < drop_all.sql`."""
    paths = [each.target for each in invocation.redirects if each.operator == "<"]
    paths += option_values(invocation.arguments, ("-f", "--file", "-i"))
    paths += [word for source in invocation.upstream for word in operands(source)]
    return any(map(_DELETING_SCRIPT.search, paths))


def told_to_delete(invocation: Invocation, _context: ShellContext) -> bool:
    text = known_input(invocation) or ""
    return bool(re.search(r"\b(delete|purge|prune)\b", text, re.IGNORECASE))


def given_statement(invocation: Invocation, context: ShellContext) -> bool:
    """A statement that loses data, passed to an unknown program: `wp db query "DROP …"`, `heroku
    pg:psql -c …`, `… | manage.py dbshell`."""
    if invocation.name in HOLDS_TEXT or invocation.name in _SQL_TEXT or not invocation.words:
        return False
    if is_client_in_memory(invocation):
        return False
    named = " ".join(invocation.words[:8])
    return any(
        lost_by(text) and (_STARTS.match(text) or _SQL_NAMED.search(named))
        for text in texts(invocation, context)
        if _STARTS.search(text)
    )


def flushes(invocation: Invocation, _context: ShellContext) -> bool:
    """`printf 'FLUSHALL' | nc host 6379`."""
    text = known_input(invocation) or ""
    return bool(re.search(r"\bflush_?(all|db)\b|\bshutdown\b", text, re.IGNORECASE))


def deletes_keys(invocation: Invocation, _context: ShellContext) -> bool:
    """`redis-cli keys '*' | xargs redis-cli del`."""
    deletes = re.search(r"\b(del|unlink)\b", invocation.text, re.IGNORECASE)
    return bool(deletes) and "xargs" in invocation.via


PRODUCTION = re.compile(r"(^|[\s=/:@_.-])(prod|production|prd|live)(?![a-z0-9])", re.IGNORECASE)
_ENVIRONMENTS = frozenset({"RAILS_ENV", "NODE_ENV", "MIX_ENV", "APP_ENV", "FLASK_ENV", "RACK_ENV"})
_CHANGES_DATA = re.compile(
    r"\bdb:(?!version|migrate:status|structure:dump)\w|\b(migrate|seed|upgrade|downgrade|rollback)\b"
)
_READS_DATA = re.compile(r"\bstatus\b|\blist\b|--(dry-run|check|plan|list|help)\b|showmigrations")


_DATA_CLIENTS = frozenset({
    "psql", "mysql", "mariadb", "sqlcmd", "pg_restore", "mongorestore", "mongoimport", "mongosh",
    "mongo", "redis-cli", "valkey-cli", "clickhouse-client", "cqlsh",
})  # fmt: skip
_UNPACKING = frozenset({"gunzip", "zcat", "cat", "gzip", "zstd", "xzcat", "bzcat", "pv", "zstdcat"})
_CHANGES_ROWS = re.compile(
    r"(?:^|[;\s\"'])(?:insert\s+into|update\s+\S+\s+set|delete\s+from|merge\s+into|replace\s+into"
    r"|alter\s+(?:table|user|role)|create\s+(?:table|index|user|role))\b"
    r"|\.(?:insert|update|delete|replace|remove|bulkWrite|create|rename|findOneAnd)\w*\s*\("
    r"|(?:^|\s)(?:set|del|hset|hdel|incr|expire|lpush|rpush|sadd|zadd|unlink|rename)\s+\S",
    re.IGNORECASE,
)


def changes_production_data(invocation: Invocation, context: ShellContext) -> bool:
    """`RAILS_ENV=production rails db:migrate`, `psql "$PROD_URL" -f x.sql`."""
    name, text = invocation.name, invocation.text
    if name in _DATA_CLIENTS:
        named = any(re.search(r"(?i)(^|_)(prod|production|live)(_|\Z)", v) for v in invocation.uses)
        production = named or bool(PRODUCTION.search(text))
        remote = is_remote_database(invocation) and not is_test_database(invocation)
        if not production and not remote:
            return False
        return bool(
            re.search(r"(^|\s)(-f|--file|-i)\b", text)
            or any(each.operator == "<" for each in invocation.redirects)
            or any(each.name in _UNPACKING for each in invocation.upstream)
            or any(_CHANGES_ROWS.search(each) for each in texts(invocation, context))
            or name in ("pg_restore", "mongorestore", "mongoimport")
        )
    chosen = {**invocation.known, **dict(invocation.assignments)}
    production = any(chosen.get(key, "").startswith("prod") for key in _ENVIRONMENTS)
    for key, value in invocation.assignments:
        unknown = key.endswith("_URL") and value == UNKNOWN  # the name of the variable is lost
        production = production or unknown or PRODUCTION.search(value) is not None
    if not production or name not in _MIGRATORS:
        return False
    return bool(_CHANGES_DATA.search(text)) and not _READS_DATA.search(text)


def is_test_run(invocation: Invocation, _context: ShellContext) -> bool:
    """`RAILS_ENV=test rails db:schema:load`."""
    chosen = dict(invocation.assignments)
    named = any(chosen.get(key) == "test" for key in _ENVIRONMENTS)
    return named and not any(key.endswith("_URL") for key in chosen)


_MIGRATORS = word_list("migrators")
_DELETE_METHOD = re.compile(r"(^|\s)(-X\s?|--request[= ]|--method=)?DELETE(\s|\Z)")
_NEAR = re.compile(
    r"(\w+://)?(localhost|127\.|0\.0\.0\.0|\[::1\]|host\.docker|:\d|\$)"
    r"|\w+://(api|app|web|backend|server|service|gateway|elasticsearch|opensearch|es|minio|localstack|mock\w*|[\w-]*(dev|test|api|service))(:\d+)?(/|\Z)"
)


def deletes_by_request(invocation: Invocation, _context: ShellContext) -> bool:
    """`curl -X DELETE https://…`: not to a server of this machine or of a container."""
    if not _DELETE_METHOD.search(invocation.plain):
        return False
    addresses = [word for word in operands(invocation) if "://" in word or "." in word]
    return any(not _NEAR.match(word.replace(UNKNOWN, "$")) for word in addresses)


# Containers, clusters and clouds.

_OPENS = re.compile(
    r"--privileged|--pid[= ](?:host|container)|(?:docker|containerd|podman)\.sock|--userns[= ]host"
    r"|--cap-add[= ](?:cap_)?(?:all|sys_\w+|dac_read_search|net_admin)|--ipc[= ]host|--uts[= ]host"
    r"|--security-opt[= ]\S*(?:unconfined|disable)|--device[= ]/dev/(?:sd|nvme|k?mem|vd)"
    r"|security\.privileged=true",
    re.IGNORECASE,
)
_HOST_FOLDERS = r"/|/(?:etc|root|home|var|usr|boot|proc|sys|dev|Users|var/run|var/lib/docker)|~"
_MOUNTS = re.compile(
    rf"(?:(?:^|\s)-v|--volume|source=|src=)[= ]?(?:{_HOST_FOLDERS})/?(?=[:,])", re.IGNORECASE
)
_BULK = re.compile(
    r"\bprune\b|\bvolume\s+rm\b|\bdown\b.*(?:\s-v\b|--volumes|--rmi)|\bswarm\s+leave\b"
    r"|\b(?:stack|service|node|network|secret|config|machine)\s+rm\b|\bsystem\s+reset\b"
)
_REMOVES = re.compile(r"\b(?:rm|rmi|kill|stop|remove)\b(.*)")


def opens_host(invocation: Invocation, context: ShellContext) -> bool:
    text = invocation.text
    if context.folder != "/":
        text = text.replace(f" {context.folder}:", " work:")  # `-v "$PWD":/work`
    text = text.replace(f"{context.home}:", "~:")
    if not re.search(r"\b(run|create|exec|up|init|launch|config)\b", text):
        return False
    return bool(_OPENS.search(text) or _MOUNTS.search(text))


def deletes_in_bulk(invocation: Invocation, _context: ShellContext) -> bool:
    """Containers, images or volumes, all at once."""
    text = invocation.text
    if _BULK.search(text):
        return True
    removes = _REMOVES.search(text)
    if removes is None:
        return False
    listed = UNKNOWN in text and bool(invocation.feeders & {"docker", "podman", "nerdctl"})
    return listed or "xargs" in invocation.via or bool(re.search(r"\s(-\w*a|--all)\b", removes[1]))


# git: published history, and uncommitted work.

_FORCE = frozenset({
    "--force", "--force-with-lease", "--mirror", "--delete", "--prune", "--force-if-includes",
})  # fmt: skip
_ALL = frozenset({".", "./", "*", ":/", ":"})
_WITH_VALUE = ("-C", "-c", "--git-dir", "--work-tree", "--namespace")


def subcommand(invocation: Invocation) -> list[str]:
    """Return the words from the subcommand on: `git -C x -c a=b reset --hard` from `reset`."""
    words = list(invocation.arguments)
    while words and words[0].startswith("-"):
        del words[: 2 if words[0] in _WITH_VALUE else 1]
    return words


def forced_push(invocation: Invocation, _context: ShellContext) -> bool:
    words = subcommand(invocation)
    if words[:1] != ["push"] or {"-n", "--dry-run"} & set(words):
        return False
    return any(
        word.partition("=")[0] in _FORCE
        or re.fullmatch(r"-[a-zA-Z]*[fd][a-zA-Z]*", word)
        or re.match(r"\+|:[\w/]", word)
        for word in words[1:]
    )


_FORGES = re.compile(
    r"(?:^|@|//)(?:[\w.-]+@)?(?:github\.com|gitlab\.com|bitbucket\.org|codeberg\.org)[/:]"
)
_REPOSITORY = re.compile(r"\w+://|[\w.-]+@[\w.-]+:|[\w-]+(\.[\w-]+)+:")


def remote_set(invocation: Invocation) -> str:
    """Return the name of the remote that `git remote` sets to an unusual address; "" if none."""
    words = [word for word in subcommand(invocation) if not word.startswith("-")]
    if words[:2] not in (["remote", "add"], ["remote", "set-url"]) or len(words) < 4:
        return ""
    usual = words[3].startswith((".", "/", "file:", "~")) or (
        _FORGES.search(words[3]) and words[1:3] == ["add", "origin"]
    )
    return "" if usual else words[2]


def stores_password(invocation: Invocation, _context: ShellContext) -> bool:
    """`git remote set-url origin https://x:TOKEN@host/…`: a key in the settings of the project."""
    words = subcommand(invocation)
    writes = words[:1] in (["remote"], ["config"], ["clone"], ["submodule"])
    return writes and any(re.match(r"\w+://[^/@\s]+:[^/@\s]+@", word) for word in words)


def pushes_elsewhere(invocation: Invocation, context: ShellContext) -> bool:
    """`git push URL`, or to a remote that the same command has set."""
    words = subcommand(invocation)
    if words[:1] != ["push"]:
        return False
    target = next((word for word in words[1:] if not word.startswith("-")), "origin")
    if {"-n", "--dry-run"} & set(words):
        return False
    return target in context.remotes or bool(_REPOSITORY.match(target))


def edits_history(invocation: Invocation, _context: ShellContext) -> bool:
    """`GIT_SEQUENCE_EDITOR='sed …' git rebase -i`: a program decides which commits stay."""
    words = subcommand(invocation)
    if words[:1] != ["rebase"]:
        return False
    editors = [v for key, v in invocation.assignments if key.endswith(("EDITOR", "VISUAL"))]
    editors += [word for word in invocation.arguments if word.startswith("sequence.editor=")]
    program = re.compile(r"\b(sed|perl|awk|ed|ex|sh|ruby|python3?)\b")
    return "--root" in words or any(map(program.search, editors))


def loses_work(invocation: Invocation, _context: ShellContext) -> bool:
    """Uncommitted changes would be lost."""
    verb, *rest = subcommand(invocation) or [""]
    named = [word for word in rest if not word.startswith("-")]
    everything = not _ALL.isdisjoint(rest)
    forced = any(re.fullmatch(r"-[a-zA-Z]*f|--force|--discard-changes", word) for word in rest)
    resets = any(re.fullmatch(r"-[a-zA-Z]*[BC]", word) for word in rest) and len(named) > 1
    match verb:
        case "reset":
            return not {"--hard", "--merge"}.isdisjoint(rest)
        case "checkout":
            paths = rest[rest.index("--") + 1 :] if "--" in rest else []
            listed = "--" in rest and (_is_listed(invocation) or UNKNOWN in "".join(paths))
            return forced or everything or resets or listed or any(map(_is_folder, paths))
        case "restore":
            staged = ("--staged" in rest or "-S" in rest) and "--worktree" not in rest
            lost = everything or _is_listed(invocation) or any(map(_is_folder, named))
            return lost and not staged
        case "switch":
            return forced or resets
        case "worktree" | "submodule":
            return forced and rest[:1] in (["remove"], ["deinit"])
        case "stash":
            return rest[:1] in (["clear"], ["drop"])
        case "read-tree":
            return "--reset" in rest
        case "checkout-index":
            return forced or any(re.fullmatch(r"-[a-z]*f[a-z]*", word) for word in rest)
        case "rm":
            return forced_removal(rest)
    return False


def _is_listed(invocation: Invocation) -> bool:
    """Return whether git names the files: `git checkout -- $(git diff --name-only)`."""
    return any(source.name == "git" for source in invocation.sources)


def tries_passwords(invocation: Invocation, _context: ShellContext) -> bool:
    """`while read p; do sshpass -p "$p" …; done < words`."""
    return bool(invocation.drawn) and any(UNKNOWN in word for word in invocation.arguments[:2])


def forced_removal(words: list[str]) -> bool:
    """`git rm -rf folder`: also files with changes in no commit."""
    letters = {letter for word in words if re.fullmatch(r"-[a-z]+", word) for letter in word[1:]}
    return "f" in letters and "r" in letters and "--cached" not in words


def _is_folder(path: str) -> bool:
    """Return whether a path of a project looks like a folder, or a pattern."""
    last = path.rstrip("/").rpartition("/")[2]
    return path.endswith("/") or "*" in path or bool(re.fullmatch(r"[a-z_-]+", last))


def unmerged(invocation: Invocation, _context: ShellContext) -> bool:
    """`git branch -D`, `git branch -f` and `git tag -d` of what another program lists."""
    words = subcommand(invocation)
    letters = {letter for word in words if re.fullmatch(r"-[a-zA-Z]+", word) for letter in word}
    forced = "D" in letters or "f" in letters or "--force" in words
    if words[:1] == ["branch"] and forced:
        return True
    deletes = words[:1] in (["branch"], ["tag"]) and {"-D", "-d", "--delete"} & set(words)
    listed = "xargs" in invocation.via or any(each.name == "git" for each in invocation.sources)
    listed = listed or any(word.startswith(UNKNOWN) for word in words)
    return bool(deletes) and listed and bool(operands(invocation))
