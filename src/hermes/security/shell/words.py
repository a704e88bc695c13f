"""Words of the syntax tree with quotes, variables and substitutions resolved.

`ShellScope` is the state of the shell while a line is parsed, `InvocationBuilder` builds one
program from its nodes.
"""

import itertools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tree_sitter import Node

from hermes.security.shell.expansion import (
    expand,
    expand_braces,
    known_input,
    predict_output,
    substitute,
    unescape,
)
from hermes.security.shell.heredocs import HereDocument
from hermes.security.shell.model import (
    GIVEN,
    HELD,
    SPLIT,
    UNKNOWN,
    CommandTooComplex,
    Invocation,
    ShellRedirect,
    Variables,
    join_path,
)

LONGEST_WORD = 200_000
_QUOTED = frozenset({"string", "raw_string", "ansi_c_string", "translated_string"})
_PLAIN = re.compile(r"[\w./:=@%+,-]+")
_BLANKS = re.compile(r"\s+")
_ESCAPED = re.compile(r"\\(\n?)(.?)", re.DOTALL)
_ESCAPED_IN_QUOTES = re.compile(r'\\([\\"$`\n])')


_WIDE = re.compile(r"[^\x00-\xfe]")
_NARROW = re.compile("\xff([\xc0-\xcf]{6})")


def encode_for_grammar(text: str) -> bytes:
    """Encode text for the grammar, whose scanner reads beyond its tables at letters above 255.

    Each such letter becomes `ÿ` and its number, spelled with safe letters.
    """

    def spelled(found: re.Match[str]) -> str:
        return "\xff" + "".join(chr(0xC0 + int(digit, 16)) for digit in f"{ord(found[0]):06x}")

    return (text if text.isascii() else _WIDE.sub(spelled, text)).encode("utf-8", "replace")


def decode_from_grammar(data: bytes) -> str:
    """Reverse `encode_for_grammar`."""
    text = data.decode("utf-8", "replace")
    if text.isascii():
        return text

    def letter(found: re.Match[str]) -> str:
        number = int("".join(f"{ord(digit) - 0xC0:x}" for digit in found[1]), 16)
        return chr(number) if number <= 0x10FFFF else "?"

    return _NARROW.sub(letter, text)


def node_text(node: Node) -> str:
    return decode_from_grammar(node.text or b"")


class WordExpander:
    """Expands words; `printed_by` returns the output of a command substitution, or UNKNOWN."""

    def __init__(self, variables: Variables, printed_by: Callable[[Node], str]) -> None:
        self._variables, self._predicted_output = variables, printed_by

    def of(self, node: Node) -> list[str]:
        """Return the words that one word of the source becomes."""
        if node.type == "word":
            text = node_text(node)
            if _PLAIN.fullmatch(text):
                return [text]
        value = self.value(node, quoted=False)
        quoted = node.type in _QUOTED
        words = [word for word in value.split(SPLIT) if word or quoted]
        if quoted:
            return words or [""]
        return [piece for word in words for piece in expand_braces(word)]

    def value(self, node: Node, *, quoted: bool) -> str:
        match node.type:
            case "raw_string":
                return node_text(node)[1:-1]
            case "ansi_c_string":
                return unescape(node_text(node)[2:-1])
            case "string":
                return self._join_children(node, quoted=True)
            case "translated_string":  # `$"…"`: the dollar only requests a translation
                return "".join(self.value(child, quoted=True) for child in node.named_children)
            case "simple_expansion" | "expansion" | "command_substitution":
                return self._split(self._expand_parameter(node), quoted)
            case "process_substitution" | "arithmetic_expansion":
                return UNKNOWN
            case "string_content":
                return _ESCAPED_IN_QUOTES.sub(r"\1", node_text(node))
            case "array":
                return SPLIT.join(word for child in node.named_children for word in self.of(child))
            case _ if node.child_count:
                return self._join_children(node, quoted=quoted)
            case _:
                return _ESCAPED.sub(r"\2", node_text(node))

    def _expand_parameter(self, node: Node) -> str:
        if node.type == "command_substitution":
            return self._predicted_output(node)
        if node.type == "simple_expansion":
            return self._expand_variable(node)
        return expand(node_text(node).strip(), self._variables, lambda: self._argument(node))

    def _expand_variable(self, node: Node) -> str:
        name = node_text(node).strip().lstrip("$")
        value = self._variables(name)
        if value is None:
            return UNKNOWN
        return value if name in "@*" else value.split(SPLIT)[0]

    def _split(self, value: str, quoted: bool) -> str:
        """Return the value with the shell's word boundaries marked. An array keeps its own."""
        if quoted or SPLIT in value:
            return value
        blanks = self._variables.known.get("IFS", "").strip()
        if blanks and UNKNOWN not in blanks:
            value = re.sub(f"[{re.escape(blanks)}]", SPLIT, value)
        return _BLANKS.sub(SPLIT, value)

    def _argument(self, node: Node) -> str:
        """Return the value of what follows the operator of `${x:-…}`; `:=` sets the variable
        too."""
        children = node.named_children[1:]
        value = "".join(self.value(child, quoted=True) for child in children)
        if children and "=" in {child.type[-1:] for child in node.children}:
            self._variables.assign(node_text(node.named_children[0]), value)
        return value

    def _join_children(self, node: Node, *, quoted: bool) -> str:
        """Return the values of the children, with the text between them."""
        parts: list[str] = []
        whole, start = node.text or b"", node.start_byte
        position, size = start, 0
        for child in node.children:
            gap = whole[position - start : child.start_byte - start]
            parts.append(decode_from_grammar(gap))
            if child.type == '"':
                parts.append(node_text(child).replace('"', ""))  # may be preceded by blanks
            else:
                if child.type in ("simple_expansion", "expansion", "command_substitution"):
                    text = node_text(child)
                    parts.append(text[: len(text) - len(text.lstrip())] if quoted else "")
                parts.append(self.value(child, quoted=quoted))
            position = child.end_byte
            size += len(parts[-1])
            if size > LONGEST_WORD:
                raise CommandTooComplex
        return "".join(parts)


# The state of a shell while a command line is parsed: variables, folder, functions, aliases.

_HELD = re.compile(f"{HELD}(\\d+){HELD}")
_FLAGS = re.compile(r"-[LPe@-]+|-n")
_NAME = re.compile(r"[A-Za-z_]\w*")


class ShellFunction:
    """A function of the command line, with the here-documents of the text that defines it."""

    def __init__(self, body: Node, documents: tuple[HereDocument, ...]) -> None:
        self.body, self.documents = body, documents


class ShellScope:
    def __init__(self, variables: Variables, folder: str) -> None:
        self.variables, self.folder = variables, folder
        self._back = UNKNOWN, UNKNOWN
        """Target of `cd -`: the folder, and the value of `$PWD` there."""
        self.documents: tuple[HereDocument, ...] = ()
        self.functions: dict[str, ShellFunction] = {}
        self.aliases: dict[str, str] = {}
        self.block_stdin = ""
        """Text that a here-document of an outer block passes to the programs in it."""
        self.branches = 0
        """Number of open `if`, loops and `&&`: what is set inside them may not be set."""
        self.piped = False  #: Whether what is parsed now prints into a pipe.

    @contextmanager
    def subshell(self) -> Iterator[None]:
        """Enter a subshell: what it sets ends with it."""
        saved, folder, back = self.variables.saved(), self.folder, self._back
        yield
        self.variables.restore(saved)
        self.folder, self._back = folder, back

    def apply_builtin(self, invocation: Invocation) -> None:
        """Apply the effect of built-in commands on the shell."""
        match invocation.name:
            case "cd" | "pushd" | "popd":
                self._move(invocation.name, invocation.arguments)
            case "set":
                self._set_arguments(invocation.arguments)
            case "read" | "mapfile" | "readarray" | "printf":
                self._read_into(invocation)

    def keep(self, assignments: tuple[tuple[str, str], ...]) -> None:
        """Keep assignments without a program."""
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
            self.folder, working = join_path(self.folder, target), join_path(before[1], target)
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
                self.variables.assign(words[1], predict_output(invocation) or UNKNOWN)
            return
        names = [word for word in words if _NAME.fullmatch(word)]
        text = known_input(invocation)
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

    def document(self, number: int) -> HereDocument:
        """Return the here-document of a mark; an empty one for an unknown mark."""
        known = number < len(self.documents)
        return self.documents[number] if known else HereDocument("", literal=True)

    def documents_in(self, text: str) -> list[HereDocument]:
        """Return the here-documents whose marks are in `text`."""
        return [self.document(int(number)) for number in _HELD.findall(text)]

    def fill_documents(self, text: str) -> str:
        """Return `text` with here-documents in place of their marks and their variables
        resolved."""

        def body(found: re.Match[str]) -> str:
            document = self.document(int(found[1]))
            if document.literal:
                return document.text
            return substitute(document.text, self.variables)

        return _HELD.sub(body, text) if HELD in text else text


# One program built from its nodes in the tree: words, redirects, input, variables.

SUBSTITUTIONS = frozenset({"command_substitution", "process_substitution"})
Upstream = tuple[Invocation, ...]


class InvocationBuilder:
    """`substitution` returns the programs inside `$(…)` or `<(…)`."""

    def __init__(self, scope: ShellScope, substitution: Callable[[Node], Upstream]) -> None:
        self._scope, self._substitution = scope, substitution
        self.words = WordExpander(scope.variables, self._predicted_output)
        self.broken = False

    def variants(
        self, nodes: list[Node], redirects: list[Node], upstream: Upstream, background: bool
    ) -> Iterator[Invocation]:
        """Yield the program with the current variables, then with their alternative values."""
        variables = self._scope.variables
        first = self.invocation(nodes, redirects, upstream, background)
        known, others = variables.saved()
        seen = {first.words}
        yield first
        for name in [name for name in first.uses if name in others]:
            for value in others[name]:
                after = variables.saved()
                variables.known = {**known, name: value}
                other = self.invocation(nodes, redirects, upstream, background)
                variables.restore(after)
                if other.words not in seen:
                    seen.add(other.words)
                    yield other

    def invocation(
        self, nodes: list[Node], redirects: list[Node], upstream: Upstream, background: bool
    ) -> Invocation:
        scope = self._scope
        scope.variables.used = set()
        assignments = [node for node in nodes if node.type == "variable_assignment"]
        spoken = [node for node in nodes if node.type != "variable_assignment"]
        # The grammar parses `rm 2>log -r x` as a redirect to three files.
        spoken += [extra for node in redirects for extra in _targets(node)[1:]]
        if any(a.end_byte == b.start_byte for a, b in itertools.pairwise(spoken)):
            self.broken = True  # one word that the grammar took for two
        words = tuple(word for node in spoken for word in self.words.of(node))
        used = frozenset(scope.variables.used)
        named_by = frozenset(each.name for each in self.feeders(spoken[:1]))
        with scope.subshell():
            assigned = tuple(self.assign(assignments))
        return Invocation(
            words,
            redirects=tuple(self._redirect(node) for node in redirects),
            stdin="\n".join(filter(None, map(self._redirect_text, redirects))) or scope.block_stdin,
            upstream=upstream,
            fed_by=tuple(self.feeders([*nodes, *redirects])),
            assignments=assigned,
            named_by=named_by,
            uses=used,
            drawn=tuple(each for name in used for each in scope.variables.drawn.get(name, ())),
            piped=scope.piped,
            background=background,
            folder=scope.folder,
            known=scope.variables.known,
        )

    def assign(self, nodes: list[Node]) -> Iterator[tuple[str, str]]:
        """Set the variables of assignments, and yield them."""
        variables = self._scope.variables
        for node in nodes:
            name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
            if name is None:
                continue
            variable = node_text(name).partition("[")[0]
            text = self.words.value(value, quoted=True) if value is not None else ""
            text = self._scope.fill_documents(text)
            if any(child.type == "+=" for child in node.children):
                gap = SPLIT if value is not None and value.type == "array" else ""
                text = (variables.known.get(variable) or "") + gap + text
            variables.assign(variable, text, maybe=self._scope.branches > 0)
            if UNKNOWN in text:
                variables.draw(variable, tuple(self.feeders([node])))
            yield variable, text

    def feeders(self, nodes: list[Node]) -> Iterator[Invocation]:
        """Yield the programs of substitutions anywhere in `nodes`."""
        for node in nodes:
            if node.type in SUBSTITUTIONS:
                yield from self._substitution(node)
            elif node.child_count:
                yield from self.feeders(node.children)

    def _predicted_output(self, node: Node) -> str:
        found = self._substitution(node)
        if not found or found[-1].upstream != found[:-1]:
            return UNKNOWN
        text = predict_output(found[-1])
        return UNKNOWN if text is None else text.rstrip("\n")

    def _redirect(self, node: Node) -> ShellRedirect:
        if GIVEN in node_text(node):
            return ShellRedirect("<<", "")
        operator = next((child.type for child in node.children if not child.is_named), "")
        targets = _targets(node)
        return ShellRedirect(operator, "".join(self.words.of(targets[0])) if targets else "")

    def _redirect_text(self, node: Node) -> str:
        """Return the text of a here-document or here-string."""
        targets = [child for child in node.named_children if node_text(child).startswith(GIVEN)]
        if not targets:
            return ""
        text = self.words.value(targets[0], quoted=True).removeprefix(GIVEN)
        return self._scope.fill_documents(text)


def _targets(node: Node) -> list[Node]:
    return [child for child in node.named_children if child.type != "file_descriptor"]
