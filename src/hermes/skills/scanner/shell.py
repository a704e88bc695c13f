"""Judge shell commands with the rules of `hermes.security`, adapted to skills."""

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Final

from hermes.security import (
    SECRET_NAME,
    TEXT_RULES,
    CommandTooComplex,
    Invocation,
    PathGuard,
    ShellContext,
    record_side_effects,
    rules_for,
    unfold_command,
)
from hermes.security.danger.code import DECODERS
from hermes.security.danger.secrets import DUMPERS, PRINTERS
from hermes.security.shell.model import UNKNOWN
from hermes.security.shell.wrappers import SHELLS
from hermes.skills.scanner.rules import (
    RULES,
    TABLES,
    RuleHit,
    is_at_least,
    table_pattern,
    word_list,
)
from hermes.skills.scanner.signatures import (
    BARE_ADDRESS,
    COLLECTOR,
    HOST,
    LOCAL,
    installed_packages,
    is_credential_store,
    is_env_file,
    is_known_installer,
    is_secret_path,
    is_typosquat,
    startup_hits,
    uses_unknown_index,
)

# Data flow: secrets and private data that leave the machine

_SENDERS, _RESOLVERS = word_list("senders"), word_list("resolvers")
_MACHINE_INFO_PROGRAMS = word_list("machine_info")
_ENCODERS: Final = frozenset({"base64", "base32", "xxd", "od", "hexdump"})
_COPIERS: Final = frozenset({"scp", "sftp", "gh", "aws", "gsutil", "rclone", "mc"})
_PACKERS: Final = frozenset({"tar", "zip", "cp", "7z", "gpg", "cat", "rsync", "openssl"})
_HEADER_OPTIONS: Final = frozenset(
    {"-H", "--header", "-u", "--user", "--oauth2-bearer", "-A", "-b"}
)
_DATA = table_pattern("shell_data")
_CODE = re.compile(r"^(?:diff|archive|bundle|show|log\b.*-p\b|format-patch)")
_CA_TOOLS = table_pattern("shell_ca_tools")
_UNCHECKED = re.compile(r"config\b.*(?:http\.sslVerify|strict-ssl)[ =]+(?:false|0)\b")
_SOCKET = re.compile(r"/dev/(?:tcp|udp)/")


class ShellFlows:
    """Follows the commands of one script: what was read before counts for a later upload."""

    def __init__(self, context: ShellContext) -> None:
        self._context = context
        self._packed = False
        self._encoded = False
        self.addresses: list[str] = []  #: All addresses fetched so far.

    def follow(self, invocation: Invocation) -> Iterator[str]:
        sends = invocation.name in _SENDERS or any(
            _SOCKET.match(redirect.target) for redirect in invocation.redirects
        )
        if sends:
            yield from self._sending_rules(invocation)
            self.addresses += [word for word in invocation.arguments if HOST.match(word)]
        elif _copies_store(invocation):
            yield "copies_keys"
        elif invocation.name == "gh" and re.match(r"repo delete\b.*--yes", invocation.text):
            yield "deletes_repos"
        elif invocation.name in _RESOLVERS:
            yield from self._resolver_rules(invocation)
        if _CA_TOOLS.match(f"{invocation.name} {invocation.text}"):
            yield "trusts_ca"
        if invocation.name in ("git", "npm") and _UNCHECKED.search(invocation.text):
            yield "no_tls"
        if invocation.name in _PACKERS and self._has_secret_output(invocation):
            self._packed = True
        self._encoded = self._encoded or invocation.name in _ENCODERS

    def _sending_rules(self, invocation: Invocation) -> Iterator[str]:
        text = invocation.text
        sources = _sending_programs(invocation)
        if any(map(self._has_secret_output, sources)) or _attaches_secret(invocation):
            yield "sends_private"
        elif any(source.name == "git" and _CODE.match(source.text) for source in sources):
            yield "sends_code"
        if COLLECTOR.search(text):
            telling = any(source.name in _MACHINE_INFO_PROGRAMS for source in sources)
            yield "sends_dead_drop" if telling else "dead_drop"
        elif BARE_ADDRESS.search(text) and (sources or _DATA.search(text)):
            yield "sends_nameless"
        if self._packed and (_DATA.search(text) or sources):
            yield "uploads"
        if _foreign_key(invocation):
            yield "foreign_key"

    def _resolver_rules(self, invocation: Invocation) -> Iterator[str]:
        """Find host names that are built from data."""
        made = any(re.search(rf"{UNKNOWN}[\w.-]*\.[a-z]", word) for word in invocation.arguments)
        sources = {source.name for source in (*invocation.fed_by, *invocation.drawn)}
        if made and (sources & _MACHINE_INFO_PROGRAMS or self._encoded):
            yield "dns_tunnel"

    def _has_secret_output(self, invocation: Invocation) -> bool:
        """Whether the output contains keys, passwords or the whole environment."""
        if invocation.name in DUMPERS and not invocation.arguments:
            return True
        if (
            any(map(is_env_file, invocation.arguments))
            and invocation.name in _MACHINE_INFO_PROGRAMS
        ):
            return True
        return any(
            rule.kind == "credential access" and rule.matches(invocation, self._context)
            for rule in rules_for(invocation)
        )


def _sending_programs(invocation: Invocation) -> tuple[Invocation, ...]:
    """Return the programs whose output is sent. Output in a header only is a login."""
    unknown = [
        (before, word)
        for before, word in pairwise(("", *invocation.arguments))
        if UNKNOWN in word or "$(" in word
    ]
    in_headers = bool(unknown) and all(before in _HEADER_OPTIONS for before, _ in unknown)
    return invocation.upstream if in_headers else invocation.sources


def _attaches_secret(invocation: Invocation) -> bool:
    """`-d @file`, `-F x=@file`, `-T file`, `< file`."""
    words = [part for word in invocation.arguments for part in re.findall(r"@([^;,\s]+)", word)]
    words += [b for a, b in pairwise(invocation.arguments) if a in ("-T", "--upload-file")]
    words += [redirect.target for redirect in invocation.redirects if "<" in redirect.operator]
    return any(is_secret_path(word) or is_env_file(word) for word in words)


def _copies_store(invocation: Invocation) -> bool:
    """Whether a credential store is copied. The login key after `-i` does not count."""
    if invocation.name == "ssh":
        return any(
            is_credential_store(word) for source in invocation.upstream for word in source.arguments
        )
    if invocation.name not in _COPIERS:
        return False
    words = pairwise(("", *invocation.arguments))
    copied = [word for before, word in words if before not in ("-i", "-F") and word[:1] != "-"]
    takes = invocation.name != "gh" or "gist" in copied
    return takes and any(
        map(is_credential_store, copied[:-1] if invocation.name == "scp" else copied)
    )


def _foreign_key(invocation: Invocation) -> bool:
    """Whether a variable named after one service is sent to another."""
    hosts = [host.lower() for host in HOST.findall(invocation.text) if not LOCAL.match(host)]
    names = [
        TABLES.vendors.get(name.partition("_")[0])
        for name in invocation.uses
        if SECRET_NAME.search(name)
    ]
    return bool(hosts) and any(
        vendor and not any(vendor in host for host in hosts) for vendor in names
    )


# Judging kinds of dangerous commands

_PLACEHOLDER = re.compile(rf"/dev/(?:sd[XYNx](?!\w)|disk[XN]|rdisk[XN]|<|{UNKNOWN}|mmcblkX|your)")
_IMAGE = re.compile(r"\bif=\S+\.(?:img|iso|raw|xz|gz|zst|bin)\b")
_SYSTEM_DISK = re.compile(r"/dev/(?:sda|nvme0n1|vda|hda|xvda|disk0)(?:p?\d+)?(?!\w)")
_LOOSENS = table_pattern("shell_loosens")
_TO_OWNER = re.compile(r"\b0?[46][0-7]{3}\b|\bu\+\w*s|(?:^|\s)\+s|=ep\b|\+ep\b")
_SHELL_FILE = re.compile(r"/(?:ba|z|da|k)?sh\Z|/\.[\w-]+\Z|\A(?:/tmp|/var/tmp|/dev/shm)/")
_OTHER_COPIES: Final = frozenset({"ssh", "scp", "rsync", "rclone", "gh", "logger", "smbclient"})
_REMOTE_TOOLS: Final = frozenset({"chisel", "tmate", "ttyd", "gotty", "shellinabox", "xterm"})
_PROBES: Final = frozenset({"", "echo", "printf", ":", "true", "cat", "timeout", "head", "read"})
_MAIN_FOLDER = table_pattern("shell_main_folder")
_NAMED_AT_HOME = re.compile(r"(?:~|/home/\w+)\s(?:-type\s\w\s)?-i?name\s[\"']?[\w*.]*[\w.]{3}")
"""A search in the home folder that is limited to files of one name."""
_FOR_ALL = re.compile(r"\b0?777\b|a\+\w*w")
_UNPROTECTED = table_pattern("shell_unprotected")
_WHOLE_HOST = re.compile(r"(?:-v|--volume)[= ]/:|chroot\s+/host|source=/,|--target[= ]1\b|-t 1\b")


def judge_command(kind: str, reason: str, invocation: Invocation, fetched: list[str]) -> str:
    """Return the rule for a dangerous command, or "" when it is normal in a skill.

    `fetched` are the addresses that were fetched so far.
    """
    if kind == "remote code":
        return _judge_remote_code(reason, invocation, fetched)
    if kind in _JUDGES:
        return _JUDGES[kind](invocation)
    if kind in _JUDGES_BY_REASON:
        return _JUDGES_BY_REASON[kind](reason, invocation)
    return TABLES.reasons.get(reason, TABLES.kinds.get(kind, ""))


def _judge_wipe(reason: str, invocation: Invocation) -> str:
    text = invocation.text
    if reason == "writes directly to a disk" and not re.search(r"\bif=/dev/(zero|u?random)", text):
        return "writes_image" if _PLACEHOLDER.search(text) or _IMAGE.search(text) else "wipes"
    if reason == "formats a disk" and not _SYSTEM_DISK.search(text):
        return "formats"
    return "wipes"


def _judge_own_policy(reason: str, invocation: Invocation) -> str:
    given = " ".join((*(name for name, _ in invocation.assignments), *invocation.words))
    if reason != "changes what Hermes is allowed to do":
        targets = " ".join(redirect.target for redirect in invocation.redirects)
        named = "hermes" in f"{given} {targets} {invocation.folder}".lower()
        return "own_policy" if named else ""  # otherwise the word may mean anything
    if _LOOSENS.search(given):
        return "own_policy"
    return "own_settings"


def _judge_setuid(invocation: Invocation) -> str:
    if not _TO_OWNER.search(invocation.text):
        return ""  # setgid on a folder
    named = any(_SHELL_FILE.search(word) for word in invocation.arguments)
    return "setuid_shell" if named else "setuid"


def _judge_credentials(reason: str, invocation: Invocation) -> str:
    special = TABLES.reasons.get(reason)
    places = [word for word in invocation.arguments if word.startswith(("/", "~"))]
    in_logs = bool(places) and all(word.startswith("/var/log/") for word in places)
    if special == "hunts_keys" and in_logs:
        return ""  # log lines such as `Failed password`
    if special:
        return special
    shows = invocation.name in PRINTERS and any(map(is_secret_path, invocation.arguments))
    return "shows_keys" if shows else "credentials"


def _judge_network_shell(reason: str, invocation: Invocation) -> str:
    special = TABLES.reasons.get(reason)
    if special:
        return special
    if invocation.name in _REMOTE_TOOLS:
        return "opens_machine"
    if reason == "connects a shell to the network" and invocation.name in _PROBES:
        return ""  # a port check; data that is sent is judged by ShellFlows
    return "network_shell"


def _judge_remote_code(reason: str, invocation: Invocation, fetched: list[str]) -> str:
    if reason == "installs a package from an unknown address":
        return "package"
    words = [word for each in (invocation, *invocation.sources) for word in each.words]
    text = " ".join(words)
    if not HOST.search(text):
        text = " ".join(fetched)
    if is_known_installer(text):
        return "installer"
    hosts = HOST.findall(text)
    if hosts and all(map(LOCAL.match, hosts)):
        return ""
    nameless = BARE_ADDRESS.search(text) or re.search(r"\bhttp://", text)
    return "nameless_code" if nameless else "remote_code"


def _judge_decoded(invocation: Invocation) -> str:
    """A shell or `eval` that runs the output of a decoder."""
    runs = invocation.name in SHELLS or invocation.name in ("eval", "source", ".")
    names = {source.name for source in invocation.sources} | invocation.named_by
    return "decoded_shell" if runs and names & DECODERS else ""


def _judge_hidden_command(reason: str, invocation: Invocation) -> str:
    special = TABLES.reasons.get(reason)
    if special:
        return special
    if invocation.named_by & (DECODERS | {"printf", "echo"}):
        return "hidden_command"
    return _judge_decoded(invocation)


def _judge_traces(reason: str, invocation: Invocation) -> str:
    if reason != "clears logs":
        return "clears_history"
    everything = re.search(r"/var/log(?:/?(?:\s|\Z)|/\*)", invocation.text)
    return "deletes_logs" if everything and invocation.name in ("rm", "shred") else ""


def _judge_delete(reason: str, invocation: Invocation) -> str:
    listed = {word for source in invocation.upstream for word in source.arguments}
    if "xargs" in invocation.via and listed & {"/", "~", "/home", "/etc"}:
        return "wipes"
    if any(map(_MAIN_FOLDER.fullmatch, invocation.arguments)):
        return "deletes_own"
    return TABLES.reasons.get(reason, "")


def _judge_startup(invocation: Invocation) -> str:
    targets = (*invocation.arguments, *(redirect.target for redirect in invocation.redirects))
    accounts = any(re.match(r"/etc/(?:g?shadow|passwd|sudoers)\Z", word) for word in targets)
    return "account_files" if accounts and invocation.name != "visudo" else "startup"


def _judge_look_alike(invocation: Invocation) -> str:
    """Letters of another script. Other characters, such as an ellipsis, imitate nothing."""
    strange = (letter for word in invocation.words for letter in word if not letter.isascii())
    return "hidden_in_command" if any(letter.isalpha() for letter in strange) else ""


def _judge_host_access(invocation: Invocation) -> str:
    if "cluster-admin" in invocation.text:
        return "cluster_admin"
    return "escapes" if _WHOLE_HOST.search(invocation.text) else ""


def _judge_accounts(invocation: Invocation) -> str:
    given = [word for source in invocation.upstream for word in source.arguments]
    known = any(re.fullmatch(r"[\w-]+:[^\s:\ue000]{3,}", word) for word in given)
    return "adds_user" if invocation.name == "chpasswd" and known else ""


_JUDGES: Final[Mapping[str, Callable[[Invocation], str]]] = {
    "setuid": _judge_setuid,
    "exfiltration": lambda call: (
        "copies_private" if call.name in _OTHER_COPIES else "sends_private"
    ),
    "pipe to a shell": _judge_decoded,
    "host access": _judge_host_access,
    "accounts": _judge_accounts,
    "owner sweep": lambda call: "opens_system" if _FOR_ALL.search(call.text) else "",
    "start-up and key files": _judge_startup,
    "firewall": lambda call: (
        "protection_off" if _UNPROTECTED.match(f"{call.name} {call.text}") else ""
    ),
    "hidden characters": _judge_look_alike,
}
_JUDGES_BY_REASON: Final[Mapping[str, Callable[[str, Invocation], str]]] = {
    "disk wipe": _judge_wipe,
    "own policy": _judge_own_policy,
    "credential access": _judge_credentials,
    "network shell": _judge_network_shell,
    "hidden command": _judge_hidden_command,
    "traces": _judge_traces,
    "privileges": lambda reason, call: (
        _judge_host_access(call) if reason == "leaves its own confines" else "sudo"
    ),
    "recursive delete": _judge_delete,
    "bulk delete": _judge_delete,
    "system files": lambda reason, call: (
        "" if _NAMED_AT_HOME.match(call.text) else TABLES.reasons.get(reason, "")
    ),
}
JUDGED_KINDS: Final = frozenset({*_JUDGES, *_JUDGES_BY_REASON, *TABLES.kinds})
"""Rules of other kinds are not evaluated."""


HOME: Final = "/home/user"
FOLDER: Final = "/home/user/project"
_GUARD = PathGuard(Path(HOME), (Path(FOLDER),), (Path(f"{HOME}/.hermes"),), here=False)
_MAX_PART_CHARS: Final = 6_000  #: A longer script is read in parts, split between its paragraphs.
_MAX_PART_LINES: Final = 200
_MIN_PART_CHARS: Final = 1_500  #: A part that is too complex is halved down to this size.
_MAX_DEPTH: Final = 2
_LETTER = re.compile(r"[A-Za-z]")


def analyze_shell(text: str, depth: int = 0) -> Iterator[RuleHit]:
    """Yield what commands would do. `depth` counts commands inside commands."""
    if not _LETTER.search(text):
        return
    for rule in TEXT_RULES:
        if match := rule.pattern.search(text):
            yield RuleHit(RULES["hidden_in_command"], text.count("\n", 0, match.start()))
    yield from _split_hits(text, _MAX_PART_CHARS)
    if depth < _MAX_DEPTH:
        yield from startup_hits(text, lambda inner: dangerous_hits(inner, depth + 1))


def dangerous_hits(text: str, depth: int = _MAX_DEPTH) -> list[RuleHit]:
    """Return only the hits that make a skill suspicious."""
    return [hit for hit in analyze_shell(text, depth) if is_at_least(hit, "medium")]


def _split_hits(text: str, longest: int) -> Iterator[RuleHit]:
    """Judge a script in parts, split at empty lines, else at line ends, else anywhere."""
    start = line = 0
    while start < len(text):
        end = min(start + longest, len(text))
        lines = text[start:end].split("\n", _MAX_PART_LINES)
        if len(lines) > _MAX_PART_LINES:
            end -= len(lines[-1])
        if end < len(text):
            paragraph = text.rfind("\n\n", start + longest // 4, end)
            last = text.rfind("\n", start, end)
            end = paragraph + 1 if paragraph >= 0 else last + 1 if last >= 0 else end
        for hit in _part_hits(text[start:end]):
            yield RuleHit(hit.rule, line + hit.line)
        line += text.count("\n", start, end)
        start = end


def _part_hits(text: str) -> Iterator[RuleHit]:
    context = ShellContext(_GUARD, FOLDER)
    try:
        parsed = unfold_command(text, context.variables)
    except (CommandTooComplex, RecursionError):
        if len(text) <= _MIN_PART_CHARS:
            yield RuleHit(RULES["unreadable"])
            return
        yield from _split_hits(text, len(text) // 2)
        return
    if parsed.bomb:
        yield RuleHit(RULES["fork_bomb"])
    flows = ShellFlows(context)
    lines = text.split("\n")
    for invocation in parsed.invocations:
        for name in dict.fromkeys(_invocation_rules(invocation, context, flows)):
            yield RuleHit(RULES[name], _find_line(invocation, lines))
        record_side_effects(invocation, context)


def _invocation_rules(
    invocation: Invocation, context: ShellContext, flows: ShellFlows
) -> Iterator[str]:
    for found in rules_for(invocation):
        if found.kind in JUDGED_KINDS and found.matches(invocation, context):
            rule = judge_command(found.kind, found.reason, invocation, flows.addresses)
            yield from [rule] if rule else []
    yield from flows.follow(invocation)
    if any(is_typosquat(name, kind) for name, kind in installed_packages(invocation)):
        yield "typosquat"
    if uses_unknown_index(invocation):
        yield "unknown_index"


def _find_line(invocation: Invocation, lines: list[str]) -> int:
    """Return the first line with the program and the longest of its words."""
    name = invocation.words[0] if invocation.words else ""
    words = [*invocation.arguments, *(redirect.target for redirect in invocation.redirects)]
    pieces = (piece for word in words for piece in re.split(r"[^\x21-\x7e]", word))
    telling = max(pieces, key=len, default="")
    for number, line in enumerate(lines):
        if name in line and telling[:60] in line:
            return number
    last = name.rpartition("/")[2]
    return next((number for number, line in enumerate(lines) if last and last in line), 0)
