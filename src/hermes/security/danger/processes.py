"""Services and processes: stopping them, and turning the machine off."""

import posixpath
import re

from hermes.security.danger.rule import (
    Rule,
    always,
    but_not,
    has_option,
    operands,
    says,
    says_exactly,
    verb,
)
from hermes.security.danger.scene import Scene
from hermes.security.shell.model import UNKNOWN, Invocation, join

_DESKTOP = frozenset({"dock", "finder", "systemuiserver", "cfprefsd", "preferences", "simulator"})
"""Parts of a desktop that come back by themselves."""
_SEARCHES = frozenset({"ps", "pgrep", "pidof", "lsof", "top", "netstat", "ss", "find", "seq"})
_INIT_SCRIPT = re.compile(r"/(init|rc\d?)\.d/[\w.@-]+\Z")
_STOPS = frozenset({"stop", "disable", "onestop", "forcestop", "faststop", "kill", "force-stop"})
_MANY = re.compile(r"[*?\[]|\{\d+\.\.\d+\}")
"""A pattern or a range in place of the number of a process."""
MOST_KILLED = 12
"""More processes than this are not named by hand."""
_SIGNAL = re.compile(r"-(\d+|[A-Z]\w*|s|n|-signal\S*)|--")
_HARD = re.compile(r"(?:^|\s)(?:-9|-(?:SIG)?KILL|-s\s*(?:9|(?:SIG)?KILL))\b", re.IGNORECASE)


def kills_all(invocation: Invocation, _scene: Scene) -> bool:
    """`kill -9 -1`, `kill 1`, or every process a search finds."""
    words = list(invocation.arguments)
    if words[:1] in (["-l"], ["-0"], ["-L"]):
        return False
    while words and _SIGNAL.fullmatch(words[0]) and words != ["-1"]:
        del words[: 2 if words[0] in ("-s", "-n", "--signal") else 1]
    if {"-1", "1", "0"} & set(words) or any(_MANY.search(word) for word in words):
        return True
    if len(words) > MOST_KILLED:
        return True
    unknown = not words or any(UNKNOWN in word for word in words)
    return unknown and _lists(invocation) and bool(_HARD.search(invocation.text))


def _lists(invocation: Invocation) -> bool:
    """Whether a search says what is killed; that for the owner of a port means one server."""
    searches = [
        each
        for each in invocation.sources
        if each.name in _SEARCHES or (each.name == "ls" and "/proc" in each.text)
    ]
    port = any(each.name == "lsof" and re.search(r":\d|-i", each.text) for each in searches)
    return bool(searches) and not port


def stops_by_script(invocation: Invocation, _scene: Scene) -> bool:
    """`/etc/init.d/mysql stop`, also `sh /etc/rc.d/…` and from inside that folder."""
    if _STOPS.isdisjoint(invocation.arguments):
        return False
    paths = (posixpath.normpath(join(invocation.folder, word)) for word in invocation.words[:2])
    return any(_INIT_SCRIPT.search(path) for path in paths)


def kills_by_name(invocation: Invocation, _scene: Scene) -> bool:
    if has_option(invocation, "l", "0", "V", "--list"):
        return False
    named = operands(invocation)
    return bool(named) and not all(word.lower() in _DESKTOP for word in named)


def pattern_of_all(invocation: Invocation, _scene: Scene) -> bool:
    """`pkill .`"""
    return any(re.fullmatch(r"\^?\.?[*+]?\$?|[a-z]", word) for word in operands(invocation))


def kills_users_of_files(invocation: Invocation, _scene: Scene) -> bool:
    """`fuser -km /`; a port is one server, as `lsof -ti:3000 | xargs kill`."""
    if not has_option(invocation, "k", "--kill"):
        return False
    return not re.search(r"\d+/(tcp|udp)|-n\s+(tcp|udp)", invocation.text)


KILL, CONTROL = "mass kill", "service control"
OFF, STOPS = "turns the machine off", "stops a service"
SUPERVISORS = "service rc-service initctl sv s6-svc supervisorctl svcadm invoke-rc.d monit s6-rc"
SERVERS = "nginx apachectl apache2ctl httpd pg_ctl pg_ctlcluster mysqladmin redis-cli rabbitmqctl"
RULES = (
    Rule(
        CONTROL,
        "stops or changes a service",
        "systemctl",
        but_not(
            verb(
                "stop disable mask kill isolate rescue emergency set-default revert edit link "
                "set-property set-environment"
            ),
            verb("status show cat", r"\b(list|is)-"),
        ),
    ),
    Rule(
        CONTROL,
        "enables a service from a file",
        "systemctl",
        says(r"\b(enable|link|start)\b.*\s[/~]\S"),
    ),
    Rule(CONTROL, STOPS, "", stops_by_script),
    Rule(CONTROL, STOPS, SUPERVISORS, verb("stop disable down shutdown -d exit kill unmonitor")),
    Rule(
        CONTROL,
        "stops or adds a service",
        "launchctl",
        verb(
            "unload bootout remove disable kill load bootstrap submit stop reboot",
            r"kickstart\s+-k",
        ),
    ),
    Rule(
        CONTROL,
        "changes which services start",
        "update-rc.d chkconfig rc-update insserv",
        verb("disable remove off del delete defaults on add"),
    ),
    Rule(CONTROL, STOPS, "brew", says(r"\bservices\s+(stop|kill)\b")),
    Rule(
        CONTROL,
        "stops every process",
        "pm2 forever",
        verb("kill stopall", r"(stop|delete|del)\s+all\b"),
    ),
    Rule(
        CONTROL,
        STOPS,
        SERVERS,
        verb("stop quit shutdown graceful-stop stop_app reset force_reset", r"-s\s*(stop|quit)"),
    ),
    Rule(CONTROL, STOPS, "net sc", verb("stop delete config")),
    Rule("shutdown", OFF, "shutdown reboot halt poweroff", always),
    Rule("shutdown", OFF, "init telinit", says(r"^[016s]$")),
    Rule(
        "shutdown",
        OFF,
        "systemctl loginctl pmset",
        verb(
            "poweroff reboot halt hibernate suspend kexec soft-reboot sleepnow",
            r"(^|\s)(terminate|kill)-",
        ),
    ),
    Rule(KILL, "kills every process, or all a search finds", "kill", kills_all),
    Rule(
        KILL,
        "kills processes by name, without a chance to save",
        "pkill",
        says(r"(^|\s)(-(9|KILL|SIGKILL|s\s*(9|KILL|SIGKILL))|--signal[= ](9|SIGKILL|KILL))\b"),
    ),
    Rule(
        KILL,
        "kills every process of a user or terminal",
        "pkill",
        says_exactly(r"(^|\s)(-[ugtUGP](?=\s|$)|-[ugt]\w|--(euid|uid|group|terminal|parent))"),
    ),
    Rule(KILL, "kills every process", "pkill", pattern_of_all),
    Rule(KILL, "kills every process of that name", "killall", kills_by_name),
    Rule(KILL, "kills many processes at once", "killall5 skill slay snice", always),
    Rule(KILL, "kills every process that uses a file system", "fuser", kills_users_of_files),
    Rule(KILL, "kills processes by name", "taskkill stop-process", verb("/f -force /im")),
)
