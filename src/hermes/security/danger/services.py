"""What others see: requests, uploads, changes to services, and servers that others can reach."""

import re
from itertools import pairwise

from hermes.security.danger.context import (
    WRITES_ALL,
    WRITES_LAST,
    ShellContext,
    has_option,
    operands,
)
from hermes.security.danger.system import PRODUCTION, subcommand
from hermes.security.danger.transfers import CURL, WGET, parse_request
from hermes.security.read_only import reads_only
from hermes.security.shell.expansion import known_input
from hermes.security.shell.model import UNKNOWN, Invocation
from hermes.security.shell.wrappers import HOLDS_TEXT, SHELLS, option_values
from hermes.security.tables import word_list

ONLY_SHOWS = re.compile(
    r"(?:^|\s)--?(?:dry[-_]?run(?:=(?:client|server|true|all|1))?|help|version|noop|what-if|preview|plan"
    r"|simulate|no-deploy|local|offline|just-print|show-only)(?=\s|\Z)|(?:^|\s)help(?=\s|\Z)"
)
"""Options with which a client of a service changes nothing."""
_TRIAL = re.compile(
    r"(?:^|[\s=/:@_.-])(?:dev|develop\w*|local\w*|tests?|testing|stag(?:e|ing)|sandbox|minikube|kind"
    r"|k3d|qa|127\.0\.0\.1)(?=[\s=/:@_.,-]|\Z)",
    re.IGNORECASE,
)
"""A word for an environment that only developers use."""
_FORGES, _CLIENTS = word_list("forges"), word_list("service_clients")
_LOOKS = re.compile(
    rf"(?:[\w-]+:)*(?:{'|'.join(word_list('looking_verbs'))})(?:[-:]\S+)?|(?:emulators|local|dev):\S+"
)
_CHANGES = re.compile(
    rf"(?:[\w.-]+[:.])*(?:{'|'.join(word_list('changing_verbs'))})(?:[-:]\w[\w-]*)?"
)
_OF_THIS_MACHINE = word_list("local_subcommands")
_DEVICES = word_list("device_clients")
_GLANCES = re.compile(rf"(?:{'|'.join(word_list('glancing_verbs'))})(?:[-:_]?\w+)*")
_JUDGED_BY_VERB = frozenset({"gsutil", "bq", "wp", "drush", "packer", "gcloud", "az"})
_RUNS_HERE = frozenset({
    "run", "exec", "shell", "console", "install", "prebuild", "upgrade", "trigger",
})  # fmt: skip
_TRIAL_CHAIN = re.compile(
    r"\b(?:regtest|testnet\d?|devnet|signet|localnet|localhost|127\.0\.0\.1)\b"
)


def changes_service(invocation: Invocation, _context: ShellContext) -> bool:
    """`gh pr merge 5`, `gcloud run deploy`, `twilio api:core:messages:create`; of most clients
    every invocation with two words and no look."""
    if invocation.name not in _FORGES and invocation.name not in _CLIENTS:
        return False
    text, named = invocation.plain, operands(invocation)[:5]
    if ONLY_SHOWS.search(text) or not named or named[0] in _OF_THIS_MACHINE:
        return False
    if named[0] == "run" and "--" in invocation.arguments:
        return False  # the command after the dashes is examined separately
    for word, after in zip(named, (*named[1:], ""), strict=True):
        if _LOOKS.fullmatch(word):
            return False
        if _CHANGES.fullmatch(word) and not _LOOKS.fullmatch(after):  # `wp post list`
            return invocation.name in _FORGES or not _TRIAL.search(text)
    if invocation.name in _FORGES or not named[1:] or invocation.name in _JUDGED_BY_VERB:
        return False
    looks = any(map(_GLANCES.fullmatch, named)) or named[0] in _RUNS_HERE
    return not looks and not _TRIAL.search(text)


def changes_device(invocation: Invocation, _context: ShellContext) -> bool:
    """`hass-cli service call lock.unlock`: for clients of homes, wallets and phones everything but
    looking."""
    named = operands(invocation)[:3]
    if invocation.name not in _DEVICES or not named or ONLY_SHOWS.search(invocation.plain):
        return False
    if not named[1:] and not _CHANGES.fullmatch(named[0]):
        return False
    looks = any(map(_GLANCES.fullmatch, named))
    return not looks and not _TRIAL_CHAIN.search(invocation.plain)


_AWS_LOOKS = re.compile(
    r"(?:describe|list|get|batch-get|transact-get|head|search|lookup|filter|view|validate|estimate"
    r"|simulate|test|detect|check|preview|download|query|scan|select|discover|decode|verify|explain"
    r"|start-query|receive)(?:-.*)?|ls|tail|wait|login|logout|help|update-kubeconfig|history"
)
_AWS_LOCAL = frozenset({"configure", "sso", "help"})


def changes_aws(invocation: Invocation, _context: ShellContext) -> bool:
    """Every operation of `aws` except those that read."""
    words = list(invocation.arguments)
    while words and words[0].startswith("--"):  # before the service, all but these have a value
        flag = "=" in words[0] or words[0].startswith(("--no-", "--debug", "--version"))
        del words[: 1 if flag else 2]
    named = [word for word in words if word == "-" or not word.startswith("-")]
    if len(named) < 2 or named[0] in _AWS_LOCAL or _TRIAL.search(invocation.plain):
        return False
    if ONLY_SHOWS.search(invocation.plain) or _AWS_LOOKS.fullmatch(named[1]):
        return False
    if named[0] == "s3" and named[1] in ("cp", "sync", "mv"):
        return any(word.startswith("s3://") for word in named[3:4])
    return True


_CLUSTER_VERBS = frozenset({
    "apply", "create", "replace", "patch", "scale", "autoscale", "expose", "set", "restart",
    "upgrade", "install", "run", "undo", "pause", "resume",
})  # fmt: skip


def changes_cluster(invocation: Invocation, _context: ShellContext) -> bool:
    """`kubectl apply`, `helm upgrade`, unless a word tells that the cluster is one for trials."""
    text, named = invocation.plain, operands(invocation)
    built = " ".join((text, *(source.plain for source in invocation.upstream)))
    if ONLY_SHOWS.search(text) or _TRIAL.search(built) or "--rm" in invocation.arguments:
        return False
    if re.match(r"(-\S+ )*(config|repo|plugin|dependency|auth|diff|kustomize)\b", text):
        return False
    if "cp" in named[:3]:
        return ":" in named[-1]
    return not _CLUSTER_VERBS.isdisjoint(named[:4]) and {"diff", "token"}.isdisjoint(named)


def acts_remotely(invocation: Invocation, _context: ShellContext) -> bool:
    """`DOCKER_HOST=ssh://… docker compose up`."""
    hosts = [value for key, value in invocation.assignments if key == "DOCKER_HOST"]
    hosts += option_values(invocation.arguments, ("-H", "--host", "--context"))
    verbs = r"(^|\s)(up|down|run|rm|stop|restart|kill|start|exec|create|deploy|load|update)(\s|$)"
    away = any(re.match(r"(ssh|tcp)://(?!localhost|127\.)|.*prod", host) for host in hosts)
    return away and bool(re.search(verbs, invocation.plain))


def changes_host(invocation: Invocation, _context: ShellContext) -> bool:
    """`ssh web1 'cd app && git pull'`."""
    return not {"ssh", "mosh", "autossh"}.isdisjoint(invocation.via) and not reads_only(invocation)


# Requests and uploads

_WRITING = frozenset({"POST", "PUT", "PATCH"})
_NEAR = re.compile(
    r"(?:\w+://)?(?:[^/@]*@)?(?:localhost|127\.|0\.0\.0\.0|\[::1\]|host\.docker\.internal|:\d"
    r"|[\w.-]+\.(?:local|localhost|test)(?=[:/]|\Z)|[\w-]+(?=:\d|/|\Z)"
    r"|(?:[\w-]+\.)*(?:httpbin\.org|httpbingo\.org|postman-echo\.com|reqres\.in|typicode\.com)\b)"
)
"""This machine, a container, or a service that only answers what it gets."""
_ASKS = re.compile(r"\s*\{\s*\"query\"\s*:(?!.*\bmutation\b)", re.DOTALL)
_SEARCHES = re.compile(r"/(?:_search|_count|_msearch|_analyze|graphql/?\Z.*query)\b")
_HOOK = re.compile(r"(?i)webhook|slack|discord|telegram|teams|ntfy|(?:^|_)prod")
_PACKS = word_list("data_packers") | word_list("data_dumpers") | {"env", "printenv", "git"}
_ITEM = re.compile(r"[\w.\[\]-]+(?::=@?|=@?(?!=)|@)")


def sends_request(invocation: Invocation, _context: ShellContext) -> bool:
    """`curl -d … https://…`: data for a service, except a search or a server of this machine."""
    if invocation.name not in ("curl", "wget"):
        words = operands(invocation)
        method = words[0].upper() if words else ""
        url, *items = [word for word in words if not re.fullmatch("(?i)[a-z]{3,6}", word)] or [""]
        data = any(_ITEM.match(item) for item in items) and method not in ("GET", "HEAD")
        return (method in _WRITING or data) and not _NEAR.match(url) and UNKNOWN not in url[:1]
    options = CURL if invocation.name == "curl" else WGET
    request = parse_request(invocation.arguments, options)
    names = {name for name, _ in request.given}
    bodies = request.values(options.bodies - {"b", "cookie", "url-query"})
    methods = {value.upper() for value in request.values(("X", "request", "method"))}
    files = bool(request.values(options.files)) or any(
        re.match(r"[\w.\[\]-]+=[@<]", body) for body in bodies
    )
    if {"G", "get"} & names or not (files or bodies or methods & _WRITING):
        return False
    if bodies and all(map(_ASKS.match, bodies)) and not methods & {"PUT", "PATCH"}:
        return False
    packed = any(source.name in _PACKS for source in invocation.upstream)
    hooked = any(map(_HOOK.search, invocation.uses))
    for url in (*request.operands, *request.values(("url",))):
        if url.startswith(UNKNOWN):
            if files or packed or hooked:
                return True
        elif not _NEAR.match(url) and not _SEARCHES.search(url):
            return True
    return False


_PRIVATE_HOST = re.compile(
    r"(?:\w+://)?(?:[^/@]*@)?(?:192\.168\.|10\.|172\.(?:1[6-9]|2\d|3[01])\."
    r"|[\w-]+\.(?:local|lan|home|internal|fritz\.box)\b|(?!localhost\b)[a-z][\w-]*(?=[:/]))"
)
_CONTROLS = re.compile(
    r"[/=_?&.-](?:delete|remove|reboot|restart|shutdown|power_?off|unlock|toggle|turn_o[nf]+|factory_?reset|reset"
    r"|format|relay|upgrade|ota)(?=[/=?&.%\s_-]|\Z)|/api/services/\w|[?&](?:cmnd|cmd|command|turn|action|power)="
    r"|delete_?files=true|/rpc/\w+\.(?:set|toggle)",
    re.IGNORECASE,
)
_DELETES_FILES = re.compile(r"\bdelete_?(?:files|data|local)\b\W{1,4}(?:true|1)\b", re.IGNORECASE)


def controls_device(invocation: Invocation, _context: ShellContext) -> bool:
    """`curl http://192.168.1.5/cm?cmnd=Power%20off`, and `deleteFiles=true` on any server."""
    if _DELETES_FILES.search(invocation.plain):
        return True
    urls = [word for word in operands(invocation) if _PRIVATE_HOST.match(word)]
    return any(_CONTROLS.search(word.partition("://")[2]) for word in urls)


_REMOTE = re.compile(
    r"(?!\w:[\\/])(?:[\w.+-]+@[\w.-]+|[\w.-]{2,}|\[[^\]]+\]):(?!\d+\Z)|\w+://|[\w.-]+::"
)
_LOCAL = re.compile(r"(?:\w+://)?(?:[\w.-]+@)?(?:localhost|127\.\d|\[::1\])\b|file:")
_PUTS = re.compile(
    r"(?:^|[\n;\"'])\s*-?(?:put|mput|reput|send|mirror\s+(?:-\S+\s+)*(?:-\w*R|--reverse)|rename)\b",
    re.IGNORECASE,
)


_COPIES = frozenset({
    "cp", "copy", "copyto", "sync", "mv", "move", "moveto", "put", "rsync", "upload", "mirror",
    "bisync", "upload-file", "rcat", "upload-batch", "pipe", "backup", "send",
})  # fmt: skip


def copies_out(invocation: Invocation, context: ShellContext) -> bool:
    """`scp x host:`, `rclone copy x remote:`, `gsutil cp x gs://…`: the target is elsewhere."""
    name, named = invocation.name, operands(invocation)
    if name in ("sftp", "ftp", "lftp", "smbclient", "tftp"):
        fed = (each.text for each in invocation.upstream if each.name in ("echo", "printf"))
        texts = (known_input(invocation) or "", invocation.stdin, *fed, *invocation.arguments)
        scripts = option_values(invocation.arguments, ("-b", "-f"))
        texts = (*texts, *(context.file_text(path, invocation) for path in scripts if path))
        return any(map(_PUTS.search, texts))
    if has_option(invocation, "n", "--dry-run") or not named:
        return False
    if name in ("scp", "rsync"):
        return bool(_REMOTE.match(named[-1])) and not _LOCAL.match(named[-1])
    if _COPIES.isdisjoint(named[:4]):
        return False
    if name == "mc":
        return named[-1][:1] not in "./~"
    return "upload" in " ".join(named[:4]) or bool(_REMOTE.match(named[-1]))


def piped_to_host(invocation: Invocation, _context: ShellContext) -> bool:
    """`tar c . | ssh host 'cat > x'`."""
    packed = any(source.name in _PACKS - {"head", "openssl"} for source in invocation.upstream)
    packed = packed or any(each.operator == "<" for each in invocation.redirects)
    stored = re.search(r">|\b(tar|dd|tee|cpio|psql|mysql|zfs|btrfs|docker load)\b", invocation.text)
    return packed and (
        stored is not None or len(operands(invocation)) == 1 or " -s" in invocation.text
    )


# Servers that others can reach.

_EVERYWHERE = re.compile(
    r"(?:^|[\s=,/@])(?:0\.0\.0\.0|\[::\])(?::\d+)?(?=[\s:,]|\Z)|--bind[_-](?:ip[_-])?all(?!=false)\b"
    r"|--(?:ip|host|bind|address|listen)[= ](?:\*|::)(?=\s|\Z)"
)
_HOST_VARIABLE = re.compile(r"(?i).*(host|addr(ess)?|bind|listen|_ip)")
_NO_SERVERS = HOLDS_TEXT | {
    "ss", "netstat", "ip", "nmap", "wait-for-it", "traceroute", "telnet", "route", "iptables",
}  # fmt: skip


def listens_everywhere(invocation: Invocation, _context: ShellContext) -> bool:
    """`jupyter lab --ip=0.0.0.0`: a server that other machines reach; not in a container."""
    for key, value in invocation.assignments:
        if value.startswith(("0.0.0.0", "[::]")) and _HOST_VARIABLE.fullmatch(key):
            return bool(invocation.words) and invocation.name not in _NO_SERVERS
    text = invocation.plain
    if "0.0.0.0" not in text and "bind" not in text and "::" not in text and "*" not in text:
        return False
    if invocation.name in _NO_SERVERS or {"docker", "podman", "kubectl"} & set(invocation.via):
        return False
    if invocation.name in ("docker", "podman", "docker-compose", "nerdctl"):
        return bool(re.search(r"(-p|--publish)[= ]?0\.0\.0\.0", text))
    return bool(_EVERYWHERE.search(text))


# Programs without rules of their own, judged by their subcommand.

_VERBS, _UNDOING = word_list("deleting_verbs"), word_list("undoing_verbs")
_REMOVING, _PUBLISHING = word_list("removing_verbs"), word_list("publishing_verbs")
_SENDING = word_list("sending_verbs")
KNOWN_OTHERWISE = word_list("known_otherwise")
_NO_SERVICES = SHELLS | HOLDS_TEXT | WRITES_ALL | WRITES_LAST | word_list("changes_project")
_NO_SERVICES |= word_list("reads_only") | word_list("opens_files")
_PROJECT_TOOLS = word_list("project_tools")
_SETTLING, _EDITING = word_list("settling_verbs"), word_list("editing_verbs")
_JUDGED = _FORGES | _CLIENTS | _DEVICES
_AGREED = frozenset({"", "y", "yes"})
_DEPLOYERS = word_list("deployers")
_VERB_PART = re.compile(
    r"^[a-z]+([-:_.][a-z]+)*[-:_.](delete|destroy|purge|terminate|wipe|drop|obliterate|erase|expunge)\Z"
    r"|^(delete|destroy|purge|terminate|wipe|erase|burn|nuke|expunge|revoke|factory|mass)"
    r"([-:_][a-z]+([-:_][a-z]+)*|all|site|app|project)\Z"
    r"|^(db|database|schema|data)[-:_](reset|fresh|truncate|clean)\Z|^remove_all\Z"
)
_CONTROL_STOPS = frozenset({"stop", "kill", "cleanse", "shutdown", "reset", "remove", "uninstall"})
_TRIED = re.compile(
    r"(?:^|\s)--(?:dry-?run|help|list|simulate|plan|check|local)(?=\s|\Z)|\btest\.?pypi\b"
)
_RUNNERS = frozenset({
    "npx", "bunx", "uvx", "pipx", "pnpm", "yarn", "npm", "uv", "poetry", "bundle", "xargs",
    "python", "python3",
})  # fmt: skip
"""Programs that start the tools of a project."""
_DEPLOY_REMOTE = re.compile(
    r"(heroku|dokku|prod|production|live|deploy|piku|gigalixir|scalingo|clever|render|caprover)([-_.]\S*)?",
    re.IGNORECASE,
)


def deletes_by_verb(invocation: Invocation, _context: ShellContext) -> bool:
    """`tool things delete …` of a program without rules of its own."""
    words = invocation.words
    if not words or not _RUNNERS.issuperset(invocation.via):
        return False
    if invocation.name in KNOWN_OTHERWISE or _TRIED.search(invocation.plain):
        return False
    if "/" in words[0] or ("." in words[0] and invocation.via):
        return False  # a program of the project, which may do as it likes
    end = words.index("--") if "--" in words else len(words)
    pairs = pairwise(words[:end])
    selected = {word for option, word in pairs if option in ("-k", "-t", "-g", "-m", "--grep")}
    given = (word for word in words[1:end] if not word.startswith("-") and word not in selected)
    every = [word.lower() for word in given]
    named = every[:3]
    if any(word in _VERBS or _VERB_PART.search(word) for word in named):
        return True
    if every[3:] and every[-1] in _VERBS and not any(map(_LOOKS.fullmatch, named)):
        return True
    if invocation.name not in _NO_SERVICES and not _REMOVING.isdisjoint(named[:-1][:2]):
        return True
    if invocation.name.endswith("ctl") and not _CONTROL_STOPS.isdisjoint(named[:1]):
        return True
    forced = has_option(invocation, "--purge", "--all", "--force", "y", "f", "--yes")
    return forced and not _UNDOING.isdisjoint(named)


def is_other_program(invocation: Invocation) -> bool:
    """Return whether it is a program without rules of its own, judged by its options and words."""
    words, name = invocation.words, invocation.name
    if not words or name in KNOWN_OTHERWISE or name in _NO_SERVICES or name in _PROJECT_TOOLS:
        return False
    own = "/" in words[0] or ("." in words[0] and bool(invocation.via))
    return not own and _RUNNERS.issuperset(invocation.via) and not _TRIED.search(invocation.plain)


_NAMED_VERB = re.compile(
    r"\w[\w-]*[-_](?:send|delete|rm|destroy|purge|wipe|erase|upload|publish|deploy|nuke|unlock|poweroff|reboot)"
    r"|(?:send|delete|destroy|wipe|purge|nuke|erase|publish|upload|drop)[-_]\w[\w-]*|octodns-sync|sendsms"
)


def named_by_verb(invocation: Invocation, _context: ShellContext) -> bool:
    """`octodns-sync`, `sms-send`, `wipe-disk`."""
    return _NAMED_VERB.fullmatch(invocation.name.partition(".")[0]) is not None


def settles_by_verb(invocation: Invocation, _context: ShellContext) -> bool:
    """`tool close 12`, `tool users update 5`, `tool users:disable bob`."""
    named = [word.lower() for word in operands(invocation)[:4]]
    if invocation.name in _JUDGED or any(map(_LOOKS.fullmatch, named[:3])):
        return False
    if _TRIAL.search(invocation.plain):
        return False
    return (
        not _SETTLING.isdisjoint(named[:-1][:2])
        or (len(named) > 2 and named[1] in _EDITING)
        or any(":" in word and word.rpartition(":")[2] in _SETTLING for word in named[:2])
    )


def answers_all(invocation: Invocation, _context: ShellContext) -> bool:
    """`yes | tool …`: whatever the program asks, it is answered."""
    source = invocation.upstream[-1] if invocation.upstream else None
    answers = source is not None and source.name == "yes" and source.plain.lower() in _AGREED
    return answers and not invocation.via


def publishes_by_verb(invocation: Invocation, _context: ShellContext) -> bool:
    """`tool upload x` of a program without rules of its own; a last word may be a file."""
    words = invocation.words
    deploys = words[1:] == ("publish",) or (bool(invocation.via) and words[1:] == ("deploy",))
    if not (deploys or len(words) > 2) or not _RUNNERS.issuperset(invocation.via):
        return False
    if invocation.name in KNOWN_OTHERWISE or invocation.name in _NO_SERVICES:
        return False
    if "." in words[0] or ("/" in words[0] and words[0][:1] != "@"):
        return False
    named = operands(invocation)[:3]
    alone = deploys or words[1] in _PUBLISHING | _SENDING
    return (alone or not _PUBLISHING.isdisjoint(named[:-1])) and not _TRIED.search(invocation.plain)


_DEPLOYS = re.compile(
    r"(^|[\s:/_.-])(deploy\w*|release|rollback|promote|teardown|destroy|create-deployment|ship|publish"
    r"|start-pipeline-execution|migrate|rollout|failover|update)(?=[\s:/_.-]|\Z)",
    re.IGNORECASE,
)
_DEPLOY_TARGET = re.compile(
    r"^\s(run\s+|run-script\s+)?(deploy|publish)(?=\s|\Z)(?!.*\b(dev|stag\w*|local|test|preview)\b)|^deploy[\w-]*\.sh\b"
    r"(?!.*\b(dev|stag\w*|local|test)\b)"
)
_ONLY_LOOKS = re.compile(
    r"--(check|dry-run|plan|diff|help|list|status|version|noop)\b|(^|\s)(-n|status|diff|plan|logs|ps)(\s|\Z)"
    r"|(^|\s)(view|list|describe-\S+|get-\S+|config|validate|test|lint|build)(\s|\Z)"
)


def deploys_to_production(invocation: Invocation, _context: ShellContext) -> bool:
    """`make deploy-prod`, `./deploy.sh production`, `cap production deploy`."""
    words = invocation.words
    if not words or invocation.name == "vercel" or words[:2] == ("pnpm", "deploy"):
        return False
    script = words[0] if "/" in words[0] or words[0].endswith(".sh") else ""
    if not script and invocation.name not in _DEPLOYERS:
        return False
    text = f"{script.rpartition('/')[2]} {invocation.plain}"
    deploys = (_DEPLOYS.search(text) and PRODUCTION.search(text)) or _DEPLOY_TARGET.search(text)
    return bool(deploys) and not _ONLY_LOOKS.search(text)


def pushes_to_deploy(invocation: Invocation, _context: ShellContext) -> bool:
    """`git push heroku main`: the remote starts what it gets."""
    words = [word for word in subcommand(invocation) if not word.startswith("-")]
    return words[:1] == ["push"] and _DEPLOY_REMOTE.fullmatch("".join(words[1:2])) is not None
