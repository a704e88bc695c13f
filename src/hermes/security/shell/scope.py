"""The state of a shell while a command line is read: variables, folder, functions, aliases."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from tree_sitter import Node

from hermes.security.shell.expansion import substitute
from hermes.security.shell.heredocs import Document
from hermes.security.shell.model import HELD, SPLIT, UNKNOWN, Invocation, join
from hermes.security.shell.output import given_to, printed
from hermes.security.shell.variables import Variables

_HELD = re.compile(f"{HELD}(\\d+){HELD}")
_FLAGS = re.compile(r"-[LPe@-]+|-n")
_NAME = re.compile(r"[A-Za-z_]\w*")


class Function:
    """A function of the command line, with the here-documents of the text that defines it."""

    def __init__(self, body: Node, documents: tuple[Document, ...]) -> None:
        self.body, self.documents = body, documents


class Scope:
    def __init__(self, variables: Variables, folder: str) -> None:
        self.variables, self.folder = variables, folder
        self._back = UNKNOWN, UNKNOWN
        """Where `cd -` leads: the folder, and what `$PWD` is there."""
        self.documents: tuple[Document, ...] = ()
        self.functions: dict[str, Function] = {}
        self.aliases: dict[str, str] = {}
        self.given = ""
        """Text that a here-document of an outer block gives to the programs in it."""
        self.branches = 0
        """How many `if`, loops and `&&` are open: what is set inside them may not be set."""
        self.piped = False
        """Whether what is read now prints into a pipe."""

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Inside is a shell of its own: what it sets ends with it."""
        saved, folder, back = self.variables.saved(), self.folder, self._back
        yield
        self.variables.restore(saved)
        self.folder, self._back = folder, back

    def ran(self, invocation: Invocation) -> None:
        """What built-in commands do to the shell."""
        match invocation.name:
            case "cd" | "pushd" | "popd":
                self._move(invocation.name, invocation.arguments)
            case "set":
                self._set_arguments(invocation.arguments)
            case "read" | "mapfile" | "readarray" | "printf":
                self._read_into(invocation)

    def keep(self, assignments: tuple[tuple[str, str], ...]) -> None:
        """Assignments without a program: they stay."""
        for name, value in assignments:
            self.variables.assign(name, value, maybe=self.branches > 0)

    def _move(self, name: str, words: tuple[str, ...]) -> None:
        """`cd`, `pushd`, `popd`."""
        operands = [word for word in words if not _FLAGS.fullmatch(word)]
        target = operands[-1] if operands else "~"
        before = self.folder, self.variables.known.get("PWD", "")
        if name == "popd" or target == "-":
            self.folder, working = self._back
        else:
            self.folder, working = join(self.folder, target), join(before[1], target)
        self._back = before
        if before[1]:
            self.variables.assign("PWD", working)

    def _set_arguments(self, words: tuple[str, ...]) -> None:
        """`set -- a b` gives the shell arguments."""
        if "--" in words:
            self.variables.arguments(list(words[words.index("--") + 1 :]))
        elif words and not words[0].startswith(("-", "+")):
            self.variables.arguments(list(words))

    def _read_into(self, invocation: Invocation) -> None:
        """`read x`, `mapfile x` and `printf -v x` set variables."""
        words = invocation.arguments
        if invocation.name == "printf":
            if words[:1] == ("-v",) and len(words) > 2:
                self.variables.assign(words[1], printed(invocation) or UNKNOWN)
            return
        names = [word for word in words if _NAME.fullmatch(word)]
        text = given_to(invocation)
        if text is None or UNKNOWN in text:
            for name in names:
                self.variables.draw(name, invocation.sources)
        if invocation.name == "read":
            self._read(names or ["REPLY"], text)
        else:
            value = UNKNOWN if text is None else text.replace("\n", SPLIT)
            self.variables.assign(names[-1] if names else "MAPFILE", value)

    def _read(self, names: list[str], text: str | None) -> None:
        lines = [UNKNOWN] if text is None else [line for line in text.split("\n") if line] or [""]
        for position, name in enumerate(names):
            if text is None or len(names) == 1:
                self.variables.vary(name, lines)
                continue
            fields = [line.split(None, len(names) - 1) for line in lines]
            self.variables.vary(
                name, [found[position] if len(found) > position else "" for found in fields]
            )

    def document(self, number: int) -> Document:
        """The here-document behind a mark; an empty one when the mark leads nowhere."""
        known = number < len(self.documents)
        return self.documents[number] if known else Document("", literal=True)

    def marked(self, text: str) -> list[Document]:
        """The here-documents whose marks stand in `text`."""
        return [self.document(int(number)) for number in _HELD.findall(text)]

    def filled(self, text: str) -> str:
        """`text` with here-documents in place of their marks, variables in them resolved."""

        def body(found: re.Match[str]) -> str:
            document = self.document(int(found[1]))
            if document.literal:
                return document.text
            return substitute(document.text, self.variables)

        return _HELD.sub(body, text) if HELD in text else text
