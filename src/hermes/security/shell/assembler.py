"""One program put together from its nodes in the tree: words, redirects, input, variables."""

import itertools
from collections.abc import Callable, Iterator

from tree_sitter import Node

from hermes.security.shell.model import GIVEN, SPLIT, UNKNOWN, Invocation, Redirect
from hermes.security.shell.output import printed
from hermes.security.shell.scope import Scope
from hermes.security.shell.words import Words, text_of

SUBSTITUTIONS = frozenset({"command_substitution", "process_substitution"})
Upstream = tuple[Invocation, ...]


class Assembler:
    """`substitution` gives the programs inside `$(…)` or `<(…)`."""

    def __init__(self, scope: Scope, substitution: Callable[[Node], Upstream]) -> None:
        self._scope, self._substitution = scope, substitution
        self.words = Words(scope.variables, self._printed_by)
        self.broken = False

    def variants(
        self, nodes: list[Node], redirects: list[Node], upstream: Upstream, background: bool
    ) -> Iterator[Invocation]:
        """The program with the variables as they are, then with what else they may be."""
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
        # The grammar takes `rm 2>log -r x` for a redirect to three files.
        spoken += [extra for node in redirects for extra in _targets(node)[1:]]
        if any(a.end_byte == b.start_byte for a, b in itertools.pairwise(spoken)):
            self.broken = True  # one word that the grammar took for two
        words = tuple(word for node in spoken for word in self.words.of(node))
        used = frozenset(scope.variables.used)
        named_by = frozenset(each.name for each in self.feeders(spoken[:1]))
        with scope.apart():
            assigned = tuple(self.assign(assignments))
        return Invocation(
            words,
            redirects=tuple(self._redirect(node) for node in redirects),
            stdin="\n".join(filter(None, map(self._given, redirects))) or scope.given,
            upstream=upstream,
            fed_by=tuple(self.feeders([*nodes, *redirects])),
            assignments=assigned,
            named_by=named_by,
            uses=used,
            drawn=self._drawn(used),
            piped=scope.piped,
            background=background,
            folder=scope.folder,
            known=scope.variables.known,
        )

    def _drawn(self, used: frozenset[str]) -> Upstream:
        drawn = self._scope.variables.drawn
        return tuple(each for name in used if name in drawn for each in drawn[name])

    def assign(self, nodes: list[Node]) -> Iterator[tuple[str, str]]:
        """Set the variables of assignments, and say which."""
        variables = self._scope.variables
        for node in nodes:
            name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
            if name is None:
                continue
            variable = text_of(name).partition("[")[0]
            text = self.words.value(value, quoted=True) if value is not None else ""
            text = self._scope.filled(text)
            if any(child.type == "+=" for child in node.children):
                gap = SPLIT if value is not None and value.type == "array" else ""
                text = (variables.known.get(variable) or "") + gap + text
            variables.assign(variable, text, maybe=self._scope.branches > 0)
            if UNKNOWN in text:
                variables.draw(variable, tuple(self.feeders([node])))
            yield variable, text

    def feeders(self, nodes: list[Node]) -> Iterator[Invocation]:
        """The programs of substitutions anywhere in `nodes`."""
        for node in nodes:
            if node.type in SUBSTITUTIONS:
                yield from self._substitution(node)
            elif node.child_count:
                yield from self.feeders(node.children)

    def _printed_by(self, node: Node) -> str:
        found = self._substitution(node)
        if not found or found[-1].upstream != found[:-1]:
            return UNKNOWN
        text = printed(found[-1])
        return UNKNOWN if text is None else text.rstrip("\n")

    def _redirect(self, node: Node) -> Redirect:
        if GIVEN in text_of(node):
            return Redirect("<<", "")
        operator = next((child.type for child in node.children if not child.is_named), "")
        targets = _targets(node)
        return Redirect(operator, "".join(self.words.of(targets[0])) if targets else "")

    def _given(self, node: Node) -> str:
        """The text of a here-document or here-string."""
        targets = [child for child in node.named_children if text_of(child).startswith(GIVEN)]
        if not targets:
            return ""
        text = self.words.value(targets[0], quoted=True).removeprefix(GIVEN)
        return self._scope.filled(text)


def _targets(node: Node) -> list[Node]:
    return [child for child in node.named_children if child.type != "file_descriptor"]
