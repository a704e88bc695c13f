"""Rules for shell commands and Python scripts, as data."""

from typing import Final

from hermes.skills.scanner.report import FindingCategory, ScanRule

_C = FindingCategory
WIPES = ScanRule(
    "wipes", _C.DESTRUCTIVE, "critical", "destroys the system, a disk or the home folder"
)
WRITES_IMAGE = ScanRule("writes_image", _C.DESTRUCTIVE, "low", "writes an image to a disk")
FORMATS = ScanRule("formats", _C.DESTRUCTIVE, "medium", "formats or changes disks")
FORK_BOMB = ScanRule("fork_bomb", _C.DESTRUCTIVE, "critical", "starts processes without end")
DELETES_SYSTEM = ScanRule(
    "deletes_system", _C.DESTRUCTIVE, "low", "deletes in a folder of the system"
)
DELETES_LOGS = ScanRule("deletes_logs", _C.DESTRUCTIVE, "high", "deletes the logs of the machine")
CLEARS_HISTORY = ScanRule(
    "clears_history", _C.DESTRUCTIVE, "medium", "clears the history of commands"
)
OWN_POLICY = ScanRule(
    "own_policy", _C.PRIVILEGE_ESCALATION, "critical", "changes what Hermes is allowed to do"
)
OWN_SETTINGS = ScanRule(
    "own_settings", _C.PRIVILEGE_ESCALATION, "low", "changes settings of Hermes"
)
WRITES_OWN = ScanRule(
    "writes_own", _C.PERSISTENCE, "high", "writes what Hermes runs or reads later"
)
SUDO = ScanRule("sudo", _C.PRIVILEGE_ESCALATION, "low", "runs with the rights of another user")
SUDOERS = ScanRule(
    "sudoers", _C.PRIVILEGE_ESCALATION, "critical", "lets somebody be root at any time"
)
SETUID = ScanRule("setuid", _C.PRIVILEGE_ESCALATION, "high", "lets a program run as its owner")
SETUID_SHELL = ScanRule(
    "setuid_shell", _C.PRIVILEGE_ESCALATION, "critical", "makes a shell run as root"
)
ESCAPES = ScanRule("escapes", _C.PRIVILEGE_ESCALATION, "high", "leaves its container for the host")
CREDENTIALS = ScanRule("credentials", _C.CREDENTIAL_ACCESS, "low", "uses keys or passwords")
SHOWS_KEYS = ScanRule(
    "shows_keys", _C.CREDENTIAL_ACCESS, "medium", "shows private keys or passwords"
)
HUNTS_KEYS = ScanRule("hunts_keys", _C.CREDENTIAL_ACCESS, "high", "searches the machine for keys")
SENDS = ScanRule("sends_private", _C.EXFILTRATION, "critical", "sends keys or private data away")
COPIES = ScanRule(
    "copies_private", _C.EXFILTRATION, "low", "copies private data to another machine"
)
DROPS = ScanRule("dead_drop", _C.EXFILTRATION, "medium", "talks to a place that collects anything")
SENDS_DROP = ScanRule("sends_dead_drop", _C.EXFILTRATION, "critical", "sends data to a dead drop")
UPLOADS_LATER = ScanRule("uploads", _C.EXFILTRATION, "high", "reads keys and uploads files")
FOREIGN_KEY = ScanRule(
    "foreign_key", _C.EXFILTRATION, "high", "sends a key to a host it is not for"
)
DNS = ScanRule(
    "dns_tunnel", _C.EXFILTRATION, "critical", "sends data away inside the names of hosts"
)
REVERSE_SHELL = ScanRule(
    "network_shell", _C.BACKDOOR, "critical", "connects a shell to the network"
)
OPENS = ScanRule("opens_machine", _C.BACKDOOR, "medium", "opens this machine from outside")
ADDS_USER = ScanRule("adds_user", _C.BACKDOOR, "high", "makes an account with a known password")
REMOTE_CODE = ScanRule("remote_code", _C.SUPPLY_CHAIN, "high", "runs code fetched from the network")
NAMELESS_CODE = ScanRule(
    "nameless_code", _C.SUPPLY_CHAIN, "critical", "runs code from a nameless or unprotected address"
)
INSTALLER = ScanRule("installer", _C.SUPPLY_CHAIN, "low", "runs the installer of a well-known tool")
PACKAGE = ScanRule("package", _C.SUPPLY_CHAIN, "high", "installs a package from an unknown address")
DECODED_SHELL = ScanRule(
    "decoded_shell", _C.OBFUSCATION, "critical", "runs decoded text as commands"
)
HIDDEN_NAME = ScanRule("hidden_command", _C.OBFUSCATION, "high", "hides which program it runs")
HIJACKS = ScanRule("hijacks", _C.PERSISTENCE, "medium", "changes what other programs load or run")
INVISIBLE = ScanRule(
    "hidden_in_command", _C.HIDDEN_CHARACTERS, "high", "a command looks different from what it is"
)
SCHEDULES = ScanRule("schedules", _C.PERSISTENCE, "low", "starts something later or by itself")
STARTUP = ScanRule(
    "startup", _C.PERSISTENCE, "low", "writes a file that is run at login or holds keys"
)
KEY_ADDED = ScanRule("key_added", _C.PERSISTENCE, "critical", "lets the owner of a key log in")
BAD_STARTUP = ScanRule(
    "bad_startup", _C.PERSISTENCE, "critical", "what it starts by itself is dangerous"
)
ODD_STARTUP = ScanRule(
    "odd_startup", _C.PERSISTENCE, "high", "starts a hidden program or takes the place of another"
)
SENDS_CODE = ScanRule("sends_code", _C.EXFILTRATION, "medium", "sends changes of the code away")
SENDS_NAMELESS = ScanRule(
    "sends_nameless", _C.EXFILTRATION, "high", "sends data to a nameless address"
)
TYPOSQUAT = ScanRule(
    "typosquat", _C.SUPPLY_CHAIN, "high", "a package named almost like a known one"
)
UNREADABLE = ScanRule(
    "unreadable", _C.OBFUSCATION, "medium", "too long or too deeply nested to be read"
)
COPIES_KEYS = ScanRule("copies_keys", _C.EXFILTRATION, "high", "copies keys to another machine")
DELETES_OWN = ScanRule("deletes_own", _C.DESTRUCTIVE, "high", "deletes a main folder of the user")
CHANGES_ALL = ScanRule("changes_all", _C.DESTRUCTIVE, "high", "changes files all over the system")
DELETES_REPOS = ScanRule("deletes_repos", _C.DESTRUCTIVE, "medium", "deletes repositories unasked")
FALSE_NAMES = ScanRule(
    "false_names", _C.SUPPLY_CHAIN, "critical", "leads well-known names elsewhere"
)
TRUSTS_CA = ScanRule(
    "trusts_ca", _C.PRIVILEGE_ESCALATION, "medium", "trusts a new certificate authority"
)
NO_TLS = ScanRule(
    "no_tls", _C.PRIVILEGE_ESCALATION, "medium", "turns the check of certificates off"
)
INSTALL_CODE = ScanRule("install_code", _C.SUPPLY_CHAIN, "high", "runs code while it is installed")
SHREDS = ScanRule("shreds", _C.DESTRUCTIVE, "medium", "overwrites files beyond recovery")
OPENS_SYSTEM = ScanRule(
    "opens_system", _C.PRIVILEGE_ESCALATION, "medium", "opens the system to everybody"
)
ACCOUNT_FILES = ScanRule(
    "account_files", _C.PRIVILEGE_ESCALATION, "high", "changes the passwords or rights of accounts"
)
ADMIN = ScanRule(
    "cluster_admin", _C.PRIVILEGE_ESCALATION, "medium", "makes somebody master of a cluster"
)
PROTECTION_OFF = ScanRule(
    "protection_off", _C.PRIVILEGE_ESCALATION, "medium", "turns protection off"
)
UNKNOWN_INDEX = ScanRule(
    "unknown_index", _C.SUPPLY_CHAIN, "medium", "takes packages from an odd place"
)
MINES = ScanRule("mines", _C.CRYPTO_MINING, "critical", "mines coins")

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

PY_SENDS = ScanRule("py_sends", _C.EXFILTRATION, "critical", "sends keys or private data away")
PY_SENDS_KEY = ScanRule("py_sends_key", _C.EXFILTRATION, "critical", "sends a key to a dead drop")
PY_FOREIGN_KEY = ScanRule(
    "py_foreign_key", _C.EXFILTRATION, "high", "sends a key to a host it is not for"
)
PY_READS_AND_SENDS = ScanRule(
    "py_reads_and_sends",
    _C.EXFILTRATION,
    "high",
    "reads keys and talks to the network",
)
PY_READS_KEYS = ScanRule(
    "py_reads_keys", _C.CREDENTIAL_ACCESS, "low", "names files with keys or passwords"
)
PY_REMOTE_CODE = ScanRule(
    "py_remote_code", _C.SUPPLY_CHAIN, "critical", "runs code from the network"
)
PY_REMOTE_DATA = ScanRule(
    "py_remote_data",
    _C.SUPPLY_CHAIN,
    "high",
    "unpacks data from the network that may hold code",
)
PY_DECODED_CODE = ScanRule(
    "py_decoded_code", _C.OBFUSCATION, "critical", "runs code that was hidden"
)
PY_HIDDEN_NAME = ScanRule("py_hidden_name", _C.OBFUSCATION, "high", "hides which function it calls")
PY_PIECED = ScanRule(
    "py_pieced_command",
    _C.OBFUSCATION,
    "critical",
    "puts a dangerous command together from pieces",
)
PY_EVALUATES = ScanRule(
    "py_evaluates", _C.SHELL_INJECTION, "medium", "runs what somebody types as code"
)
PY_REQUESTED = ScanRule("py_requested", _C.SHELL_INJECTION, "high", "runs what a request asks for")
PY_INTERPOLATES = ScanRule(
    "py_interpolates",
    _C.SHELL_INJECTION,
    "medium",
    "puts data from the network into a command",
)
PY_COMMANDED = ScanRule("py_commanded", _C.BACKDOOR, "critical", "runs commands from the network")
PY_REVERSE_SHELL = ScanRule(
    "py_network_shell", _C.BACKDOOR, "critical", "connects a shell to the network"
)
PY_DELETES_ALL = ScanRule(
    "py_deletes_all", _C.DESTRUCTIVE, "critical", "deletes the system or the home"
)
PY_DELETES_MANY = ScanRule(
    "py_deletes_many", _C.DESTRUCTIVE, "high", "deletes files all over the home"
)
PY_LETS_IN = ScanRule("py_lets_in", _C.PERSISTENCE, "high", "changes who may log in")
PY_SENDS_ENV = ScanRule("py_sends_env", _C.EXFILTRATION, "high", "sends what stands in .env away")
PY_BAD_STARTUP = ScanRule(
    "py_bad_startup",
    _C.PERSISTENCE,
    "critical",
    "what it starts by itself is dangerous",
)
PY_WRITES_ATTACK = ScanRule("py_writes_attack", _C.OBFUSCATION, "high", "writes a dangerous script")
PY_SENDS_FILES = ScanRule(
    "py_sends_files", _C.EXFILTRATION, "high", "sends files of the home folder away"
)
PY_SENDS_SCREEN = ScanRule(
    "py_sends_screen",
    _C.EXFILTRATION,
    "high",
    "sends the screen or the clipboard away",
)
PY_SENDS_MACHINE = ScanRule(
    "py_sends_machine", _C.EXFILTRATION, "high", "tells others about this machine"
)
PY_MACHINE_CODE = ScanRule(
    "py_machine_code", _C.OBFUSCATION, "critical", "runs machine code from memory"
)
PY_STARTUP = ScanRule("py_startup", _C.PERSISTENCE, "medium", "writes a file that is run at login")
PY_OWN = ScanRule(
    "py_own",
    _C.PRIVILEGE_ESCALATION,
    "critical",
    "changes Hermes' own settings or consents",
)
PY_LEAVES = ScanRule("py_leaves", _C.PATH_TRAVERSAL, "high", "writes outside the skill's folder")
PY_MINES = ScanRule("py_mines", _C.CRYPTO_MINING, "critical", "mines coins")
