"""The classes of dangerous commands, as data: name, reason, and how each is recognised."""

import re

import msgspec

from hermes.security.command_checks import (
    INTERPRETERS,
    SQL_CLIENTS,
    Test,
    always,
    both,
    calls_shell,
    changes_own_settings,
    code_from_network,
    deletes_in_system,
    deletes_listed,
    deletes_vital,
    detached_gateway,
    fed_to_shell,
    find_deletes_vital,
    forced_push,
    formats_device,
    hidden_command,
    inline_code,
    kills_all,
    kills_hermes,
    loses_data,
    mentions_own,
    network_shell,
    opens_host,
    option,
    recursive,
    says,
    shell_with_text,
    sweeps_owners,
    uses_credentials,
    world_writable,
    writes_device,
    writes_own,
    writes_startup,
    writes_system,
)
from hermes.security.wrappers import SHELLS


class Rule(msgspec.Struct, frozen=True):
    kind: str
    """The class; consent is given to it, and it is what `command_allowlist` holds."""
    reason: str
    names: str
    """Expression for the program's name, matched as a whole; "" fits every program."""
    test: Test
    refused: bool = False


RULES = (
    # The floor: nobody can consent to these.
    Rule(
        "disk wipe",
        "deletes the system or the whole home folder",
        "rm|srm",
        deletes_vital,
        refused=True,
    ),
    Rule(
        "disk wipe",
        "deletes the system or the whole home folder",
        "find",
        find_deletes_vital,
        refused=True,
    ),
    Rule(
        "disk wipe",
        "formats a disk",
        r"mkfs(\..+)?|mke2fs|wipefs|blkdiscard|mkswap",
        formats_device,
        refused=True,
    ),
    Rule("disk wipe", "writes directly to a disk", "", writes_device, refused=True),
    Rule(
        "own policy", "changes Hermes' own settings, keys or consents", "", writes_own, refused=True
    ),
    Rule(
        "own policy",
        "changes Hermes' own settings, keys or consents",
        "",
        mentions_own,
        refused=True,
    ),
    Rule(
        "own policy",
        "changes what Hermes is allowed to do",
        "hermes",
        changes_own_settings,
        refused=True,
    ),
    # Everything below asks.
    Rule(
        "format",
        "makes a file system",
        r"mkfs(\..+)?|mke2fs|fdisk|sfdisk|sgdisk|gdisk|parted|cryptsetup",
        always,
    ),
    Rule("raw copy", "copies raw data with dd", "dd", says(r"\b(if|of)=")),
    Rule("recursive delete", "deletes folders with everything in them", "rm|srm|trash", recursive),
    Rule(
        "recursive delete",
        "deletes untracked files",
        "git",
        both(says(r"\bclean\b"), option("f", "d", "x", "--force")),
    ),
    Rule("bulk delete", "deletes every file a search finds", "rm|unlink|shred|srm", deletes_listed),
    Rule("bulk delete", "deletes every file a search finds", "find", says(r"(^|\s)-delete\b")),
    Rule(
        "bulk delete",
        "deletes what is missing at the source",
        "rsync",
        says(r"--delete|--remove-source-files"),
    ),
    Rule("bulk delete", "overwrites files beyond recovery", "shred|srm|wipe", always),
    Rule(
        "delete in system folders",
        "deletes at the root or in a system folder",
        "rm|unlink|rmdir",
        deletes_in_system,
    ),
    Rule("system files", "writes into a folder of the operating system", "", writes_system),
    Rule(
        "start-up and key files",
        "writes a file that is run at login or holds keys",
        "",
        writes_startup,
    ),
    Rule("credential access", "uses a file that holds keys or passwords", "", uses_credentials),
    Rule("world-writable", "lets every user write the file", "chmod", world_writable),
    Rule(
        "owner sweep",
        "changes owner or rights of a whole system folder",
        "chown|chgrp|chmod",
        sweeps_owners,
    ),
    Rule("destructive SQL", "deletes database tables or all their rows", SQL_CLIENTS, loses_data),
    Rule("destructive SQL", "deletes a database", "dropdb|dropuser", always),
    Rule("destructive SQL", "deletes a database", "mysqladmin", says(r"\bdrop\b")),
    Rule(
        "destructive SQL",
        "deletes a database",
        "mongo|mongosh|redis-cli",
        says(r"dropDatabase|\.drop\(|flushall|flushdb"),
    ),
    Rule(
        "service control",
        "stops or disables a service",
        "systemctl",
        says(r"\b(stop|disable|mask|kill|isolate|poweroff|reboot|halt)\b"),
    ),
    Rule("service control", "stops a service", "service|rc-service", says(r"\bstop\b")),
    Rule(
        "service control",
        "stops a service",
        "launchctl",
        says(r"\b(unload|bootout|remove|disable)\b"),
    ),
    Rule("shutdown", "turns the machine off", "shutdown|reboot|halt|poweroff", always),
    Rule("shutdown", "turns the machine off", "init|telinit", says(r"^[06]$")),
    Rule("mass kill", "kills every process", "kill", kills_all),
    Rule(
        "mass kill",
        "kills processes by name, without a chance to save",
        "pkill|killall",
        says(r"(^|\s)-(9|KILL|SIGKILL|s\s*(9|KILL))\b"),
    ),
    Rule("mass kill", "kills every process of a user", "pkill|killall", says(r"(^|\s)-u\b")),
    Rule("stops hermes", "ends Hermes itself", "pkill|killall|kill", kills_hermes),
    Rule("detached gateway", "starts a gateway nobody supervises", "", detached_gateway),
    Rule(
        "shell -c", "runs a command line given as text", "|".join(sorted(SHELLS)), shell_with_text
    ),
    Rule("inline code", "runs code given on the command line", INTERPRETERS, inline_code),
    Rule("inline code", "runs commands from an awk program", "g?awk|mawk|nawk", calls_shell),
    Rule("remote code", "runs code fetched from the network", "", code_from_network),
    Rule("pipe to a shell", "runs what another program prints", "", fed_to_shell),
    Rule("hidden command", "the program to run is known only at run time", "", hidden_command),
    Rule("network shell", "connects a shell to the network", "", network_shell),
    Rule(
        "network shell",
        "connects a shell to the network",
        "nc|ncat|netcat|socat",
        says(r"(^|\s)-\w*[ec]\b|\bexec:|--sh-exec"),
    ),
    Rule(
        "privileges", "runs with the rights of another user", "sudo|doas|su|pkexec|runuser", always
    ),
    Rule("history rewriting", "overwrites history on the server", "git", forced_push),
    Rule(
        "history rewriting",
        "rewrites the whole history",
        "git",
        says(r"\bfilter-(branch|repo)\b|\breflog expire\b|\bupdate-ref -d\b"),
    ),
    Rule(
        "scheduled jobs", "changes jobs that run later", "crontab", says(r"(^|\s)-\w*r\b|^[^-]|^-$")
    ),
    Rule("scheduled jobs", "changes jobs that run later", "at|batch", always),
    Rule(
        "firewall",
        "opens the firewall",
        "iptables|ip6tables|nft",
        says(r"(^|\s)(-F|--flush|-X|-P|flush)\b"),
    ),
    Rule("firewall", "opens the firewall", "ufw", says(r"\b(disable|reset)\b")),
    Rule(
        "accounts",
        "changes accounts or passwords",
        "useradd|userdel|usermod|groupdel|passwd|chpasswd|adduser|deluser|visudo|chsh",
        always,
    ),
    Rule("kernel", "changes the running kernel", "insmod|rmmod|modprobe|kexec", always),
    Rule("kernel", "changes the running kernel", "sysctl", says(r"(^|\s)-w\b|=")),
    Rule("mounts", "mounts or unmounts file systems", "umount|swapoff|losetup", always),
    Rule("host access", "gives a container the whole machine", "docker|podman|nerdctl", opens_host),
    Rule(
        "infrastructure",
        "deletes containers, images or volumes in bulk",
        "docker|podman",
        says(r"\bprune\b|\bvolume rm\b"),
    ),
    Rule(
        "infrastructure",
        "deletes running infrastructure",
        "kubectl|oc",
        says(r"\b(delete|drain)\b"),
    ),
    Rule(
        "infrastructure",
        "deletes running infrastructure",
        "terraform|tofu|pulumi",
        says(r"\bdestroy\b|-auto-approve"),
    ),
    Rule(
        "infrastructure",
        "deletes running infrastructure",
        "aws|gcloud|az|doctl",
        says(r"\b(delete|terminate|rb|rm|remove)\b|\bdelete-|\bterminate-"),
    ),
)

FORK_BOMB = re.compile(
    r"([\w:.]+)\s*\(\s*\)\s*\{[^}]*\1\s*\|\s*\1\s*&|\bfunction\s+(\w+)\s*\{[^}]*\2\s*\|\s*\2\s*&"
)
FORK_LOOP = re.compile(
    r"while\s*(\(?\s*(1|true)\s*\)?)[\s:;{]*(os\.)?fork\b|fork\s+while\s+(fork|1)", re.IGNORECASE
)
HIDDEN_CHARACTERS = re.compile(
    "[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\x00-\x08\x0e-\x1f\x7f]"
)
"""Characters that make a command look different from what it is."""

TEXT_RULES = (
    # Beside the tree: what is dangerous in any position, or when the tree is broken.
    (FORK_BOMB, "fork bomb", "starts processes without end", True),
    (FORK_LOOP, "fork bomb", "starts processes without end", True),
    (HIDDEN_CHARACTERS, "hidden characters", "contains characters that cannot be seen", False),
)

BROKEN_RULES = (
    # Coarse: only for text whose tree has errors, which is asked about in any case.
    (
        re.compile(r"\brm\s+(-\S+\s+)*(/|~)(\s|[*;&|)]|$)|\{rm,-\w*r\w*,[/~]"),
        "disk wipe",
        "deletes the system or the whole home folder",
        True,
    ),
    (
        re.compile(
            r"\bmkfs(\.\w+)?\s+(-\S+\s+)*/dev/|\bof=/dev/(sd|hd|vd|nvme|disk)|>\s*/dev/(sd|hd|vd|nvme)"
        ),
        "disk wipe",
        "writes directly to a disk",
        True,
    ),
    (
        re.compile(r"\brm\s+(-\S+\s+)*-\w*[rR]"),
        "recursive delete",
        "deletes folders with everything in them",
        False,
    ),
    (re.compile(r"\b(sudo|doas)\b"), "privileges", "runs with the rights of another user", False),
    (
        re.compile(r"\.hermes/\S*(config\.yaml|\.env)\b"),
        "own policy",
        "names Hermes' own settings or keys",
        True,
    ),
)
