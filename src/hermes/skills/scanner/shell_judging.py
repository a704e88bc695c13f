"""A class of dangerous commands, judged by the command at hand."""

import re
from typing import Final

from hermes.security.danger.credentials import PRINTERS
from hermes.security.danger.interpreters import DECODERS
from hermes.security.shell.launchers import SHELLS
from hermes.security.shell.model import UNKNOWN, Invocation
from hermes.skills.scanner import shell_rules as rules
from hermes.skills.scanner.places import BARE_ADDRESS, HOST, LOCAL, is_secret_path, known_installer
from hermes.skills.scanner.rule import Rule

_PLACEHOLDER = re.compile(rf"/dev/(?:sd[XYNx](?!\w)|disk[XN]|rdisk[XN]|<|{UNKNOWN}|mmcblkX|your)")
_IMAGE = re.compile(r"\bif=\S+\.(?:img|iso|raw|xz|gz|zst|bin)\b")
_SYSTEM_DISK = re.compile(r"/dev/(?:sda|nvme0n1|vda|hda|xvda|disk0)(?:p?\d+)?(?!\w)")
_LOOSENS = re.compile(
    r"yolo|approvals\S*\s+\S*(?:off|auto|never|allow)|allowlist|accept-hooks|ignore-rules"
    r"|security\.|pairing\s+approve|hooks\s+accept",
    re.IGNORECASE,
)
_TO_OWNER = re.compile(r"\b0?[46][0-7]{3}\b|\bu\+\w*s|(?:^|\s)\+s|=ep\b|\+ep\b")
_SHELL_FILE = re.compile(r"/(?:ba|z|da|k)?sh\Z|/\.[\w-]+\Z|\A(?:/tmp|/var/tmp|/dev/shm)/")
_OTHER_COPIES: Final = frozenset({"ssh", "scp", "rsync", "rclone", "gh", "logger", "smbclient"})
_REMOTE_TOOLS: Final = frozenset({"chisel", "tmate", "ttyd", "gotty", "shellinabox", "xterm"})
_PROBES: Final = frozenset({"", "echo", "printf", ":", "true", "cat", "timeout", "head", "read"})
_MAIN_FOLDER = re.compile(
    r"(?:~|/home/[^/]+|/Users/[^/]+)/(?:Documents|Desktop|Pictures|Photos|Music|Videos|Movies)"
    r"(?:/|/\*)?"
)
_NAMED_AT_HOME = re.compile(r"(?:~|/home/\w+)\s(?:-type\s\w\s)?-i?name\s[\"']?[\w*.]*[\w.]{3}")
"""What a search is told to change when it looks for files of one name in the home folder."""
_UNPROTECTED = re.compile(
    r"setenforce 0|ufw disable|ip6?tables (?:-F|--flush)\s*\Z|nft flush ruleset"
)
_WHOLE_HOST = re.compile(r"(?:-v|--volume)[= ]/:|chroot\s+/host|source=/,|--target[= ]1\b|-t 1\b")


def judged(kind: str, reason: str, invocation: Invocation, fetched: list[str]) -> Rule | None:
    """None for what is nothing special in a skill. `fetched` are the addresses so far."""
    judge = _JUDGES.get(kind)
    if judge is not None:
        return judge(reason, invocation, fetched)
    return rules.REASONS.get(reason, rules.KINDS.get(kind))


def _wipe(reason: str, invocation: Invocation, _fetched: list[str]) -> Rule:
    text = invocation.text
    if reason == "writes directly to a disk" and not re.search(r"\bif=/dev/(zero|u?random)", text):
        return (
            rules.WRITES_IMAGE if _PLACEHOLDER.search(text) or _IMAGE.search(text) else rules.WIPES
        )
    if reason == "formats a disk" and not _SYSTEM_DISK.search(text):
        return rules.FORMATS
    return rules.WIPES


def _own(reason: str, invocation: Invocation, _fetched: list[str]) -> Rule | None:
    given = " ".join((*(name for name, _ in invocation.assignments), *invocation.words))
    if reason != "changes what Hermes is allowed to do":
        targets = " ".join(redirect.target for redirect in invocation.redirects)
        named = "hermes" in f"{given} {targets} {invocation.folder}".lower()
        return rules.OWN_POLICY if named else None  # else a word that could mean anything
    if _LOOSENS.search(given):
        return rules.OWN_POLICY
    return rules.OWN_SETTINGS


def _setuid(_reason: str, invocation: Invocation, _fetched: list[str]) -> Rule | None:
    if not _TO_OWNER.search(invocation.text):
        return None  # a folder whose files belong to its group
    named = any(_SHELL_FILE.search(word) for word in invocation.arguments)
    return rules.SETUID_SHELL if named else rules.SETUID


def _in_logs(invocation: Invocation) -> bool:
    places = [word for word in invocation.arguments if word.startswith(("/", "~"))]
    return bool(places) and all(word.startswith("/var/log/") for word in places)


def _credentials(reason: str, invocation: Invocation, _fetched: list[str]) -> Rule | None:
    special = rules.REASONS.get(reason)
    if special is rules.HUNTS_KEYS and _in_logs(invocation):
        return None  # `Failed password` is what a log says
    if special is not None:
        return special
    shows = invocation.name in PRINTERS and any(map(is_secret_path, invocation.arguments))
    return rules.SHOWS_KEYS if shows else rules.CREDENTIALS


def _sends(_reason: str, invocation: Invocation, _fetched: list[str]) -> Rule:
    return rules.COPIES if invocation.name in _OTHER_COPIES else rules.SENDS


def _network_shell(reason: str, invocation: Invocation, _fetched: list[str]) -> Rule | None:
    special = rules.REASONS.get(reason)
    if special is not None:
        return special
    if invocation.name in _REMOTE_TOOLS:
        return rules.OPENS
    if reason == "connects a shell to the network" and invocation.name in _PROBES:
        return None  # looks whether a port is open; what is sent is looked at elsewhere
    return rules.REVERSE_SHELL


def _remote(reason: str, invocation: Invocation, fetched: list[str]) -> Rule | None:
    if reason == "installs a package from an unknown address":
        return rules.PACKAGE
    words = [word for each in (invocation, *invocation.sources) for word in each.words]
    text = " ".join(words)
    if not HOST.search(text):
        text = " ".join(fetched)
    if known_installer(text):
        return rules.INSTALLER
    hosts = HOST.findall(text)
    if hosts and all(map(LOCAL.match, hosts)):
        return None
    nameless = BARE_ADDRESS.search(text) or re.search(r"\bhttp://", text)
    return rules.NAMELESS_CODE if nameless else rules.REMOTE_CODE


def _decoded(_reason: str, invocation: Invocation, _fetched: list[str]) -> Rule | None:
    """A shell or `eval` that is fed by a decoder."""
    runs = invocation.name in SHELLS or invocation.name in ("eval", "source", ".")
    names = {source.name for source in invocation.sources} | invocation.named_by
    return rules.DECODED_SHELL if runs and names & DECODERS else None


def _hidden(reason: str, invocation: Invocation, fetched: list[str]) -> Rule | None:
    special = rules.REASONS.get(reason)
    if special is not None:
        return special
    if invocation.named_by & (DECODERS | {"printf", "echo"}):
        return rules.HIDDEN_NAME
    return _decoded(reason, invocation, fetched)


def _traces(reason: str, invocation: Invocation, _fetched: list[str]) -> Rule | None:
    if reason != "clears logs":
        return rules.CLEARS_HISTORY
    everything = re.search(r"/var/log(?:/?(?:\s|\Z)|/\*)", invocation.text)
    return rules.DELETES_LOGS if everything and invocation.name in ("rm", "shred") else None


def _deletes(reason: str, invocation: Invocation, _fetched: list[str]) -> Rule | None:
    listed = {word for source in invocation.upstream for word in source.arguments}
    if "xargs" in invocation.via and listed & {"/", "~", "/home", "/etc"}:
        return rules.WIPES
    if any(map(_MAIN_FOLDER.fullmatch, invocation.arguments)):
        return rules.DELETES_OWN
    return rules.REASONS.get(reason)


def _sweeps(_reason: str, invocation: Invocation, _fetched: list[str]) -> Rule | None:
    return rules.OPENS_SYSTEM if re.search(r"\b0?777\b|a\+\w*w", invocation.text) else None


def _startup(_reason: str, invocation: Invocation, _fetched: list[str]) -> Rule:
    targets = (*invocation.arguments, *(redirect.target for redirect in invocation.redirects))
    accounts = any(re.match(r"/etc/(?:g?shadow|passwd|sudoers)\Z", word) for word in targets)
    return rules.ACCOUNT_FILES if accounts and invocation.name != "visudo" else rules.STARTUP


def _system(reason: str, invocation: Invocation, _fetched: list[str]) -> Rule | None:
    if _NAMED_AT_HOME.match(invocation.text):
        return None
    return rules.REASONS.get(reason)


def _look_alike(_reason: str, invocation: Invocation, _fetched: list[str]) -> Rule | None:
    """Letters of another script; an ellipsis in the place of a program imitates nothing."""
    strange = (letter for word in invocation.words for letter in word if not letter.isascii())
    return rules.INVISIBLE if any(letter.isalpha() for letter in strange) else None


def _firewall(_reason: str, invocation: Invocation, _fetched: list[str]) -> Rule | None:
    words = f"{invocation.name} {invocation.text}"
    return rules.PROTECTION_OFF if _UNPROTECTED.match(words) else None


def _host(_reason: str, invocation: Invocation, _fetched: list[str]) -> Rule | None:
    if "cluster-admin" in invocation.text:
        return rules.ADMIN
    return rules.ESCAPES if _WHOLE_HOST.search(invocation.text) else None


def _privileges(reason: str, invocation: Invocation, fetched: list[str]) -> Rule | None:
    if reason == "leaves its own confines":
        return _host(reason, invocation, fetched)
    return rules.SUDO


def _accounts(_reason: str, invocation: Invocation, _fetched: list[str]) -> Rule | None:
    given = [word for source in invocation.upstream for word in source.arguments]
    known = any(re.fullmatch(r"[\w-]+:[^\s:\ue000]{3,}", word) for word in given)
    return rules.ADDS_USER if invocation.name == "chpasswd" and known else None


_JUDGES = {
    "disk wipe": _wipe,
    "own policy": _own,
    "setuid": _setuid,
    "credential access": _credentials,
    "exfiltration": _sends,
    "network shell": _network_shell,
    "remote code": _remote,
    "pipe to a shell": _decoded,
    "hidden command": _hidden,
    "traces": _traces,
    "host access": _host,
    "privileges": _privileges,
    "accounts": _accounts,
    "recursive delete": _deletes,
    "bulk delete": _deletes,
    "owner sweep": _sweeps,
    "start-up and key files": _startup,
    "firewall": _firewall,
    "hidden characters": _look_alike,
    "system files": _system,
}
JUDGED: Final = frozenset({*_JUDGES, *rules.KINDS})
"""Rules of other classes need not be asked."""
