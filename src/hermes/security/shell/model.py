"""The result of parsing a command line: the programs it would start, as data.

Also the variables of a command line while it is parsed.
"""

from collections.abc import Mapping
from functools import lru_cache

import msgspec

from hermes.security.tables import program_tables

UNKNOWN = "\ue000"  #: Placeholder in a word for text that only the running shell knows.
SPLIT = "\ue001"  #: A blank from an unquoted expansion, where the shell splits words.
HELD = "\ue002"  #: Followed by a number and itself: the here-document of that number.
GIVEN = "\ue003"
"""Starts the target of `<` that was a here-string: the rest is text, not a file name."""
MARKS = f"{UNKNOWN}{SPLIT}{HELD}{GIVEN}\ue004"  #: None of these may occur in the command itself.

MOST_PROGRAMS = 400  #: A command that starts more programs is not analysed further.


class CommandTooComplex(Exception):
    """The command is too long or too deeply nested to be parsed."""


class ShellRedirect(msgspec.Struct, frozen=True):
    operator: str
    target: str
    drawn: tuple["Invocation", ...] = ()  #: Programs whose output is in the target.

    @property
    def writes(self) -> bool:
        return ">" in self.operator and not self.target.isdigit() and self.target != "-"


class Invocation(msgspec.Struct, frozen=True):
    """One program that would be started."""

    words: tuple[str, ...]
    """The name as written, then the arguments; empty for a redirect of a whole block."""
    redirects: tuple[ShellRedirect, ...] = ()
    stdin: str = ""  #: Text of a here-document or here-string.
    upstream: tuple["Invocation", ...] = ()
    """Programs whose output is piped into this one, the first of the pipe first."""
    fed_by: tuple["Invocation", ...] = ()  #: Programs inside `$(…)` and `<(…)` of the words.
    assignments: tuple[tuple[str, str], ...] = ()
    """Variables set for this program, or by it if it is `export` or has no name."""
    named_by: frozenset[str] = frozenset()
    """Programs whose output is the name of this one: `$(echo ls)`."""
    uses: frozenset[str] = frozenset()  #: Names of the variables in its words.
    drawn: tuple["Invocation", ...] = ()
    """Programs whose output is in variables of its words: `x=$(find …); rm $x`."""
    last_drawn: tuple["Invocation", ...] = ()  #: Programs whose output is in its last word.
    piped: bool = False  #: Its output goes to another program.
    background: bool = False
    via: tuple[str, ...] = ()  #: The programs that start this one: sudo, xargs, find …
    folder: str = ""  #: Folder after an earlier `cd` of the same line; "" if there was none.
    known: Mapping[str, str] = {}  #: Variables with their values at this point.

    @property
    def name(self) -> str:
        return program_name(self.words[0]) if self.words else ""

    @property
    def arguments(self) -> tuple[str, ...]:
        return self.words[1:]

    @property
    def feeders(self) -> set[str]:
        """Names of the programs in `fed_by`."""
        return {invocation.name for invocation in self.fed_by}

    @property
    def sources(self) -> tuple["Invocation", ...]:
        """Everything whose output this program receives, piped or as a word."""
        return (*self.upstream, *self.fed_by, *self.drawn)

    @property
    def text(self) -> str:
        """The arguments, joined by blanks."""
        return " ".join(self.words[1:])

    @property
    def plain(self) -> str:
        """Like `text`, without arguments that contain blanks: those are messages, not words."""
        return " ".join(word for word in self.words[1:] if " " not in word and "\n" not in word)


class ParsedCommand(msgspec.Struct, frozen=True):
    invocations: tuple[Invocation, ...]
    broken: bool = False  #: The tree has errors: parts of the command may be missing from it.
    bomb: bool = False
    """A function starts itself in the background, or an endless loop starts programs."""
    folder: str = ""  #: Where the shell is afterwards; "" if it has not moved.
    variables: Mapping[str, str] = {}  #: Its variables afterwards.


@lru_cache(maxsize=4_096)
def program_name(word: str) -> str:
    """Return a program name without folder and `.exe`, in lower case, because some file systems
    ignore case."""
    name = word.rstrip("/").rpartition("/")[2].lower()
    return name.removesuffix(".exe")


def join_path(folder: str, path: str) -> str:
    """Return `path` relative to `folder`."""
    return path if path.startswith(("/", "~")) or not folder else f"{folder}/{path}"


# The variables of a command line while it is parsed: values, alternatives, arguments.

DEFAULTS = {
    "IFS": " ", "@": "", "*": "", **{str(number): "" for number in range(1, 10)},
    **program_tables().variables,
}  # fmt: skip
"""The conventional value of a variable that the command itself does not set."""

MOST_OTHERS = 32
MOST_DRAWN = 8
LONGEST_VALUE = 20_000
_ARGUMENTS = ("@", "*", *"123456789")


class Variables:
    """Values known at one point of a command. Copying is cheap: setting replaces the mapping."""

    def __init__(self, known: Mapping[str, str]) -> None:
        self.known: Mapping[str, str] = known
        self.others: Mapping[str, tuple[str, ...]] = {}
        """Alternative values of a variable, after an `if` or in a loop."""
        self.drawn: dict[str, tuple[Invocation, ...]] = {}
        """Programs whose output a variable may contain."""
        self.used: set[str] = set()  #: Names looked up since this was last cleared.
        self.references: dict[str, str] = {}  #: `declare -n x=y`: names that mean others.

    def __call__(self, name: str) -> str | None:
        self.used.add(name)
        value = self.known.get(self.references.get(name, name))
        return value if value is not None else DEFAULTS.get(name)

    def draw(self, name: str, programs: tuple[Invocation, ...]) -> None:
        """Record that the variable contains the output of `programs`."""
        if programs:
            self.drawn[name] = programs[-MOST_DRAWN:]

    def assign(self, name: str, value: str, *, maybe: bool = False) -> None:
        """Set a variable; `maybe`: inside an `if`, a loop or after `&&`, so the old value may
        remain."""
        if len(value) > LONGEST_VALUE:
            value = UNKNOWN
        before = self.known.get(name)
        others = dict(self.others)
        kept = others.pop(name, ()) if maybe else ()
        if maybe and before is not None and before != value:
            kept = (*kept, before)[-MOST_OTHERS:]
        if kept:
            others[name] = kept
        else:
            others.pop(name, None)
        self.others = others
        self.known = {**self.known, name: value}

    def vary(self, name: str, values: list[str]) -> None:
        """Set the variable of a loop to each of `values` in turn."""
        self.assign(name, values[0] if values else UNKNOWN)
        if len(values) > 1:
            self.others = {**self.others, name: tuple(values[1 : MOST_OTHERS + 1])}

    def arguments(self, words: list[str]) -> None:
        """Set `$1`, `$2` … and `$@` from here on."""
        numbered = {str(number): word for number, word in enumerate(words[:9], 1)}
        missing = {str(number): "" for number in range(len(words) + 1, 10)}
        joined = SPLIT.join(words)
        self.known = {**self.known, **missing, **numbered, "@": joined, "*": joined}

    def restore_arguments(self, outer: Mapping[str, str]) -> None:
        """Restore the arguments of `outer`; everything else stays."""
        kept = {name: value for name, value in self.known.items() if name not in _ARGUMENTS}
        self.known = {**kept, **{name: outer[name] for name in _ARGUMENTS if name in outer}}

    def saved(self) -> tuple[Mapping[str, str], Mapping[str, tuple[str, ...]]]:
        return self.known, self.others

    def restore(self, saved: tuple[Mapping[str, str], Mapping[str, tuple[str, ...]]]) -> None:
        self.known, self.others = saved
