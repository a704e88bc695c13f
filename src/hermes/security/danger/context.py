"""The folder and state in which a command runs; the options, operands and paths of a program."""

import itertools
import os
import posixpath
import re
import stat
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache

from hermes.security.paths import (
    CREDENTIAL_STORES,
    OWN_FILES,
    OWN_WRITABLE,
    PROGRAM_FOLDERS,
    PROJECT_FOLDERS,
    RUNS_LATER_HOME,
    STARTUP_FILES,
    SYSTEM_CREDENTIALS,
    SYSTEM_FOLDERS,
    PathGuard,
    hides_program,
    is_below,
    own_part,
    runs_anywhere,
)
from hermes.security.shell.expansion import known_input
from hermes.security.shell.model import UNKNOWN, Invocation, join_path
from hermes.security.shell.wrappers import option_values
from hermes.security.tables import program_tables, split_values, word_list

NOT_SYSTEM = re.compile(
    r"/dev/(null|std\w+|tty\w*|zero|full|u?random|shm|fd|pts|tcp|udp)(/|\Z)|/run/user/"
    r"|/proc/(self|\d+)/fd/"  # where /dev/stderr leads, for the process that checks
)
_OTHER_HOME = re.compile(r"(?:/home/[^/]+|/Users/[^/]+|/root)/(.+)")
_USER = re.compile(r"~([a-z_][\w-]*)(?=/|\Z)")
_GLOB = re.compile(rf"[{UNKNOWN}*?\[]")
_OWN_ROOT = re.compile(r"\A/proc/(?:self|thread-self|\d+)/root(?=/|\Z)")
_OWN_FOLDER = re.compile(r"\A/proc/(?:self|thread-self|\d+)/cwd(?=/|\Z)")
LONGEST_FILE = 100_000  #: Bytes of a script that are read.
_VITAL_FOLDERS = frozenset({"/", "/home", "/Users", "/root", "/etc"})


def is_pattern(path: str) -> bool:
    """Return whether a word has wildcards or an unknown part."""
    return _GLOB.search(path) is not None


class ShellContext:
    """One command in one folder. Queries of the file system are cached."""

    def __init__(
        self, guard: PathGuard, folder: str, inherited: Mapping[str, str] | None = None
    ) -> None:
        self.guard, self.folder, self.inherited = guard, folder, inherited or {}
        self.home = str(guard.home).rstrip("/") or "/"
        self.texts: dict[str, str] = {}
        """Files the command itself has written so far, with their text."""
        self.fetched: set[str] = set()  #: Files the command itself has downloaded or decoded.
        self.unpacked: dict[str, bool] = {}
        """Folders the command itself has filled from the network; whether their host is known."""
        self.dumps: set[str] = set()  #: Copies of databases that the command itself has made.
        self.remotes: set[str] = set()  #: Remotes of git that the command itself has set.
        self.links: dict[str, str] = {}
        """Links the command itself has created so far, with their targets."""
        self.copies: dict[str, str] = {}
        """Programs the command itself has copied or linked: new name → original."""
        self.loaded: set[int] = set()
        """Programs whose output only goes into variables: `export $(cat .env)`."""
        self._real: dict[tuple[str, str, str], str] = {}

    @property
    def variables(self) -> dict[str, str]:
        """Variables set in every shell here, and those of the live shell. Their first letters are
        used to spell other things."""
        values = {"HOME": self.home, "PATH": "/usr/local/bin:/usr/bin:/bin"}
        own = {"HERMES_HOME": str(self.guard.own[0])} if self.guard.own else {}
        usual = {**values, **own, "SHELL": "/bin/bash", "USER": self.home.rpartition("/")[2]}
        return {**usual, **self.inherited, "PWD": self.folder}

    def written_as(self, path: str, invocation: Invocation) -> str:
        """Return the absolute path of a word, links not followed; "" if unknown."""
        joined = join_path(invocation.folder, path)
        if glob := _GLOB.search(joined):
            known = joined[: glob.start()]
            joined = known.rpartition("/")[0] or ("/" if known.startswith("/") else "")
            if not joined:
                return "" if UNKNOWN in path or UNKNOWN in invocation.folder else self.folder
        user = _USER.match(joined)
        if user:
            home = "/root" if user[1] == "root" else f"/home/{user[1]}"
            joined = home + joined[user.end() :]
        elif joined == "~" or joined.startswith("~/"):
            joined = self.home_of(invocation) + joined[1:]
        if joined.startswith("/proc/"):
            joined = _OWN_ROOT.sub("", _OWN_FOLDER.sub(self.folder, joined)) or "/"
        joined = joined.replace("~+/", "").partition("\0")[0]
        return posixpath.normpath(posixpath.join(self.folder, joined)).replace("//", "/")

    def home_of(self, invocation: Invocation) -> str:
        """Return the folder that `~` means, which an assignment to HOME changes."""
        home = invocation.known.get("HOME", "")
        if home.startswith("~"):
            home = self.home + home[1:]
        return home if home.startswith("/") and UNKNOWN not in home else self.home

    def real(self, path: str, invocation: Invocation) -> str:
        """Return the file of a word, links followed; "" if unknown."""
        key = (path, invocation.folder, invocation.known.get("HOME", ""))
        found = None if self.links else self._real.get(key)
        if found is None:
            plain = self.written_as(path, invocation)
            for link, target in self.links.items():
                if is_below(plain, link):
                    plain = target + plain[len(link) :]
            found = self.guard.resolve(plain, self.folder) if plain else ""
            if not self.links:
                self._real[key] = found
        return found

    def file_text(self, path: str, invocation: Invocation) -> str:
        """Return the text of a file that the command uses; "" if it is not known here."""
        real = self.real(path, invocation)
        if real in self.texts or not real or not self.guard.here:
            return self.texts.get(real, "")
        try:
            if not stat.S_ISREG(os.stat(real).st_mode):  # noqa: PTH116 - a Path is slow
                return ""
            with open(real, "rb") as file:  # noqa: PTH123
                return file.read(LONGEST_FILE).decode("utf-8", "replace")
        except OSError:
            return ""

    def could_be_own(self, path: str, invocation: Invocation) -> bool:
        """Return whether a pattern (`~/.h*/config.yaml`) or a word with a gap can mean a private
        file of Hermes."""
        parts = self._pattern(path, invocation)
        return any(_matches(parts, place.split("/")) for place in self._own_linked if parts)

    def could_change_own(self, path: str, invocation: Invocation, *, whole: bool = False) -> bool:
        """Return whether a pattern can mean a file in the Hermes home that commands must not
        write; with `whole` also the Hermes home itself."""
        parts = self._pattern(path, invocation)
        for root in self._own if parts else ():
            size = root.count("/") + 1
            if len(parts) >= size + (not whole) and _matches(parts, root.split("/")):
                return not _in_profile("/".join(parts[size:])).startswith(
                    _as_prefixes(OWN_WRITABLE)
                )
        return self.could_be_own(path, invocation)

    def could_be_credential(self, path: str, invocation: Invocation) -> bool:
        parts = self._pattern(path, invocation)
        if not parts:
            return False
        other = _OTHER_HOME.fullmatch("/".join(parts))
        inside = other[1].split("/") if other else []
        return any(_matches(parts, place.split("/")) for place in self._credentials) or any(
            _matches(inside, name.split("/")) for name in CREDENTIAL_STORES
        )

    def could_be_system(self, path: str, invocation: Invocation) -> bool:
        """Return whether a pattern (`/et[c]/hosts`) can mean a system folder or a file that runs
        at login."""
        parts = self._pattern(path, invocation)
        first = "".join(parts[1:2])
        if not first.strip("*?"):
            return False
        named = any(
            _matches(parts, place.split("/")) for place in (*SYSTEM_FOLDERS, *self._startups)
        )
        return named and not NOT_SYSTEM.match("/".join(parts))

    def _pattern(self, path: str, invocation: Invocation) -> list[str]:
        """Return the parts of a path with wildcards or gaps; empty if it has none."""
        if not _GLOB.search(path):
            return []
        joined = join_path(invocation.folder or self.folder, path)
        if joined.startswith("~/"):
            joined = self.home_of(invocation) + joined[1:]
        # An unset variable adds nothing.
        return posixpath.normpath(joined.replace(UNKNOWN, "")).split("/")

    @cached_property
    def _own(self) -> tuple[str, ...]:
        """The Hermes homes; the default one counts even if another is in use."""
        roots = [*map(str, self.guard.own), f"{self.home.rstrip('/')}/.hermes"]
        return tuple(dict.fromkeys(map(os.path.realpath, roots) if self.guard.here else roots))

    @cached_property
    def _own_linked(self) -> frozenset[str]:
        """Where files of Hermes really are if they are links."""
        return frozenset(
            place for root in self._own for place in _places(root, OWN_FILES, self.guard)
        )

    @cached_property
    def _credentials(self) -> tuple[str, ...]:
        return (*self._in_home(CREDENTIAL_STORES), *SYSTEM_CREDENTIALS)

    @cached_property
    def _startups(self) -> tuple[str, ...]:
        return self._in_home(STARTUP_FILES)

    @cached_property
    def _run_later(self) -> tuple[str, ...]:
        return self._in_home(RUNS_LATER_HOME)

    @cached_property
    def _workspaces(self) -> tuple[str, ...]:
        """Workspaces that the user chose inside a Hermes home."""
        real = os.path.realpath if self.guard.here else str
        places = [real(str(place)) for place in self.guard.workspace]
        return tuple(each for each in places if self.own_part(each))

    @cached_property
    def _opened(self) -> tuple[str, ...]:
        """Places inside system folders that belong to the user."""
        real = os.path.realpath if self.guard.here else str
        roots = [real(str(root)) for root in self.guard.workspace]
        opened = [r for r in roots if any(is_below(r, p) and r != p for p in PROJECT_FOLDERS)]
        home = real(self.home)
        return (*opened, *([home] if home != "/" else []))

    def _in_home(self, names: tuple[str, ...]) -> tuple[str, ...]:
        home = os.path.realpath(self.home) if self.guard.here else self.home
        return _places(home.rstrip("/"), names, self.guard)

    def is_outside(self, real: str) -> bool:
        """A file of the user outside the workspace, and not a temporary one."""
        return bool(real) and not within(real, self._inside) and not NOT_SYSTEM.match(real)

    def is_in_workspace(self, real: str) -> bool:
        return within(real, self._roots)

    @cached_property
    def _roots(self) -> tuple[str, ...]:
        resolve = self.guard.resolve
        return tuple(resolve(str(root), "/") for root in (*self.guard.workspace, self.folder))

    @cached_property
    def _inside(self) -> tuple[str, ...]:
        caches = f"{self.guard.resolve(self.home, '/').rstrip('/')}/.cache"
        return (*self._roots, "/tmp", "/var/tmp", "/private/tmp", "/dev", caches)

    def own_part(self, real: str) -> str | None:
        """Return the path below a Hermes home, "" for the home itself; None if it is elsewhere."""
        for root in self._own:
            if is_below(real, root):
                return own_part(real, root)
        other = _OTHER_HOME.fullmatch(real)
        if other is not None and is_below(other[1], ".hermes"):
            return _in_profile(other[1][len(".hermes/") :])
        return None

    def is_own(self, real: str) -> bool:
        """A private file of Hermes."""
        return (self.own_part(real) or "").partition("/")[
            0
        ] in OWN_FILES or real in self._own_linked

    def is_own_to_write(self, real: str) -> bool:
        """A file in the Hermes home that commands must not write."""
        part = self.own_part(real)
        if part is None:
            return real in self._own_linked
        return bool(part) and not within(part, OWN_WRITABLE) and not within(real, self._workspaces)

    def holds_own(self, real: str) -> bool:
        """A Hermes home, a profile's home, or a folder above them."""
        part = self.own_part(real)
        return part in ("", "profiles") or any(is_below(root, real) for root in self._own)

    def leads_to_own(self, real: str) -> bool:
        """A folder above a Hermes home, keys or start-up files."""
        below = f"{real.rstrip('/')}/"
        places = (*self._own, *self._credentials, *self._startups)
        return any(place.startswith(below) for place in places)

    def holds_credentials(self, real: str) -> bool:
        """A folder with keys or passwords somewhere in it."""
        below = f"{real.rstrip('/')}/"
        if real in _VITAL_FOLDERS or is_below(self.home, real) or self.holds_own(real):
            return True
        if _OTHER_HOME.fullmatch(f"{real}/x") and real.count("/") < 3:
            return True
        stores = [place for place in self._credentials if place.startswith(below)]
        return any(not self.guard.here or os.path.lexists(place) for place in stores)

    def runs_later(self, real: str) -> bool:
        """A file that another program runs or obeys later, on its own."""
        if runs_anywhere(real) or within(real, self._run_later):
            return True
        folder = real.rpartition("/")[0].removeprefix(f"{self.home.rstrip('/')}/")
        return folder in PROGRAM_FOLDERS and hides_program(real)

    def is_credential(self, real: str) -> bool:
        return within(real, self._credentials) or _in_other_home(real, CREDENTIAL_STORES)

    def is_startup(self, real: str) -> bool:
        return within(real, self._startups) or _in_other_home(real, STARTUP_FILES)

    def is_system(self, real: str) -> bool:
        if NOT_SYSTEM.match(real) or within(real, self._opened):
            return False
        return within(real, SYSTEM_FOLDERS)


def within(path: str, places: tuple[str, ...]) -> bool:
    """Return whether `path` is one of `places` or inside one."""
    return path in places or path.startswith(_as_prefixes(places))


def _in_other_home(real: str, names: tuple[str, ...]) -> bool:
    other = _OTHER_HOME.fullmatch(real)
    return other is not None and within(other[1], names)


@lru_cache(maxsize=64)
def _as_prefixes(places: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{place.rstrip('/')}/" for place in places)


def locate_word(path: str, invocation: Invocation, context: ShellContext) -> str:
    """Return the file of a word; where the folder is unknown, a name that is stable while the
    command stays in it."""
    return context.real(path, invocation) or posixpath.normpath(join_path(invocation.folder, path))


def _places(root: str, names: tuple[str, ...], guard: PathGuard) -> tuple[str, ...]:
    """Return `names` below `root`, and the targets of those that are links."""
    if not guard.here:
        return tuple(f"{root}/{name}" for name in names)
    return _link_targets(root, names, tuple(map(_changed_at, _folders(root, names))))


def _in_profile(path: str) -> str:
    """Return a path in the Hermes home as it would be in the home of its profile."""
    parts = path.split("/")
    return "/".join(parts[2:] if parts[0] == "profiles" and len(parts) > 1 else parts)


def _matches(pattern: list[str], place: list[str]) -> bool:
    """Return whether the pattern matches the place or something in it. `*` matches no leading
    dot."""
    if len(pattern) < len(place):
        return False
    return all(
        part == name or (fnmatchcase(name, part) and (name[:1] != "." or part[:1] == "."))
        for part, name in zip(pattern, place, strict=False)
    )


@lru_cache(maxsize=16)
def _folders(root: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the folders that may contain links of `names`."""
    return tuple(sorted({root, *(f"{root}/{name}".rpartition("/")[0] for name in names)}))


def _changed_at(folder: str) -> int:
    """Return when an entry of the folder was last created or replaced; 0 without a folder."""
    try:
        return os.stat(folder).st_mtime_ns  # noqa: PTH116 - asked for each command; a Path is slow
    except OSError:
        return 0


@lru_cache(maxsize=16)
def _link_targets(root: str, names: tuple[str, ...], _stamps: tuple[int, ...]) -> tuple[str, ...]:
    """Cached until a folder changes: checking each place for each command is expensive."""
    places = [f"{root}/{name}" for name in names]
    return tuple(dict.fromkeys((*places, *map(os.path.realpath, places))))


# Options and operands of a program


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

WRITES_LAST, WRITES_ALL = word_list("writes_last"), word_list("writes_all")
OUTPUT_OPTIONS = split_values(program_tables().output_options)
PATTERN_FIRST = word_list("pattern_first")
_ALONE = frozenset({"mkfifo", "mknod", "install", "ffmpeg"})
IN_PLACE = frozenset({"sed", "gsed", "perl", "ruby", "yq", "awk", "gawk", "sd", "jq"})
"""These change their files only with `-i`."""
EXTRACTS = frozenset({"tar", "bsdtar", "unzip", "7z", "7za", "cpio", "unrar", "git", "patch", "ar"})
"""These write to the current folder unless another is given."""
TARGET_FOLDER = frozenset({"cp", "mv", "install", "ln", "ginstall", "gcp", "gmv"})
COPIERS = TARGET_FOLDER | {"rsync", "scp", "ditto", "link"}
_STORES = frozenset({
    "aws", "gsutil", "rclone", "azcopy", "mc", "s3cmd", "docker", "podman", "kubectl", "gcloud",
})  # fmt: skip
_COPY_WORDS = word_list("copy_words")
_GIT_FILLS = frozenset({"checkout", "restore", "reset", "pull", "stash", "merge", "read-tree"})
_PACKERS = frozenset({
    "gunzip", "bunzip2", "unxz", "unzstd", "unlzma", "uncompress", "gzip", "bzip2", "xz", "zstd",
    "lz4", "unlz4", "pigz",
})  # fmt: skip
_MANY_FILES = (
    "r", "m", "i", "J", "--recursive", "--mirror", "--input-file", "--remote-header-name",
    "--content-disposition",
)  # fmt: skip
_PACKED = re.compile(r"\.(gz|bz2|xz|zst|lzma|Z|lz4)\Z")
_REMOTE = re.compile(r"(?:[\w.-]+@)?[\w.-]+:(?=/|~)")
_SCRIPT_WRITES = re.compile(r"(?:>>?\s*\\?\"|[;{\s]\d*w!?\s+|/w\s+)(/[\w./-]+|~/[\w./-]+)")
"""Files that awk, sed and vim programs name for writing."""


_CLIENTS = frozenset({
    "sqlite3", "sqlite", "duckdb", "psql", "mysql", "mariadb", "clickhouse-client", "mongosh",
})  # fmt: skip
_CLIENT_READS = re.compile(
    r"['\"]([/~][^'\"]*)['\"]|(?:^|\n)\s*\.(?:import|open|read|restore|load)\s+([/~]\S+)"
)
"""Files that statements of a database client read."""


def written_paths(invocation: Invocation) -> Iterator[str]:
    """Yield paths the program would write, change or delete."""
    yield from (redirect.target for redirect in invocation.redirects if redirect.writes)
    if not invocation.words:
        return
    name, named = invocation.name, operands(invocation)
    if name in WRITES_LAST and (len(named) > 1 or name in _ALONE or name in TARGET_FOLDER):
        sources, target = copied(invocation)
        yield from sources if name in ("mv", "gmv") else ()
        yield target
        yield from copy_destinations(invocation)
    elif name in WRITES_ALL or (name in IN_PLACE and in_place(invocation)):
        yield from named
    elif name == "dd":
        yield from (word[3:] for word in named if word.startswith("of="))
    elif name == "git" and "clone" in named:
        yield named[-1]
    elif name in ("zip", "script"):
        yield from named[:1] if name == "zip" else named[-1:]
    elif name in ("tar", "bsdtar"):
        yield from _archive_made(invocation)
    elif name in _PACKERS:
        yield from (_PACKED.sub("", path) for path in named)
        yield from named
    if name in ("awk", "gawk", "mawk", "sed", "gsed", "vim", "vi", "ex", "nvim", "ed"):
        texts = (*invocation.arguments, invocation.stdin)
        yield from (found for text in texts for found in _SCRIPT_WRITES.findall(f" {text}"))
    yield from _option_targets(invocation)


def copied(invocation: Invocation) -> tuple[list[str], str]:
    """Return the sources of a copying program and its target."""
    named = operands(invocation)
    folders = list(option_values(invocation.arguments, ("-t", "--target-directory")))
    if invocation.name in TARGET_FOLDER and folders:
        return [word for word in named if word not in folders], folders[-1]
    return named[:-1], _REMOTE.sub("", named[-1]) if named else ""


def copy_destinations(invocation: Invocation) -> Iterator[str]:
    """Yield what a copying program would write if its target is a folder."""
    sources, target = copied(invocation)
    for source in sources:
        last = source.rstrip("/").rpartition("/")[2].rpartition(":")[2]
        if last not in ("", ".", ".."):
            yield f"{target}/{last}"


def filled_folders(invocation: Invocation) -> Iterator[str]:
    """Yield folders in which the program writes files whose names the command does not tell."""
    name, words = invocation.name, invocation.arguments
    if name in COPIERS:
        sources, target = copied(invocation)
        open_ended = has_option(invocation, "T", "--parents", "--no-target-directory")
        listed = not sources and "xargs" in invocation.via
        if target and (listed or open_ended or any(map(_is_open_ended, sources))):
            yield target
        if name in ("rsync", "gsutil") and any(source.endswith("/") for source in sources):
            yield target
    elif name in EXTRACTS or name in ("pax", "jar", "unar", "ditto", "svn"):
        yield from _extracted_to(invocation)
    elif name in ("zipfile", "tarfile"):  # modules of Python
        yield from operands(invocation)[1:] or ["."] if has_option(invocation, "e") else ()
    elif name in _STORES and not _COPY_WORDS.isdisjoint(words):
        yield from operands(invocation)[-1:]
    elif name in ("wget", "curl", "aria2c") and has_option(invocation, *_MANY_FILES):
        yield from [*_option_targets(invocation)] or ["."]


def _is_open_ended(source: str) -> bool:
    """Everything in a folder, a name with a gap, or a pattern for hidden names."""
    last = source.rpartition("/")[2].rpartition(":")[2]
    hidden = last.startswith(".") and is_pattern(last)
    return last in (".", "..", "{}") or UNKNOWN in last or hidden or source == ""


def _archive_made(invocation: Invocation) -> Iterator[str]:
    """Yield the archive that `tar` creates or changes."""
    words = invocation.arguments
    if re.match(r"-?-?\w*[cruA]", "".join(words[:1])) and not words[0].startswith("--ex"):
        if re.match(r"[a-zA-Z]*f\Z", words[0]):  # options without a dash
            yield from words[1:2]
        yield from option_values(words, ("-f", "--file"))


def _extracted_to(invocation: Invocation) -> Iterator[str]:
    name, words = invocation.name, invocation.arguments
    if name == "git":
        if {"apply", "am"} & set(words):
            yield from [*option_values(words, ("--directory",))] or ["."]
        elif _GIT_FILLS & set(words):
            yield from [*option_values(words, ("-C", "--work-tree"))] or ["."]
        return
    if name in ("tar", "bsdtar") and not any(re.match(r"-?-?\w*x", word) for word in words[:3]):
        return
    if name in ("tar", "bsdtar") and re.search(r"(^|\s)-?\w*P|--absolute", invocation.text):
        yield "/"
    if name == "unzip" and has_option(invocation, "l", "Z", "v", "t", "p"):
        return
    if name in ("7z", "7za", "ar", "jar") and not re.match(r"-?\w*[xe]", "".join(words[:1])):
        return
    if name == "svn" and not {"export", "checkout", "co"} & set(words):
        return
    if name in ("ditto", "svn"):
        yield from operands(invocation)[-1:]
    else:
        yield from [*_option_targets(invocation)] or ["."]


def in_place(invocation: Invocation) -> bool:
    """`-i` of sed and perl, alone, bundled or with a suffix."""
    return any(re.match(r"-[a-zA-Z]*i|--in-?place", word) for word in invocation.arguments)


def _option_targets(invocation: Invocation) -> Iterator[str]:
    names = OUTPUT_OPTIONS.get(invocation.name, ())
    if invocation.name in TARGET_FOLDER:
        names = ("-t", "--target-directory")
    if names:
        yield from option_values(invocation.arguments, names)


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
    if invocation.name in _CLIENTS:
        texts = (*words, known_input(invocation) or "")
        found = (each for text in texts for each in _CLIENT_READS.findall(text))
        yield from (quoted or plain for quoted, plain in found)
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
