"""The running machine: jobs, accounts, firewall, kernel, packages, rights."""

import re

from hermes.security.danger.rule import Rule, always, but_not, says, says_exactly, verb
from hermes.security.danger.scene import Scene
from hermes.security.shell.model import UNKNOWN, Invocation


def changes_jobs(invocation: Invocation, _scene: Scene) -> bool:
    """Anything `crontab` does but showing."""
    words = list(invocation.arguments)
    if words[:1] == ["-u"]:
        del words[:2]
    return words not in (["-l"], ["-V"])


def removes_many(invocation: Invocation, _scene: Scene) -> bool:
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
RULES = (
    Rule(JOBS, "changes jobs that run later", "crontab", changes_jobs),
    Rule(
        JOBS,
        "starts a job that runs later or on its own",
        "at batch systemd-run atrm schtasks",
        but_not(always, says(r"^(-l|-c|--list|/query)\b")),
    ),
    Rule(
        FIREWALL,
        "changes the firewall",
        "iptables ip6tables nft ebtables arptables",
        but_not(always, says_exactly(r"(^|\s)(-\w*[LS]\w*|--list\S*|list|--version|-V)(\s|$)")),
    ),
    Rule(FIREWALL, "changes the firewall", "iptables-restore ip6tables-restore", always),
    Rule(
        FIREWALL,
        "changes the firewall",
        "ufw firewall-cmd pfctl",
        but_not(
            verb(
                "disable reset allow delete enable deny reject default -d -F -f -e",
                r"--(add|remove|reload|panic|complete|set)",
            ),
            verb("status", "--(list|state|get)"),
        ),
    ),
    Rule(FIREWALL, "changes the firewall", "netsh", verb("advfirewall firewall set")),
    Rule(
        FIREWALL,
        "weakens the protection of the system",
        "setenforce apparmor_parser aa-disable aa-teardown aa-complain semanage setsebool",
        always,
    ),
    Rule(
        FIREWALL,
        NETWORK,
        "ip ifconfig route nmcli resolvectl ifdown networksetup iw rfkill tc",
        verb("del delete flush down off set replace disconnect block dns", r"(^|\s)-set\w"),
    ),
    Rule("accounts", "changes accounts or passwords", ACCOUNT_TOOLS, always),
    Rule(
        "accounts",
        "changes accounts",
        "dscl",
        verb("-create -delete -append -passwd -change -merge"),
    ),
    Rule("accounts", "changes accounts", "net", verb("user localgroup group accounts")),
    Rule(
        "kernel",
        KERNEL,
        "insmod rmmod modprobe kexec kmod depmod kextload kextunload bpftool",
        always,
    ),
    Rule("kernel", KERNEL, "sysctl", verb("-w -p --load --system --write", "=")),
    Rule(
        "kernel",
        "changes the clock of the machine",
        "hwclock timedatectl date",
        says(r"(^|\s)(set-\w|-w\b|-s\b|--systohc|--hctosys|--set\b)"),
    ),
    Rule("privileges", "runs with the rights of another user", AS_ANOTHER, always),
    Rule(  # the other `sg` searches code
        "privileges",
        "runs with the rights of another group",
        "sg",
        says(r"^(?!(run|scan|test|new|lsp)\b)\w[\w.-]*\s+(-c\b|\S+\s)"),
    ),
    Rule(
        "privileges", "leaves its own confines", "nsenter chroot unshare capsh pivot_root", always
    ),
    Rule(
        "package removal",
        REMOVES,
        PACKAGE_TOOLS,
        verb("remove purge autoremove autopurge erase del rm uninstall delete"),
    ),
    Rule(
        "package removal",
        REMOVES,
        "dpkg rpm pacman yay paru emerge pkg_delete xbps-remove",
        says_exactly(r"(^|\s)(-[PrRe][a-z]*|--purge|--remove|--erase|-C|--unmerge|--depclean)\b"),
    ),
    Rule(
        "package removal",
        "removes many packages at once",
        "pip pip3 uv",
        says(r"\buninstall\b.*(\s-r\b|--requirement)"),
    ),
    Rule(
        "package removal",
        "removes many packages at once",
        "pip pip3 gem npm brew cargo",
        removes_many,
    ),
    Rule(
        "package removal", REMOVES, "brew", says(r"\b(uninstall|remove|rm)\b.*--(force|zap|ignore)")
    ),
    Rule(
        "package removal",
        "removes an environment",
        "conda mamba micromamba",
        says(r"\benv\s+remove\b|\bremove\b.*--all|\bclean\b.*(-a\b|--all)"),
    ),
    Rule("package removal", REMOVES, "dism msiexec", verb("/x /uninstall", "/(remove|disable)-")),
)
