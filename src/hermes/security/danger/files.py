"""Files that others rely on: the system's, those run at login, their rights and owners, logs."""

import re

from hermes.security.danger.deletion import vital
from hermes.security.danger.rule import Rule, always, operands, says, says_exactly, verb
from hermes.security.danger.scene import Scene
from hermes.security.danger.targets import (
    IN_PLACE,
    WRITES_ALL,
    in_place,
    is_recursive,
    written,
    written_real,
)
from hermes.security.shell.model import UNKNOWN, Invocation

LOGS = re.compile(r"/var/log(/|\Z)|/Library/Logs/|/var/(adm|audit)(/|\Z)")
HISTORY = re.compile(r"/\.(\w+_history|histfile|history|lesshst|viminfo)\Z|/fish_history\Z")
_TIGHT = re.compile(r"0?[0-7]00|[ugoa]*-[rwx]+(,[ugoa]*-[rwx]+)*|go=|u=\w*,go=|0?(644|640|440)")
_OTHERS_WRITE = re.compile(
    r"[ug]*[oa][ugoa]*[+=][rxXst]*w[rwxXst]*|=[rx]*w\w*|[ugoa]*o=[ug]|\+[rxXst]*w[rwxXst]*[st]\w*"
)
_SETUID = re.compile(r"([ugoa]*[+=-][rwxXst]*,)*[ugoa]*[+=][rwxX]*s[rwxXst]*(,.*)?")
_TO_ROOT = re.compile(r"(root|0)([:.]|\Z)")
_UNPACKS = frozenset({"tar", "bsdtar", "unzip", "7z", "cpio"})
_FILLS = _UNPACKS | {"rsync", "cp", "mv", "patch", "ln", "install"}
_MAKES = frozenset({"mkdir", "ssh-keygen", "mktemp", "sqlite3"})
_NOT_CLEARING = frozenset({"mkdir", "touch", "chmod", "chown", "ls"})


def writes_system(invocation: Invocation, scene: Scene) -> bool:
    for path in written(invocation):
        plain, real = scene.written_as(path, invocation), scene.real(path, invocation)
        if (plain and scene.is_system(plain)) or (real and scene.is_system(real)):
            return True
        if plain == "/" and invocation.name in _FILLS:
            return True
        if scene.could_be_system(path, invocation):
            return True
    return _changes_listed(invocation, scene)


def _changes_listed(invocation: Invocation, scene: Scene) -> bool:
    """`ls /etc/*.conf | xargs sed -i …`: what is changed stands in the words of the search."""
    name = invocation.name
    if "xargs" not in invocation.via or not (
        name in WRITES_ALL or (name in IN_PLACE and in_place(invocation))
    ):
        return False
    words = (word for source in invocation.upstream for word in operands(source))
    places = (scene.written_as(word, invocation) for word in words if word.startswith("/"))
    return any(place and scene.is_system(place) for place in places)


def changes_everywhere(invocation: Invocation, scene: Scene) -> bool:
    """`find / … -exec sed -i`: files all over the system."""
    if not re.search(r"(^|\s)-(exec|ok)", invocation.text):
        return False
    starts = [word for word in invocation.arguments[:3] if word[:1] in ("/", "~")]
    changers = (WRITES_ALL | IN_PLACE | {"cp", "mv"}) & set(invocation.arguments)
    return bool(changers) and any(vital(word, invocation, scene) for word in starts)


def writes_startup(invocation: Invocation, scene: Scene) -> bool:
    """A file that is run at login, or that holds keys."""
    if invocation.name in _MAKES:
        return False
    if invocation.name == "chmod" and _TIGHT.fullmatch("".join(operands(invocation)[:1])):
        return False
    if invocation.name in _UNPACKS and scene.home in written_real(invocation, scene):
        return True
    return any(
        (scene.is_startup(real) or scene.is_credential(real)) and not real.endswith("/known_hosts")
        for real in written_real(invocation, scene)
    )


def clears_logs(invocation: Invocation, scene: Scene) -> bool:
    if invocation.name in _NOT_CLEARING:
        return False
    if invocation.name == "tee" and "-a" in invocation.arguments:
        return False
    appended = {redirect.target for redirect in invocation.redirects if ">>" in redirect.operator}
    for path in written(invocation):
        plain = "" if path in appended else scene.written_as(path, invocation)
        if plain and (LOGS.match(plain) or HISTORY.search(plain)):
            return True
    return False


def hides_history(invocation: Invocation, _scene: Scene) -> bool:
    for name, value in invocation.assignments:
        if name in ("HISTFILE", "HISTSIZE", "HISTFILESIZE") and value in ("", "0", "/dev/null"):
            return True
    return invocation.name == "unset" and "HISTFILE" in invocation.arguments


def world_writable(invocation: Invocation, _scene: Scene) -> bool:
    if invocation.name in ("chmod", "gchmod") and UNKNOWN in "".join(operands(invocation)[:1]):
        return True  # which rights it gives shows only when it runs
    for word in invocation.arguments:
        mode = word.removeprefix("-m").removeprefix("--mode=")
        octal = re.fullmatch(r"0{0,2}[0-7]?([0-7]{3})", mode)
        if octal and int(octal[1][-1]) & 2:
            return True
        if any(_OTHERS_WRITE.fullmatch(part) for part in mode.split(",")):
            return True
    return False


def setuid(invocation: Invocation, _scene: Scene) -> bool:
    modes = [word.removeprefix("-m").removeprefix("--mode=") for word in invocation.arguments]
    return any(re.fullmatch(r"0*[2467][0-7]{3}", m) or _SETUID.fullmatch(m) for m in modes)


def sweeps_owners(invocation: Invocation, scene: Scene) -> bool:
    named = operands(invocation)
    everything = is_recursive(invocation) or bool({"find", "xargs", "fd"} & set(invocation.via))
    if not everything or not named:
        return False
    asked_for = [word for source in invocation.fed_by for word in source.arguments]
    if invocation.name == "chown" and (_TO_ROOT.match(named[0]) or "root" in asked_for):
        return True
    for path in named[1:] or named:
        if path[:1] not in "/~" and not invocation.folder:
            continue  # the folder at hand, whatever that is
        plain = scene.written_as(path, invocation)
        if vital(path, invocation, scene) or (plain and scene.is_system(plain)):
            return True
    return False


def takes_rights(invocation: Invocation, _scene: Scene) -> bool:
    """`chmod -R 000`: locks everybody out."""
    mode = "".join(operands(invocation)[:1])
    return is_recursive(invocation) and bool(re.fullmatch(r"0+|[augo]*-rwx", mode))


SYSTEM_TOOLS = """
    nvram csrutil spctl bcdedit reg scutil systemsetup dpkg-divert update-alternatives authselect
    vssadmin wbadmin hostnamectl localectl
"""
SYSTEM, TRACES, OPEN = "system files", "traces", "world-writable"
CLEARS_LOGS, CLEARS_HISTORY = "clears logs", "clears the history of commands"
EVERY_USER = "lets every user write the file"
RULES = (
    Rule(SYSTEM, "writes into a folder of the operating system", "", writes_system),
    Rule(SYSTEM, "changes files all over the system", "find", changes_everywhere),
    Rule(
        SYSTEM,
        "changes settings of the system",
        SYSTEM_TOOLS,
        verb(
            "delete add disable --master-disable -c -d import --install --set remove resize /set",
            r"=|\bset[\w-]",
        ),
    ),
    Rule(
        "start-up and key files",
        "writes a file that is run at login or holds keys",
        "",
        writes_startup,
    ),
    Rule(TRACES, CLEARS_LOGS, "", clears_logs),
    Rule(TRACES, CLEARS_HISTORY, "", hides_history),
    Rule(TRACES, CLEARS_HISTORY, "history", says_exactly(r"(^|\s)-\w*[cwd]\b")),
    Rule(TRACES, CLEARS_HISTORY, "set", says(r"\+o\s+history")),
    Rule(TRACES, CLEARS_LOGS, "journalctl", says(r"--(vacuum|rotate|flush|relinquish)")),
    Rule(TRACES, CLEARS_LOGS, "dmesg", verb("-c -C --clear --read-clear")),
    Rule(TRACES, CLEARS_LOGS, "logrotate auditctl wevtutil", verb("-f --force -D -e cl clear-log")),
    Rule(OPEN, EVERY_USER, "chmod install mkdir gchmod", world_writable),
    Rule(OPEN, "lets every user write new files", "umask", says(r"^0*[0-7]?[0-7]?0$|^a=rwx|o=rwx")),
    Rule(OPEN, EVERY_USER, "setfacl", says(r"\b(o|other)::?\w*w|u:nobody")),
    Rule(OPEN, EVERY_USER, "icacls cacls", says(r"everyone|grant")),
    Rule("setuid", "lets a program run with the rights of its owner", "chmod install", setuid),
    Rule("setuid", "gives a program rights of root", "setcap", always),
    Rule(
        "owner sweep",
        "changes owner or rights of a whole system folder",
        "chown chgrp chmod",
        sweeps_owners,
    ),
    Rule("owner sweep", "takes all rights from a folder", "chmod", takes_rights),
    Rule(
        "owner sweep",
        "locks or unlocks files against changes",
        "chattr chflags",
        says(r"(^|\s)[+-]\w*[ia]\b|schg|uchg"),
    ),
)
