"""Which paths a program would write, delete or read, as far as its arguments tell."""

import itertools
import re
from collections.abc import Iterator

from hermes.security.danger.rule import has_option, operands
from hermes.security.danger.scene import Scene
from hermes.security.shell.model import Invocation
from hermes.security.shell.wrappers import option_values

WRITES_LAST = frozenset({
    "cp", "mv", "install", "ln", "rsync", "scp", "link", "ditto", "gcp", "gmv", "uniq", "xxd",
    "ffmpeg", "convert", "magick", "pdftotext", "mkfifo", "mknod", "sshfs", "bindfs", "robocopy",
})  # fmt: skip
"""The last operand is written."""
_ALONE = frozenset({"mkfifo", "mknod", "install", "ffmpeg"})
WRITES_ALL = frozenset({
    "tee", "touch", "truncate", "rm", "unlink", "shred", "chmod", "chown", "chgrp", "chattr",
    "mkdir", "rmdir", "sponge", "patch", "ed", "ex", "vi", "vim", "nvim", "nano", "emacs", "srm",
    "setfacl", "trash", "visudo", "crudini", "cpio", "pico", "micro", "vipw", "sudoedit",
    "fallocate", "mktemp", "chflags", "xattr", "setcap", "dos2unix", "gtee", "gsed", "vimdiff",
    "sqlite3", "install_name_tool", "plutil", "rimraf", "busctl", "logsave",
})  # fmt: skip
IN_PLACE = frozenset({"sed", "gsed", "perl", "ruby", "yq", "awk", "gawk", "sd", "jq"})
"""These change their files only with `-i`."""
EXTRACTS = frozenset({"tar", "bsdtar", "unzip", "7z", "7za", "cpio", "unrar", "git", "patch", "ar"})
"""Without a folder of their own these write where they run."""
OUTPUT_OPTIONS = {
    "curl": ("-o", "--output", "--output-dir", "-D", "--dump-header", "-c", "--cookie-jar"),
    "wget": ("-O", "--output-document", "-P", "--directory-prefix", "-o", "--output-file", "-a"),
    "tar": ("-C", "--directory", "--one-top-level"), "bsdtar": ("-C",), "unzip": ("-d",),
    "7z": ("-o",), "7za": ("-o",), "sort": ("-o", "--output"), "gcc": ("-o",), "cc": ("-o",),
    "clang": ("-o",), "ld": ("-o",), "openssl": ("-out", "-keyout", "-writerand"),
    "aria2c": ("-o", "-d", "--dir"), "gpg": ("-o", "--output"), "ssh-keygen": ("-f",),
    "pip": ("--target", "-t", "--prefix"), "patch": ("-o", "--output", "-d"), "strace": ("-o",),
    "tcpdump": ("-w",), "nmap": ("-oN", "-oX", "-oG", "-oA"),
    "find": ("-fprint", "-fprintf", "-fls", "-fprint0"), "pandoc": ("-o", "--output"),
    "iconv": ("-o",), "git": ("-o", "--output"),
    "zstd": ("-o",), "go": ("-o",), "rustc": ("-o",), "base64": ("-o", "--output"),
    "cmake": ("-B",), "env": ("-C",), "yt-dlp": ("-o", "-P"), "mysqldump": ("-r",),
    "pg_dump": ("-f", "--file"), "sqlcmd": ("-o",), "psql": ("-o", "-L"), "http": ("-o",),
}  # fmt: skip
TARGET_FOLDER = frozenset({"cp", "mv", "install", "ln", "ginstall"})
_REMOTE = re.compile(r"(?:[\w.-]+@)?[\w.-]+:(?=/|~)")
_SCRIPT_WRITES = re.compile(r"(?:>>?\s*\\?\"|[;{\s]\d*w!?\s+|/w\s+)(/[\w./-]+|~/[\w./-]+)")
"""Files that programs of awk, sed and vim name for writing."""


def written(invocation: Invocation) -> Iterator[str]:
    """Paths the program would write, change or delete."""
    yield from (redirect.target for redirect in invocation.redirects if redirect.writes)
    if not invocation.words:
        return
    name, named = invocation.name, operands(invocation)
    if name in WRITES_LAST and (len(named) > 1 or name in _ALONE):
        moved = named if name == "mv" else named[-1:]
        yield from (_REMOTE.sub("", path) for path in moved)
    elif name in WRITES_ALL or (name in IN_PLACE and in_place(invocation)):
        yield from named
    elif name == "dd":
        yield from (word[3:] for word in named if word.startswith("of="))
    elif name == "git" and "clone" in named:
        yield named[-1]
    elif name == "zip":
        yield from named[:1]
    if name in ("awk", "gawk", "mawk", "sed", "gsed", "vim", "vi", "ex", "nvim", "ed"):
        texts = (*invocation.arguments, invocation.stdin)
        yield from (found for text in texts for found in _SCRIPT_WRITES.findall(f" {text}"))
    yield from _option_targets(invocation)


def in_place(invocation: Invocation) -> bool:
    """`-i` of sed and perl, alone, in a bundle or with a suffix."""
    return any(re.match(r"-[a-zA-Z]*i|--in-?place", word) for word in invocation.arguments)


def _option_targets(invocation: Invocation) -> Iterator[str]:
    names = OUTPUT_OPTIONS.get(invocation.name, ())
    if invocation.name in TARGET_FOLDER:
        names = ("-t", "--target-directory")
    if names:
        yield from option_values(invocation.arguments, names)


PATTERN_FIRST = frozenset({
    "grep", "egrep", "fgrep", "rg", "ag", "ack", "sed", "gsed", "awk", "gawk", "jq", "yq", "zgrep",
})  # fmt: skip
"""The first operand is a pattern or a program, not a file."""


def touched(invocation: Invocation) -> Iterator[str]:
    """Every word that may be a path the program reads or writes."""
    words = list(invocation.arguments)
    if invocation.name in PATTERN_FIRST:
        pattern = next((word for word in words if not word.startswith("-")), None)
        if pattern is not None:
            words.remove(pattern)
    for before, word in itertools.zip_longest(("", *words), words, fillvalue=""):
        if before == "-i" and invocation.name in ("scp", "sftp", "rsync", "sshfs", "age"):
            continue  # the key it logs in with
        for piece in re.split(r"[=@:,]", word):
            if ("/" in piece or "." in piece) and (" " not in piece or piece[0] in "/~."):
                yield piece
    yield from (redirect.target for redirect in invocation.redirects if redirect.target)


def written_real(invocation: Invocation, scene: Scene) -> Iterator[str]:
    for path in written(invocation):
        real = scene.real(path, invocation)
        if real:
            yield real


def lands_in(invocation: Invocation, scene: Scene) -> str:
    """The folder an extracting program fills when no option names one."""
    if invocation.name not in EXTRACTS or any(_option_targets(invocation)):
        return ""
    return scene.real(".", invocation)


def is_recursive(invocation: Invocation) -> bool:
    return has_option(invocation, "r", "R", "--recursive")
