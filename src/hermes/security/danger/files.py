"""Deletion, system files and disks."""

import posixpath
import re
from collections.abc import Sequence
from itertools import pairwise

from hermes.security.danger.context import (
    COPIERS,
    IN_PLACE,
    PATTERN_FIRST,
    WRITES_ALL,
    ShellContext,
    copied,
    has_option,
    in_place,
    is_pattern,
    is_recursive,
    locate_word,
    operands,
    touched_paths,
    written_paths,
    written_real_paths,
)
from hermes.security.danger.secrets import PUBLIC
from hermes.security.paths import OWN_FILES
from hermes.security.shell.expansion import known_input
from hermes.security.shell.model import UNKNOWN, Invocation, join_path
from hermes.security.shell.wrappers import SHELLS, option_values
from hermes.security.tables import word_list

VITAL = word_list("vital_folders")
_EVERYTHING = re.compile(
    r"/(?:\*|\.\*|\?\*|\*\*|\.|\*\.\*|\[!\.\]\*|\.\[!\.\]\*|\.\.\?\*|\{.*\})/?\Z"
)
_NARROWS = re.compile(r"-(i?name|i?path|i?regex|[acm]time|[acm]min|size|user|newer|empty|maxdepth)")
_LISTERS = word_list("listers")


def vital(path: str, invocation: Invocation, context: ShellContext) -> bool:
    """A folder whose loss destroys the machine or the user's work."""
    joined = join_path(invocation.folder or context.folder, path)
    while _EVERYTHING.search(joined):
        joined = _EVERYTHING.sub("", joined) or "/"
    if joined in ("*", ".*"):
        joined = context.folder
    if joined == "~" or joined.startswith("~/"):
        joined = context.home + joined[1:]
    tidy = posixpath.normpath(joined.replace("\\", "/")) if joined else ""
    tidy = "/" + tidy.lstrip("/") if tidy.startswith("/") else tidy
    return tidy in VITAL or tidy in (context.home, "~root")


def deletes_recursively(invocation: Invocation, _context: ShellContext) -> bool:
    return is_recursive(invocation)


def deletes_vital(invocation: Invocation, context: ShellContext) -> bool:
    if "--no-preserve-root" in invocation.arguments:
        return True
    return is_recursive(invocation) and any(
        vital(path, invocation, context) for path in operands(invocation)
    )


def find_deletes_vital(invocation: Invocation, context: ShellContext) -> bool:
    """`find / -delete` without a condition that narrows it down."""
    words = invocation.arguments
    if _narrowed(words) or not deletes_found(invocation, context):
        return False
    starts = [word for word in words[:4] if not word.startswith("-")]
    return any(vital(word, invocation, context) for word in starts)


def _narrowed(words: Sequence[str]) -> bool:
    """`-name '*'` matches everything all the same."""
    return any(
        _NARROWS.match(word) and not re.fullmatch(r"\*+|\*\.\*", then)
        for word, then in pairwise((*words, ""))
    )


def deletes_found(invocation: Invocation, _context: ShellContext) -> bool:
    return "-delete" in invocation.arguments or "rm" in invocation.arguments


def moves_vital(invocation: Invocation, context: ShellContext) -> bool:
    named = operands(invocation)
    return any(vital(path, invocation, context) for path in named[:-1])


def deletes_in_system(invocation: Invocation, context: ShellContext) -> bool:
    for path in operands(invocation):
        plain = context.written_as(path, invocation)
        at_root = re.fullmatch(r"/+[^/]+", path) is not None
        if at_root or (plain and context.is_system(plain)):
            return True
    return False


def deletes_listed(invocation: Invocation, _context: ShellContext) -> bool:
    """`rm` of what find, fd or xargs produce."""
    if {"xargs", "find", "fd", "fdfind", "parallel"} & set(invocation.via):
        return True
    listed = {source.name for source in invocation.sources}
    unknown = any(UNKNOWN in word for word in operands(invocation))
    return unknown and bool(listed & _LISTERS)


_ALL_SOURCES = re.compile(
    r"(\./|src/|lib/|app/)?(\*\*/)?\*\.(py|tsx?|jsx?|go|rs|java|rb|php|c|cc|cpp|h|db|sqlite3?|sql|md|docx?"
    r"|xlsx?|key|pem|tf|ya?ml)"
)


def deletes_all_here(invocation: Invocation, context: ShellContext) -> bool:
    """`rm *`: every file of the folder, or of a folder outside the workspace."""
    for path in operands(invocation):
        if path in ("*", "./*", ".*", "*.*", "./*.*", "./.*", "../*", "**"):
            return True
        if _ALL_SOURCES.fullmatch(path):
            return True
        if path.startswith("~/") and re.fullmatch(r"~/(\.?\*|\*\.\*)", path):
            return True
        if path.endswith("/*") and path.startswith("/") and not path.startswith("/tmp/"):
            return not context.written_as(path, invocation).startswith(f"{context.folder}/")
    return False


_SOURCE = re.compile(
    r"(?:^|/)(?!__init__\.)[\w.-]+\.(?:py|[cm]?[jt]sx?|go|rs|java|kt|rb|php|c|cc|cpp|hpp?|cs|swift|scala|ex"
    r"|vue|svelte|sql|tf|ipynb|tex|docx?|xlsx?|odt|db|sqlite3?)\Z"
)
_PRINTS_NOTHING = re.compile(r"(?:-n|%s)?\s*")


def empties(invocation: Invocation, context: ShellContext) -> bool:
    """`truncate -s 0 ~/x`, `: > ~/x`, `cp /dev/null ~/x`: files outside the workspace, or many."""
    for path in _emptied(invocation):
        if _SOURCE.search(path):
            return True
        many = (is_pattern(path) or "{}" in path) and not path.endswith(".log")
        if many or context.is_outside(context.real(path, invocation)):
            return True
    return False


def _emptied(invocation: Invocation) -> list[str]:
    """Return the files that would lose their contents."""
    name, named = invocation.name, operands(invocation)
    if name == "truncate":
        sizes = list(option_values(invocation.arguments, ("-s", "--size")))
        shrinks = any(re.match(r"[0<-]", size) for size in sizes)
        return [word for word in named if word not in sizes] if shrinks else []
    if name in ("cp", "install", "ln") and named[:1] in (["/dev/null"], ["/dev/zero"]):
        return named[1:]
    if name == "sed" and in_place(invocation) and named[:1] and named[0] in ("d", "1,$d", "Q"):
        return named[1:]
    silent = name in ("echo", "printf") and _PRINTS_NOTHING.fullmatch(invocation.text)
    nothing = invocation.words in ((), (":",), ("true",), ("cat", "/dev/null")) or bool(silent)
    written = [each.target for each in invocation.redirects if each.operator in (">", ">|", "&>")]
    return written if nothing and not invocation.stdin else []


def deletes_outside(invocation: Invocation, context: ShellContext) -> bool:
    """`rm ~/Documents/x`: files that do not belong to the work."""
    if is_recursive(invocation):
        return False
    reals = (context.real(path, invocation) for path in operands(invocation))
    return any(map(context.is_outside, reals))


_ELSEWHERE = re.compile(r"/(srv|opt|root|home/[^/]+|Users/[^/]+)/.")


def writes_elsewhere(invocation: Invocation, context: ShellContext) -> bool:
    """`cp x /opt/app/`: neither the user's files nor the system's."""
    remote = invocation.name in ("rsync", "scp") and ":" in "".join(operands(invocation)[-1:])
    if remote or invocation.name in ("mkdir", "rm"):
        return False
    home = f"{context.home.rstrip('/')}/"
    return any(
        _ELSEWHERE.match(real) and not real.startswith(home) and context.is_outside(real)
        for real in written_real_paths(invocation, context)
    )


def edits_outside(invocation: Invocation, context: ShellContext) -> bool:
    """`sed -i … ~/Documents/*`: many files at once."""
    many = [
        path
        for path in _edited(invocation)
        if (is_pattern(path) or "{}" in path) and path[:1] in "/~."
    ]
    return any(context.is_outside(context.real(path, invocation)) for path in many)


def _edited(invocation: Invocation) -> list[str]:
    """Return the files that a program changes in place, without its script."""
    named = operands(invocation)
    if invocation.name != "dos2unix" and not in_place(invocation):
        return []
    scripts = has_option(invocation, "e", "f", "--expression", "--file")
    return named if scripts or invocation.name not in PATTERN_FIRST else named[1:]


_CHANGING = re.compile(r"\A(trash|remove|move)\b|-(all=|overwrite_original|delete_original)")


def changes_outside(invocation: Invocation, context: ShellContext) -> bool:
    """`gio trash ~/x`, `mogrify … ~/Pictures/*`: programs that change the files they name."""
    if invocation.name in ("gio", "exiftool") and not _CHANGING.search(invocation.text):
        return False
    paths = [word for word in operands(invocation) if word[:1] in "/~."]
    if invocation.name in ("convert", "magick", "ffmpeg") and paths[-1:] not in [
        [p] for p in paths[:-1]
    ]:
        return False
    return any(context.is_outside(context.real(path, invocation)) for path in paths)


_TREE = re.compile(
    r"(?:\./)?(?:src|tests?|docs?|lib|app|apps|pkg|packages|internal|cmd|config|scripts|data|migrations"
    r"|assets|public|server|client|frontend|backend|api|crates|modules|spec|\.git|\.|\*)(?:/\*?)?"
)


def throws_away(invocation: Invocation, context: ShellContext) -> bool:
    """`mv x /dev/null`, `mv ~/a ~/b`, `mv src /tmp`: files of the user, or whole source folders."""
    sources, target = copied(invocation)
    if target == "/dev/null":
        return True
    real = context.real(target, invocation)
    if not context.is_outside(real) and not target.startswith(("/tmp", "/var/tmp")):
        return False
    roots = {context.guard.resolve(str(root), "/") for root in context.guard.workspace}
    moved = [(path, context.real(path, invocation)) for path in sources]
    return any(context.is_outside(p) or p in roots or _TREE.fullmatch(path) for path, p in moved)


_EXPORT = re.compile(r"\.(?:log|patch|diff|zip|tgz|tar(?:\.\w+)?|gz|bz2|xz|zst|bak|tmp|dump)\Z")


def overwrites_outside(invocation: Invocation, context: ShellContext) -> bool:
    """`cat x > ~/notes.md`, `mv x ~/Documents/y.docx`: a file that does not belong to the work."""
    name, named = invocation.name, operands(invocation)
    paths = [each.target for each in invocation.redirects if each.operator in (">", ">|", "&>")]
    if name in ("cp", "mv", "gcp", "gmv", "install", "ginstall"):
        target = copied(invocation)[1]
        paths += [target] if re.search(r"\w\.\w+\Z", target) else []
    elif name in ("ffmpeg", "convert", "magick"):
        forced = has_option(invocation, "y") or (named[-1:] and named[-1] in named[:-1])
        paths += named[-1:] if forced else []
    elif name in ("ed", "ex", "crudini", "sponge"):
        paths += named
    elif name == "unzip" and has_option(invocation, "o"):
        paths += option_values(invocation.arguments, ("-d",))
    elif name == "tee" and not has_option(invocation, "a", "--append"):
        paths += named
    elif name in IN_PLACE:
        paths += [word for word in _edited(invocation) if re.fullmatch(r"[/~][\w./~@+-]*\w", word)]
    return any(
        context.is_outside(real)
        and not _EXPORT.search(path)
        and not context.is_system(real)  # there is a rule for those and for files of Hermes
        and context.own_part(real) is None
        for path in paths
        if not path.startswith(("/dev/", UNKNOWN)) and (real := context.real(path, invocation))
    )


def overwrites_input(invocation: Invocation, context: ShellContext) -> bool:
    """`sort x > x`: the shell empties the file before the program reads it."""
    paths = [each.target for each in invocation.redirects if each.operator in (">", ">|")]
    targets = {context.real(path, invocation) for path in paths if not is_pattern(path)} - {""}
    if not targets or invocation.name in ("echo", "printf", "touch", "ls", "stat", ""):
        return False
    readers = (invocation, *invocation.upstream)
    read = [word for each in readers for word in operands(each) if " " not in word]
    read += [r.target for each in readers for r in each.redirects if r.operator == "<"]
    return any(
        context.real(word, invocation) in targets and not word.startswith("/dev/") for word in read
    )


def removes_tracked(invocation: Invocation, _context: ShellContext) -> bool:
    words = operands(invocation)
    return words[:1] == ["rm"] and is_recursive(invocation) and bool({".", "*", "/"} & set(words))


def empties_folder(invocation: Invocation, _context: ShellContext) -> bool:
    if has_option(invocation, "n", "--dry-run"):
        return False
    return has_option(invocation, "--delete", "--remove-source-files") or any(
        word.startswith("--delete") for word in invocation.arguments
    )


_TRANSFER_DELETES = re.compile(
    r"(?:^|[;\n]|&&|\bglob\s)\s*-?(?:rm|mrm|rmdir|del|delete|mdel|mdelete)\s+\S|\bmirror\b.*--delete",
    re.IGNORECASE,
)


def deletes_remotely(invocation: Invocation, context: ShellContext) -> bool:
    """Commands of a file transfer client, on its command line, as input or in a file."""
    texts = [re.sub(r"^--?\w+=", "", word) for word in invocation.arguments]
    texts.append(known_input(invocation) or "")
    paths = [*option_values(invocation.arguments, ("-b", "-f"))]
    paths += [each.target for each in invocation.redirects if each.operator == "<"]
    texts += [
        context.texts.get(locate_word(path, invocation, context), "")
        for path in paths
        if context.texts
    ]
    return any(_TRANSFER_DELETES.search(text) for text in texts)


# Files that others rely on: the system's, those run at login, permissions and owners, logs.

LOGS = re.compile(r"/var/log(/|\Z)|/Library/Logs/|/var/(adm|audit)(/|\Z)")
HISTORY = re.compile(r"/\.(\w+_history|histfile|history|lesshst|viminfo)\Z|/fish_history\Z")
_TIGHT = re.compile(r"0?[0-7]00|[ugoa]*-[rwx]+(,[ugoa]*-[rwx]+)*|go=|u=\w*,go=")
_READABLE = re.compile(r"0?(644|640|440|444|755)")
_OTHERS_WRITE = re.compile(
    r"[ug]*[oa][ugoa]*[+=][rxXst]*w[rwxXst]*|=[rx]*w\w*|[ugoa]*o=[ug]|\+[rxXst]*w[rwxXst]*[st]\w*"
)
_SETUID = re.compile(r"([ugoa]*[+=-][rwxXst]*,)*[ugoa]*[+=][rwxX]*s[rwxXst]*(,.*)?")
_TO_ROOT = re.compile(r"(root|0)([:.]|\Z)")
_UNPACKS = frozenset({"tar", "bsdtar", "unzip", "7z", "cpio"})
_FILLS = _UNPACKS | {"rsync", "cp", "mv", "patch", "ln", "install"}
_MAKES = frozenset({"mkdir", "ssh-keygen", "mktemp", "sqlite3"})
_NOT_RUNNING = frozenset({"rm", "rmdir", "unlink", "mkdir", "srm", "trash", "rimraf", "shred"})
_PLACES_FILES = frozenset({
    "cp", "mv", "install", "ln", "tee", "dd", "rsync", "scp", "ditto", "sponge", "link",
})  # fmt: skip
_PRINTS_DATA, _PRINTS_NAMES = word_list("prints_data"), word_list("prints_names")
_DESCRIPTOR_FOLDER = re.compile(r"/(dev|proc/(self|\d+))/fd/\d+/.")
_ENDS_HARMLESS = re.compile(
    r"\.(zip|tgz|tar\S{0,4}|gz|bz2|xz|log|txt|csv|tsv|png|jpe?g|webp|svg|gif|pdf|html?|mp[34]|wav|out"
    r"|bak|orig|tmp|whl|deb|rpm|jar)\Z"
)
_NOT_CLEARING = frozenset({"mkdir", "touch", "chmod", "chown", "ls"})


def writes_system(invocation: Invocation, context: ShellContext) -> bool:
    for path in written_paths(invocation):
        plain, real = context.written_as(path, invocation), context.real(path, invocation)
        if (plain and context.is_system(plain)) or (real and context.is_system(real)):
            return True
        if plain == "/" and invocation.name in _FILLS:
            return True
        if context.could_be_system(path, invocation):
            return True
    return _changes_listed(invocation, context)


def _changes_listed(invocation: Invocation, context: ShellContext) -> bool:
    """`ls /etc/*.conf | xargs sed -i …`, `sed -i … $(find / -name x)`: the changed files are in the
    words of the search."""
    name = invocation.name
    if not (name in WRITES_ALL or (name in IN_PLACE and in_place(invocation))):
        return False
    piped = invocation.upstream if "xargs" in invocation.via else ()
    given = invocation.fed_by if any(map(is_pattern, operands(invocation))) else ()
    words = (word for source in (*piped, *given) for word in operands(source))
    places = (context.written_as(word, invocation) for word in words if word.startswith("/"))
    return any(place == "/" or (place and context.is_system(place)) for place in places)


def changes_everywhere(invocation: Invocation, context: ShellContext) -> bool:
    """`find / … -exec sed -i`: files all over the system."""
    if not re.search(r"(^|\s)-(exec|ok)", invocation.text):
        return False
    starts = [word for word in invocation.arguments[:3] if word[:1] in ("/", "~")]
    changers = (WRITES_ALL | IN_PLACE | {"cp", "mv"}) & set(invocation.arguments)
    writes = any(re.search(r">\s*[\"']?\$", word) for word in invocation.arguments)
    return (bool(changers) or writes) and any(vital(word, invocation, context) for word in starts)


def writes_startup(invocation: Invocation, context: ShellContext) -> bool:
    """A file that runs at login, or that holds keys."""
    if invocation.name in _MAKES:
        return False
    if invocation.name == "chmod" and _TIGHT.fullmatch("".join(operands(invocation)[:1])):
        return False
    if invocation.name in _UNPACKS and context.home in written_real_paths(invocation, context):
        return True
    readable = invocation.name == "chmod" and _READABLE.fullmatch("".join(operands(invocation)[:1]))
    return any(
        (context.is_startup(real) or context.is_credential(real))
        and not real.endswith("/known_hosts")
        and not (readable and (PUBLIC.search(real) or context.is_startup(real)))
        for real in written_real_paths(invocation, context)
    )


def writes_runs_later(invocation: Invocation, context: ShellContext) -> bool:
    """A file that another program runs or obeys on its own; deleting one runs nothing."""
    if invocation.name in _NOT_RUNNING:
        return False
    return any(context.runs_later(real) for real in written_real_paths(invocation, context))


def makes_key(invocation: Invocation, context: ShellContext) -> bool:
    """`ssh-keygen -f ~/.ssh/x`, unless it only shows or checks one."""
    if has_option(invocation, "l", "y", "F", "R", "B", "H", "e", "L", "r"):
        return False
    paths = option_values(invocation.arguments, ("-f",))
    return any(context.is_credential(context.real(path, invocation)) for path in paths if path)


def writes_known_hosts(invocation: Invocation, _context: ShellContext) -> bool:
    """`ssh-keyscan host >> ~/.ssh/known_hosts`."""
    return any(path.endswith("/known_hosts") for path in written_paths(invocation))


_HIDDEN_PROGRAM = re.compile(r"(?:/tmp|/var/tmp|/dev/shm)/(?:[^/]+/)*\.[^./][^/]*(?:/|\Z)")


def runs_hidden(invocation: Invocation, context: ShellContext) -> bool:
    """`/tmp/.x/program`: a program in a hidden folder that every user can write."""
    words = invocation.words[: 2 if invocation.name in SHELLS else 1]
    return any(
        _HIDDEN_PROGRAM.match(word) and context.own_part(context.real(word, invocation)) is None
        for word in words
    )


def writes_unknown(invocation: Invocation, context: ShellContext) -> bool:
    """`cat x > "$(cat y)"`, `while read f; do cp x "$f"; done < y`: a file may name any target."""
    for redirect in invocation.redirects:
        if redirect.writes and _is_unknown(redirect.target, redirect.drawn, invocation, context):
            return True
    if invocation.name not in _PLACES_FILES or not invocation.arguments:
        return any(map(_DESCRIPTOR_FOLDER.match, written_paths(invocation)))
    target = copied(invocation)[1] if invocation.name in COPIERS else invocation.arguments[-1]
    if _DESCRIPTOR_FOLDER.match(target):
        return True
    if "xargs" in invocation.via and target not in option_values(invocation.arguments, ("-t",)):
        files = next((each for each in invocation.arguments if UNKNOWN in each), "")
        named = files == target or "{}" in target or not files
        fed = invocation.upstream or (Invocation(("cat",)),)
        return named and _is_unknown(UNKNOWN, fed, invocation, context)
    return _is_unknown(target.removeprefix("of="), invocation.last_drawn, invocation, context)


def _is_unknown(
    target: str, drawn: Sequence[Invocation], invocation: Invocation, context: ShellContext
) -> bool:
    """Return whether the contents of a file decide which file is written."""
    nowhere = (invocation.folder or context.folder).startswith(UNKNOWN)
    if nowhere and target.rpartition("/")[2] in OWN_FILES:
        return True
    if _DESCRIPTOR_FOLDER.match(target):
        return True
    if not target.startswith(UNKNOWN) or _ENDS_HARMLESS.search(target):
        return False
    printers = (each for each in drawn if not (each.name == "grep" and is_listing(each)))
    names = {each.name or "cat" for each in printers}  # `$(<file)` has no name
    return not names.isdisjoint(_PRINTS_DATA) and names.isdisjoint(_PRINTS_NAMES)


def is_listing(invocation: Invocation) -> bool:
    """`grep -l`: the names of files, not their contents."""
    return has_option(invocation, "l", "L", "--files-with-matches", "--files-without-match")


def clears_logs(invocation: Invocation, context: ShellContext) -> bool:
    if invocation.name in _NOT_CLEARING:
        return False
    if invocation.name == "tee" and "-a" in invocation.arguments:
        return False
    appended = {redirect.target for redirect in invocation.redirects if ">>" in redirect.operator}
    for path in written_paths(invocation):
        plain = "" if path in appended else context.written_as(path, invocation)
        if plain and (LOGS.match(plain) or HISTORY.search(plain)):
            return True
    return False


def hides_history(invocation: Invocation, _context: ShellContext) -> bool:
    for name, value in invocation.assignments:
        if name in ("HISTFILE", "HISTSIZE", "HISTFILESIZE") and value in ("", "0", "/dev/null"):
            return True
    return invocation.name == "unset" and "HISTFILE" in invocation.arguments


def world_writable(invocation: Invocation, _context: ShellContext) -> bool:
    if invocation.name in ("chmod", "gchmod") and UNKNOWN in "".join(operands(invocation)[:1]):
        return True  # the permissions are known only when it runs
    for word in invocation.arguments:
        mode = word.removeprefix("-m").removeprefix("--mode=")
        octal = re.fullmatch(r"0{0,2}[0-7]?([0-7]{3})", mode)
        if octal and int(octal[1][-1]) & 2:
            return True
        if any(_OTHERS_WRITE.fullmatch(part) for part in mode.split(",")):
            return True
    return False


def setuid(invocation: Invocation, _context: ShellContext) -> bool:
    modes = [word.removeprefix("-m").removeprefix("--mode=") for word in invocation.arguments]
    return any(re.fullmatch(r"0*[2467][0-7]{3}", m) or _SETUID.fullmatch(m) for m in modes)


def sweeps_owners(invocation: Invocation, context: ShellContext) -> bool:
    named = operands(invocation)
    everything = is_recursive(invocation) or bool({"find", "xargs", "fd"} & set(invocation.via))
    if not everything or not named:
        return False
    asked_for = [word for source in invocation.fed_by for word in source.arguments]
    if invocation.name == "chown" and (_TO_ROOT.match(named[0]) or "root" in asked_for):
        return True
    for path in named[1:] or named:
        if path[:1] not in "/~" and not invocation.folder:
            continue  # the current folder, whatever that is
        plain = context.written_as(path, invocation)
        if vital(path, invocation, context) or (plain and context.is_system(plain)):
            return True
    return False


def takes_rights(invocation: Invocation, _context: ShellContext) -> bool:
    """`chmod -R 000`: locks everyone out."""
    mode = "".join(operands(invocation)[:1])
    return is_recursive(invocation) and bool(re.fullmatch(r"0+|[augo]*-rwx", mode))


# Disks and file systems.

DEVICE = re.compile(
    r"/dev/(sd|hd|vd|xvd|nvme|mmcblk|r?disk|md\d|dm-|mapper/|loop|nbd|mem\b|kmem|port\b|sg\d|zvol"
    rf"|bcache|ram\d|{UNKNOWN}|[*?\[])|//\./physicaldrive|\\\\\.\\physicaldrive",
    re.IGNORECASE,
)
_WHOLE = re.compile(r"/dev/(sd|hd|vd|nvme|mmcblk|r?disk|mem\b|kmem|port\b|xvd)|/proc/k(core|mem)\b")
_NOT_WRITING = frozenset({"chmod", "chown", "mkdir", "ls", "touch", "sqlite3"})
_NOT_READING = word_list("not_reading")


def names_something(invocation: Invocation, _context: ShellContext) -> bool:
    return bool(operands(invocation))


def formats_device(invocation: Invocation, _context: ShellContext) -> bool:
    named = operands(invocation)
    return any(word.startswith("/dev/") or UNKNOWN in word for word in named)


def writes_device(invocation: Invocation, context: ShellContext) -> bool:
    if invocation.name in _NOT_WRITING:
        return False
    near = invocation.folder.startswith("/dev")
    paths = [
        path for path in written_paths(invocation) if near or "/dev/" in path or path[:1] in "\\/"
    ]
    return any(
        DEVICE.match(path) or DEVICE.match(context.written_as(path, invocation)) for path in paths
    )


def reads_device(invocation: Invocation, _context: ShellContext) -> bool:
    """A whole disk or the memory as a file."""
    if invocation.name in _NOT_READING:
        return False
    return any(_WHOLE.match(path) for path in touched_paths(invocation))
