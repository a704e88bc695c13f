"""Deleting: folders with everything in them, what a search finds, the system itself."""

import posixpath
import re
from collections.abc import Sequence
from itertools import pairwise

from hermes.security.danger.rule import (
    Rule,
    always,
    both,
    but_not,
    has_option,
    operands,
    option,
    says,
)
from hermes.security.danger.scene import Scene, place
from hermes.security.danger.targets import is_recursive
from hermes.security.shell.model import UNKNOWN, Invocation, join
from hermes.security.shell.output import given_to
from hermes.security.shell.wrappers import option_values

VITAL = frozenset({
    "/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/opt", "/proc", "/root",
    "/sbin", "/srv", "/sys", "/usr", "/var", "/Users", "/System", "/Library", "/Applications",
    "/usr/bin", "/usr/lib", "/usr/local", "/usr/sbin", "/usr/share", "/var/lib", "/run", "/mnt",
    "/media", "C:", "C:/", "c:", "c:/", "/c", "/mnt/c", "/private", "/Volumes", "/usr/lib64",
})  # fmt: skip
_EVERYTHING = re.compile(
    r"/(?:\*|\.\*|\?\*|\*\*|\.|\*\.\*|\[!\.\]\*|\.\[!\.\]\*|\.\.\?\*|\{.*\})/?\Z"
)
_NARROWS = re.compile(r"-(i?name|i?path|i?regex|[acm]time|[acm]min|size|user|newer|empty|maxdepth)")
_LISTERS = frozenset({
    "find", "fd", "fdfind", "ls", "locate", "git", "rg", "grep", "xargs", "tree", "cat", "awk",
    "sed", "cut", "sort", "head", "tail", "jq", "comm", "diff", "uniq", "tr",
})  # fmt: skip


def vital(path: str, invocation: Invocation, scene: Scene) -> bool:
    """A folder whose loss ends the machine or the user's work."""
    joined = join(invocation.folder or scene.folder, path)
    while _EVERYTHING.search(joined):
        joined = _EVERYTHING.sub("", joined) or "/"
    if joined in ("*", ".*"):
        joined = scene.folder
    if joined == "~" or joined.startswith("~/"):
        joined = scene.home + joined[1:]
    tidy = posixpath.normpath(joined.replace("\\", "/")) if joined else ""
    tidy = "/" + tidy.lstrip("/") if tidy.startswith("/") else tidy
    return tidy in VITAL or tidy in (scene.home, "~root")


def deletes_vital(invocation: Invocation, scene: Scene) -> bool:
    if "--no-preserve-root" in invocation.arguments:
        return True
    return is_recursive(invocation) and any(
        vital(path, invocation, scene) for path in operands(invocation)
    )


def find_deletes_vital(invocation: Invocation, scene: Scene) -> bool:
    """`find / -delete` with nothing that narrows it down."""
    words = invocation.arguments
    if _narrowed(words) or not deletes_found(invocation, scene):
        return False
    starts = [word for word in words[:4] if not word.startswith("-")]
    return any(vital(word, invocation, scene) for word in starts)


def _narrowed(words: Sequence[str]) -> bool:
    """`-name '*'` takes everything just the same."""
    return any(
        _NARROWS.match(word) and not re.fullmatch(r"\*+|\*\.\*", then)
        for word, then in pairwise((*words, ""))
    )


def deletes_found(invocation: Invocation, _scene: Scene) -> bool:
    return "-delete" in invocation.arguments or "rm" in invocation.arguments


def moves_vital(invocation: Invocation, scene: Scene) -> bool:
    named = operands(invocation)
    return any(vital(path, invocation, scene) for path in named[:-1])


def deletes_in_system(invocation: Invocation, scene: Scene) -> bool:
    for path in operands(invocation):
        plain = scene.written_as(path, invocation)
        at_root = re.fullmatch(r"/+[^/]+", path) is not None
        if at_root or (plain and scene.is_system(plain)):
            return True
    return False


def deletes_listed(invocation: Invocation, _scene: Scene) -> bool:
    """`rm` of what find, fd or xargs come up with."""
    if {"xargs", "find", "fd", "fdfind", "parallel"} & set(invocation.via):
        return True
    listed = {source.name for source in invocation.sources}
    unknown = any(UNKNOWN in word for word in operands(invocation))
    return unknown and bool(listed & _LISTERS)


def deletes_all_here(invocation: Invocation, scene: Scene) -> bool:
    """`rm *`: every file of the folder, or of a folder outside the workspace."""
    for path in operands(invocation):
        if path in ("*", "./*", ".*", "*.*", "./*.*", "./.*", "../*", "**"):
            return True
        if path.startswith("~/") and re.fullmatch(r"~/(\.?\*|\*\.\*)", path):
            return True
        if path.endswith("/*") and path.startswith("/") and not path.startswith("/tmp/"):
            return not scene.written_as(path, invocation).startswith(f"{scene.folder}/")
    return False


def throws_away(invocation: Invocation, _scene: Scene) -> bool:
    return operands(invocation)[-1:] == ["/dev/null"]


def removes_tracked(invocation: Invocation, _scene: Scene) -> bool:
    words = operands(invocation)
    return words[:1] == ["rm"] and is_recursive(invocation) and bool({".", "*", "/"} & set(words))


def empties_folder(invocation: Invocation, _scene: Scene) -> bool:
    if has_option(invocation, "n", "--dry-run"):
        return False
    return has_option(invocation, "--delete", "--remove-source-files") or any(
        word.startswith("--delete") for word in invocation.arguments
    )


_TRANSFER_DELETES = re.compile(
    r"(?:^|[;\n]|&&|\bglob\s)\s*-?(?:rm|mrm|rmdir|del|delete|mdel|mdelete)\s+\S|\bmirror\b.*--delete",
    re.IGNORECASE,
)


def deletes_remotely(invocation: Invocation, scene: Scene) -> bool:
    """Commands of a client for file transfer, on its command line, as input or in a file."""
    texts = [re.sub(r"^--?\w+=", "", word) for word in invocation.arguments]
    texts.append(given_to(invocation) or "")
    paths = [*option_values(invocation.arguments, ("-b", "-f"))]
    paths += [each.target for each in invocation.redirects if each.operator == "<"]
    texts += [scene.texts.get(place(path, invocation, scene), "") for path in paths if scene.texts]
    return any(_TRANSFER_DELETES.search(text) for text in texts)


WIPE = "deletes the system or the whole home folder"
RULES = (
    Rule("disk wipe", WIPE, "rm srm trash rimraf shred", deletes_vital, refused=True),
    Rule("disk wipe", WIPE, "find fd bfs", find_deletes_vital, refused=True),
    Rule("disk wipe", "moves the system or the whole home folder", "mv", moves_vital, refused=True),
    Rule(
        "recursive delete",
        "deletes folders with everything in them",
        "rm srm trash grm unlink",
        lambda invocation, _: is_recursive(invocation),
    ),
    Rule(
        "recursive delete",
        "deletes folders with everything in them",
        "rimraf del-cli trash-cli trash-empty rmtree deltree",
        always,
    ),
    Rule(
        "recursive delete",
        "deletes folders with everything in them",
        "rd rmdir del erase",
        says(r"(^|\s)/s\b"),
    ),
    Rule("recursive delete", "deletes folders with everything in them", "remove-item ri", always),
    Rule(
        "recursive delete",
        "deletes folders with everything in them",
        "cmake",
        says(r"-E (rm|remove_directory)\b"),
    ),
    Rule(
        "recursive delete",
        "deletes untracked files",
        "git",
        both(
            says(r"(^|\s)clean\b"),
            but_not(option("f", "d", "x", "X", "--force"), option("n", "--dry-run")),
        ),
    ),
    Rule("recursive delete", "deletes every tracked file", "git", removes_tracked),
    Rule("bulk delete", "deletes every file a search finds", "rm unlink shred srm", deletes_listed),
    Rule("bulk delete", "deletes every file of a folder", "rm unlink srm", deletes_all_here),
    Rule("bulk delete", "deletes every file a search finds", "find bfs", says(r"(^|\s)-delete\b")),
    Rule("bulk delete", "deletes what is missing at the source", "rsync", empties_folder),
    Rule(
        "bulk delete", "deletes what is missing at the source", "robocopy", says(r"/(mir|purge)\b")
    ),
    Rule(
        "bulk delete", "overwrites files beyond recovery", "shred srm wipe scrub bleachbit", always
    ),
    Rule(
        "bulk delete",
        "deletes files",
        "rclone",
        but_not(
            says(r"^(-\S+\s+)*(delete|purge|deletefile|rmdirs|cleanup|sync|bisync)\b"),
            option("n", "--dry-run", "i", "--interactive"),
        ),
    ),
    Rule("bulk delete", "deletes files", "lftp sftp ftp ncftp smbclient tnftp", deletes_remotely),
    Rule("bulk delete", "deletes files", "s5cmd", says(r"^(-\S+\s+)*(rm|rb)\b|\bsync\b.*--delete")),
    Rule(
        "bulk delete",
        "deletes what is missing at the source",
        "gsutil mc",
        says(r"\brsync\s.*-\w*d|\bmirror\s.*--remove"),
    ),
    Rule("bulk delete", "throws files away", "mv", throws_away),
    Rule(
        "delete in system folders",
        "deletes at the root or in a system folder",
        "rm unlink rmdir srm",
        deletes_in_system,
    ),
)
