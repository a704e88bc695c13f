"""The running machine: jobs, accounts, firewall, packages, permissions, processes, network
shells."""

import posixpath
import re

from hermes.security.danger.context import ShellContext
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
from hermes.security.shell.launchers import SHELLS
from hermes.security.shell.model import UNKNOWN, Invocation, join_path


def changes_jobs(invocation: Invocation, _context: ShellContext) -> bool:
    """Anything `crontab` does except listing."""
    words = list(invocation.arguments)
    if words[:1] == ["-u"]:
        del words[:2]
    return words not in (["-l"], ["-V"])


def removes_many(invocation: Invocation, _context: ShellContext) -> bool:
    """Packages that another program lists."""
    removes = re.search(r"\b(uninstall|remove|rm|un)\b", invocation.text)
    listed = "xargs" in invocation.via or UNKNOWN in invocation.text
    return bool(removes) and listed


ACCOUNT_TOOLS = """
    useradd userdel usermod groupadd groupdel groupmod passwd chpasswd adduser deluser visudo chsh
    chfn vipw vigr gpasswd newusers addgroup delgroup chage sysadminctl dseditgroup pwconv pwunconv
"""
PACKAGE_TOOLS = """
    apt apt-get aptitude dnf yum zypper apk snap flatpak opkg port nala microdnf winget choco scoop
    pkg eopkg swupd guix pkcon urpme
"""
AS_ANOTHER = """
    sudo doas su pkexec runuser sudoedit gosu su-exec run0 please dzdo setuidgid runas newgrp
    machinectl gksu kdesu
"""
JOBS, FIREWALL, NETWORK = "scheduled jobs", "firewall", "changes the network"
KERNEL, REMOVES = "changes the running kernel", "removes software"
MACHINE_RULES = (
    Rule(JOBS, "changes jobs that run later", "crontab", changes_jobs),
    Rule(JOBS, "starts a job that runs later or on its own", "at batch systemd-run atrm schtasks",
         but_not(always, says(r"^(-l|-c|--list|/query)\b"))),
    Rule(FIREWALL, "changes the firewall", "iptables ip6tables nft ebtables arptables",
         but_not(always, says_exactly(r"(^|\s)(-\w*[LS]\w*|--list\S*|list|--version|-V)(\s|$)"))),
    Rule(FIREWALL, "changes the firewall", "iptables-restore ip6tables-restore", always),
    Rule(FIREWALL, "changes the firewall", "ufw firewall-cmd pfctl",
         but_not(verb("disable reset allow delete enable deny reject default -d -F -f -e",
                      r"--(add|remove|reload|panic|complete|set)"),
                 verb("status", "--(list|state|get)"))),
    Rule(FIREWALL, "changes the firewall", "netsh", verb("advfirewall firewall set")),
    Rule(FIREWALL, "weakens the protection of the system",
         "setenforce apparmor_parser aa-disable aa-teardown aa-complain semanage setsebool",
         always),
    Rule(FIREWALL, NETWORK, "ip ifconfig route nmcli resolvectl ifdown networksetup iw rfkill tc",
         verb("del delete flush down off set replace disconnect block dns", r"(^|\s)-set\w")),
    Rule("accounts", "changes accounts or passwords", ACCOUNT_TOOLS, always),
    Rule("accounts", "changes accounts", "dscl",
         verb("-create -delete -append -passwd -change -merge")),
    Rule("accounts", "changes accounts", "net", verb("user localgroup group accounts")),
    Rule("kernel", KERNEL, "insmod rmmod modprobe kexec kmod depmod kextload kextunload bpftool",
         always),
    Rule("kernel", KERNEL, "sysctl", verb("-w -p --load --system --write", "=")),
    Rule("kernel", "changes the clock of the machine", "hwclock timedatectl date",
         says(r"(^|\s)(set-\w|-w\b|-s\b|--systohc|--hctosys|--set\b)")),
    Rule("privileges", "runs with the rights of another user", AS_ANOTHER, always),
    # The other `sg` searches code.
    Rule("privileges", "runs with the rights of another group", "sg",
         says(r"^(?!(run|scan|test|new|lsp)\b)\w[\w.-]*\s+(-c\b|\S+\s)")),
    Rule("privileges", "leaves its own confines", "nsenter chroot unshare capsh pivot_root",
         always),
    Rule("package removal", REMOVES, PACKAGE_TOOLS,
         verb("remove purge autoremove autopurge erase del rm uninstall delete")),
    Rule("package removal", REMOVES, "dpkg rpm pacman yay paru emerge pkg_delete xbps-remove",
         says_exactly(r"(^|\s)(-[PrRe][a-z]*|--purge|--remove|--erase|-C|--unmerge|--depclean)\b")),
    Rule("package removal", "removes many packages at once", "pip pip3 uv",
         says(r"\buninstall\b.*(\s-r\b|--requirement)")),
    Rule("package removal", "removes many packages at once", "pip pip3 gem npm brew cargo",
         removes_many),
    Rule("package removal", REMOVES, "brew",
         says(r"\b(uninstall|remove|rm)\b.*--(force|zap|ignore)")),
    Rule("package removal", "removes an environment", "conda mamba micromamba",
         says(r"\benv\s+remove\b|\bremove\b.*--all|\bclean\b.*(-a\b|--all)")),
    Rule("package removal", REMOVES, "dism msiexec", verb("/x /uninstall", "/(remove|disable)-")),
)  # fmt: skip


# Services and processes: stopping them, and turning the machine off.

_DESKTOP = frozenset({"dock", "finder", "systemuiserver", "cfprefsd", "preferences", "simulator"})
"""Parts of a desktop that restart by themselves."""
_SEARCHES = frozenset({"ps", "pgrep", "pidof", "lsof", "top", "netstat", "ss", "find", "seq"})
_INIT_SCRIPT = re.compile(r"/(init|rc\d?)\.d/[\w.@-]+\Z")
_STOPS = frozenset({"stop", "disable", "onestop", "forcestop", "faststop", "kill", "force-stop"})
_MANY = re.compile(r"[*?\[]|\{\d+\.\.\d+\}")  #: A pattern or a range instead of a process number.
MAX_KILLED = 12  #: More processes than a person would name by hand.
_SIGNAL = re.compile(r"-(\d+|[A-Z]\w*|s|n|-signal\S*)|--")
_HARD = re.compile(r"(?:^|\s)(?:-9|-(?:SIG)?KILL|-s\s*(?:9|(?:SIG)?KILL))\b", re.IGNORECASE)


def kills_all(invocation: Invocation, _context: ShellContext) -> bool:
    """`kill -9 -1`, `kill 1`, or every process a search finds."""
    words = list(invocation.arguments)
    if words[:1] in (["-l"], ["-0"], ["-L"]):
        return False
    while words and _SIGNAL.fullmatch(words[0]) and words != ["-1"]:
        del words[: 2 if words[0] in ("-s", "-n", "--signal") else 1]
    if {"-1", "1", "0"} & set(words) or any(_MANY.search(word) for word in words):
        return True
    if len(words) > MAX_KILLED:
        return True
    unknown = not words or any(UNKNOWN in word for word in words)
    return unknown and _lists(invocation) and bool(_HARD.search(invocation.text))


def _lists(invocation: Invocation) -> bool:
    """Return whether a search selects what is killed; the owner of a port is one server."""
    searches = [
        each
        for each in invocation.sources
        if each.name in _SEARCHES or (each.name == "ls" and "/proc" in each.text)
    ]
    port = any(each.name == "lsof" and re.search(r":\d|-i", each.text) for each in searches)
    return bool(searches) and not port


def stops_by_script(invocation: Invocation, _context: ShellContext) -> bool:
    """`/etc/init.d/mysql stop`, also `sh /etc/rc.d/…` and from inside that folder."""
    if _STOPS.isdisjoint(invocation.arguments):
        return False
    paths = (
        posixpath.normpath(join_path(invocation.folder, word)) for word in invocation.words[:2]
    )
    return any(_INIT_SCRIPT.search(path) for path in paths)


def kills_by_name(invocation: Invocation, _context: ShellContext) -> bool:
    if has_option(invocation, "l", "0", "V", "--list"):
        return False
    named = operands(invocation)
    return bool(named) and not all(word.lower() in _DESKTOP for word in named)


def matches_all_names(invocation: Invocation, _context: ShellContext) -> bool:
    """`pkill .`"""
    return any(re.fullmatch(r"\^?\.?[*+]?\$?|[a-z]", word) for word in operands(invocation))


def kills_users_of_files(invocation: Invocation, _context: ShellContext) -> bool:
    """`fuser -km /`; a port is one server, like `lsof -ti:3000 | xargs kill`."""
    if not has_option(invocation, "k", "--kill"):
        return False
    return not re.search(r"\d+/(tcp|udp)|-n\s+(tcp|udp)", invocation.text)


KILL, CONTROL = "mass kill", "service control"
OFF, STOPS = "turns the machine off", "stops a service"
SUPERVISORS = "service rc-service initctl sv s6-svc supervisorctl svcadm invoke-rc.d monit s6-rc"
SERVERS = "nginx apachectl apache2ctl httpd pg_ctl pg_ctlcluster mysqladmin redis-cli rabbitmqctl"
PROCESS_RULES = (
    Rule(CONTROL, "stops or changes a service", "systemctl",
         but_not(verb("stop disable mask kill isolate rescue emergency set-default revert edit "
                      "link set-property set-environment"),
                 verb("status show cat", r"\b(list|is)-"))),
    Rule(CONTROL, "enables a service from a file", "systemctl",
         says(r"\b(enable|link|start)\b.*\s[/~]\S")),
    Rule(CONTROL, STOPS, "", stops_by_script),
    Rule(CONTROL, STOPS, SUPERVISORS, verb("stop disable down shutdown -d exit kill unmonitor")),
    Rule(CONTROL, "stops or adds a service", "launchctl",
         verb("unload bootout remove disable kill load bootstrap submit stop reboot",
              r"kickstart\s+-k")),
    Rule(CONTROL, "changes which services start", "update-rc.d chkconfig rc-update insserv",
         verb("disable remove off del delete defaults on add")),
    Rule(CONTROL, STOPS, "brew", says(r"\bservices\s+(stop|kill)\b")),
    Rule(CONTROL, "stops every process", "pm2 forever",
         verb("kill stopall", r"(stop|delete|del)\s+all\b")),
    Rule(CONTROL, STOPS, SERVERS,
         verb("stop quit shutdown graceful-stop stop_app reset force_reset", r"-s\s*(stop|quit)")),
    Rule(CONTROL, STOPS, "net sc", verb("stop delete config")),
    Rule("shutdown", OFF, "shutdown reboot halt poweroff", always),
    Rule("shutdown", OFF, "init telinit", says(r"^[016s]$")),
    Rule("shutdown", OFF, "systemctl loginctl pmset",
         verb("poweroff reboot halt hibernate suspend kexec soft-reboot sleepnow",
              r"(^|\s)(terminate|kill)-")),
    Rule(KILL, "kills every process, or all a search finds", "kill", kills_all),
    Rule(KILL, "kills processes by name, without a chance to save", "pkill",
         says(r"(^|\s)(-(9|KILL|SIGKILL|s\s*(9|KILL|SIGKILL))|--signal[= ](9|SIGKILL|KILL))\b")),
    Rule(KILL, "kills every process of a user or terminal", "pkill",
         says_exactly(r"(^|\s)(-[ugtUGP](?=\s|$)|-[ugt]\w|--(euid|uid|group|terminal|parent))")),
    Rule(KILL, "kills every process", "pkill", matches_all_names),
    Rule(KILL, "kills every process of that name", "killall", kills_by_name),
    Rule(KILL, "kills many processes at once", "killall5 skill slay snice", always),
    Rule(KILL, "kills every process that uses a file system", "fuser", kills_users_of_files),
    Rule(KILL, "kills processes by name", "taskkill stop-process", verb("/f -force /im")),
)  # fmt: skip


# Shells and programs connected to the network.

_CONNECTS = frozenset({
    "nc", "ncat", "netcat", "socat", "telnet", "openssl", "curl", "websocat", "nc.traditional",
    "nc.openbsd", "cryptcat",
})  # fmt: skip
_SPEAKERS = SHELLS | {"script", "python", "python3", "perl"}
_SOCKET = re.compile(r"/dev/(tcp|udp)/")


def network_shell(invocation: Invocation, _context: ShellContext) -> bool:
    targets = [redirect.target for redirect in invocation.redirects]
    return any(_SOCKET.match(path) for path in (*targets, *invocation.arguments))


def shell_output_sent(invocation: Invocation, _context: ShellContext) -> bool:
    """`sh -i 2>&1 | nc host port`."""
    if invocation.name not in _CONNECTS:
        return False
    return any(source.name in _SPEAKERS for source in invocation.upstream)


KIND, SHELL = "network shell", "connects a shell to the network"
NETWORK_RULES = (
    Rule(KIND, SHELL, "", network_shell),
    Rule(KIND, SHELL, "", shell_output_sent),
    Rule(KIND, SHELL, "nc ncat netcat nc.traditional nc.openbsd cryptcat",
         says(r"(^|\s)-\w*[ec]\b|--sh-exec|--exec|--lua-exec")),
    Rule(KIND, "connects a program to the network", "socat websocat",
         says(r"\b(exec|system|shell|cmd):|sh-c:")),
    Rule(KIND, SHELL,
         "gs-netcat pwncat msfconsole msfvenom chisel telnetd rshd tmate ttyd gotty shellinabox",
         always),
    Rule(KIND, "shows a terminal on another machine", "xterm", says(r"-display\s+\S*\d+\.\d+")),
    Rule(KIND, "opens this machine from outside", "ssh autossh",
         says_exactly(r"(^|\s)-\w*R\s*\S*\d+:\S+:22\b")),
)  # fmt: skip
