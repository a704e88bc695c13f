"""How dangerous commands are recognised: each test looks at one program that would be started."""

import re
from collections.abc import Callable

import msgspec

from hermes.security.paths import Guard
from hermes.security.shell_syntax import UNKNOWN, Invocation
from hermes.security.targets import (
    DEVICE,
    LOOKS_ONLY,
    PUBLIC,
    absolute,
    in_system,
    operands,
    options,
    tidy,
    touched,
    vital,
    written,
)
from hermes.security.wrappers import SHELLS, reads_commands, shell_text


class Scene(msgspec.Struct, frozen=True):
    """Where the command would run."""

    guard: Guard
    folder: str


Test = Callable[[Invocation, Scene], bool]


def always(_invocation: Invocation, _scene: Scene) -> bool:
    return True


def says(pattern: str) -> Test:
    """The arguments, joined by blanks, contain `pattern`."""
    compiled = re.compile(pattern, re.IGNORECASE)
    return lambda invocation, _: compiled.search(" ".join(invocation.arguments)) is not None


def option(*wanted: str) -> Test:
    return lambda invocation, _: bool(options(invocation) & set(wanted))


def both(first: Test, second: Test) -> Test:
    return lambda invocation, scene: first(invocation, scene) and second(invocation, scene)


recursive = option("r", "R", "--recursive")
runs_detached = re.compile(r"\bgateway\s+(run|start)\b")
INTERPRETERS = r"(python|pypy)[\d.]*|perl|ruby|node|nodejs|deno|bun|php|lua|Rscript|osascript|tclsh"
INLINE = {"python": "c", "pypy": "c", "perl": "eE", "ruby": "e", "php": "r", "lua": "e"}
INLINE_OTHERS = "ep"
FETCHERS = frozenset({"curl", "wget", "fetch", "aria2c", "http", "https", "lwp-request", "nc"})
HARMLESS_EVAL = frozenset({
    "ssh-agent", "pyenv", "rbenv", "nodenv", "direnv", "brew", "conda", "fnm", "zoxide",
    "dircolors", "opam", "minikube", "luarocks", "starship", "mise", "keychain", "gpg-agent",
})  # fmt: skip
SQL_CLIENTS = r"psql|mysql|mariadb|sqlite3?|sqlcmd|duckdb|clickhouse(-client)?|cockroach|usql|bq"
SQL_LOSS = re.compile(
    r"\bdrop\s+(table|database|schema|view|user|role|index)\b|\btruncate\s+(table\s+)?\w"
    r"|\bdelete\s+from\s+[\w.\"`]+\s*(;|$|[\"'](?!.*\bwhere\b))",
    re.IGNORECASE,
)


def deletes_vital(invocation: Invocation, scene: Scene) -> bool:
    if "--no-preserve-root" in invocation.arguments:
        return True
    named = operands(invocation)
    return recursive(invocation, scene) and any(vital(p, invocation, scene.guard) for p in named)


def find_deletes_vital(invocation: Invocation, scene: Scene) -> bool:
    """`find / -delete` with nothing that narrows it down."""
    arguments = invocation.arguments
    broad = not any(
        re.match(r"-(i?name|path|regex|mtime|size|user|newer|empty)", w) for w in arguments
    )
    starts = [word for word in arguments[:1] if vital(word, invocation, scene.guard)]
    return bool(starts) and broad and ("-delete" in arguments or "rm" in arguments)


def deletes_in_system(invocation: Invocation, scene: Scene) -> bool:
    named = [tidy(path, scene.guard) for path in operands(invocation)]
    return any(in_system(path, scene.guard) or re.fullmatch(r"/[^/]*", path) for path in named)


def formats_device(invocation: Invocation, _scene: Scene) -> bool:
    named = operands(invocation)
    return not named or any(word.startswith("/dev/") or UNKNOWN in word for word in named)


def writes_device(invocation: Invocation, scene: Scene) -> bool:
    return any(DEVICE.match(tidy(path, scene.guard)) for path in written(invocation))


def writes_system(invocation: Invocation, scene: Scene) -> bool:
    paths = (path for path in written(invocation) if not DEVICE.match(path))
    folder = invocation.folder
    return any(
        in_system(f"{folder}/{p}" if folder[:1] == "/" and p[:1] not in "/~" else p, scene.guard)
        for p in paths
    )


def writes_own(invocation: Invocation, scene: Scene) -> bool:
    for path in written(invocation):
        real = absolute(path, invocation, scene.guard, scene.folder)
        if real and (scene.guard.is_own(real) or _holds_own(real, invocation, scene)):
            return True
    return False


def _holds_own(real: str, invocation: Invocation, scene: Scene) -> bool:
    """Deleting or moving a folder takes our files in it along."""
    if invocation.name not in ("rm", "mv", "shred"):
        return False
    return any(str(root) == real or f"{root}/".startswith(f"{real}/") for root in scene.guard.own)


def changes_own_settings(invocation: Invocation, _scene: Scene) -> bool:
    text = " ".join(invocation.arguments)
    return bool(
        re.search(
            r"\bconfig\s+(set|unset)\s+(approvals|command_allowlist|security|terminal)\b", text
        )
    )


def mentions_own(invocation: Invocation, scene: Scene) -> bool:
    """Code given on the command line that names our settings or keys."""
    roots = "|".join([r"\.hermes", *(re.escape(str(root)) for root in scene.guard.own)])
    text = " ".join([*invocation.arguments, invocation.stdin])
    return inline_code(invocation, scene) and bool(
        re.search(rf"({roots})\S*(config\.yaml|\.env)\b", text)
    )


def uses_credentials(invocation: Invocation, scene: Scene) -> bool:
    if invocation.name in LOOKS_ONLY and not invocation.redirects:
        return False
    for path in touched(invocation):
        real = absolute(path, invocation, scene.guard, scene.folder)
        if not real or PUBLIC.search(real):
            continue
        if scene.guard.is_credential(real) or scene.guard.is_own(real):
            return True
    return False


def writes_startup(invocation: Invocation, scene: Scene) -> bool:
    for path in written(invocation):
        real = absolute(path, invocation, scene.guard, scene.folder)
        if real and (scene.guard.is_startup(real) or scene.guard.is_credential(real)):
            return True
    return False


def world_writable(invocation: Invocation, _scene: Scene) -> bool:
    for word in invocation.arguments:
        octal = re.fullmatch(r"0?[0-7]?([0-7]{3})", word)
        if octal and int(octal[1][-1]) & 2:
            return True
        if re.fullmatch(r"([ugoa,rwxXst+=-]*,)?[ug]*[oa][ugoa]*[+=][rxXst]*w[rwxXst]*", word):
            return True
    return False


def sweeps_owners(invocation: Invocation, scene: Scene) -> bool:
    named = operands(invocation)
    if not recursive(invocation, scene):
        return False
    to_root = invocation.name == "chown" and bool(named) and re.match(r"(root|0)\b", named[0])
    return bool(to_root) or any(
        vital(p, invocation, scene.guard) or in_system(p, scene.guard) for p in named[1:]
    )


def shell_with_text(invocation: Invocation, _scene: Scene) -> bool:
    return shell_text(invocation) is not None


def inline_code(invocation: Invocation, _scene: Scene) -> bool:
    """Code after `-c` or `-e`, or given as input."""
    base = re.sub(r"[\d.]+$", "", invocation.name)
    if not re.fullmatch(INTERPRETERS, invocation.name):
        return False
    letters = INLINE.get(base, INLINE_OTHERS)
    for word in invocation.arguments:
        if re.fullmatch(rf"-[a-zA-Z0]*[{letters}].*", word) or word in (
            "--eval",
            "--print",
            "--exec",
        ):
            return not (base in ("python", "pypy") and word.startswith("--"))
        if word == "-m" or not word.startswith("-"):
            break
    fed = bool(invocation.stdin or invocation.upstream)
    return fed and reads_commands(invocation) and not options(invocation) & {"V", "--version"}


def fed_to_shell(invocation: Invocation, _scene: Scene) -> bool:
    """A shell that runs what other programs print."""
    if invocation.name in SHELLS or invocation.name in ("source", "."):
        fed = bool(invocation.upstream or invocation.stdin) and reads_commands(invocation)
        return (fed and invocation.name in SHELLS) or bool(invocation.fed_by)
    return bool(invocation.feeders & FETCHERS) and invocation.name == "eval"


def code_from_network(invocation: Invocation, _scene: Scene) -> bool:
    sources = {source.name for source in invocation.upstream} | invocation.feeders
    runs = invocation.name in SHELLS or invocation.name in ("source", ".", "eval")
    runs = runs or bool(re.fullmatch(INTERPRETERS, invocation.name))
    return runs and bool(sources & FETCHERS)


def hidden_command(invocation: Invocation, _scene: Scene) -> bool:
    """The name of the program is known only when the command runs."""
    if invocation.name == "eval":
        unknown = any(UNKNOWN in word for word in invocation.arguments)
        return unknown and not invocation.feeders & HARMLESS_EVAL
    if not invocation.words or invocation.via[-1:] == ("eval",):
        return False
    return bool(re.search(rf"[{UNKNOWN}*?\[]", invocation.name)) and invocation.name not in (
        "[",
        "[[",
    )


def loses_data(invocation: Invocation, _scene: Scene) -> bool:
    texts = [*invocation.arguments, invocation.stdin]
    texts += [word for source in invocation.upstream for word in (*source.arguments, source.stdin)]
    return any(SQL_LOSS.search(text) for text in texts)


def deletes_listed(invocation: Invocation, _scene: Scene) -> bool:
    """`rm` of what find, fd or xargs come up with."""
    return bool({"xargs", "find", "fd", "parallel"} & set(invocation.via))


def kills_all(invocation: Invocation, _scene: Scene) -> bool:
    return "-1" in invocation.arguments[-1:] and len(invocation.arguments) > 1


def kills_hermes(invocation: Invocation, _scene: Scene) -> bool:
    fed = [word for source in invocation.fed_by for word in source.words]
    text = " ".join((*invocation.arguments, *fed))
    return bool(re.search(r"hermes|gateway", text))


def detached_gateway(invocation: Invocation, _scene: Scene) -> bool:
    detached = invocation.background or {"nohup", "setsid", "disown"} & set(invocation.via)
    return bool(detached) and bool(runs_detached.search(" ".join(invocation.words)))


def forced_push(invocation: Invocation, _scene: Scene) -> bool:
    arguments = invocation.arguments
    if "push" not in arguments:
        return False
    return bool(
        options(invocation) & {"f", "--force", "--force-with-lease", "--mirror", "--delete"}
    ) or any(re.match(r"\+|:[\w/]", word) for word in arguments)


def network_shell(invocation: Invocation, _scene: Scene) -> bool:
    targets = [redirect.target for redirect in invocation.redirects]
    return any(re.match(r"/dev/(tcp|udp)/", path) for path in (*targets, *invocation.arguments))


def calls_shell(invocation: Invocation, _scene: Scene) -> bool:
    text = " ".join(invocation.arguments)
    return bool(re.search(r"\bsystem\s*\(|\|\s*\"|\bgetline\b.*\||\"\s*\|\s*getline", text))


def opens_host(invocation: Invocation, _scene: Scene) -> bool:
    text = " ".join(invocation.arguments)
    return bool(
        re.search(
            r"--privileged|(-v|--volume|source=|src=)[= ]?/:|--pid[= ]host|docker\.sock", text
        )
    )
