"""The machine, its services and what it reaches: jobs, processes, network shells, databases,
containers, clouds and git history."""

import posixpath
import re
from collections.abc import Iterator

from hermes.security.danger.context import ShellContext, has_option, locate_word, operands
from hermes.security.shell.expansion import known_input
from hermes.security.shell.model import UNKNOWN, Invocation, join_path
from hermes.security.shell.wrappers import HOLDS_TEXT, SHELLS
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


# Services and processes: stopping them, and turning the machine off.

_DESKTOP = frozenset({"dock", "finder", "systemuiserver", "cfprefsd", "preferences", "simulator"})
"""Parts of a desktop that restart by themselves."""
_SEARCHES = frozenset({"ps", "pgrep", "pidof", "lsof", "top", "netstat", "ss", "find", "seq"})
_INIT_SCRIPT = re.compile(r"/(init|rc\d?)\.d/[\w.@-]+\Z")
_STOPS = frozenset({"stop", "disable", "onestop", "forcestop", "faststop", "kill", "force-stop"})
_MANY = re.compile(r"[*?\[]|\{\d+\.\.\d+\}")  #: A pattern or a range instead of a process number.
MAX_KILLED = 12  #: More processes than a person would name by hand.
_SIGNAL = re.compile(r"-(\d+|[A-Z]\w*|s|n|-signal\S*)|--")
_HARD = re.compile(r"(?:^|\s)(?:-9|-(?:SIG)?KILL|-s\s*(?:9|(?:SIG)?KILL))\b", re.IGNORECASE)


def kills_all(invocation: Invocation, _context: ShellContext) -> bool:
    """`kill -9 -1`, `kill 1`, or every process a search finds."""
    words = list(invocation.arguments)
    if words[:1] in (["-l"], ["-0"], ["-L"]):
        return False
    while words and _SIGNAL.fullmatch(words[0]) and words != ["-1"]:
        del words[: 2 if words[0] in ("-s", "-n", "--signal") else 1]
    if {"-1", "1", "0"} & set(words) or any(_MANY.search(word) for word in words):
        return True
    if len(words) > MAX_KILLED:
        return True
    unknown = not words or any(UNKNOWN in word for word in words)
    return unknown and _lists(invocation) and bool(_HARD.search(invocation.text))


def _lists(invocation: Invocation) -> bool:
    """Return whether a search selects what is killed; the owner of a port is one server."""
    searches = [
        each
        for each in invocation.sources
        if each.name in _SEARCHES or (each.name == "ls" and "/proc" in each.text)
    ]
    port = any(each.name == "lsof" and re.search(r":\d|-i", each.text) for each in searches)
    return bool(searches) and not port


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
    return not re.search(r"\d+/(tcp|udp)|-n\s+(tcp|udp)", invocation.text)


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
_SQL_TEXT = word_list("sql_text")
LONGEST_TEXT = 100_000  #: Longer texts are checked only up to here.


def lost_by(text: str) -> bool:
    """Return whether SQL text loses tables or all rows of one."""
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


def loses_data(invocation: Invocation, context: ShellContext) -> bool:
    return any(lost_by(text) for text in texts(invocation, context) if text)


def loses_documents(invocation: Invocation, context: ShellContext) -> bool:
    return any(_DOCUMENTS.search(text[:LONGEST_TEXT]) for text in texts(invocation, context))


def given_statement(invocation: Invocation, context: ShellContext) -> bool:
    """A statement that loses data, passed to an unknown program: `wp db query "DROP …"`, `heroku
    pg:psql -c …`, `… | manage.py dbshell`."""
    if invocation.name in HOLDS_TEXT or invocation.name in _SQL_TEXT or not invocation.words:
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


def deletes_by_verb(invocation: Invocation, _context: ShellContext) -> bool:
    """`tool things delete …` of a program without rules of its own."""
    words = invocation.words
    if not words or invocation.via or invocation.name in KNOWN_OTHERWISE:
        return False
    if "/" in words[0] or "." in words[0]:
        return False  # a program of the project, which may do as it likes
    return any(word.lower() in _VERBS for word in operands(invocation)[:3])


_VERBS = word_list("deleting_verbs")
KNOWN_OTHERWISE = word_list("known_otherwise")


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
    if words[:1] != ["push"]:
        return False
    return any(
        word.partition("=")[0] in _FORCE
        or re.fullmatch(r"-[a-zA-Z]*[fd][a-zA-Z]*", word)
        or re.match(r"\+|:[\w/]", word)
        for word in words[1:]
    )


def loses_work(invocation: Invocation, _context: ShellContext) -> bool:
    """Uncommitted changes would be lost."""
    verb, *rest = subcommand(invocation) or [""]
    everything = not _ALL.isdisjoint(rest)
    forced = any(re.fullmatch(r"-[a-zA-Z]*f|--force|--discard-changes", word) for word in rest)
    match verb:
        case "reset":
            return "--hard" in rest
        case "checkout":
            return forced or everything
        case "restore":
            staged = ("--staged" in rest or "-S" in rest) and "--worktree" not in rest
            return everything and not staged
        case "switch":
            return forced
        case "worktree":
            return forced and rest[:1] == ["remove"]
        case "stash":
            return rest[:1] == ["clear"]
    return False


def unmerged(invocation: Invocation, _context: ShellContext) -> bool:
    """`git branch -D` of what another program lists."""
    words = subcommand(invocation)
    deletes = words[:1] == ["branch"] and bool({"-D", "-d", "--delete"} & set(words))
    return deletes and "xargs" in invocation.via and bool(operands(invocation))
