"""Signs of an attack in code of any language, looked for in the text itself.

Scripts of Python and of the shell are read as trees; these rules stand beside them and are all
there is for other languages.
"""

import re
from collections.abc import Iterator
from typing import Final

from hermes.skills.scanner import shell_rules
from hermes.skills.scanner.lines import Lines
from hermes.skills.scanner.places import COLLECTOR, STORE, known_installer
from hermes.skills.scanner.report import Category
from hermes.skills.scanner.rule import Hit, Rule

_C: Final = Category
MINER = re.compile(
    r"stratum\+(?:tcp|ssl|tls)://[\w.-]+|--donate-level[ =]\d"
    r"|\b(?:xmrig|minerd|cpuminer|ethminer|nbminer|lolminer|xmr-stak)\b[^\n]{0,120}?"
    r"\s(?:-o|-u|--url|--pool|--user|--coin)\b"
    r"|\b(?:supportxmr|nanopool|2miners|minexmr|hashvault|f2pool|ethermine|nicehash)\.(?:com|org|pro)"
)
_ENVIRONMENT = re.compile(
    r"JSON\.stringify\(\s*process\.env\s*[,)]|Object\.(?:entries|assign|values|keys)\([^)\n]{0,20}process\.env"
    r"|\.\.\.process\.env\s*\}\s*\)|(?:body|data)\s*[:=]\s*process\.env\s*[,;)]|ENV\.to_(?:h|a|json)"
    r"|json_encode\(\s*(?:\$_ENV|\$_SERVER|getenv\(\))|Get-ChildItem\s+env:|\bgci\s+env:"
    r"|os\.Environ\(\)|System\.getenv\(\)|toJSON\(\s*secrets\s*\)|dict\(os\.environ\)"
)
_STORE_READ = re.compile(
    r"(?:readFile(?:Sync)?|File\.(?:read|open|binread)|ReadFile|file_get_contents|fopen|Get-Content|"
    rf"createReadStream|Dir(?:\.glob)?[(\[])[^\n]{{0,120}}?(?:{STORE.pattern})"
)
_ENV_FILE = re.compile(
    r"(?:readFile(?:Sync)?|File\.read|file_get_contents|ReadFile|open)\(\s{0,9}"
    r"[\"'][^\"'\n]{0,60}\.env[\"']"
)
_SENDS = re.compile(
    r"\bfetch\(|\baxios\b|https?\.request\(|XMLHttpRequest|\.post\(|Net::HTTP|HTTParty|curl_exec"
    r"|file_get_contents\(\s*[\"']https?:|Invoke-(?:WebRequest|RestMethod)|\b(?:iwr|irm)\b"
    r"|UploadString|UploadData|sendBeacon|new WebSocket|net\.connect|fsockopen|http\.Post"
    r"|LWP::UserAgent|TCPSocket|net\.Socket|net\.Dial\(|new Image\(\)|requests\.|urlopen|\bcurl\s",
)
_EVALUATES = re.compile(
    r"(?<![\w.$])(?:eval|Function|execScript|setTimeout|vm\.run\w+)\s*\(|\bIEX\b|Invoke-Expression"
    r"|instance_eval|\bassert\s*\(\s*\$",
)
_DECODES = re.compile(
    r"\batob\s*\(|,\s*[\"'](?:base64|hex)[\"']\s*\)|FromBase64String|base64_decode"
    r"|Base64\.(?:decode|strict_decode)|String\.fromCharCode\(\s*\d+\s*,|unescape\(\s*[\"']%|str_rot13"
    r"|gzinflate|pack\(\s*[\"']H\*|decode_base64"
)
_CONNECTS = re.compile(
    r"net\.(?:Socket|connect)|fsockopen|TCPSocket|\bsocket\(S,|IO::Socket|Net\.Sockets\.TCPClient"
    r"|net\.Dial\(|new\s+Socket\("
)
_STARTS_SHELL = re.compile(
    r"[\"'`](?:/bin/)?(?:ba|z)?sh[\"'` ]|cmd\.exe|/bin/sh -i|exec\(\s*[\"']/bin|powershell",
)
_DOWNLOADS = re.compile(
    r"(?:IEX|Invoke-Expression)\b[^\n]{0,200}(?:DownloadString|Invoke-WebRequest|\biwr\b|\birm\b)"
    r"|(?:DownloadString|\biwr\b|\birm\b|Invoke-(?:WebRequest|RestMethod))[^\n]{0,300}\|\s*(?:IEX\b|"
    r"Invoke-Expression)",
    re.IGNORECASE,
)
_ENCODED_COMMAND = re.compile(
    r"(?:powershell|pwsh)[^\n]{0,200}\s-e(?:nc|ncodedcommand|c)?\s+[A-Za-z0-9+/=]{40,}",
    re.IGNORECASE,
)
_WINDOWS_START = re.compile(
    r"(?:reg\s+add|New-ItemProperty|Set-ItemProperty)[^\n]{0,200}CurrentVersion\\+Run"
    r"|schtasks\s+/create[^\n]{0,300}(?:powershell|cmd|http)",
    re.IGNORECASE,
)
_DEFENDER = re.compile(
    r"Set-MpPreference[^\n]{0,100}Disable|Add-MpPreference[^\n]{0,60}Exclusion|vssadmin\s+delete"
    r"|netsh\s+advfirewall\s+set\s+\w+\s+state\s+off",
    re.IGNORECASE,
)
_MACHINE_CODE = re.compile(
    r"(?:VirtualAlloc|RtlMoveMemory|CreateRemoteThread|WriteProcessMemory)(?:Ex)?\s{0,3}\("
)
_FAKE_DIALOG = re.compile(r"display dialog[^\n]{0,200}hidden answer|Get-Credential[^\n]{0,200}http")
_REMOTE_EVAL = re.compile(
    r"(?:eval|Function|exec)\s*\(\s*(?:await\s+)?\(?(?:await\s+)?(?:fetch|axios|http|file_get_contents)",
)

_STARTED = re.compile(
    r"(?<![\w$])(?:exec|execSync|execFile|system|popen|spawn|spawnSync|shell_exec|passthru|Exec|"
    r"Command|do_shell_script|Run)[\"']?\]?\s{0,3}\(\s{0,3}([\"'`])((?:(?!\1)[^\\\n]|\\.){3,600})\1"
)
"""Command lines that code of another language starts."""

ENVIRONMENT_SENT = Rule("environment_sent", _C.EXFILTRATION, "critical", "sends all variables away")
STORE_NEAR = Rule("store_near", _C.EXFILTRATION, "high", "names keys and talks to the network")
STORE_SENT = Rule("store_sent", _C.EXFILTRATION, "critical", "reads keys and talks to the network")
ENV_SENT = Rule("env_file_sent", _C.EXFILTRATION, "medium", "reads .env and talks to the network")
STORE_NAMED = Rule("store_named", _C.CREDENTIAL_ACCESS, "low", "names files with keys or passwords")
DROP_NAMED = Rule(
    "drop_named", _C.EXFILTRATION, "medium", "talks to a place that collects anything"
)
DECODED = Rule("decoded_code", _C.OBFUSCATION, "high", "decodes text and evaluates code")
SOCKET_SHELL = Rule("socket_shell", _C.BACKDOOR, "critical", "connects a shell to the network")
DOWNLOADED = Rule("downloaded_code", _C.SUPPLY_CHAIN, "critical", "runs code from the network")
FETCHED = Rule("fetched_code", _C.SUPPLY_CHAIN, "high", "runs code fetched from the network")
INSTALLER = Rule("powershell_installer", _C.SUPPLY_CHAIN, "low", "runs a well-known installer")
ENCODED = Rule("encoded_command", _C.OBFUSCATION, "critical", "runs an encoded command")
WINDOWS_START = Rule("windows_startup", _C.PERSISTENCE, "high", "starts something at every login")
MACHINE_CODE = Rule("machine_code", _C.OBFUSCATION, "critical", "runs machine code from memory")
FAKE_DIALOG = Rule("fake_dialog", _C.CREDENTIAL_ACCESS, "high", "asks for a password in a dialog")
DEFENDER = Rule("defender_off", _C.PRIVILEGE_ESCALATION, "critical", "turns protection off")

_ALONE: Final = (
    (shell_rules.MINES, MINER),
    (ENCODED, _ENCODED_COMMAND),
    (WINDOWS_START, _WINDOWS_START),
    (DEFENDER, _DEFENDER),
    (DOWNLOADED, _REMOTE_EVAL),
    (MACHINE_CODE, _MACHINE_CODE),
    (FAKE_DIALOG, _FAKE_DIALOG),
)
_TOGETHER: Final = (
    (ENVIRONMENT_SENT, _ENVIRONMENT, _SENDS),
    (STORE_SENT, _STORE_READ, _SENDS),
    (STORE_NEAR, STORE, _SENDS),
    (ENV_SENT, _ENV_FILE, _SENDS),
    (DECODED, _DECODES, _EVALUATES),
    (SOCKET_SHELL, _CONNECTS, _STARTS_SHELL),
    (DROP_NAMED, COLLECTOR, _SENDS),
)
"""Two things that are harmless each."""


def alone(text: str) -> Iterator[Hit]:
    """What needs nothing beside it."""
    lines = Lines(text)
    for rule, pattern in _ALONE:
        if match := pattern.search(text):
            yield Hit(rule, lines.at(match.start()))
    for match in _DOWNLOADS.finditer(text):
        command = match[0] + text[match.end() : match.end() + 200].partition("\n")[0]
        rule = INSTALLER if known_installer(command) else DOWNLOADED
        if rule is DOWNLOADED and "https://" in command and "http://" not in command:
            rule = FETCHED
        yield Hit(rule, lines.at(match.start()))


def started(text: str) -> Iterator[tuple[int, str]]:
    """Lines (from 0) and commands that are started from there."""
    lines = Lines(text)
    for match in _STARTED.finditer(text):
        yield lines.at(match.start()), re.sub(r"\\(.)", r"\1", match[2])


def together(text: str) -> Iterator[Hit]:
    """What two places of one script say."""
    lines = Lines(text)
    for rule, first, second in _TOGETHER:
        match = first.search(text)
        if match and second.search(text):
            yield Hit(rule, lines.at(match.start()))
        elif match and rule is STORE_NEAR:
            yield Hit(STORE_NAMED, lines.at(match.start()))
