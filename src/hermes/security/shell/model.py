"""What reading a command line yields: the programs it would start, as data."""

from collections.abc import Mapping
from functools import lru_cache

import msgspec

UNKNOWN = "\ue000"
"""Stands in a word for text that only the running shell knows."""
SPLIT = "\ue001"
"""A blank that came out of an unquoted expansion: the shell splits words here."""
HELD = "\ue002"
"""Followed by a number and closed by itself: the here-document of that number."""
GIVEN = "\ue003"
"""Begins the target of `<` that was a here-string: the rest is text, not the name of a file."""
MARKS = f"{UNKNOWN}{SPLIT}{HELD}{GIVEN}\ue004"
"""None of these may come from the command itself."""

MOST_PROGRAMS = 400
"""A command that starts more than this is not read to its end."""


class TooMuch(Exception):
    """The command is too long or too deeply nested to be read."""


class Redirect(msgspec.Struct, frozen=True):
    operator: str
    target: str

    @property
    def writes(self) -> bool:
        return ">" in self.operator and not self.target.isdigit() and self.target != "-"


class Invocation(msgspec.Struct, frozen=True):
    """One program that would be started."""

    words: tuple[str, ...]
    """The name as written, then the arguments; empty for a redirect of a whole block."""
    redirects: tuple[Redirect, ...] = ()
    stdin: str = ""
    """Text given by a here-document or here-string."""
    upstream: tuple["Invocation", ...] = ()
    """The programs whose output is piped into this one, the first of the pipe first."""
    fed_by: tuple["Invocation", ...] = ()
    """Programs inside `$(…)` and `<(…)` of the words."""
    assignments: tuple[tuple[str, str], ...] = ()
    """Variables set for this program, or by it when it is `export` or nothing at all."""
    named_by: frozenset[str] = frozenset()
    """Programs whose output is the name of this one: `$(echo ls)`."""
    uses: frozenset[str] = frozenset()
    """Names of the variables in its words."""
    drawn: tuple["Invocation", ...] = ()
    """Programs whose output is in variables of its words: `x=$(find …); rm $x`."""
    piped: bool = False
    """Its output goes into another program."""
    background: bool = False
    via: tuple[str, ...] = ()
    """The programs that start this one: sudo, xargs, find …"""
    folder: str = ""
    """Where an earlier `cd` of the same line led; "" when there was none."""
    known: Mapping[str, str] = {}
    """Variables with their values at this point."""

    @property
    def name(self) -> str:
        return program(self.words[0]) if self.words else ""

    @property
    def arguments(self) -> tuple[str, ...]:
        return self.words[1:]

    @property
    def feeders(self) -> set[str]:
        """Names of the programs in `fed_by`."""
        return {invocation.name for invocation in self.fed_by}

    @property
    def sources(self) -> tuple["Invocation", ...]:
        """Everything whose output this program gets, piped or as a word."""
        return (*self.upstream, *self.fed_by, *self.drawn)

    @property
    def text(self) -> str:
        """The arguments, joined by blanks."""
        return " ".join(self.words[1:])

    @property
    def plain(self) -> str:
        """As `text`, without arguments that hold blanks: those are messages, not words."""
        return " ".join(word for word in self.words[1:] if " " not in word and "\n" not in word)


class Parsed(msgspec.Struct, frozen=True):
    invocations: tuple[Invocation, ...]
    broken: bool = False
    """The tree has errors: parts of the command may be missing from it."""
    bomb: bool = False
    """A function starts itself in the background, or a loop without end starts programs."""


@lru_cache(maxsize=4_096)
def program(word: str) -> str:
    """The name of a program: no folder, no `.exe`, small letters as on file systems that do not
    tell them from capitals."""
    name = word.rstrip("/").rpartition("/")[2].lower()
    return name.removesuffix(".exe")


def join(folder: str, path: str) -> str:
    """`path` as seen from `folder`."""
    return path if path.startswith(("/", "~")) or not folder else f"{folder}/{path}"
