"""The syntax of code in colours, line by line.

A lexer of pygments reads a text from its beginning to its end. Here each line is read once: the
stack of states of the lexer is kept from line to line. What a lexer reads with one expression
over several lines, as most read a comment between `/*` and `*/`, is found by asking how the line
would be read if it were closed.
"""

from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from hermes.tui.markdown.styled import Roles, Run, add, plain

SYNTAX = {
    "syntax.comment": "dim",
    "syntax.keyword": "magenta",
    "syntax.name": "blue",
    "syntax.builtin": "cyan",
    "syntax.string": "green",
    "syntax.number": "yellow",
    "syntax.tag": "cyan",
}
"""The palette. A skin may name these roles too."""
_ROLES = {
    "Comment": "comment", "Keyword": "keyword", "Operator.Word": "keyword",
    "Name.Function": "name", "Name.Class": "name", "Name.Namespace": "name",
    "Name.Builtin": "builtin", "Name.Exception": "builtin", "Name.Decorator": "builtin",
    "Name.Attribute": "builtin", "Name.Tag": "tag", "Literal.String": "string",
    "Literal.Number": "number", "Literal.Date": "number",
}  # fmt: skip
_PLAIN = frozenset({"", "text", "txt", "plain", "plaintext", "none", "output"})
_CLOSED_BY = {
    "/*": "*/", "<!--": "-->", "[[": "]]", '"""': '"""', "'''": "'''",
    "`": "`", "'": "'", '"': '"',
}  # fmt: skip
"""How what may reach over lines begins and ends."""
_OVER_LINES = ("Token.Comment", "Token.Literal.String")
_PREFIX = 2
"""Characters of a token before what opens it, as in `--[[`."""
_IDLE = 100
"""Steps without reading anything after which a lexer has lost its way."""
_DEEPEST = 200
"""States that are kept: some lexers never leave theirs."""
LONGEST = 2000
"""Characters of a line above which it is shown without colours."""

_LONGEST_PEEK = 300
"""The same for one that is looked at again and again."""

Token = tuple[Any, str]


class _State(NamedTuple):
    stack: tuple[str, ...] = ("root",)
    held: Any = None
    """The type of a token that is not closed yet,"""
    closer: str = ""
    """and what closes it."""


class Highlighter:
    """Reads one block of code."""

    def __init__(self, lexer: Any) -> None:
        self._lexer = lexer
        module = import_module("pygments.lexer")
        self._by_state = isinstance(lexer, module.RegexLexer) and not isinstance(
            lexer, module.ExtendedRegexLexer
        )
        tokens = import_module("pygments.token")
        self._token_type, self._error = type(tokens.Token), tokens.Error
        self._state = _State()

    def line(self, text: str) -> list[Run]:
        """The next line of the block."""
        runs, self._state = self._read(text)
        return runs

    def peek(self, text: str) -> list[Run]:
        """What the next line looks like as far as it is there."""
        return [(text, ())] if len(text) > _LONGEST_PEEK else self._read(text)[0]

    def _read(self, text: str) -> tuple[list[Run], _State]:
        if len(text) > LONGEST:
            return [(text, ())], self._state
        runs: list[Run] = []
        state, at = self._state, 0
        if state.closer:
            end = text.find(state.closer)
            at = end + len(state.closer) if end >= 0 else len(text)
            add(runs, text[:at], _roles(state.held))
            if end < 0:
                return runs, state
            state = _State(state.stack)
        tokens, state = self._tokens(text[at:], state)
        for kind, value in tokens:
            add(runs, value.rstrip("\n"), _roles(kind))
        if plain(runs) != text:
            return [(text, ())], state  # a few lexers leave out what they do not know
        return runs, state

    def _tokens(self, text: str, state: _State) -> tuple[list[Token], _State]:
        if not self._by_state:
            found = self._lexer.get_tokens_unprocessed(text + "\n")
            return [(kind, value) for _, kind, value in found], state
        closed = self._kept(text + "\n", state)
        for opener, closer in _CLOSED_BY.items():
            count = text.count(opener)
            if count and (opener != closer or count % 2):
                found = self._open_token(text, state, opener, closer)
                if found is not None:
                    return closed if _waits_for_nothing(found[0][-1], closed[0][-1]) else found
        return closed

    def _open_token(
        self, text: str, state: _State, opener: str, closer: str
    ) -> tuple[list[Token], _State] | None:
        """The tokens of a line whose last one is closed on a later line only."""
        tokens, after = self._kept(f"{text}\n{closer}", state)
        if not tokens or tokens[-1][1].rstrip("\n") == closer:
            return None
        kind, value = tokens[-1]
        _, newline, closing = value.rpartition("\n")
        if not newline or closing != closer or opener not in value[: _PREFIX + len(opener)]:
            return None
        if not str(kind).startswith(_OVER_LINES):
            return None
        tokens[-1] = (kind, value.removesuffix(newline + closing))
        return tokens, _State(after.stack, kind, closer)

    def _kept(self, text: str, state: _State) -> tuple[list[Token], _State]:
        """What `RegexLexer.get_tokens_unprocessed` does, with a stack that comes out again."""
        definitions = self._lexer._tokens  # noqa: SLF001 - pygments has no other way to them
        stack = list(state.stack)
        tokens: list[Token] = []
        at = 0
        idle = 0
        while at < len(text):
            idle += 1
            for match, action, new_state in definitions[stack[-1]]:
                found = match(text, at)
                if found is None or idle > _IDLE:
                    continue
                if action is not None:
                    if type(action) is self._token_type:
                        tokens.append((action, found[0]))
                    else:
                        tokens += [(kind, value) for _, kind, value in action(self._lexer, found)]
                if found.end() > at:
                    at, idle = found.end(), 0
                _change(stack, new_state)
                break
            else:
                if text[at] == "\n" or idle > _IDLE:
                    stack = ["root"]
                tokens.append((self._error, text[at]))
                at, idle = at + 1, 0
        return tokens, _State(tuple(stack[-_DEEPEST:]))


def _waits_for_nothing(closed: Token, unclosed: Token) -> bool:
    """Whether a string looks the same if nothing closes it: then its state says that it is open.
    A comment may be read up to the end of the text."""
    kind, value = unclosed
    return closed == (kind, value.rstrip("\n")) and not str(kind).startswith("Token.Comment")


def _change(stack: list[str], new_state: Any) -> None:
    if new_state is None:
        return
    for state in new_state if isinstance(new_state, tuple) else (new_state,):
        if isinstance(state, int):
            del stack[max(1, len(stack) + state) :]
        elif state == "#pop":
            del stack[max(1, len(stack) - 1) :]
        else:
            stack.append(stack[-1] if state == "#push" else state)


def highlighter(language: str) -> Highlighter | None:
    """That of a language, by any name it is known under; None for one that is not known."""
    if language.lower() in _PLAIN:
        return None
    lexers = import_module("pygments.lexers")
    try:
        return Highlighter(lexers.get_lexer_by_name(language))
    except import_module("pygments.util").ClassNotFound:
        return None


@cache
def _roles(kind: Any) -> Roles:
    name = str(kind).removeprefix("Token").removeprefix(".")
    while name:
        if name in _ROLES:
            return (f"syntax.{_ROLES[name]}",)
        name = name.rpartition(".")[0]
    return ()
