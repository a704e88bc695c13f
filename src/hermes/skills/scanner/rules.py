"""What the classes of dangerous commands mean in a skill, and rules of its own."""

from typing import Final

from hermes.skills.scanner.report import Category, Rule

_C = Category
WIPES = Rule("wipes", _C.DESTRUCTIVE, "critical", "destroys the system, a disk or the home folder")
WRITES_IMAGE = Rule("writes_image", _C.DESTRUCTIVE, "low", "writes an image to a disk")
FORMATS = Rule("formats", _C.DESTRUCTIVE, "medium", "formats or changes disks")
FORK_BOMB = Rule("fork_bomb", _C.DESTRUCTIVE, "critical", "starts processes without end")
DELETES_SYSTEM = Rule("deletes_system", _C.DESTRUCTIVE, "low", "deletes in a folder of the system")
DELETES_LOGS = Rule("deletes_logs", _C.DESTRUCTIVE, "high", "deletes the logs of the machine")
CLEARS_HISTORY = Rule("clears_history", _C.DESTRUCTIVE, "medium", "clears the history of commands")
OWN_POLICY = Rule(
    "own_policy", _C.PRIVILEGE_ESCALATION, "critical", "changes what Hermes is allowed to do"
)
OWN_SETTINGS = Rule("own_settings", _C.PRIVILEGE_ESCALATION, "low", "changes settings of Hermes")
WRITES_OWN = Rule("writes_own", _C.PERSISTENCE, "high", "writes what Hermes runs or reads later")
SUDO = Rule("sudo", _C.PRIVILEGE_ESCALATION, "low", "runs with the rights of another user")
SUDOERS = Rule("sudoers", _C.PRIVILEGE_ESCALATION, "critical", "lets somebody be root at any time")
SETUID = Rule("setuid", _C.PRIVILEGE_ESCALATION, "high", "lets a program run as its owner")
SETUID_SHELL = Rule(
    "setuid_shell", _C.PRIVILEGE_ESCALATION, "critical", "makes a shell run as root"
)
ESCAPES = Rule("escapes", _C.PRIVILEGE_ESCALATION, "high", "leaves its container for the host")
CREDENTIALS = Rule("credentials", _C.CREDENTIAL_ACCESS, "low", "uses keys or passwords")
SHOWS_KEYS = Rule("shows_keys", _C.CREDENTIAL_ACCESS, "medium", "shows private keys or passwords")
HUNTS_KEYS = Rule("hunts_keys", _C.CREDENTIAL_ACCESS, "high", "searches the machine for keys")
SENDS = Rule("sends_private", _C.EXFILTRATION, "critical", "sends keys or private data away")
COPIES = Rule("copies_private", _C.EXFILTRATION, "low", "copies private data to another machine")
DROPS = Rule("dead_drop", _C.EXFILTRATION, "medium", "talks to a place that collects anything")
SENDS_DROP = Rule("sends_dead_drop", _C.EXFILTRATION, "critical", "sends data to a dead drop")
UPLOADS_LATER = Rule("uploads", _C.EXFILTRATION, "high", "reads keys and uploads files")
FOREIGN_KEY = Rule("foreign_key", _C.EXFILTRATION, "high", "sends a key to a host it is not for")
DNS = Rule("dns_tunnel", _C.EXFILTRATION, "critical", "sends data away inside the names of hosts")
REVERSE_SHELL = Rule("network_shell", _C.BACKDOOR, "critical", "connects a shell to the network")
OPENS = Rule("opens_machine", _C.BACKDOOR, "medium", "opens this machine from outside")
ADDS_USER = Rule("adds_user", _C.BACKDOOR, "high", "makes an account with a known password")
REMOTE_CODE = Rule("remote_code", _C.SUPPLY_CHAIN, "high", "runs code fetched from the network")
NAMELESS_CODE = Rule(
    "nameless_code", _C.SUPPLY_CHAIN, "critical", "runs code from a nameless or unprotected address"
)
INSTALLER = Rule("installer", _C.SUPPLY_CHAIN, "low", "runs the installer of a well-known tool")
PACKAGE = Rule("package", _C.SUPPLY_CHAIN, "high", "installs a package from an unknown address")
DECODED_SHELL = Rule("decoded_shell", _C.OBFUSCATION, "critical", "runs decoded text as commands")
HIDDEN_NAME = Rule("hidden_command", _C.OBFUSCATION, "high", "hides which program it runs")
HIJACKS = Rule("hijacks", _C.PERSISTENCE, "medium", "changes what other programs load or run")
INVISIBLE = Rule(
    "hidden_in_command", _C.HIDDEN_CHARACTERS, "high", "a command looks different from what it is"
)
SCHEDULES = Rule("schedules", _C.PERSISTENCE, "low", "starts something later or by itself")
STARTUP = Rule("startup", _C.PERSISTENCE, "low", "writes a file that is run at login or holds keys")
KEY_ADDED = Rule("key_added", _C.PERSISTENCE, "critical", "lets the owner of a key log in")
BAD_STARTUP = Rule(
    "bad_startup", _C.PERSISTENCE, "critical", "what it starts by itself is dangerous"
)
ODD_STARTUP = Rule(
    "odd_startup", _C.PERSISTENCE, "high", "starts a hidden program or takes the place of another"
)
SENDS_CODE = Rule("sends_code", _C.EXFILTRATION, "medium", "sends changes of the code away")
SENDS_NAMELESS = Rule("sends_nameless", _C.EXFILTRATION, "high", "sends data to a nameless address")
TYPOSQUAT = Rule("typosquat", _C.SUPPLY_CHAIN, "high", "a package named almost like a known one")
UNREADABLE = Rule(
    "unreadable", _C.OBFUSCATION, "medium", "too long or too deeply nested to be read"
)
COPIES_KEYS = Rule("copies_keys", _C.EXFILTRATION, "high", "copies keys to another machine")
DELETES_OWN = Rule("deletes_own", _C.DESTRUCTIVE, "high", "deletes a main folder of the user")
CHANGES_ALL = Rule("changes_all", _C.DESTRUCTIVE, "high", "changes files all over the system")
DELETES_REPOS = Rule("deletes_repos", _C.DESTRUCTIVE, "medium", "deletes repositories unasked")
FALSE_NAMES = Rule("false_names", _C.SUPPLY_CHAIN, "critical", "leads well-known names elsewhere")
TRUSTS_CA = Rule(
    "trusts_ca", _C.PRIVILEGE_ESCALATION, "medium", "trusts a new certificate authority"
)
NO_TLS = Rule("no_tls", _C.PRIVILEGE_ESCALATION, "medium", "turns the check of certificates off")
INSTALL_CODE = Rule("install_code", _C.SUPPLY_CHAIN, "high", "runs code while it is installed")
SHREDS = Rule("shreds", _C.DESTRUCTIVE, "medium", "overwrites files beyond recovery")
OPENS_SYSTEM = Rule(
    "opens_system", _C.PRIVILEGE_ESCALATION, "medium", "opens the system to everybody"
)
ACCOUNT_FILES = Rule(
    "account_files", _C.PRIVILEGE_ESCALATION, "high", "changes the passwords or rights of accounts"
)
ADMIN = Rule(
    "cluster_admin", _C.PRIVILEGE_ESCALATION, "medium", "makes somebody master of a cluster"
)
PROTECTION_OFF = Rule("protection_off", _C.PRIVILEGE_ESCALATION, "medium", "turns protection off")
UNKNOWN_INDEX = Rule("unknown_index", _C.SUPPLY_CHAIN, "medium", "takes packages from an odd place")
MINES = Rule("mines", _C.CRYPTO_MINING, "critical", "mines coins")

KINDS: Final[dict[str, Rule]] = {
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
"""By the class of a command. Classes that are not here are what terminals are for: the user is
asked about them when the command is run."""
REASONS: Final[dict[str, Rule | None]] = {
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
"""By the reason, where it says more than the class."""


# What is wrong in a Python script.

PY_SENDS = Rule("py_sends", _C.EXFILTRATION, "critical", "sends keys or private data away")
PY_SENDS_KEY = Rule("py_sends_key", _C.EXFILTRATION, "critical", "sends a key to a dead drop")
PY_FOREIGN_KEY = Rule(
    "py_foreign_key", _C.EXFILTRATION, "high", "sends a key to a host it is not for"
)
PY_READS_AND_SENDS = Rule(
    "py_reads_and_sends",
    _C.EXFILTRATION,
    "high",
    "reads keys and talks to the network",
)
PY_READS_KEYS = Rule(
    "py_reads_keys", _C.CREDENTIAL_ACCESS, "low", "names files with keys or passwords"
)
PY_REMOTE_CODE = Rule("py_remote_code", _C.SUPPLY_CHAIN, "critical", "runs code from the network")
PY_REMOTE_DATA = Rule(
    "py_remote_data",
    _C.SUPPLY_CHAIN,
    "high",
    "unpacks data from the network that may hold code",
)
PY_DECODED_CODE = Rule("py_decoded_code", _C.OBFUSCATION, "critical", "runs code that was hidden")
PY_HIDDEN_NAME = Rule("py_hidden_name", _C.OBFUSCATION, "high", "hides which function it calls")
PY_PIECED = Rule(
    "py_pieced_command",
    _C.OBFUSCATION,
    "critical",
    "puts a dangerous command together from pieces",
)
PY_EVALUATES = Rule(
    "py_evaluates", _C.SHELL_INJECTION, "medium", "runs what somebody types as code"
)
PY_REQUESTED = Rule("py_requested", _C.SHELL_INJECTION, "high", "runs what a request asks for")
PY_INTERPOLATES = Rule(
    "py_interpolates",
    _C.SHELL_INJECTION,
    "medium",
    "puts data from the network into a command",
)
PY_COMMANDED = Rule("py_commanded", _C.BACKDOOR, "critical", "runs commands from the network")
PY_REVERSE_SHELL = Rule(
    "py_network_shell", _C.BACKDOOR, "critical", "connects a shell to the network"
)
PY_DELETES_ALL = Rule(
    "py_deletes_all", _C.DESTRUCTIVE, "critical", "deletes the system or the home"
)
PY_DELETES_MANY = Rule("py_deletes_many", _C.DESTRUCTIVE, "high", "deletes files all over the home")
PY_LETS_IN = Rule("py_lets_in", _C.PERSISTENCE, "high", "changes who may log in")
PY_SENDS_ENV = Rule("py_sends_env", _C.EXFILTRATION, "high", "sends what stands in .env away")
PY_BAD_STARTUP = Rule(
    "py_bad_startup",
    _C.PERSISTENCE,
    "critical",
    "what it starts by itself is dangerous",
)
PY_WRITES_ATTACK = Rule("py_writes_attack", _C.OBFUSCATION, "high", "writes a dangerous script")
PY_SENDS_FILES = Rule(
    "py_sends_files", _C.EXFILTRATION, "high", "sends files of the home folder away"
)
PY_SENDS_SCREEN = Rule(
    "py_sends_screen",
    _C.EXFILTRATION,
    "high",
    "sends the screen or the clipboard away",
)
PY_SENDS_MACHINE = Rule(
    "py_sends_machine", _C.EXFILTRATION, "high", "tells others about this machine"
)
PY_MACHINE_CODE = Rule(
    "py_machine_code", _C.OBFUSCATION, "critical", "runs machine code from memory"
)
PY_STARTUP = Rule("py_startup", _C.PERSISTENCE, "medium", "writes a file that is run at login")
PY_OWN = Rule(
    "py_own",
    _C.PRIVILEGE_ESCALATION,
    "critical",
    "changes Hermes' own settings or consents",
)
PY_LEAVES = Rule("py_leaves", _C.PATH_TRAVERSAL, "high", "writes outside the skill's folder")
PY_MINES = Rule("py_mines", _C.CRYPTO_MINING, "critical", "mines coins")
