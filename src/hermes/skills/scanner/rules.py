"""Scan rules: what a rule is, and the rules for shell commands and Python scripts as data."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple

import msgspec

from hermes.skills.scanner.report import SEVERITIES, FindingCategory, Severity


class ScanRule(msgspec.Struct, frozen=True):
    """A rule with its severity and the reason shown to the user."""

    category: FindingCategory
    id: str
    severity: Severity
    why: str


exfiltration = partial(ScanRule, FindingCategory.EXFILTRATION)
injection = partial(ScanRule, FindingCategory.PROMPT_INJECTION)
destructive = partial(ScanRule, FindingCategory.DESTRUCTIVE)
shell_injection = partial(ScanRule, FindingCategory.SHELL_INJECTION)
obfuscation = partial(ScanRule, FindingCategory.OBFUSCATION)
persistence = partial(ScanRule, FindingCategory.PERSISTENCE)
traversal = partial(ScanRule, FindingCategory.PATH_TRAVERSAL)
invisible = partial(ScanRule, FindingCategory.HIDDEN_CHARACTERS)
privilege = partial(ScanRule, FindingCategory.PRIVILEGE_ESCALATION)
credential = partial(ScanRule, FindingCategory.CREDENTIAL_ACCESS)
backdoor = partial(ScanRule, FindingCategory.BACKDOOR)
mining = partial(ScanRule, FindingCategory.CRYPTO_MINING)
supply_chain = partial(ScanRule, FindingCategory.SUPPLY_CHAIN)
leak = partial(ScanRule, FindingCategory.SECRETS)
binary = partial(ScanRule, FindingCategory.BINARY)


class RuleHit(NamedTuple):
    """A place where a rule matched."""

    rule: ScanRule
    line: int = 0  #: From 0, in the scanned text.


def is_at_least(hit: RuleHit, severity: Severity) -> bool:
    return SEVERITIES.index(hit.rule.severity) >= SEVERITIES.index(severity)


def cap_severity(rule: ScanRule, most: Severity) -> ScanRule:
    """Return `rule` with at most the severity `most`."""
    severity = min(rule.severity, most, key=SEVERITIES.index)
    return msgspec.structs.replace(rule, severity=severity)


class LineIndex:
    """Finds the line of a position without counting from the start each time."""

    def __init__(self, text: str) -> None:
        self._starts = [match.end() for match in re.finditer("\n", text)]

    def at(self, place: int) -> int:
        """Return the line of a position, from 0."""
        return bisect_right(self._starts, place)


def find_all(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, re.Match[str]]]:
    """Yield all matches with their lines, from 0."""
    lines = LineIndex(text)
    return ((lines.at(match.start()), match) for match in pattern.finditer(text))


# Rules for shell commands

WIPES = destructive("wipes", "critical", "destroys the system, a disk or the home folder")
WRITES_IMAGE = destructive("writes_image", "low", "writes an image to a disk")
FORMATS = destructive("formats", "medium", "formats or changes disks")
FORK_BOMB = destructive("fork_bomb", "critical", "starts processes without end")
DELETES_SYSTEM = destructive("deletes_system", "low", "deletes in a folder of the system")
DELETES_LOGS = destructive("deletes_logs", "high", "deletes the logs of the machine")
CLEARS_HISTORY = destructive("clears_history", "medium", "clears the history of commands")
OWN_POLICY = privilege("own_policy", "critical", "changes what Hermes is allowed to do")
OWN_SETTINGS = privilege("own_settings", "low", "changes settings of Hermes")
WRITES_OWN = persistence("writes_own", "high", "writes what Hermes runs or reads later")
SUDO = privilege("sudo", "low", "runs with the rights of another user")
SUDOERS = privilege("sudoers", "critical", "lets a user become root at any time")
SETUID = privilege("setuid", "high", "lets a program run as its owner")
SETUID_SHELL = privilege("setuid_shell", "critical", "makes a shell run as root")
ESCAPES = privilege("escapes", "high", "leaves its container for the host")
CREDENTIALS = credential("credentials", "low", "uses keys or passwords")
SHOWS_KEYS = credential("shows_keys", "medium", "shows private keys or passwords")
HUNTS_KEYS = credential("hunts_keys", "high", "searches the machine for keys")
SENDS = exfiltration("sends_private", "critical", "sends keys or private data away")
COPIES = exfiltration("copies_private", "low", "copies private data to another machine")
DROPS = exfiltration("dead_drop", "medium", "talks to a place that collects anything")
SENDS_DROP = exfiltration("sends_dead_drop", "critical", "sends data to a dead drop")
UPLOADS_LATER = exfiltration("uploads", "high", "reads keys and uploads files")
FOREIGN_KEY = exfiltration("foreign_key", "high", "sends a key to a host it is not for")
DNS = exfiltration("dns_tunnel", "critical", "sends data away inside the names of hosts")
REVERSE_SHELL = backdoor("network_shell", "critical", "connects a shell to the network")
OPENS = backdoor("opens_machine", "medium", "opens this machine from outside")
ADDS_USER = backdoor("adds_user", "high", "makes an account with a known password")
REMOTE_CODE = supply_chain("remote_code", "high", "runs code fetched from the network")
NAMELESS_CODE = supply_chain(
    "nameless_code", "critical", "runs code from a nameless or unprotected address"
)
INSTALLER = supply_chain("installer", "low", "runs the installer of a well-known tool")
PACKAGE = supply_chain("package", "high", "installs a package from an unknown address")
DECODED_SHELL = obfuscation("decoded_shell", "critical", "runs decoded text as commands")
HIDDEN_NAME = obfuscation("hidden_command", "high", "hides which program it runs")
HIJACKS = persistence("hijacks", "medium", "changes what other programs load or run")
INVISIBLE = invisible("hidden_in_command", "high", "a command looks different from what it is")
SCHEDULES = persistence("schedules", "low", "starts something later or by itself")
STARTUP = persistence("startup", "low", "writes a file that is run at login or holds keys")
KEY_ADDED = persistence("key_added", "critical", "lets the owner of a key log in")
BAD_STARTUP = persistence("bad_startup", "critical", "what it starts by itself is dangerous")
ODD_STARTUP = persistence(
    "odd_startup", "high", "starts a hidden program or takes the place of another"
)
SENDS_CODE = exfiltration("sends_code", "medium", "sends changes of the code away")
SENDS_NAMELESS = exfiltration("sends_nameless", "high", "sends data to a nameless address")
TYPOSQUAT = supply_chain("typosquat", "high", "a package named almost like a known one")
UNREADABLE = obfuscation("unreadable", "medium", "too long or too deeply nested to be read")
COPIES_KEYS = exfiltration("copies_keys", "high", "copies keys to another machine")
DELETES_OWN = destructive("deletes_own", "high", "deletes a main folder of the user")
CHANGES_ALL = destructive("changes_all", "high", "changes files all over the system")
DELETES_REPOS = destructive("deletes_repos", "medium", "deletes repositories unasked")
FALSE_NAMES = supply_chain("false_names", "critical", "leads well-known names elsewhere")
TRUSTS_CA = privilege("trusts_ca", "medium", "trusts a new certificate authority")
NO_TLS = privilege("no_tls", "medium", "turns the check of certificates off")
INSTALL_CODE = supply_chain("install_code", "high", "runs code while it is installed")
SHREDS = destructive("shreds", "medium", "overwrites files beyond recovery")
OPENS_SYSTEM = privilege("opens_system", "medium", "opens the system to all users")
ACCOUNT_FILES = privilege("account_files", "high", "changes the passwords or rights of accounts")
ADMIN = privilege("cluster_admin", "medium", "gives administrator rights for a cluster")
PROTECTION_OFF = privilege("protection_off", "medium", "turns protection off")
UNKNOWN_INDEX = supply_chain("unknown_index", "medium", "takes packages from an odd place")
MINES = mining("mines", "critical", "mines coins")

RULES_BY_KIND: Final[dict[str, ScanRule]] = {
    "disk wipe": WIPES,
    "format": FORMATS,
    "fork bomb": FORK_BOMB,
    "own policy": OWN_POLICY,
    "hermes settings": OWN_SETTINGS,
    "delete in system folders": DELETES_SYSTEM,
    "privileges": SUDO,
    "setuid": SETUID,
    "credential access": CREDENTIALS,
    "exfiltration": SENDS,
    "network shell": REVERSE_SHELL,
    "remote code": REMOTE_CODE,
    "scheduled jobs": SCHEDULES,
    "start-up and key files": STARTUP,
    "hidden characters": INVISIBLE,
    "traces": CLEARS_HISTORY,
    "owner sweep": OPENS_SYSTEM,
}
"""By the kind of a dangerous command. Other kinds are ordinary terminal work, for which the user is
asked when the command runs."""
RULES_BY_REASON: Final[dict[str, ScanRule | None]] = {
    "clears logs": None,
    "overwrites files beyond recovery": SHREDS,
    "changes files all over the system": CHANGES_ALL,
    "opens this machine from outside": OPENS,
    "searches the machine for keys or passwords": HUNTS_KEYS,
    "reads keys or passwords": HUNTS_KEYS,
    "asks the cloud for the keys of this machine": SHOWS_KEYS,
    "installs a package from an unknown address": PACKAGE,
    "writes what Hermes runs or reads later": WRITES_OWN,
    "changes what programs load or run": HIJACKS,
    "takes its hooks from another folder": HIJACKS,
    "moves the system or the whole home folder": WIPES,
    "runs a file this command has just fetched or decoded": REMOTE_CODE,
}
"""By the reason, where it is more specific than the kind."""


# Rules for Python scripts

PY_SENDS = exfiltration("py_sends", "critical", "sends keys or private data away")
PY_SENDS_KEY = exfiltration("py_sends_key", "critical", "sends a key to a dead drop")
PY_FOREIGN_KEY = exfiltration("py_foreign_key", "high", "sends a key to a host it is not for")
PY_READS_AND_SENDS = exfiltration(
    "py_reads_and_sends", "high", "reads keys and talks to the network"
)
PY_READS_KEYS = credential("py_reads_keys", "low", "names files with keys or passwords")
PY_REMOTE_CODE = supply_chain("py_remote_code", "critical", "runs code from the network")
PY_REMOTE_DATA = supply_chain(
    "py_remote_data", "high", "unpacks data from the network that may hold code"
)
PY_DECODED_CODE = obfuscation("py_decoded_code", "critical", "runs code that was hidden")
PY_HIDDEN_NAME = obfuscation("py_hidden_name", "high", "hides which function it calls")
PY_PIECED = obfuscation(
    "py_pieced_command", "critical", "puts a dangerous command together from pieces"
)
PY_EVALUATES = shell_injection("py_evaluates", "medium", "runs typed input as code")
PY_REQUESTED = shell_injection("py_requested", "high", "runs what a request asks for")
PY_INTERPOLATES = shell_injection(
    "py_interpolates", "medium", "puts data from the network into a command"
)
PY_COMMANDED = backdoor("py_commanded", "critical", "runs commands from the network")
PY_REVERSE_SHELL = backdoor("py_network_shell", "critical", "connects a shell to the network")
PY_DELETES_ALL = destructive("py_deletes_all", "critical", "deletes the system or the home")
PY_DELETES_MANY = destructive("py_deletes_many", "high", "deletes files all over the home")
PY_LETS_IN = persistence("py_lets_in", "high", "changes who may log in")
PY_SENDS_ENV = exfiltration("py_sends_env", "high", "sends what stands in .env away")
PY_BAD_STARTUP = persistence("py_bad_startup", "critical", "what it starts by itself is dangerous")
PY_WRITES_ATTACK = obfuscation("py_writes_attack", "high", "writes a dangerous script")
PY_SENDS_FILES = exfiltration("py_sends_files", "high", "sends files of the home folder away")
PY_SENDS_SCREEN = exfiltration("py_sends_screen", "high", "sends the screen or the clipboard away")
PY_SENDS_MACHINE = exfiltration("py_sends_machine", "high", "tells others about this machine")
PY_MACHINE_CODE = obfuscation("py_machine_code", "critical", "runs machine code from memory")
PY_STARTUP = persistence("py_startup", "medium", "writes a file that is run at login")
PY_OWN = privilege("py_own", "critical", "changes Hermes' own settings or approvals")
PY_LEAVES = traversal("py_leaves", "high", "writes outside the skill's folder")
PY_MINES = mining("py_mines", "critical", "mines coins")
