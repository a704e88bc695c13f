"""Databases, containers, clusters, clouds and git history."""

import re
from collections.abc import Iterator

from hermes.security.danger.context import ShellContext, locate_word
from hermes.security.danger.rule import Rule, always, both, but_not, operands, says, verb
from hermes.security.shell.expansion import known_input
from hermes.security.shell.model import UNKNOWN, Invocation
from hermes.security.shell.wrappers import HOLDS_TEXT

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
"""For these a statement is plain text, or they start a program that is checked separately."""
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
DATABASE_RULES = (
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
    Rule(SQL, "replaces what is in the database", "pg_restore mongorestore",
         verb("--clean -c --drop")),
    Rule(SQL, DATABASE, "rails rake",
         says(r"\bdb:(drop|reset|purge|schema:load|truncate_all|migrate:reset)\b")),
    Rule(SQL, DATABASE, "manage.py django-admin",
         verb("flush reset_db", r"migrate\s+\w+\s+zero\b")),
    Rule(SQL, DATABASE, "artisan php", says(r"\b(migrate:(fresh|reset|refresh)|db:wipe)\b")),
    Rule(SQL, DATABASE, MIGRATORS,
         verb(r"reset --force-reset db:drop schema:drop ecto\.drop ecto\.reset clean drop drop-all "
              r"dropAll database:drop doctrine:database:drop",
              r"rollback\s+--all|downgrade\s+base|down-to\s+0|down\s+-all")),
    Rule(SQL, "deletes data", "etcdctl consul", verb("del delete")),
    Rule(SQL, "deletes topics or queues",
         "kafka-topics kafka-topics.sh kafka-delete-records.sh rabbitmqadmin rabbitmqctl nats",
         verb("--delete delete purge rm purge_queue delete_queue")),
    Rule(SQL, "deletes indices", "curl http wget",
         says(r"DELETE\b.*(/_all|:9200/|/\*)|_delete_by_query|(:9200/|/_all)\S*\s.*\bDELETE\b")),
)  # fmt: skip


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


_VERBS = frozenset({
    "delete", "destroy", "purge", "wipe", "nuke", "terminate", "erase", "delete-all", "deleteall",
    "factory-reset", "drop", "wipe-data",
})  # fmt: skip
KNOWN_OTHERWISE = frozenset({
    "git", "hermes", "grep", "egrep", "rg", "ag", "ack", "fd", "find", "echo", "printf", "cat",
    "man", "tldr", "which", "help", "apropos", "whatis", "http", "https", "xh", "curl", "wget",
    "awk", "sed", "jq", "yq", "npm", "npx", "pnpm", "yarn", "bun", "make", "just", "task",
    "pytest", "cargo", "go", "python", "node", "ruby", "php", "ls", "cd", "test", "touch",
    "mkdir", "cp", "mv", "vim", "nano", "code", "less", "head", "tail", "sort", "uniq", "wc",
    "diff", "tr", "cut", "aws", "gcloud", "az", "gh", "glab", "kubectl", "docker", "podman",
    "psql", "mysql", "sqlite3", "redis-cli", "systemctl", "service", "alias", "export", "read",
    "set", "for", "type", "command", "pip", "uv", "poetry", "brew", "apt", "git-lfs", "rails",
    "rake", "bundle", "open", "say", "fzf", "tee", "xargs", "basename", "dirname", "date", "seq",
    "expr", "cowsay", "figlet", "notify-send", "logger", "jest", "vitest", "mocha", "locate",
    "mdfind", "plocate", "wordnet", "dict", "look", "trans", "function", "declare", "local",
})  # fmt: skip
"""Programs that have rules of their own, or whose operands are text."""

ENGINES = "docker podman nerdctl docker-compose ctr crictl buildah lxc"
CLOUDS = """
    aws gcloud az doctl gsutil bq linode-cli hcloud openstack ibmcloud oci aliyun scw exo vultr-cli
    s3cmd mc b2 azcopy eksctl civo nova glance swift-client
"""
HOSTERS = """
    heroku fly flyctl vercel netlify railway firebase wrangler now render surge deployctl supabase
    neonctl pscale cf dokku scalingo
"""
MACHINES = """
    vagrant virsh vboxmanage multipass qm pct lxc limactl prlctl govc xe esxcli incus virt-install
"""
BUILDERS = "terraform tofu pulumi terragrunt cdk sls serverless sst copilot amplify cdktf"
CLUSTERS = "minikube kind k3d kops kubeadm k0s rke talosctl"
WHOLE = "gives a container the whole machine"
LOSES, CLOUD_LOSS = "deletes running infrastructure", "deletes what lives in a cloud"
RIGHTS = "changes who may do what in a cloud"
KIND = "infrastructure"
CLOUD_RULES = (
    Rule(KIND, "deletes stored data", "hdfs hadoop", verb("-rm -rmr -expunge -rmdir")),
    Rule(KIND, "deletes stored data", "dvc restic borg tmutil",
         verb("gc forget prune purge delete disable deletelocalsnapshots destroy remove")),
    Rule(KIND, "deletes with a tool of its own", "", deletes_by_verb),
    Rule("host access", WHOLE, ENGINES, opens_host),
    Rule("host access", WHOLE, "kubectl oc",
         says(r"--overrides?\b.*(privileged|hostPID|hostPath)|debug\s+node/|--privileged"
              r"|cluster-admin")),
    Rule(KIND, "deletes containers, images or volumes in bulk", ENGINES, deletes_in_bulk),
    Rule(KIND, LOSES, "kubectl oc k3s microk8s",
         but_not(
             verb("delete drain evict taint cordon", r"\bscale\b.*--replicas[= ]0\b"
                  r"|\breplace\b.*--force|\brollout\s+undo\b|finalizers"),
             says(r"^auth "))),
    Rule(KIND, LOSES, "helm", verb("uninstall delete del un rollback")),
    Rule(KIND, "deletes a cluster", CLUSTERS, verb("delete reset remove")),
    Rule(KIND, LOSES, BUILDERS,
         verb("destroy remove delete taint force-unlock",
              r"-auto-approve|\bstate\s+(rm|push)\b|\b(apply|up)\b.*(-y\b|--yes)|stack\s+rm")),
    Rule(KIND, CLOUD_LOSS, CLOUDS,
         verb("delete terminate rb rm remove destroy purge del deregister revoke",
              r"(?:^|\s)(?:(?:batch-)?delete|terminate|deregister|remove|purge|destroy|stop|reboot"
              r"|disable|detach|schedule-key-deletion|revoke)-|\bsync\b.*--delete|:delete\b")),
    Rule(KIND, "deletes what others use", "gh glab",
         says(r"^[\w-]+ (delete|remove|archive|transfer|revoke|delete-asset)\b"
              r"|^api\b.*(-X|--method)[= ]?DELETE")),
    Rule(KIND, RIGHTS, "aws",
         says(r"\biam\s+(create|attach|put|add|update)-|\bput-bucket-(acl|policy)|--acl\s+public"
              r"|authorize-security-group-ingress|ssm\s+send-command")),
    Rule(KIND, RIGHTS, "gcloud gsutil az",
         says(r"add-iam-policy-binding|\biam\s+ch\b.*allUsers|set-iam-policy|assignment\s+create")),
    Rule(KIND, CLOUD_LOSS, HOSTERS,
         verb("destroy delete remove rm teardown",
              r"\w:(destroy|reset|delete|remove|rm|disable)\b|ps:scale\s+\w+=0|maintenance:on"
              r"|\bdb\s+reset")),
    Rule(KIND, "deletes virtual machines", MACHINES,
         verb("destroy undefine unregistervm delete purge poweroff rm remove terminate "
              "vm.destroy")),
    Rule(KIND, "stops jobs", "nomad scancel qdel bkill",
         verb("stop purge -purge all -u --user -1", r"-u\S|--user=")),
    Rule(KIND, "acts on many machines at once", "ansible salt",
         says(r"-m\s+reboot|system\.(reboot|shutdown|poweroff)|state=(stopped|absent)"
              r"|\.(stop|remove)\b")),
    Rule(KIND, "takes a released package back", "npm cargo gem", verb("unpublish yank deprecate")),
)  # fmt: skip


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


PUSH = "overwrites or deletes history on the server"
REWRITES = (
    r"^(-\S+\s+(\S+\s+)?)*(filter-(branch|repo)\b|reflog\s+(expire|delete)\b|update-ref\s+.*-d\b"
    r"|gc\s.*--prune=(now|all)|prune\b.*--expire|replace\s)"
)
GIT_KIND, GIT_LOST = "history rewriting", "throws away changes that are in no commit"
GIT_RULES = (
    Rule(GIT_KIND, PUSH, "git", forced_push),
    Rule(GIT_KIND, "rewrites the whole history", "git", says(REWRITES)),
    Rule(GIT_KIND, "rewrites the whole history", "bfg git-filter-repo git-filter-branch", always),
    Rule(GIT_KIND, PUSH, "hg jj", says(r"\bstrip\b|\bpush\b.*(-f\b|--force|--deleted)")),
    Rule("uncommitted work", GIT_LOST, "git", loses_work),
    Rule("uncommitted work", "deletes many branches at once", "git", unmerged),
    Rule("uncommitted work", GIT_LOST, "hg svn",
         both(says(r"\b(revert|update|purge|cleanup)\b"),
              says(r"--all|-R|--recursive|-C\b|--remove"))),
)  # fmt: skip
