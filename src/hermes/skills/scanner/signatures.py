"""Signatures of attacks in code of any language, matched against the text.

Python and shell scripts are also analysed as syntax trees. For other languages, these signatures
are the only check.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final, Literal

from hermes.security import (
    CREDENTIAL_STORES,
    OWN_FILES,
    SECRET_FILES,
    SECRET_PLACES,
    STARTUP_FILES,
    SYSTEM_CREDENTIALS,
    Invocation,
)
from hermes.security.danger.secrets import ENV_FILE
from hermes.skills.scanner.pieces import scheduled_commands
from hermes.skills.scanner.rules import (
    RULES,
    TABLES,
    LineIndex,
    RuleHit,
    find_all,
    table_pattern,
    word_list,
)

# Addresses and files that several detectors use

COLLECTOR, MESSENGER = table_pattern("collector"), table_pattern("messenger")
BARE_ADDRESS, MINER = table_pattern("bare_address"), table_pattern("miner")
HOST = re.compile(r"(?:https?|wss?|ftp)://(?:[^\s/@\"']{1,80}@)?([A-Za-z0-9.-]{1,200})")
LOCAL = re.compile(r"(?:localhost|127\.[\d.]+|0\.0\.0\.0|::1|[\w-]+\.(?:local|lan|internal))\Z")


_HOMES = r"(?:~|\$\{?HOME\}?|%USERPROFILE%|/root|/home/[^/\s\"']{1,40}|/Users/[^/\s\"']{1,40})"


def _any_of(names: tuple[str, ...]) -> str:
    return "|".join(re.escape(name) for name in names)


CREDENTIAL_STORE = re.compile(
    rf"{_HOMES}[/\\](?:{_any_of(CREDENTIAL_STORES)})(?![\w.-])|(?:{_any_of(SYSTEM_CREDENTIALS[:4])})"
    r"|(?<![\w.-])\.(?:ssh|aws|gnupg|kube)[/\\](?:id_\w+|credentials|config|\*)"
    r"|[\"']\.(?:ssh|aws|gnupg)[\"']|key4\.db|logins\.json|wallet\.dat"
    r"|cookies\.sqlite|Login Data\b|Local State\b"
)
"""Files with keys and passwords, in the text of any language."""
_PUBLIC_FILE = re.compile(r"\.pub\Z|known_hosts|authorized_keys|\.ssh[/\\]config|\.aws[/\\]config")
_STORE_NAMES = table_pattern("signatures_store_names")
STARTUP = re.compile(
    rf"(?:{_HOMES}[/\\]|(?<![\w.-]))(?:{_any_of(STARTUP_FILES)})(?![\w.])"
    r"|/etc/(?:profile(?:\.d)?|rc\.local|cron\S*|systemd/system|init\.d|ld\.so\.preload)"
    r"|\.pth\Z|(?:site|user)customize\.py|\.vscode/tasks\.json|\.claude/settings"
    r"|/var/spool/cron|/Library/Launch(?:Agents|Daemons)|CurrentVersion\\+Run\b|shell:startup"
)
"""Files that run at login, at start-up or on a schedule."""
HERMES_FILE = re.compile(
    rf"(?:\.hermes|HERMES_HOME\}}?)[/\\\"',\s)]+(?:{_any_of(OWN_FILES)}|SOUL\.md)(?!\w)"
)
"""Our settings, keys, approvals and instructions."""


def is_credential_store(path: str) -> bool:
    """Whether a path holds keys, passwords or history of the user."""
    path = "/" + path.replace("\\", "/").removeprefix("~").lstrip("/")
    if _PUBLIC_FILE.search(path):
        return False
    inside = any(f"/{name}/" in f"{path}/" for name in CREDENTIAL_STORES)
    return bool(
        inside
        or path.startswith(SYSTEM_CREDENTIALS)
        or _STORE_NAMES.search(path)
        or SECRET_PLACES.search(f"/home/user{path}")
        or SECRET_PLACES.search(path)
    )


def is_secret_path(path: str) -> bool:
    """Like `is_credential_store`, or named like a secret file of a project."""
    if is_credential_store(path):
        return True
    return not _PUBLIC_FILE.search(path) and bool(SECRET_FILES.search(path))


def is_env_file(path: str) -> bool:
    return bool(ENV_FILE.search(path))


def is_known_installer(text: str) -> bool:
    """Whether every address in a command serves installers of well-known tools."""
    addresses = re.findall(r"(https?)://([^\s\"'|;)/]+)(/[^\s\"'|;)/]*)?", text)
    known = word_list("installers")
    return bool(addresses) and all(
        scheme == "https" and (host in known or f"{host}{owner}" in known)
        for scheme, host, owner in addresses
    )


_STORE_READ = re.compile(
    r"(?:readFile(?:Sync)?|File\.(?:read|open|binread)|ReadFile|file_get_contents|fopen|Get-Content|"
    rf"createReadStream|Dir(?:\.glob)?[(\[])[^\n]{{0,120}}?(?:{CREDENTIAL_STORE.pattern})"
)
_PATTERNS: Final = {
    **{name: table_pattern(name) for name in TABLES.patterns},
    "credential_store": CREDENTIAL_STORE,
    "store_read": _STORE_READ,
}
_SIGNATURES: Final = [
    (RULES[name], [_PATTERNS[each] for each in patterns.split()])
    for name, patterns in TABLES.signatures.items()
]


def single_signatures(text: str) -> Iterator[RuleHit]:
    """Yield signatures that are sufficient alone."""
    for rule, patterns in _SIGNATURES:
        if len(patterns) == 1:
            yield from (RuleHit(rule, line) for line, _ in islice(find_all(patterns[0], text), 1))
    for line, match in find_all(_PATTERNS["downloads"], text):
        command = match[0] + text[match.end() : match.end() + 200].partition("\n")[0]
        if is_known_installer(command):
            name = "powershell_installer"
        else:
            secure = "https://" in command and "http://" not in command
            name = "fetched_code" if secure else "downloaded_code"
        yield RuleHit(RULES[name], line)


def started_commands(text: str) -> Iterator[tuple[int, str]]:
    """Yield line (from 0) and text of the commands that code starts."""
    for line, match in find_all(_PATTERNS["started"], text):
        yield line, re.sub(r"\\(.)", r"\1", match[2])


def combined_signatures(text: str) -> Iterator[RuleHit]:
    """Yield signatures that need two places of one script."""
    lines = LineIndex(text)
    for rule, patterns in _SIGNATURES:
        match = patterns[0].search(text) if len(patterns) == 2 else None
        if match and patterns[1].search(text):
            yield RuleHit(rule, lines.at(match.start()))
        elif match and rule is RULES["store_near"]:
            yield RuleHit(RULES["store_named"], lines.at(match.start()))


# Packages: names that differ in one letter from a well-known one

Registry = Literal["python", "node"]

_PACKAGES: Final[Mapping[Registry, frozenset[str]]] = {
    "python": word_list("python_packages"),
    "node": word_list("node_packages"),
}
_INSTALL: Final = {
    "pip": "python", "pip3": "python", "pipx": "python", "uv": "python", "poetry": "python",
    "npm": "node", "pnpm": "node", "yarn": "node", "bun": "node", "npx": "node",
}  # fmt: skip
_VERBS: Final = frozenset({"install", "add", "i", "require", "inject", "exec", "dlx"})
_PLACEHOLDER = re.compile(r"\bexample\.(?:com|org|net)\Z|company|mycorp|\byour")
_NAME = re.compile(r"@?[A-Za-z0-9][\w.-]*(?:/[\w.-]+)?")
_MIN_NAME_LENGTH: Final = 5


def installed_packages(invocation: Invocation) -> Iterator[tuple[str, Registry]]:
    """Yield the packages that a command would install."""
    registry = _INSTALL.get(invocation.name)
    words = list(invocation.arguments)
    if registry is None or not (_VERBS & set(words[:3]) or invocation.name == "npx"):
        return
    verb = next((at for at, word in enumerate(words) if word in _VERBS), -1)
    skip = False
    for word in words[verb + 1 :]:
        if skip or word.startswith("-"):
            skip = not skip and word in word_list("install_values")
        elif name := package_name(word):
            yield name, "python" if registry == "python" else "node"


def uses_unknown_index(invocation: Invocation) -> bool:
    """Whether packages would come from an unknown index."""
    if invocation.name not in _INSTALL:
        return False
    known = word_list("index_hosts")
    found = (HOST.match(address) for address in _PATTERNS["package_index"].findall(invocation.text))
    hosts = (match[1] for match in found if match and match[1] not in known)
    return any(not LOCAL.match(host) and not _PLACEHOLDER.search(host) for host in hosts)


def package_name(word: str) -> str:
    """Return `requests` for `requests[socks]>=2`; "" for a path or an address."""
    match = _NAME.match(word)
    if (
        match is None
        or "@npm:" in word
        or "/" in word.lstrip("@").partition("/")[2]
        or "://" in word
    ):
        return ""
    return "" if "/" in match[0] else match[0].lower().replace("_", "-")


def listed_packages(text: str, name: str) -> Iterator[tuple[int, str, Registry]]:
    """Yield line (from 0), package and registry of a requirements.txt or package.json."""
    base = name.replace("\\", "/").rpartition("/")[2].lower()
    if base.startswith("requirements") and base.endswith(".txt"):
        for number, line in enumerate(text.split("\n")):
            found = package_name(line.strip())
            if found and not line.startswith("#"):
                yield number, found, "python"
    elif base == "package.json":
        inside = False
        for number, line in enumerate(text.split("\n")):
            if re.search(r'"\w*[dD]ependencies"\s*:', line):
                inside = True
            elif "}" in line:
                inside = False
            elif inside and (named := re.match(r'\s*"([^"@/]{1,80})"\s*:', line)):
                yield number, named[1].lower(), "node"


def packages_from_urls(text: str) -> Iterator[int]:
    """Yield lines (from 0) of a package.json with a package from an address."""
    for number, line in enumerate(text.split("\n")):
        if re.match(
            r'\s*"[^"]{1,80}"\s*:\s*"https?://(?!github\.com|codeload)[^"]{1,300}\.t', line
        ):
            yield number


def is_typosquat(name: str, registry: Registry) -> bool:
    known = (*_PACKAGES.values(), word_list("similar_packages"))
    if len(name) < _MIN_NAME_LENGTH or any(name in names for names in known):
        return False
    from rapidfuzz.distance import OSA  # slow to load and rarely needed

    return any(
        len(other) >= _MIN_NAME_LENGTH and OSA.distance(name, other, score_cutoff=1) <= 1
        for other in _PACKAGES[registry]
    )


# Files and commands that start by themselves

_WRITES = re.compile(r"^[^\n]*(?:>>?|\btee\b|\bcp\b|\bmv\b|\bln\b)[^\n]*$", re.MULTILINE)
_DOCUMENT = re.compile(r"<<-?\s*[\"']?(\w{1,40})")
_QUOTED = re.compile(r"\b(?:echo|printf)\s+(?:-\w+\s+)?([\"'])([^\n]{3,600}?)\1")
_STARTUP_OR_HOOK = re.compile(rf"{STARTUP.pattern}|\.git/hooks/")
_KEY = re.compile(r"(?:ssh-(?:rsa|ed25519|dss)|ecdsa-sha2-\S{1,20})\s+AAAA[A-Za-z0-9+/]{40,}")
_ROOT_FOR_ALL = re.compile(r"\bALL\s*=\s*\([^)\n]{1,20}\)\s*NOPASSWD:\s*ALL\b")
_MAX_HEREDOC_CHARS = 4_000  #: Characters of a here-document that are checked.


def startup_hits(text: str, dangers: Callable[[str], list[RuleHit]]) -> Iterator[RuleHit]:
    """Yield hits in start-up files. `dangers` returns the suspicious parts of a command line."""
    lines = LineIndex(text)
    if "authorized_keys" in text and (key := _KEY.search(text)):
        yield RuleHit(RULES["key_added"], lines.at(key.start()))
    if "/etc/hosts" in text and (name := _PATTERNS["false_name"].search(text)):
        yield RuleHit(RULES["false_names"], lines.at(name.start()))
    if "sudoers" in text and (grant := _ROOT_FOR_ALL.search(text)):
        yield RuleHit(RULES["sudoers"], lines.at(grant.start()))
    for line, command in scheduled_commands(text):
        if dangers(command):
            yield RuleHit(RULES["bad_startup"], line)
        elif _PATTERNS["odd_command"].search(command):
            yield RuleHit(RULES["odd_startup"], line)
    if _STARTUP_OR_HOOK.search(text):
        yield from _written_startup_hits(text, lines, dangers)


def _written_startup_hits(
    text: str, lines: LineIndex, dangers: Callable[[str], list[RuleHit]]
) -> Iterator[RuleHit]:
    """Check what is written into files that run by themselves."""
    for match in _WRITES.finditer(text):
        if _STARTUP_OR_HOOK.search(match[0]) is None:
            continue
        written = match[0] + _heredoc(text, match)
        quoted = "\n".join(inner for _, inner in _QUOTED.findall(match[0]))
        if dangers(quoted or _heredoc(text, match)):
            yield RuleHit(RULES["bad_startup"], lines.at(match.start()))
        elif _PATTERNS["odd_command"].search(written):
            yield RuleHit(RULES["odd_startup"], lines.at(match.start()))


def _heredoc(text: str, line: re.Match[str]) -> str:
    """Return the here-document that starts on this line, or ""."""
    opening = _DOCUMENT.search(line[0])
    if opening is None:
        return ""
    rest = text[line.end() : line.end() + _MAX_HEREDOC_CHARS]
    return re.split(rf"\n[ \t]*{opening[1]}[ \t]*(?:\n|\Z)", rest, maxsplit=1)[0]
