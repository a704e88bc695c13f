"""Whether a command line only reads, so that nothing in the folder is changed.

A checkpoint is taken before every other command: a wrong yes loses an undo, a wrong no costs some
time. Anything not known to be harmless counts as a change.
"""

import re
from itertools import pairwise

from hermes.security.danger.infrastructure import subcommand
from hermes.security.danger.rule import has_option, operands
from hermes.security.shell.model import UNKNOWN, CommandTooComplex, Invocation
from hermes.security.shell.wrappers import unfold_command

_ALWAYS = """
    ls ll la dir cat head tail wc stat file echo printf pwd cd pushd popd dirs test [ [[ true false
    : which type whereis whatis apropos ps df du uname whoami id groups uptime free nproc lscpu
    lsblk lsof ss netstat printenv basename dirname realpath readlink seq expr cut tr rev tac nl
    fold fmt paste join comm cmp diff od hexdump strings md5sum sha1sum sha256sum sha512sum shasum
    cksum expand unexpand getconf locale tty w who last pgrep pidof grep egrep fgrep zgrep zcat
    bzcat xzcat nm readelf size ping dig nslookup host sleep wait exit return break continue shift
    read export unset local declare typeset readonly let jobs vmstat iostat lsmod lspci lsusb arch
    tput getent dpkg-query colordiff numfmt tsort look cal factor zipinfo column hexyl
"""
ALWAYS = frozenset(_ALWAYS.split())  #: Programs that write nothing, whatever their arguments.

STARTERS = frozenset({"xargs", "time", "env", "command", "builtin", "timeout", "nice", "stdbuf"})
"""These do nothing themselves; the program they start is checked separately."""

UNLESS: dict[str, tuple[str, ...]] = {
    "find": ("-delete", "-exec", "-execdir", "-ok", "-okdir", "-fprint", "-fprint0", "-fprintf",
             "-fls"),
    "fd": ("-x", "-X", "--exec", "--exec-batch"), "fdfind": ("-x", "-X", "--exec", "--exec-batch"),
    "sort": ("o", "--output", "--compress-program"), "tree": ("o", "--output"),
    "rg": ("--pre", "--hostname-bin"), "ag": ("--pager",), "ack": ("--pager",),
    "jq": ("i", "--in-place"), "yq": ("i", "s", "--inplace", "--in-place", "--split-exp"),
    "date": ("s", "--set"), "base64": ("o", "--output"), "man": ("P", "H", "--pager", "--html"),
    "less": ("o", "O", "k", "--log-file", "--LOG-FILE", "--lesskey-file"),
    "more": (), "bat": ("--pager",), "batcat": ("--pager",), "top": (), "uniq": (), "xxd": ("r",),
    "journalctl": ("--vacuum-size", "--vacuum-time", "--vacuum-files", "--rotate", "--flush",
                   "--sync", "--setup-keys", "--cursor-file", "--relinquish-var"),
    "history": ("c", "d", "w", "a", "r", "n"), "hostname": ("F", "b", "--file"), "objdump": (),
    "unzip": (), "dmesg": ("c", "C", "D", "E", "n", "--clear", "--read-clear"),
}  # fmt: skip
"""Programs that write only with one of these options (short ones without their dash)."""

ONLY: dict[str, str] = {
    "uniq": r"(-\S+( |\Z))*([^ -]\S*)?", "xxd": r"(-\S+( |\Z)(\d+( |\Z))?)*([^ -]\S*)?",
    "date": r"(-[uIRd]\S* |-d [^+]+ |--\S+ )*(\+.*|-[uIR]\S*|-d .*|--(date|iso-8601|utc)\S*)?",
    "hostname": r"(-[fsidIA] ?)*", "unzip": r"-[lvZ]+ \S+",
    "ip": r"(-\S+ )*(a|addr|address|l|link|r|route|n|neigh)( show( .*)?| list( .*)?)?",
    "ifconfig": r"", "tar": r"(-?t[vzjJf]*|-[vzjJ]*t[vzjJf]*) \S+",
    "systemctl": r"(--user |--no-pager |-[al] )*(status|is-active|is-enabled|is-failed|list-units"
                 r"|list-unit-files|list-timers|show|cat)\b.*",
    "service": r"\S+ status|--status-all", "pip": r"(list|show|freeze|check)\b.*",
    "pip3": r"(list|show|freeze|check)\b.*", "npm": r"(ls|list|view|outdated|root|prefix|why)\b.*",
    "pnpm": r"(ls|list|why|outdated)\b.*", "yarn": r"(list|why|info)\b.*", "gem": r"list\b.*",
    "brew": r"(list|info|search|deps|config|--prefix)\b.*", "dpkg": r"-[lLsS]\b.*",
    "apt": r"(list|show|search|policy)\b.*", "apt-cache": r"(show|search|policy|madison)\b.*",
    "rpm": r"-q\w*\b.*", "helm": r"(list|ls|status|history|version)\b.*",
    "docker": r"(ps|images|logs|inspect|version|info|stats|top|port|history|diff|events)\b.*"
              r"|(container|image|volume|network) (ls|list|inspect|logs|history|top|stats)\b.*"
              r"|system (df|info)\b.*|compose (-[fp] \S+ )*(ps|logs|images|top|ls|version)\b.*",
    "kubectl": r"(-n \S+ |--namespace[= ]\S+ |--context[= ]\S+ )*(get|describe|logs|top|version"
               r"|api-resources|explain|config (view|get-contexts|current-context)|auth can-i)\b.*",
    "gh": r"(pr|issue|run|release|repo|workflow|label) (list|view|status|diff|checks)\b.*"
          r"|auth status",
    "terraform": r"(version|show|output|providers|state (list|show))\b.*",
    "cargo": r"(tree|search|--list)\b.*", "go": r"(version|env( [A-Z]\w*)*)",
}  # fmt: skip
ONLY["podman"] = ONLY["docker"]  #: Pattern that the arguments, joined by blanks, must match.

NEVER: dict[str, str] = {
    "yarn": r"--output", "kubectl": r"--output-directory|--raw|--profile", "go": r"-w|-u",
    "gh": r"--web|-w\b|--log-failed-to", "helm": r"--output-dir", "docker": r"--output|(^| )-o ",
    "less": r"(^| )\+", "journalctl": r"--vacuum", "rpm": r"--(erase|install|import)",
    "bat": r"^cache", "cargo": r"--target-dir",
}  # fmt: skip
"""Pattern that must not occur in them."""

_GIT_ALWAYS = """
    status log diff show rev-parse ls-files ls-tree blame annotate describe shortlog rev-list
    cat-file merge-base name-rev show-ref for-each-ref whatchanged count-objects check-ignore
    diff-tree diff-index cherry range-diff version help
"""
GIT_LOOKS: dict[str, str] = {
    **dict.fromkeys(_GIT_ALWAYS.split(), r".*"),
    "grep": r"(?!.*(^| )(-O|--open-files)).*",
    "branch": r"((-a|-r|-v|-vv|-av|-avv|--all|--remotes|--list( \S+)?|--show-current|--verbose"
              r"|--(no-)?merged( \S+)?|--(no-)?contains \S+|--sort=\S+|--format=\S*)( |\Z))*",
    "tag": r"((-l|--list|-n\d*)( .*)?|--sort=\S+( -l.*)?|--points-at \S+)?",
    "remote": r"(-v|--verbose|show( \S+)?|get-url \S+)?",
    "stash": r"(list|show)\b.*", "worktree": r"list\b.*", "reflog": r"(show\b.*|-\S+)?",
    "config": r"(--global |--local |--system )?(--get\S* \S+|--list|-l|get \S+|list)( .*)?",
    "submodule": r"(status|summary)\b.*", "bisect": r"log", "notes": r"(list|show)\b.*",
}  # fmt: skip
"""Subcommands of git, and the pattern that must follow them."""
_GIT_WRITES = re.compile(r"(^| )(--output|--ext-diff|--textconv|-c |--exec-path|-p |--paginate)")

_VERSIONED = """
    python python3 node npm npx pnpm yarn bun deno cargo rustc go java javac gcc g++ clang make
    cmake ruby gem php composer perl terraform helm docker podman kubectl git pip pip3 uv poetry
    ruff mypy pytest black tsc psql mysql sqlite3 redis-cli aws gcloud az gh bash zsh fish tmux vim
    nvim code curl wget rsync ssh openssl ffmpeg rustup dotnet swift kotlin scala julia lua r jq
    rg fd
"""
VERSIONED = frozenset(_VERSIONED.split())
"""These only print when asked for their version or for help."""
_ASKS = frozenset({("--version",), ("-V",), ("-v",), ("version",), ("--help",), ("-h",)})
_ASKS_SAFE = _ASKS - {("-v",), ("-V",), ("-h",)}

_CURL_FLAGS = re.compile(
    r"-[sSfLkIivgG46#N]+|--(silent|show-error|fail|fail-with-body|location|head|include|compressed"
    r"|get|insecure|verbose|no-progress-meter|ipv4|ipv6)"
)
_CURL_VALUES = re.compile(
    r"-[sSfLkIivgG46#N]*[HAumbx]|--(header|user-agent|max-time|connect-timeout|retry|user|url)"
)
_SED_STEP = re.compile(
    r"((\d+|\$|/[^/]*/)(,(\d+|\$|/[^/]*/|\+\d+))?)?\s*!?\s*"
    r"([pdq=]|s([/|#,])(?:(?!\6).)*\6(?:(?!\6).)*\6[gpIi\d]*)"
)
_AWK_WRITES = re.compile(r"[>|@]|system|close|fflush|(^| )-[iofpdEl]|--(include|file|dump|profile)")
_SAFE_TARGETS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"})
_SYSTEM_PROGRAM = re.compile(r"(/usr)?(/local)?/s?bin/[\w.\[-]+")
_STEERS = re.compile(
    r"PATH|IFS|ENV|BASH_ENV|SHELLOPTS|PROMPT_COMMAND|PS[0-4]|.*(PAGER|EDITOR|VISUAL|BROWSER|OPTIONS?"
    r"|OPTS?|OPEN|CLOSE|COMMAND|SSH|RSH|ASKPASS|HOME)|(LD|DYLD|GIT|PYTHON|PERL\d?|RUBY|NODE)_?.*"
)
"""Variables that make programs load, run or write something else."""


def is_read_only(command: str) -> bool:
    """Return whether every program of the line only reads or prints, and no redirect writes a
    file."""
    try:
        parsed = unfold_command(command)
    except (CommandTooComplex, RecursionError):
        return False
    if parsed.broken or parsed.bomb or not parsed.invocations:
        return False
    return all(map(_reads_only, parsed.invocations))


def _reads_only(invocation: Invocation) -> bool:
    if any(each.writes and each.target not in _SAFE_TARGETS for each in invocation.redirects):
        return False
    if any(
        _STEERS.fullmatch(name) and value not in ("", "cat")
        for name, value in _assignments(invocation)
    ):
        return False
    if not invocation.words:
        return True
    first, name = invocation.words[0], invocation.name
    if (
        invocation.named_by
        or UNKNOWN in first
        or ("/" in first and not _SYSTEM_PROGRAM.fullmatch(first))
    ):
        return False
    if name in ALWAYS or name in STARTERS:
        return True
    if name in VERSIONED and invocation.arguments in (_ASKS_SAFE if name in _SHORT else _ASKS):
        return True
    if any(word.startswith(UNKNOWN) for word in invocation.arguments):
        return False  # may be any option
    return _arguments_read_only(invocation, name)


_SHORT = frozenset({"bash", "zsh", "fish", "vim", "nvim", "code", "perl", "ruby", "swift"})
"""For these a short `-v` means something else."""


def _assignments(invocation: Invocation) -> list[tuple[str, str]]:
    pairs = list(invocation.assignments)
    if invocation.name == "env":
        split = (word.partition("=") for word in invocation.arguments)
        pairs += [(name, value) for name, found, value in split if found]
    return pairs


def _arguments_read_only(invocation: Invocation, name: str) -> bool:
    text = invocation.text
    if name == "git":
        return _git_reads_only(invocation)
    if name in ("awk", "gawk", "mawk"):
        return not _AWK_WRITES.search(text)
    if name == "sed":
        return _sed_reads_only(invocation)
    if name == "curl":
        return _curl_reads_only(invocation)
    if name not in UNLESS and name not in ONLY:
        return False
    if name in NEVER and re.search(NEVER[name], text):
        return False
    if name in ONLY and not re.fullmatch(ONLY[name], text, re.DOTALL):
        return False
    unwanted = UNLESS.get(name, ())
    return unwanted == () or not (
        has_option(invocation, *unwanted) or not set(unwanted).isdisjoint(invocation.arguments)
    )


def _git_reads_only(invocation: Invocation) -> bool:
    words = subcommand(invocation)
    before = " ".join(invocation.arguments[: len(invocation.arguments) - len(words)])
    if not words or _GIT_WRITES.search(f"{before} ") or words[0] not in GIT_LOOKS:
        return False
    rest = " ".join(words[1:])
    if re.search(r"(^| )--(outp|ext-d|textc)", rest):
        return False
    return re.fullmatch(GIT_LOOKS[words[0]], rest, re.DOTALL) is not None


def _sed_reads_only(invocation: Invocation) -> bool:
    """Return whether sed only prints, deletes and replaces lines in its output."""
    words = invocation.arguments
    if any(word.startswith("-") and word not in ("-n", "-E", "-r", "-nE", "-e") for word in words):
        return False
    named = operands(invocation)
    scripts = [after for word, after in pairwise(words) if word == "-e"]
    steps = [step for script in scripts or named[:1] for step in re.split(r"[;\n]", script)]
    return bool(steps) and all(_SED_STEP.fullmatch(step.strip()) for step in steps if step.strip())


def _curl_reads_only(invocation: Invocation) -> bool:
    """Return whether curl only fetches and prints."""
    value = False
    for word in invocation.arguments:
        if value or not word.startswith("-"):
            value = False
        elif _CURL_VALUES.fullmatch(word):
            value = True
        elif not _CURL_FLAGS.fullmatch(word):
            return False
    return not value
