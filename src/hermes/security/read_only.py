"""Whether a command line only reads, or changes files of the workspace.

A checkpoint is taken before every other command: a wrong yes loses an undo, a wrong no costs some
time. Anything not known to be harmless counts as a change.
"""

import re
from itertools import pairwise

from hermes.security.danger.context import (
    WRITES_ALL,
    WRITES_LAST,
    ShellContext,
    filled_folders,
    has_option,
    operands,
    written_paths,
)
from hermes.security.danger.system import subcommand
from hermes.security.shell.model import UNKNOWN, CommandTooComplex, Invocation
from hermes.security.shell.wrappers import unfold_command
from hermes.security.tables import join_lines, program_tables, split_values, word_list

ALWAYS = word_list("reads_only")
STARTERS = frozenset({"xargs", "time", "env", "command", "builtin", "timeout", "nice", "stdbuf"})
"""These do nothing themselves; the program they start is checked separately."""
UNLESS = split_values(program_tables().writes_with)
ONLY = join_lines(program_tables().reads_only_if)
NEVER = program_tables().writes_if
GIT_LOOKS = {
    **dict.fromkeys(word_list("git_reads_only"), ".*"),
    **join_lines(program_tables().git_reads_only_if),
}
"""Subcommands of git, and the pattern that must follow them."""
_GIT_WRITES = re.compile(r"(^| )(--output|--ext-diff|--textconv|-c |--exec-path|-p |--paginate)")

VERSIONED = word_list("versioned")
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
    return all(map(reads_only, parsed.invocations))


def edits_workspace(invocation: Invocation, context: ShellContext) -> bool:
    """Return whether a program writes, moves or deletes files of the workspace.

    Only what the command line shows counts: a build or a script may change files as well. An
    unknown path counts as one of the workspace.
    """
    if reads_only(invocation):
        return False
    listed = "xargs" in invocation.via and invocation.name in WRITES_ALL | WRITES_LAST
    reals = (
        context.real(path, invocation)
        for path in (*written_paths(invocation), *filled_folders(invocation))
        if path not in ("-", *_SAFE_TARGETS)
    )
    return listed or any(not real or context.is_in_workspace(real) for real in reals)


def reads_only(invocation: Invocation) -> bool:
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
