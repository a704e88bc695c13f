"""A command line as the list of programs it would start, with quotes and variables resolved.

The tree comes from tree-sitter. What cannot be known before the command runs is `UNKNOWN`.
"""

import codecs
import itertools
import re
from collections.abc import Iterator

import msgspec
import tree_sitter_bash
from tree_sitter import Language, Node, Parser

UNKNOWN = "\ue000"
"""Stands in a word for text that only the running shell knows."""
SPLIT = "\ue001"
"""A blank that came out of an unquoted expansion: the shell splits words here."""


MOST_BRACES = 256
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")


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
    assignments: tuple[str, ...] = ()
    background: bool = False
    via: tuple[str, ...] = ()
    """The programs that start this one: sudo, xargs, find …"""
    folder: str = ""
    """Where an earlier `cd` of the same line led; "" when there was none."""

    @property
    def name(self) -> str:
        return self.words[0].rstrip("/").rpartition("/")[2] if self.words else ""

    @property
    def feeders(self) -> set[str]:
        """Names of the programs in `fed_by`."""
        return {invocation.name for invocation in self.fed_by}

    @property
    def arguments(self) -> tuple[str, ...]:
        return self.words[1:]


class Parsed(msgspec.Struct, frozen=True):
    invocations: tuple[Invocation, ...]
    broken: bool
    """The tree has errors: parts of the command may be missing from it."""


_parser = Parser(Language(tree_sitter_bash.language()))


def parse(command: str, known: dict[str, str] | None = None, folder: str = "") -> Parsed:
    """`known` are variables with their values, from the line that contains this one."""
    source = command.encode("utf-8", "replace")
    root = _parser.parse(source).root_node
    reader = _Reader(source, dict(known or {}), folder)
    invocations = tuple(reader.visit(root, (), background=False))
    return Parsed(invocations, root.has_error)


_HEREDOC = re.compile(r"<<-?\s*(?P<quote>['\"\\]?)(?P<word>[\w.+-]+)['\"]?")


def without_heredocs(command: str) -> str | None:
    """The command with each here-document as a quoted here-string; None when it has none.

    The grammar loses what follows `<<WORD` on its line in some commands. This form keeps it.
    """
    lines = iter(command.split("\n"))
    result: list[str] = []
    found = False
    for line in lines:
        marks = list(_HEREDOC.finditer(line))
        for mark in marks:
            body = _body(lines, mark["word"])
            if body is None:
                return None
            found = True
            quoted = "'" + body.replace("'", "'\\''") + "'"
            line = line.replace(mark[0], f"<<< {quoted}", 1)
        result.append(line)
    return "\n".join(result) if found else None


def _body(lines: Iterator[str], word: str) -> str | None:
    body: list[str] = []
    for line in lines:
        if line.strip() == word:
            return "\n".join(body)
        body.append(line)
    return None


_REDIRECTS = {"file_redirect", "heredoc_redirect", "herestring_redirect"}
_SUBSTITUTIONS = {"command_substitution", "process_substitution"}


class _Reader:
    """Walks one tree in the order the shell would run it."""

    def __init__(self, source: bytes, variables: dict[str, str], folder: str) -> None:
        self._source, self._variables, self._folder = source, variables, folder
        self._read: dict[int, tuple[Invocation, ...]] = {}

    def visit(
        self, node: Node, upstream: tuple[Invocation, ...], *, background: bool
    ) -> Iterator[Invocation]:
        match node.type:
            case "command":
                yield from self._command(node, [], upstream, background)
            case "redirected_statement":
                yield from self._redirected(node, upstream, background)
            case "pipeline":
                yield from self._pipeline(node, upstream, background)
            case "variable_assignment":
                yield from self._children(node, (), background=False)
                self._assign(node)
            case "for_statement":
                self._loop(node)
                yield from self._children(node, upstream, background=background)
            case _:
                yield from self._children(node, upstream, background=background)

    def _children(
        self, node: Node, upstream: tuple[Invocation, ...], *, background: bool
    ) -> Iterator[Invocation]:
        children = node.children
        for child, after in itertools.zip_longest(children, children[1:]):
            detached = background or (after is not None and after.type == "&")
            yield from self.visit(child, upstream, background=detached)

    def _pipeline(
        self, node: Node, upstream: tuple[Invocation, ...], background: bool
    ) -> Iterator[Invocation]:
        for child in node.named_children:
            stage = tuple(self.visit(child, upstream, background=background))
            yield from stage
            upstream += stage

    def _redirected(
        self, node: Node, upstream: tuple[Invocation, ...], background: bool
    ) -> Iterator[Invocation]:
        body = node.named_children[0]
        redirects = [child for child in node.named_children if child.type in _REDIRECTS]
        if body.type == "command":
            stage = tuple(self._command(body, redirects, upstream, background))
        else:
            stage = tuple(self.visit(body, upstream, background=background))
            stage += (self._invocation([], redirects, upstream, background),)
            yield from self._inside(redirects)
        yield from stage
        # `cat <<EOF | sh` puts the rest of the line inside the here-document's node.
        for redirect in redirects:
            if redirect.type == "heredoc_redirect":
                for child in redirect.named_children:
                    if child.type not in ("heredoc_start", "heredoc_body", "heredoc_end"):
                        piped = stage if child.type == "pipeline" else ()
                        yield from self.visit(child, piped, background=background)

    def _command(
        self,
        node: Node,
        redirects: list[Node],
        upstream: tuple[Invocation, ...],
        background: bool,
    ) -> Iterator[Invocation]:
        own = [child for child in node.named_children if child.type in _REDIRECTS]
        yield from self._inside([node, *redirects])
        rest = [child for child in node.named_children if child.type not in _REDIRECTS]
        invocation = self._invocation(rest, [*own, *redirects], upstream, background)
        yield invocation
        if invocation.name in ("cd", "pushd") and len(invocation.words) > 1:
            self._folder = join(self._folder, invocation.words[-1])

    def _inside(self, nodes: list[Node]) -> Iterator[Invocation]:
        """The programs of substitutions anywhere below `nodes`."""
        for node in nodes:
            for child in node.children:
                if child.type in _SUBSTITUTIONS:
                    yield from self._substitution(child)
                elif child.type != "pipeline":
                    yield from self._inside([child])

    def _invocation(
        self,
        nodes: list[Node],
        redirects: list[Node],
        upstream: tuple[Invocation, ...],
        background: bool,
    ) -> Invocation:
        assignments = [node for node in nodes if node.type == "variable_assignment"]
        words = [word for node in nodes if node not in assignments for word in self._words(node)]
        return Invocation(
            tuple(words),
            redirects=tuple(self._redirect(node) for node in redirects),
            stdin="\n".join(self._given(node) for node in redirects).strip("\n"),
            upstream=upstream,
            fed_by=tuple(self._feeders([*nodes, *redirects])),
            assignments=tuple(self._text(node) for node in assignments),
            background=background,
            folder=self._folder,
        )

    def _substitution(self, node: Node) -> tuple[Invocation, ...]:
        """The programs inside `$(…)` or `<(…)`, a shell of its own; read once."""
        found = self._read.get(node.start_byte)
        if found is None:
            inner = _Reader(self._source, dict(self._variables), self._folder)
            inner._read = self._read
            found = tuple(inner._children(node, (), background=False))
            self._read[node.start_byte] = found
        return found

    def _feeders(self, nodes: list[Node]) -> Iterator[Invocation]:
        for node in nodes:
            if node.type in _SUBSTITUTIONS:
                yield from self._substitution(node)
            else:
                yield from self._feeders(node.children)

    def _redirect(self, node: Node) -> Redirect:
        operator = next((child.type for child in node.children if not child.is_named), "")
        if node.type != "file_redirect":
            return Redirect("<<", "")
        targets = [child for child in node.named_children if child.type != "file_descriptor"]
        return Redirect(operator, "".join(self._words(targets[0])) if targets else "")

    def _given(self, node: Node) -> str:
        if node.type == "herestring_redirect":
            return "".join(self._value(child, quoted=True) for child in node.named_children)
        bodies = [child for child in node.named_children if child.type == "heredoc_body"]
        return "".join(self._text(body) for body in bodies)

    def _assign(self, node: Node) -> None:
        name = node.child_by_field_name("name")
        value = node.child_by_field_name("value")
        if name is not None:
            self._variables[self._text(name)] = self._value(value, quoted=True) if value else ""

    def _loop(self, node: Node) -> None:
        """The variable of a `for` stands for all its values at once."""
        name = node.child_by_field_name("variable")
        values = node.children_by_field_name("value")
        if name is not None and values:
            words = [word for value in values for word in self._words(value)]
            self._variables[self._text(name)] = " ".join(words)

    def _words(self, node: Node) -> list[str]:
        """The words one word of the source becomes."""
        text = self._value(node, quoted=False)
        quoted = node.type in ("string", "raw_string", "ansi_c_string")
        words = [word for word in text.split(SPLIT) if word or quoted]
        if quoted:
            return words or [""]
        return [piece for word in words for piece in braces(word)]

    def _value(self, node: Node, *, quoted: bool) -> str:
        match node.type:
            case "raw_string":
                return self._text(node)[1:-1]
            case "ansi_c_string":
                return _unescape(self._text(node)[2:-1])
            case "string":
                return self._joined(node, quoted=True).strip('"')
            case "simple_expansion" | "expansion":
                value = self._expansion(node)
                return value if quoted else re.sub(r"\s+", SPLIT, value)
            case "command_substitution":
                value = self._substituted(node)
                return value if quoted else re.sub(r"\s+", SPLIT, value)
            case "process_substitution" | "arithmetic_expansion":
                return UNKNOWN
            case "string_content":
                return re.sub(r'\\([\\"$`\n])', r"\1", self._text(node))
            case _ if node.child_count:
                return self._joined(node, quoted=quoted)
            case _:
                return re.sub(r"\\(\n?)(.?)", r"\2", self._text(node), flags=re.DOTALL)

    def _joined(self, node: Node, *, quoted: bool) -> str:
        """The values of the children, with the text between them."""
        parts: list[str] = []
        position = node.start_byte
        for child in node.children:
            parts.append(self._source[position : child.start_byte].decode("utf-8", "replace"))
            parts.append(self._value(child, quoted=quoted))
            position = child.end_byte
        return "".join(parts)

    def _expansion(self, node: Node) -> str:
        names = [child for child in node.named_children if "variable_name" in child.type]
        name = self._text(names[0]) if names else ""
        known = {"IFS": " ", "HOME": "~", **self._variables}.get(name)
        operator = re.match(r"\$\{\w+(:?[-=+])", self._text(node))
        if operator is None:
            plain = re.fullmatch(r"\$\{?\w+\}?", self._text(node))
            return known if known is not None and plain else UNKNOWN
        if known and "+" not in operator[1]:
            return known
        return "".join(self._value(c, quoted=True) for c in node.named_children if c not in names)

    def _substituted(self, node: Node) -> str:
        """The output of `$(echo rm)`, `$(which rm)` and their like; others are unknown."""
        found = self._substitution(node)
        if len(found) != 1 or found[0].redirects:
            return UNKNOWN
        plain = [word for word in found[0].arguments if not word.startswith("-")]
        if found[0].name in ("echo", "which", "command", "type", "readlink", "realpath"):
            return " ".join(plain)
        if found[0].name == "printf" and plain:
            return "".join(plain[1:]) if "%s" in plain[0] else _unescape(plain[0])
        return UNKNOWN

    def _text(self, node: Node) -> str:
        return self._source[node.start_byte : node.end_byte].decode("utf-8", "replace")


def braces(word: str) -> list[str]:
    """`a{b,c}` as `ab ac`; what would become too much stays as it is."""
    words = [word]
    while len(words) < MOST_BRACES and any(_BRACES.search(each) for each in words):
        words = [piece for each in words for piece in _one_brace(each)]
    return words


def _one_brace(word: str) -> list[str]:
    found = _BRACES.search(word)
    if not found:
        return [word]
    choices = found[1].split(",")
    pieces = [word[: found.start()] + choice + word[found.end() :] for choice in choices]
    return [piece for piece in pieces if piece]


def join(folder: str, path: str) -> str:
    """`path` as seen from `folder`."""
    return path if path.startswith(("/", "~")) or not folder else f"{folder}/{path}"


def _unescape(text: str) -> str:
    try:
        return codecs.decode(text.encode("latin-1", "backslashreplace"), "unicode_escape")
    except UnicodeDecodeError:
        return UNKNOWN
