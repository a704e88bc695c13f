"""The rule type, the small tests most rules are made of, and the paths a program touches."""

import itertools
import re
from collections.abc import Callable, Iterator

import msgspec

from hermes.security.danger.context import ShellContext
from hermes.security.shell.model import UNKNOWN, Invocation
from hermes.security.shell.wrappers import option_values

RuleTest = Callable[[Invocation, ShellContext], bool]


class Rule(msgspec.Struct, frozen=True):
    kind: str  #: The class, which is the unit of approval and what `command_allowlist` contains.
    reason: str
    names: str  #: Program names, separated by blanks; "" matches every program.
    test: RuleTest
    refused: bool = False  #: It cannot be approved.


class TextRule(msgspec.Struct, frozen=True):
    """A rule on the text of the command itself."""

    kind: str
    reason: str
    pattern: re.Pattern[str]
    refused: bool = False


def always(_invocation: Invocation, _context: ShellContext) -> bool:
    return True


def says(pattern: str) -> RuleTest:
    """The arguments, joined by blanks, match `pattern`."""
    compiled = re.compile(pattern, re.IGNORECASE)
    return lambda invocation, _: compiled.search(invocation.text) is not None


def says_exactly(pattern: str) -> RuleTest:
    """Like `says`, case-sensitive."""
    compiled = re.compile(pattern)
    return lambda invocation, _: compiled.search(invocation.text) is not None


def verb(words: str, pattern: str = "") -> RuleTest:
    """One of `words` is among the arguments, or they match `pattern`."""
    alone = rf"(?:^|\s)(?:{'|'.join(words.split())})(?=[\s=:]|\Z)"
    compiled = re.compile(f"{alone}|{pattern}" if pattern else alone, re.IGNORECASE)
    return lambda invocation, _: compiled.search(invocation.plain) is not None


def option(*wanted: str) -> RuleTest:
    """One of the options is given; long ones may be abbreviated."""
    return lambda invocation, _: has_option(invocation, *wanted)


def both(first: RuleTest, second: RuleTest) -> RuleTest:
    return lambda invocation, context: first(invocation, context) and second(invocation, context)


def but_not(first: RuleTest, second: RuleTest) -> RuleTest:
    return lambda invocation, context: (
        first(invocation, context) and not second(invocation, context)
    )


def either(first: RuleTest, second: RuleTest) -> RuleTest:
    return lambda invocation, context: first(invocation, context) or second(invocation, context)


def has_operands(invocation: Invocation, _context: ShellContext) -> bool:
    return bool(operands(invocation))


def has_option(invocation: Invocation, *wanted: str) -> bool:
    found = options(invocation)
    if not found.isdisjoint(wanted):
        return True
    long = [name for name in wanted if name.startswith("--")]
    return any(
        word.startswith("--") and len(word) > 3 and any(name.startswith(word) for name in long)
        for word in found
    )


def options(invocation: Invocation) -> set[str]:
    """Return short options as single letters, long ones with their dashes and without a value."""
    found: set[str] = set()
    for word in map(without_unknown, invocation.arguments):
        if word == "--":
            break
        if word.startswith("--"):
            found.add(word.partition("=")[0])
        elif word.startswith("-"):
            found |= set(word[1:])
    return found


def operands(invocation: Invocation) -> list[str]:
    """Return the arguments that are not options."""
    words = list(invocation.arguments)
    if "--" in words:
        end = words.index("--")
        return [word for word in words[:end] if not _is_option(word)] + words[end + 1 :]
    return [word for word in words if not _is_option(word)]


def _is_option(word: str) -> bool:
    return word.startswith(("-", f"{UNKNOWN}-")) and word != "-"


def without_unknown(word: str) -> str:
    """Return `-r$x` as `-r`: an unset variable adds nothing."""
    return word.replace(UNKNOWN, "")


# Which paths a program would write, delete or read, as far as its arguments tell.

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
"""These write to the current folder unless another is given."""
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
"""Files that awk, sed and vim programs name for writing."""


def written_paths(invocation: Invocation) -> Iterator[str]:
    """Yield paths the program would write, change or delete."""
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
    """`-i` of sed and perl, alone, bundled or with a suffix."""
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


def touched_paths(invocation: Invocation) -> Iterator[str]:
    """Yield every word that may be a path the program reads or writes."""
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


def written_real_paths(invocation: Invocation, context: ShellContext) -> Iterator[str]:
    for path in written_paths(invocation):
        real = context.real(path, invocation)
        if real:
            yield real


def extraction_folder(invocation: Invocation, context: ShellContext) -> str:
    """Return the folder that an extracting program fills if no option names one."""
    if invocation.name not in EXTRACTS or any(_option_targets(invocation)):
        return ""
    return context.real(".", invocation)


def is_recursive(invocation: Invocation) -> bool:
    return has_option(invocation, "r", "R", "--recursive")
