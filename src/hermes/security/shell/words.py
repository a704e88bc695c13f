"""Words of the syntax tree with quotes, variables and substitutions resolved.

`extract_heredocs` prepares a command line for the grammar. `ShellScope` is the state of the shell
while a line is parsed, `InvocationBuilder` builds one program from its nodes.
"""

import itertools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
from tree_sitter import Node

from hermes.security.shell.expansion import (
    expand,
    expand_braces,
    known_input,
    predict_output,
    substitute,
    unescape,
)
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

# Here-documents extracted and odd spellings made plain.
#
# In some commands the grammar loses what follows `<<WORD` on its line, and it joins words at an
# escaped line break; it accepts here-strings in few places, and parses `$a/$b.c` and `a\ b` as two
# words. All this is rewritten first, with regard to quotes and comments.

_DELIMITER = re.compile(r"<<(-?)[ \t]*((?:\\.|'[^'\n]*'|\"[^\"\n]*\"|[^\s|&;<>()'\"\\])+)")
_ORDINARY = re.compile(r"[^\\'\"`$#(){}<\n]+")
_ANSI = re.compile(r"\$'(?:[^'\\]|\\.)*'", re.DOTALL)
_BRACE_WORDS = re.compile(r"\{([\w./~*-]+(?:,[\w./~*-]+)+)\}(?=[\s;&|)]|\Z)")
"""`{rm,-r,x}` is one word for each, but the grammar takes it for the start of a block."""
_BACKTICKS = re.compile(r"`((?:[^`\\]|\\.)*)`", re.DOTALL)
_IDLE = re.compile(r"\\[\w./-]", re.ASCII)
"""A backslash without effect; at the start of a line the grammar joins it with the line break."""
_NEEDED = re.compile(r"<<|<>|\{\w|\\[`\s\w./-]|\$\w")
_VARIABLE = re.compile(r"\$([A-Za-z_]\w*|\d)", re.ASCII)


class HereDocument(msgspec.Struct, frozen=True):
    text: str
    literal: bool  #: The delimiter was quoted: nothing in the text is expanded.


class HeredocExtraction(msgspec.Struct, frozen=True):
    command: str
    """Has `< mark` in place of each here-document, and `< mark text` of each here-string."""
    documents: tuple[HereDocument, ...]
    complete: bool = True  #: Each here-document has its end.


def extract_heredocs(command: str) -> HeredocExtraction:
    if not _NEEDED.search(command):
        return HeredocExtraction(command, ())
    return _HeredocExtractor(command).lift()


class _HeredocExtractor:
    """Scans the text once. `_open` is the stack of what is open: `"`, `` ` ``, `(`, `((`, `{`."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._open: list[str] = []
        self._out: list[str] = []
        self._documents: list[HereDocument] = []
        self._awaited: list[tuple[str, bool, bool, int]] = []
        self._complete = True

    def lift(self) -> HeredocExtraction:
        while self._at < len(self._text):
            plain = _ORDINARY.match(self._text, self._at)
            if plain:
                self._keep(plain.end())
            else:
                self._special(self._text[self._at])
        complete = self._complete and not self._awaited
        return HeredocExtraction("".join(self._out), tuple(self._documents), complete)

    def _keep(self, end: int) -> None:
        self._out.append(self._text[self._at : end])
        self._at = end

    def _special(self, char: str) -> None:
        inside = self._open[-1] if self._open else ""
        if char == "\\":
            if self._text.startswith("\\\n", self._at):
                self._at += 2
            elif self._text[self._at + 1 : self._at + 2] in (" ", "\t") and inside != '"':
                self._out.append("' '")
                self._at += 2
            elif inside != '"' and _IDLE.match(self._text, self._at):
                self._at += 1
            else:
                self._keep(self._at + 2)
        elif char == "\n" and self._awaited:
            self._bodies()
        elif inside == '"':
            self._in_quotes(char)
        elif inside == "((":
            self._in_arithmetic(char)
        else:
            self._in_command(char, inside)

    def _in_quotes(self, char: str) -> None:
        if char == '"':
            self._open.pop()
            self._keep(self._at + 1)
        elif char in "$`":
            self._opening(char)
        else:
            self._keep(self._at + 1)

    def _in_arithmetic(self, char: str) -> None:
        if char == "(":
            self._push("((", 1)
        elif char == ")":
            self._open.pop()
            self._keep(self._at + 1)
        else:
            self._keep(self._at + 1)

    def _in_command(self, char: str, inside: str) -> None:
        text, at = self._text, self._at
        if char == "'":
            end = text.find("'", at + 1)
            self._keep(end + 1 if end >= 0 else len(text))
        elif char == '"':
            self._push('"', 1)
        elif char in "$`(":
            self._opening(char)
        elif char in ")}":
            if inside == {")": "(", "}": "{"}[char]:
                self._open.pop()
            self._keep(at + 1)
        elif char == "#" and inside != "{" and (at == 0 or text[at - 1] in " \t\n;&|()`"):
            end = text.find("\n", at)
            self._keep(end if end >= 0 else len(text))
        elif char == "<" and inside != "{":
            self._angle()
        elif char == "{" and (words := _BRACE_WORDS.match(text, at)) and self._at_word():
            self._out.append(words[1].replace(",", " "))
            self._at = words.end()
        else:
            self._keep(at + 1)

    def _at_word(self) -> bool:
        """Return whether a word begins here."""
        return not self._at or self._text[self._at - 1] in " \t\n;&|("

    def _opening(self, char: str) -> None:
        text, at = self._text, self._at
        quoted = '"' in self._open[-1:]
        if char == "`":
            if "`" not in self._open and self._nested_backticks():
                return
            if "`" in self._open:
                while self._open.pop() != "`":
                    pass
                self._keep(at + 1)
            else:
                self._push("`", 1)
        elif text.startswith("$((", at):
            self._open.append("((")
            self._push("((", 3)
        elif text.startswith("((", at) and not quoted:
            self._open.append("((")
            self._push("((", 2)
        elif text.startswith("$(", at):
            self._push("(", 2)
        elif text.startswith("${", at):
            self._push("{", 2)
        elif char == "(":
            self._push("(", 1)
        else:
            self._dollar(quoted)

    def _dollar(self, quoted: bool) -> None:
        """Take `$'…'` as a whole, and `$a` as `${a}`, so that the grammar sees where the name
        ends."""
        variable = None if quoted else _VARIABLE.match(self._text, self._at)
        if variable:
            self._out.append(f"${{{variable[1]}}}")
            self._at = variable.end()
            return
        ansi = None if quoted else _ANSI.match(self._text, self._at)
        self._keep(ansi.end() if ansi else self._at + 1)

    def _nested_backticks(self) -> bool:
        """Rewrite backticks inside backticks as `$(…)`, which the grammar can parse."""
        found = _BACKTICKS.match(self._text, self._at)
        if not found or "\\`" not in found[1]:
            return False
        inner = re.sub(r"\\([\\`$])", r"\1", found[1])
        self._text = f"{self._text[: self._at]}$({inner}\n){self._text[found.end() :]}"
        return True

    def _push(self, opened: str, length: int) -> None:
        self._open.append(opened)
        self._keep(self._at + length)

    def _angle(self) -> None:
        text, at = self._text, self._at
        if text.startswith("<<<", at):
            self._out.append(f"< {GIVEN}")
            self._at = at + 3
            while text[self._at : self._at + 1] in (" ", "\t"):
                self._at += 1
        elif text.startswith("<>", at):  # opened for both; the grammar does not know it
            self._out.append(">")
            self._at += 2
        elif (found := _DELIMITER.match(text, at)) is not None:
            word = found[2]
            literal = any(mark in word for mark in "'\"\\")
            number = len(self._documents)
            self._awaited.append((re.sub(r"['\"\\]", "", word), bool(found[1]), literal, number))
            self._documents.append(HereDocument("", literal))
            self._out.append(f"< {GIVEN}{HELD}{number}{HELD} ")
            self._at = found.end()
        else:
            self._keep(at + 1)

    def _bodies(self) -> None:
        """Read the lines after this one, up to the delimiter of each pending document."""
        at = self._at + 1
        while self._awaited:
            word, tabs, literal, number = self._awaited[0]
            lines: list[str] = []
            while at < len(self._text):
                end = self._text.find("\n", at)
                end = len(self._text) if end < 0 else end
                line = self._text[at:end]
                at = end + 1
                if (line.strip() if tabs else line.rstrip("\r ")) == word:
                    break
                if line.startswith(word) and line[len(word) :].lstrip()[:1] == ")":
                    at = end - len(line) + len(word)  # `EOF)` ends it as well
                    break
                lines.append(line)
            else:
                self._documents[number] = HereDocument("\n".join(lines), literal)
                self._at, self._complete = len(self._text), False
                return
            self._documents[number] = HereDocument("\n".join(lines), literal)
            del self._awaited[0]
        self._at = min(at, len(self._text))
        self._out.append("\n")


# Words

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
            files = (each.target for each in invocation.redirects if each.operator == "<")
            read = tuple(Invocation(("cat", target)) for target in files)
            for name in names:
                self.variables.draw(name, (*invocation.sources, *read))
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
        self.scope, self._substitution = scope, substitution
        self.words = WordExpander(scope.variables, self._predicted_output)
        self.broken = False

    def variants(
        self, nodes: list[Node], redirects: list[Node], upstream: Upstream, background: bool
    ) -> Iterator[Invocation]:
        """Yield the program with the current variables, then with their alternative values."""
        variables = self.scope.variables
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
        scope = self.scope
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
        last = self._drawn_into(spoken[-1]) if words and UNKNOWN in words[-1] else ()
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
            last_drawn=last,
            piped=scope.piped,
            background=background,
            folder=scope.folder,
            known=scope.variables.known,
        )

    def _drawn_into(self, node: Node) -> Upstream:
        """Return the programs whose output is in one word, directly or through variables."""
        variables = self.scope.variables
        outer, variables.used = variables.used, set()
        self.words.of(node)
        names, variables.used = variables.used, outer
        drawn = (each for name in names for each in variables.drawn.get(name, ()))
        return (*self.feeders([node]), *drawn)

    def assign(self, nodes: list[Node]) -> Iterator[tuple[str, str]]:
        """Set the variables of assignments, and yield them."""
        variables = self.scope.variables
        for node in nodes:
            name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
            if name is None:
                continue
            variable = node_text(name).partition("[")[0]
            text = self.words.value(value, quoted=True) if value is not None else ""
            text = self.scope.fill_documents(text)
            if any(child.type == "+=" for child in node.children):
                gap = SPLIT if value is not None and value.type == "array" else ""
                text = (variables.known.get(variable) or "") + gap + text
            variables.assign(variable, text, maybe=self.scope.branches > 0)
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
        target = "".join(self.words.of(targets[0])) if targets else ""
        drawn = self._drawn_into(targets[0]) if UNKNOWN in target else ()
        return ShellRedirect(operator, target, drawn)

    def _redirect_text(self, node: Node) -> str:
        """Return the text of a here-document or here-string."""
        targets = [child for child in node.named_children if node_text(child).startswith(GIVEN)]
        if not targets:
            return ""
        text = self.words.value(targets[0], quoted=True).removeprefix(GIVEN)
        return self.scope.fill_documents(text)


def _targets(node: Node) -> list[Node]:
    return [child for child in node.named_children if child.type != "file_descriptor"]
