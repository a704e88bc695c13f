"""Keys and passwords: showing them, searching for them, and sending private data away."""

import re
from fnmatch import fnmatchcase

from hermes.security.danger.context import (
    ShellContext,
    in_place,
    is_pattern,
    operands,
    options,
    touched_paths,
)
from hermes.security.shell.model import UNKNOWN, Invocation
from hermes.security.shell.wrappers import HOLDS_TEXT
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
    r"|/\.(mozilla|bitcoin|ethereum|electrum|thunderbird)/|/\.(bash|zsh|mysql|psql|python)_history\Z"
    r"|/\.(kaggle|databrickscfg|snowsql|oci|fly|ngrok2|msmtprc|heroku|tsh|putty|purple|codex)(/|\Z)"
    r"|/\.(m2/settings\.xml|gradle/gradle\.properties|composer/auth\.json|claude/\.credentials\.json)"
    r"|/\.(cache/)?huggingface/token|/\.config/(doctl|hub|stripe|sops|ngrok|filezilla|github-copilot)/"
    r"|/etc/(kubernetes/\w+\.conf|ppp/chap-secrets|wireguard|openvpn|master\.passwd|rancher"
    r"|NetworkManager/system-connections|security/opasswd)|/System32/config/SAM"
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


def prints_secret_variable(invocation: Invocation, _context: ShellContext) -> bool:
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
    return any(SECRET_NAME.search(used) for used in invocation.uses if used not in invocation.known)


def filters_secrets(invocation: Invocation, _context: ShellContext) -> bool:
    """`env | grep -i key`."""
    dumped = {source.name for source in invocation.upstream[-2:]} & _DUMPED
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


_TALKERS = frozenset({"curl", "wget", "http", "https", "xh"})
