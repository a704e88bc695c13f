"""Parses a command line into the list of programs it would start, using tree-sitter."""

import itertools
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import msgspec
import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from hermes.security.shell.expansion import substitutions
from hermes.security.shell.model import (
    GIVEN,
    HELD,
    MOST_PROGRAMS,
    UNKNOWN,
    CommandTooComplex,
    Invocation,
    ParsedCommand,
    Variables,
)
from hermes.security.shell.words import (
    SUBSTITUTIONS,
    InvocationBuilder,
    ShellFunction,
    ShellScope,
    Upstream,
    encode_for_grammar,
    extract_heredocs,
    node_text,
)

# Fork bombs by their spelling, in addition to what the tree shows.

FORK_BOMB = re.compile(
    r"(?<![\w:.])([\w:.]{1,64})\s{0,9}\(\s{0,9}\)\s{0,9}[{(][^})]{0,200}?(?<![\w:.])\1\s{0,9}\|\s{0,9}&?\s{0,9}\1\s{0,9}&"
    r"|\bfunction\s{1,9}([\w:.]{1,64})\s{0,9}(?:\(\s*\))?\s{0,9}[{(][^})]{0,200}?(?<![\w:.])\2\s{0,9}\|\s{0,9}\2\s{0,9}&"
)
SELF_START = re.compile(
    r"(?:\./)?\$\{?0\}?\s{0,9}[|&]\s{0,9}(?:\./)?\$\{?0\}?(?!\w)|%0\s{0,9}\|\s{0,9}%0"
)
FORK_LOOP = re.compile(
    r"while\s{0,9}\(?\s{0,9}(?:1|true)\s{0,9}\)?[\s:;{]{0,40}(?:os\.)?fork\b|fork\s{1,9}while\s{1,9}(?:fork|1)"
    r"|\bloop\s{0,9}(?:do|\{)\s{0,9}(?:Process\.)?fork",
    re.IGNORECASE,
)
"""In code of other languages."""
_QUOTED = re.compile(r"""\\.|'[^']*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)


def is_fork_bomb(code: str) -> bool:
    """Return whether shell code without its here-documents starts itself endlessly. Quoted text
    does not count here; if a shell runs that text, it is checked as code of its own."""
    if ("|" not in code and "&" not in code) or ("(" not in code and "0" not in code):
        return False
    bare = _QUOTED.sub("''", code)
    return bool(FORK_BOMB.search(bare) or SELF_START.search(bare))


LONGEST = 200_000
LONGEST_LINE = 20_000  #: Without its here-documents.
DEEPEST_TEXT = 6  #: Maximum nesting of text inside text (`eval`, functions).
MAX_REPAIRS = 4  #: How often a tree is repaired.
LONGEST_PIPE = 24  #: Programs of a pipe that are remembered.

_LANGUAGE = Language(tree_sitter_bash.language())
_REDIRECT = "file_redirect"  # the others were rewritten before the grammar saw them
_ONE_LINE = frozenset({"command", "redirected_statement", _REDIRECT})
_BRANCHES = frozenset({"if_statement", "case_statement", "while_statement", "list"})
_LOOPS = frozenset({"while_statement", "c_style_for_statement"})
_TO_NOWHERE = re.compile(r"[ \t][12]?>[ \t]?(?:/dev/null|&[12])(?=[\s;&|)]|\Z)")
_FOR_DO = re.compile(r"\bfor[ \t]+(\w+)[ \t\n]+do\b")
_BEFORE_BLOCK = re.compile(
    r"((?:^|[;&|\n(){}]|\b(?:then|do|else))[ \t]*)"
    r"(?:coproc[ \t]+(?:\w+[ \t]+)?|(?:(?:time(?:[ \t]+-p)?|!)[ \t]+)+)(?=[{(])"
)
"""Words before a block that the grammar does not accept there."""
_MARKS = re.compile(f"[{HELD}{GIVEN}]")
_ENDLESS = re.compile(
    r"while\s+(?::|true|1|\[\s*1\s*\]|\(\(\s*1\s*\)\))\s*[;\n]|for\s*\(\(\s*;\s*;"
)
_EVALUATES = re.compile(
    r"\(\(|\$\[|\w\[|(?:^|[;&|({\n`!]|\b(?:do|then|else|elif|if|while|until|builtin|command)\s)\s*"
    r"(?:\w+=\S*\s+)*(?:let|read|unset|getopts|declare|typeset|local|readonly|wait|mapfile)\b"
    r"|-(?:eq|ne|lt|le|gt|ge|v|R)\b|@P\}|\$\{!|\$\{\w+:\s*[^-=+?\s]|\bPS[0-4]="
    r"|\b(?:SECONDS|RANDOM|OPTIND|HISTCMD|SRANDOM|LINENO|EPOCHSECONDS|BASHPID)="
)
"""Where the shell evaluates text again: arithmetic, subscripts, names given as arguments, prompts.
A substitution in that text runs, however it is quoted."""
_QUOTES = re.compile(r"\\(.)|['\"]")
MAX_HIDDEN = 16  #: Substitutions in evaluated text that are followed.
_WAITS = frozenset({"sleep", "wait", "read", "inotifywait", "fswatch", "usleep", "break"})


def parse_command(
    command: str, known: Mapping[str, str] | None = None, folder: str = ""
) -> ParsedCommand:
    """Parse a command; `known` are variables with their values, from the enclosing line."""
    if len(command) > LONGEST:
        raise CommandTooComplex
    reader = _CommandReader(ShellScope(Variables(known or {}), folder))
    reader.text(command)
    reader.finish()
    scope = reader.make.scope
    return ParsedCommand(
        tuple(reader.found),
        reader.broken or reader.make.broken,
        reader.bomb,
        folder=scope.folder,
        variables=scope.variables.known,
    )


class _CommandReader:
    """Walks trees in execution order and collects programs in `found`."""

    def __init__(self, scope: ShellScope) -> None:
        self.found: list[Invocation] = []
        self.bomb = self.broken = False
        self._scope = scope
        self.make = InvocationBuilder(scope, self._substitution)
        self._uncalled: set[str] = set()
        self._active: list[str] = []
        self._depth = 0
        self._hidden: set[str] = set()
        self._read: dict[int, Upstream] = {}

    def text(self, command: str, upstream: Upstream = ()) -> None:
        """Parse text that this shell itself runs."""
        if self._depth >= DEEPEST_TEXT:
            self.broken = True
            return
        lifted = extract_heredocs(
            _BEFORE_BLOCK.sub(r"\1", _MARKS.sub("?", command).replace("\r\n", "\n"))
        )
        if len(lifted.command) > LONGEST_LINE:
            raise CommandTooComplex
        self.bomb = self.bomb or is_fork_bomb(lifted.command)
        root = _parse_tree(lifted.command)
        self.broken = self.broken or root.has_error or not lifted.complete
        outer, self._scope.documents = self._scope.documents, lifted.documents
        self._depth += 1
        start = len(self.found)
        with self._once():
            self._visit(root, upstream, False)
        if _EVALUATES.search(lifted.command):
            self._evaluated(lifted.command, self.found[start:])
        self._depth -= 1
        self._scope.documents = outer

    def _evaluated(self, command: str, found: list[Invocation]) -> None:
        """Parse substitutions in text that the shell may evaluate a second time."""
        texts = {_QUOTES.sub(r"\1", command)} if re.search(r"['\\]", command) else set()
        mappings = {id(each.known): each.known for each in found}
        mappings[id(self._scope.variables.known)] = self._scope.variables.known
        for mapping in mappings.values():
            texts.update(mapping.values())
        texts.update(value for values in self._scope.variables.others.values() for value in values)
        for each in found:
            texts.update(each.words)
            texts.update(value for _name, value in each.assignments)
        inner = dict.fromkeys(
            text
            for source in sorted(texts)
            if "$(" in source or "`" in source
            for text in substitutions(source)
            if text not in self._hidden
        )
        broken = self.broken, self.make.broken
        for text in itertools.islice(inner, MAX_HIDDEN):
            self._hidden.add(text)
            with self._scope.subshell():
                self.text(text)
        self.broken, self.make.broken = broken

    def finish(self) -> None:
        """Parse functions that were not called: the next command may call them, with any
        arguments."""
        for name in sorted(self._uncalled):
            self._call(name, [UNKNOWN] * 9, (), background=False)

    @contextmanager
    def _once(self) -> Iterator[None]:
        """Within this context each substitution is parsed once, however often its value is
        needed."""
        outer, self._read = self._read, {}
        yield
        self._read = outer

    def _visit(self, node: Node, upstream: Upstream, background: bool) -> None:
        match node.type:
            case "command":
                with self._once():
                    self._command(node, [], upstream, background)
            case "redirected_statement":
                redirects = [each for each in node.named_children if each.type == _REDIRECT]
                rest = [each for each in node.named_children if each.type != _REDIRECT]
                with self._once():
                    self._redirected(redirects, rest[0] if rest else None, upstream, background)
            case "file_redirect":  # `$(<file)`
                with self._once():
                    self._redirected([node], None, upstream, background)
            case "pipeline":
                self._pipeline(node, upstream, background)
            case "variable_assignment":
                with self._once():
                    self._inside([node])
                    self._emit(Invocation((), assignments=tuple(self.make.assign([node]))))
            case "declaration_command" | "unset_command":
                with self._once():
                    self._declaration(node, upstream, background)
            case "for_statement":
                self._for(node, upstream, background)
            case "function_definition":
                self._define(node)
            case "subshell" | "command_substitution" | "process_substitution":
                with self._scope.subshell():
                    self._children(node, upstream, background)
            case _:
                self._branch(node, upstream, background)

    def _branch(self, node: Node, upstream: Upstream, background: bool) -> None:
        branches = node.type in _BRANCHES
        start = len(self.found)
        self._scope.branches += branches
        self._children(node, upstream, background)
        self._scope.branches -= branches
        if node.type in _LOOPS and _never_waits(node, self.found[start:]):
            self.bomb = True

    def _children(self, node: Node, upstream: Upstream, background: bool) -> None:
        children = node.children
        for child, after in itertools.zip_longest(children, children[1:]):
            if child.child_count:
                detached = background or (after is not None and after.type == "&")
                self._visit(child, upstream, detached)

    def _pipeline(
        self, node: Node, upstream: Upstream, background: bool, redirects: list[Node] | None = None
    ) -> None:
        """`redirects` belong to the last program of the pipe."""
        calls, stages, outer = 0, node.named_children, self._scope.piped
        for child in stages:
            start, last = len(self.found), child == stages[-1]
            self._scope.piped = outer or not last
            with self._scope.subshell():
                if redirects and last:
                    self._redirected(redirects, child, upstream, background)
                else:
                    self._visit(child, upstream, background)
            calls += bool(self._active) and node_text(child).strip() == self._active[-1]
            upstream = (*upstream, *self.found[start:])[-LONGEST_PIPE:]
        self._scope.piped = outer
        self.bomb = self.bomb or calls > 1

    def _redirected(
        self, redirects: list[Node], body: Node | None, upstream: Upstream, background: bool
    ) -> None:
        """Redirects belong to a command, to a block, or to the last command of `a && b`."""
        if body is not None and body.type == "command":
            self._command(body, redirects, upstream, background)
        elif body is not None and body.type == "pipeline":
            self._pipeline(body, upstream, background, redirects)
        elif body is not None and body.type == "list" and body.named_children:
            *before, last = body.named_children
            self._scope.branches += 1
            for each in before:
                self._visit(each, upstream, background)
            self._redirected(redirects, last, upstream, background)
            self._scope.branches -= 1
        else:
            self._block(redirects, body, upstream, background)

    def _block(
        self, redirects: list[Node], body: Node | None, upstream: Upstream, background: bool
    ) -> None:
        start = len(self.found)
        self._inside(redirects)
        block = self.make.invocation([], redirects, upstream, background)
        files = [each.target for each in block.redirects if each.operator == "<"]
        # `while read x; do …; done < file` is fed as if by `cat file`.
        fed = (*self.found[start:], *(Invocation(("cat", target)) for target in files))
        outer, self._scope.block_stdin = (
            self._scope.block_stdin,
            block.stdin or self._scope.block_stdin,
        )
        if body is not None:
            self._visit(body, (*upstream, *fed)[-LONGEST_PIPE:], background)
        self._scope.block_stdin = outer
        self._emit(block)

    def _command(
        self, node: Node, redirects: list[Node], upstream: Upstream, background: bool
    ) -> None:
        own = [child for child in node.named_children if child.type == _REDIRECT]
        rest = [child for child in node.named_children if child.type != _REDIRECT]
        self._inside([node, *redirects])
        for invocation in self.make.variants(rest, [*own, *redirects], upstream, background):
            self._emit(invocation)
            self._effects(invocation)

    def _emit(self, invocation: Invocation) -> None:
        self.found.append(invocation)
        if len(self.found) > MOST_PROGRAMS:
            raise CommandTooComplex

    def _effects(self, invocation: Invocation) -> None:
        """Apply the effects of a command on the rest of the line: `cd`, `eval`, `read`, calls."""
        name, words, scope = invocation.name, invocation.arguments, self._scope
        if name in ("builtin", "command") and words and not words[0].startswith("-"):
            self._effects(msgspec.structs.replace(invocation, words=words))
        elif not invocation.words:
            scope.keep(invocation.assignments)
        elif name in scope.functions:
            self._call(name, list(words), invocation.upstream, background=invocation.background)
        elif name in scope.aliases and name not in self._active:
            self._active.append(name)
            self.text(f"{scope.aliases[name]} {shlex.join(words)}", invocation.upstream)
            self._active.pop()
        elif name in ("eval", "trap"):
            text = " ".join(words if name == "eval" else words[:1])
            if UNKNOWN not in text or " " in text:
                self.text(text, invocation.upstream)
        elif name == "alias":
            self._alias(words)
        else:
            scope.apply_builtin(invocation)

    def _alias(self, words: tuple[str, ...]) -> None:
        for word in words:
            name, found, value = word.partition("=")
            if found:
                self._scope.aliases[name] = value
                self.text(value)

    def _define(self, node: Node) -> None:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is not None and body is not None:
            function = node_text(name).lower()
            self._scope.functions[function] = ShellFunction(body, self._scope.documents)
            self._uncalled.add(function)
        for child in node.named_children:
            if child.type == _REDIRECT:
                self._emit(self.make.invocation([], [child], (), False))

    def _call(self, name: str, words: list[str], upstream: Upstream, *, background: bool) -> None:
        """Parse the body of a function with its arguments."""
        if name in self._active:
            self.bomb = self.bomb or background
            return
        self._uncalled.discard(name)
        if len(self._active) >= DEEPEST_TEXT:
            self.broken = True
            return
        scope, function = self._scope, self._scope.functions[name]
        outer, documents = scope.variables.known, scope.documents
        scope.variables.arguments(words)
        scope.documents = function.documents
        self._active.append(name)
        with self._once():
            self._visit(function.body, upstream, background)
        self._active.pop()
        scope.documents = documents
        scope.variables.restore_arguments(outer)

    def _for(self, node: Node, upstream: Upstream, background: bool) -> None:
        name, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
        values = node.children_by_field_name("value")
        with self._once():
            self._inside(values)
            words = [word for value in values for word in self.make.words.of(value)]
            fed = tuple(self.make.feeders(values))
        if name is not None:
            self._scope.variables.vary(node_text(name), words or [UNKNOWN])
            if any(UNKNOWN in word for word in words):
                self._scope.variables.draw(node_text(name), fed)
        self._scope.branches += 1
        if body is not None:
            self._visit(body, (*upstream, *fed)[-LONGEST_PIPE:], background)
        self._scope.branches -= 1

    def _declaration(self, node: Node, upstream: Upstream, background: bool) -> None:
        """`export a=b`: a program of that name, and the variables it sets."""
        self._inside([node])
        assignments = [each for each in node.named_children if each.type == "variable_assignment"]
        kept = [each for each in node.children if each.type != "variable_assignment"]
        words = tuple(word for each in kept for word in self.make.words.of(each))
        assigned = tuple(self.make.assign(assignments))
        if "-n" in words[1:2] and words[0] != "export":
            self._scope.variables.references |= dict(assigned)
        self._emit(
            Invocation(
                words,
                assignments=assigned,
                upstream=upstream,
                fed_by=tuple(self.make.feeders([node])),
                background=background,
                folder=self._scope.folder,
            )
        )

    def _inside(self, nodes: list[Node]) -> None:
        """Parse the programs of substitutions anywhere below `nodes`."""
        for node in nodes:
            if node.type in SUBSTITUTIONS:
                self.found.extend(self._substitution(node))
                continue
            self._inside([child for child in node.children if child.child_count])
            if node.type == _REDIRECT:
                for document in self._scope.documents_in(node_text(node)):
                    for inner in () if document.literal else substitutions(document.text):
                        with self._scope.subshell():
                            self.text(inner)

    def _substitution(self, node: Node) -> Upstream:
        """Return the programs inside `$(…)` or `<(…)`."""
        known = self._read.get(node.id)
        if known is None:
            outer, self.found = self.found, []
            with self._scope.subshell(), self._once():
                self._children(node, (), False)
            known, self.found = tuple(self.found), outer
            self._read[node.id] = known
        return known


def _parse_tree(command: str) -> Node:
    root = _repaired_tree(encode_for_grammar(command))
    if not root.has_error:
        return root
    # The grammar accepts no redirect after a bare assignment, and no `for x do`.
    plain = _FOR_DO.sub(r'for \1 in "$@"; do', _TO_NOWHERE.sub("", command))
    again = _repaired_tree(encode_for_grammar(plain))
    return root if again.has_error else again


def _repaired_tree(source: bytes, attempts: int = MAX_REPAIRS) -> Node:
    """Return the tree. After a pipe of three the grammar may parse two lines as one command;
    where it did, a separator is inserted and the text is parsed again."""
    root = Parser(_LANGUAGE).parse(source).root_node  # not shared: commands come from threads
    joints = sorted(_missing_separators(root), reverse=True) if attempts and b"\n" in source else []
    for joint in joints:
        source = source[:joint] + b";" + source[joint:]
    return _repaired_tree(source, attempts - 1) if joints else root


def _missing_separators(node: Node) -> Iterator[int]:
    """Yield where a line ends inside a command. Escaped line breaks were removed before."""
    # By index: `.row` of tree-sitter 0.26 crashes the process for rows above 256.
    if node.start_point[0] == node.end_point[0]:
        return
    if node.type in _ONE_LINE:
        for before, after in itertools.pairwise(node.children):
            if before.end_point[0] != after.start_point[0] or (after.text or b"")[:1] == b"\n":
                yield before.end_byte
    for child in node.children:
        yield from _missing_separators(child)


def _never_waits(loop: Node, programs: list[Invocation]) -> bool:
    """Return whether an endless loop starts programs in the background and waits for none."""
    detached = any(each.background and each.words for each in programs)
    waits = any(each.name in _WAITS for each in programs)
    return detached and not waits and bool(_ENDLESS.match(node_text(loop)))
