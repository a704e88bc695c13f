"""Which paths a program would write, delete or read, as far as its arguments tell."""

import itertools
import posixpath
import re
from collections.abc import Iterator

from hermes.security.paths import SYSTEM_FOLDERS, Guard, below
from hermes.security.shell_syntax import UNKNOWN, Invocation, join

WRITES_LAST = frozenset({"cp", "mv", "install", "ln", "rsync", "scp", "link"})
"""The last operand is written."""
WRITES_ALL = frozenset({
    "tee", "touch", "truncate", "rm", "unlink", "shred", "chmod", "chown", "chgrp", "chattr",
    "mkdir", "rmdir", "sponge", "patch", "ed", "ex", "vi", "vim", "nvim", "nano", "emacs", "srm",
    "setfacl", "trash", "visudo", "crudini", "cpio",
})  # fmt: skip
MOVES = frozenset({"mv"})
"""The sources vanish as well."""
OUTPUT_OPTIONS = {
    "curl": ("-o", "--output"), "wget": ("-O", "--output-document", "-P"),
    "tar": ("-C", "--directory"), "unzip": ("-d",), "sort": ("-o", "--output"),
    "gcc": ("-o",), "openssl": ("-out",),
}  # fmt: skip
LOOKS_ONLY = frozenset({
    "ls", "stat", "test", "[", "cd", "echo", "printf", "ssh", "ssh-add", "pushd",
    "ssh-copy-id", "ssh-keygen", "ssh-keyscan", "mkdir", "du", "tree", "which", "file", "export",
    "git", "kubectl", "aws", "basename", "dirname", "realpath", "readlink", "ansible",
    "ansible-playbook",
})  # fmt: skip
"""These may name a key file without showing what is in it."""
PUBLIC = re.compile(r"\.pub$|/(known_hosts|config|authorized_keys)$")
"""Files among the credentials that hold no secret."""

DEVICE = re.compile(r"/dev/(sd|hd|vd|xvd|nvme|mmcblk|disk|rdisk|md|dm-|mapper/|loop|nbd|mem|kmem)")


def options(invocation: Invocation) -> set[str]:
    """Short options as single letters, long ones with their dashes and without a value."""
    found: set[str] = set()
    for word in invocation.arguments:
        if word == "--":
            break
        if word.startswith("--"):
            found.add(word.partition("=")[0])
        elif word.startswith("-"):
            found |= set(word[1:])
    return found


def operands(invocation: Invocation) -> list[str]:
    """The arguments that are not options."""
    words = list(invocation.arguments)
    if "--" in words:
        end = words.index("--")
        return [word for word in words[:end] if not word.startswith("-")] + words[end + 1 :]
    return [word for word in words if not word.startswith("-") or word == "-"]


def written(invocation: Invocation) -> Iterator[str]:
    """Paths the program would write, change or delete."""
    yield from (redirect.target for redirect in invocation.redirects if redirect.writes)
    name, named = invocation.name, operands(invocation)
    if name in WRITES_LAST and named:
        yield from named if name in MOVES else named[-1:]
    elif name in WRITES_ALL or (name in ("sed", "perl", "ruby", "yq") and in_place(invocation)):
        yield from named
    elif name == "dd":
        yield from (word[3:] for word in named if word.startswith("of="))
    yield from _option_targets(invocation)


def in_place(invocation: Invocation) -> bool:
    """`-i` of sed and perl, alone, in a bundle or with a suffix."""
    return any(re.match(r"-[a-zA-Z]*i|--in-?place", word) for word in invocation.arguments)


def _option_targets(invocation: Invocation) -> Iterator[str]:
    names = OUTPUT_OPTIONS.get(invocation.name, ())
    words = invocation.arguments
    for word, value in itertools.zip_longest(words, words[1:], fillvalue=""):
        if word in names or word in ("-t", "--target-directory"):
            yield value
        else:
            yield from (word[len(n) + 1 :] for n in names if word.startswith(f"{n}="))


def touched(invocation: Invocation) -> Iterator[str]:
    """Every word that may be a path the program reads or writes."""
    words = invocation.arguments
    for before, word in itertools.zip_longest(("", *words), words, fillvalue=""):
        if before == "-i" and invocation.name in ("scp", "sftp"):
            continue  # the key it logs in with
        yield from (piece for piece in re.split(r"[=@:,]", word) if "/" in piece or "." in piece)
    yield from (redirect.target for redirect in invocation.redirects)


def absolute(path: str, invocation: Invocation, guard: Guard, folder: str) -> str:
    """The real path behind a word, or "" when it cannot be known."""
    joined = join(invocation.folder or folder, path)
    known = joined.split(UNKNOWN)[0].split("*")[0]
    if joined != known:
        known = known.rpartition("/")[0]
    return guard.real(known, folder) if known else ""


def tidy(path: str, guard: Guard) -> str:
    """The path as written, with `..` and double slashes gone and the home folder as `~`."""
    path = posixpath.normpath(path) if path else path
    path = "/" + path.lstrip("/") if path.startswith("/") else path
    home = str(guard.home)
    return "~" + path[len(home) :] if home != "/" and below(path, home) else path


VITAL = frozenset({
    "/", "/*", "~", "~/*", "~/.*", "/.", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64",
    "/opt", "/proc", "/root", "/sbin", "/srv", "/sys", "/usr", "/var", "/Users", "/System",
    "/Library", "/Applications",
})  # fmt: skip


def vital(path: str, invocation: Invocation, guard: Guard) -> bool:
    """A folder whose loss ends the machine or the user's work."""
    name = tidy(join(invocation.folder, path), guard)
    return name in VITAL or name.removesuffix("/*") in VITAL or name.removesuffix("/.") in VITAL


def in_system(path: str, guard: Guard) -> bool:
    """Whether the path as written lies in a folder of the operating system."""
    name = tidy(path, guard)
    if name in ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/zero"):
        return False
    return name.startswith("/") and any(below(name, folder) for folder in SYSTEM_FOLDERS)
