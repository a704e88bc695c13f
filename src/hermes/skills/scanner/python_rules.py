"""What is wrong in a Python script."""

from typing import Final

from hermes.skills.scanner.report import Category
from hermes.skills.scanner.rule import Rule

_C: Final = Category
SENDS = Rule("py_sends", _C.EXFILTRATION, "critical", "sends keys or private data away")
SENDS_KEY = Rule("py_sends_key", _C.EXFILTRATION, "critical", "sends a key to a dead drop")
FOREIGN_KEY = Rule("py_foreign_key", _C.EXFILTRATION, "high", "sends a key to a host it is not for")
READS_AND_SENDS = Rule(
    "py_reads_and_sends", _C.EXFILTRATION, "high", "reads keys and talks to the network"
)
READS_KEYS = Rule(
    "py_reads_keys", _C.CREDENTIAL_ACCESS, "low", "names files with keys or passwords"
)
REMOTE_CODE = Rule("py_remote_code", _C.SUPPLY_CHAIN, "critical", "runs code from the network")
REMOTE_DATA = Rule(
    "py_remote_data", _C.SUPPLY_CHAIN, "high", "unpacks data from the network that may hold code"
)
DECODED_CODE = Rule("py_decoded_code", _C.OBFUSCATION, "critical", "runs code that was hidden")
HIDDEN_NAME = Rule("py_hidden_name", _C.OBFUSCATION, "high", "hides which function it calls")
PIECED = Rule(
    "py_pieced_command", _C.OBFUSCATION, "critical", "puts a dangerous command together from pieces"
)
EVALUATES = Rule("py_evaluates", _C.SHELL_INJECTION, "medium", "runs what somebody types as code")
REQUESTED = Rule("py_requested", _C.SHELL_INJECTION, "high", "runs what a request asks for")
INTERPOLATES = Rule(
    "py_interpolates", _C.SHELL_INJECTION, "medium", "puts data from the network into a command"
)
COMMANDED = Rule("py_commanded", _C.BACKDOOR, "critical", "runs commands from the network")
REVERSE_SHELL = Rule("py_network_shell", _C.BACKDOOR, "critical", "connects a shell to the network")
DELETES_ALL = Rule("py_deletes_all", _C.DESTRUCTIVE, "critical", "deletes the system or the home")
DELETES_MANY = Rule("py_deletes_many", _C.DESTRUCTIVE, "high", "deletes files all over the home")
LETS_IN = Rule("py_lets_in", _C.PERSISTENCE, "high", "changes who may log in")
SENDS_ENV = Rule("py_sends_env", _C.EXFILTRATION, "high", "sends what stands in .env away")
BAD_STARTUP = Rule(
    "py_bad_startup", _C.PERSISTENCE, "critical", "what it starts by itself is dangerous"
)
WRITES_ATTACK = Rule("py_writes_attack", _C.OBFUSCATION, "high", "writes a dangerous script")
SENDS_FILES = Rule("py_sends_files", _C.EXFILTRATION, "high", "sends files of the home folder away")
SENDS_SCREEN = Rule(
    "py_sends_screen", _C.EXFILTRATION, "high", "sends the screen or the clipboard away"
)
SENDS_MACHINE = Rule("py_sends_machine", _C.EXFILTRATION, "high", "tells others about this machine")
MACHINE_CODE = Rule("py_machine_code", _C.OBFUSCATION, "critical", "runs machine code from memory")
STARTUP = Rule("py_startup", _C.PERSISTENCE, "medium", "writes a file that is run at login")
OWN = Rule(
    "py_own", _C.PRIVILEGE_ESCALATION, "critical", "changes Hermes' own settings or consents"
)
LEAVES = Rule("py_leaves", _C.PATH_TRAVERSAL, "high", "writes outside the skill's folder")
MINES = Rule("py_mines", _C.CRYPTO_MINING, "critical", "mines coins")
