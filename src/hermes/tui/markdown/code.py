"""Code blocks with syntax colours, and tables."""

import re
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from hermes.tui.markdown.parser import (
    MAX_HEAD,
    TAB,
    LinePrefix,
    Roles,
    Run,
    append_run,
    paint_ranges,
    paint_run,
    parse_inline,
    plain_text,
    strip_quotes,
)
from hermes.tui.text import Depth, Paint, Rgb, break_ranges, is_light, wrap_ranges
from hermes.tui.text import width as columns_of

# Syntax colours, line by line.
#
# A pygments lexer reads a whole text. Here each line is read once: the state stack of the lexer is
# kept between lines. A construct that a lexer reads with one expression over several lines, such as
# a comment between `/*` and `*/`, is found by checking how the line would be read if closed.

SYNTAX = {
    "syntax.comment": "dim",
    "syntax.keyword": "magenta",
    "syntax.name": "blue",
    "syntax.builtin": "cyan",
    "syntax.string": "green",
    "syntax.number": "yellow",
    "syntax.tag": "cyan",
}
"""The palette of terminals with 16 colours."""
RICH_SYNTAX = {
    "syntax.comment": "italic #848c98",
    "syntax.keyword": "#c792d9",
    "syntax.name": "#7cb0e8",
    "syntax.builtin": "#6cbac4",
    "syntax.string": "#9cc37f",
    "syntax.number": "#d3a06c",
    "syntax.tag": "#dd858c",
}
LIGHT_SYNTAX = {
    "syntax.comment": "italic #6a737d",
    "syntax.keyword": "#a0268f",
    "syntax.name": "#0550ae",
    "syntax.builtin": "#0a6c7a",
    "syntax.string": "#1a6f37",
    "syntax.number": "#9a4b00",
    "syntax.tag": "#a3302a",
}
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
"""The start and end of constructs that may span lines."""
_IDLE = 100  #: Steps without progress after which a lexer is stuck.
LONGEST = 2000  #: Longer lines are shown without colours.

Token = tuple[Any, str]


class _State(NamedTuple):
    stack: tuple[str, ...] = ("root",)
    held: Any = None  #: The type of a token that is not closed yet.
    closer: str = ""  #: The text that closes it.


class Highlighter:
    def __init__(self, lexer: Any) -> None:
        self._lexer = lexer
        module = import_module("pygments.lexer")
        self._by_state = isinstance(lexer, module.RegexLexer) and not isinstance(
            lexer, module.ExtendedRegexLexer
        )
        tokens = import_module("pygments.token")
        self._token_type, self._error = type(tokens.Token), tokens.Error
        self._state = _State()

    def line(self, text: str, *, complete: bool = True) -> list[Run]:
        """Return the tokens of the next line, which is rendered repeatedly until it is complete."""
        if not complete and len(text) > 300:
            return [(text, ())]
        runs, state = self._read(text)
        self._state = state if complete else self._state
        return runs

    def _read(self, text: str) -> tuple[list[Run], _State]:
        if len(text) > LONGEST:
            return [(text, ())], self._state
        runs: list[Run] = []
        state, at = self._state, 0
        if state.closer:
            end = text.find(state.closer)
            at = end + len(state.closer) if end >= 0 else len(text)
            append_run(runs, text[:at], _roles(state.held))
            if end < 0:
                return runs, state
            state = _State(state.stack)
        tokens, state = self._tokens(text[at:], state)
        for kind, value in tokens:
            append_run(runs, value.rstrip("\n"), _roles(kind))
        if plain_text(runs) != text:
            return [(text, ())], state  # some lexers omit text that they do not know
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
                    # A string that looks the same unclosed is known to be open by the state. A
                    # comment may be read up to the end of the text.
                    kind, value = closed[0][-1]
                    is_same = found[0][-1] == (kind, value.rstrip("\n"))
                    is_string = not str(kind).startswith("Token.Comment")
                    return closed if is_same and is_string else found
        return closed

    def _open_token(
        self, text: str, state: _State, opener: str, closer: str
    ) -> tuple[list[Token], _State] | None:
        """Return the tokens of a line whose last token is closed on a later line."""
        tokens, after = self._kept(f"{text}\n{closer}", state)
        if not tokens or tokens[-1][1].rstrip("\n") == closer:
            return None
        kind, value = tokens[-1]
        _, newline, closing = value.rpartition("\n")
        # Up to two characters may precede the opening, as in `--[[`.
        if not newline or closing != closer or opener not in value[: 2 + len(opener)]:
            return None
        if not str(kind).startswith(("Token.Comment", "Token.Literal.String")):
            return None
        tokens[-1] = (kind, value.removesuffix(newline + closing))
        return tokens, _State(after.stack, kind, closer)

    def _kept(self, text: str, state: _State) -> tuple[list[Token], _State]:
        """Like `RegexLexer.get_tokens_unprocessed`, but returns the state stack."""
        definitions = self._lexer._tokens  # noqa: SLF001 - pygments has no public access to these
        stack = list(state.stack)
        tokens: list[Token] = []
        at = idle = 0
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
                _apply_transition(stack, new_state)
                break
            else:
                if text[at] == "\n" or idle > _IDLE:
                    stack = ["root"]
                tokens.append((self._error, text[at]))
                at, idle = at + 1, 0
        return tokens, _State(tuple(stack[-200:]))  # some lexers never leave a state


def _apply_transition(stack: list[str], new_state: Any) -> None:
    if new_state is None:
        return
    for state in new_state if isinstance(new_state, tuple) else (new_state,):
        if isinstance(state, int):
            del stack[max(1, len(stack) + state) :]
        elif state == "#pop":
            del stack[max(1, len(stack) - 1) :]
        else:
            stack.append(stack[-1] if state == "#push" else state)


def syntax_colours(depth: Depth, background: Rgb | None) -> dict[str, str]:
    if depth is Depth.NAMED:
        return SYNTAX
    return LIGHT_SYNTAX if is_light(background) else RICH_SYNTAX


_LANGUAGES = {
    "h": "c", "hpp": "cpp", "cc": "cpp", "hh": "cpp", "mjs": "js", "cjs": "js", "htm": "html",
    "pyi": "py", "cfg": "ini", "dockerfile": "docker", "kts": "kotlin", "markdown": "md",
}  # fmt: skip
"""File name extensions that no lexer has as its name."""


def find_file_highlighter(path: str) -> "Highlighter | None":
    """Return the lexer for a file by its name; None if its language is not known."""
    extension = path.rpartition("/")[2].rpartition(".")[2].lower()
    return find_highlighter(_LANGUAGES.get(extension, extension))


def find_highlighter(language: str) -> Highlighter | None:
    """Return the lexer of a language by any of its names; None if it is not known."""
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


_LANGUAGE = re.compile(r"\{?\s*\.?([\w+#.-]*\w[+#]*)")
_DIFF_ROLES = {
    "+++": "strong", "---": "strong", "diff ": "strong", "index ": "dim", "@@": "accent",
    "+": "added", "-": "removed", "\\": "dim",
}  # fmt: skip
_LEAST = 8  #: Minimum columns for indented code.


class CodeBlock:
    """One code block; without a fence it is an indented one."""

    def __init__(self, paint: Paint, lead: LinePrefix, *, fence: str = "", info: str = "") -> None:
        self._fence, self._lead = fence, lead
        self._column = len(plain_text(lead.rest)) - 2 * lead.quotes
        """The indent of the fence, which its lines share."""
        self._indent = 4 if paint.depth is Depth.NONE else 2
        language = found[1] if (found := _LANGUAGE.match(info)) else ""
        self._diff = language.lower() in ("diff", "patch", "udiff")
        self._highlighter: Highlighter | None = None
        if paint.depth is not Depth.NONE and not self._diff:
            self._highlighter = find_highlighter(language)
        colours = {**syntax_colours(paint.depth, paint.background), **paint.colours}
        self._paint = Paint(colours, paint.depth, background=paint.background)

    def inside(self, line: str) -> str | None:
        """Return the code of a line of a fenced block; None if the line is outside its quote."""
        text = strip_quotes(line.expandtabs(TAB), self._lead.quotes)
        if text is None:
            return None
        indent = len(text) - len(text.lstrip(" "))
        return text[min(indent, self._column) :].rstrip(" ")

    def closes(self, text: str) -> bool:
        """Return whether the line ends a fenced block."""
        mark = text.strip(" ")
        return (
            mark.startswith(self._fence) and not mark.strip(self._fence[0]) and text[:4] != "    "
        )

    def may_close(self, text: str) -> bool:
        """Return whether the beginning of a line may end it."""
        return text.strip() == self._fence[: len(text.strip())]

    def line(self, text: str, width: int, *, complete: bool = True) -> list[str]:
        """Return the rows of the next line of the block."""
        if self._highlighter is None:
            return self._rows(self._plain(text), width)
        return self._rows(self._highlighter.line(text, complete=complete), width)

    def _plain(self, text: str) -> list[Run]:
        roles = [(role,) for start, role in _DIFF_ROLES.items() if text.startswith(start)]
        return [(text, roles[0] if roles and self._diff else ())]

    def _rows(self, runs: list[Run], width: int) -> list[str]:
        lead = self._lead.fitted(width)[0].rest
        columns = width - len(plain_text(lead))
        indent = self._indent if columns - self._indent >= _LEAST else 0
        more = 2 if columns - indent >= _LEAST else 0
        ranges = break_ranges(plain_text(runs), columns - indent, columns - indent - more)
        lines = paint_ranges(self._paint, runs, ranges)
        before = "".join([paint_run(self._paint, *run) for run in lead])
        if lines == [""]:
            return [paint_run(self._paint, plain_text(lead).rstrip(), ("quote",))]
        return [
            f"{before}{' ' * (indent + (more if at else 0))}{line}" for at, line in enumerate(lines)
        ]


# Tables: as wide as needed, narrower if necessary, and as records if they do not fit.

_BAR = re.compile(r"(?<!\\)\|")
_BREAK = re.compile(r" *<br ?/?> *", re.IGNORECASE)
_DELIMITER = re.compile(r"\|? *:?-+:? *(?:\| *:?-+:? *)*\|? *$")
_NARROWEST = 8  #: Minimum columns of a cell; otherwise a table is shown as records.
_BORDERS = {"top": ("┌", "┬", "┐"), "middle": ("├", "┼", "┤"), "bottom": ("└", "┴", "┘")}
_HANGING = "  "

Cell = list[list[Run]]  #: The lines of the table.


def is_delimiter_row(header: str, line: str) -> bool:
    """Return whether the line makes the previous line the header of a table."""
    if len(line) > MAX_HEAD or "|" not in line or not _DELIMITER.match(line):
        return False
    both_begin = header.startswith("|") and line.startswith("|")
    return both_begin or len(_split_row(header)) == len(_split_row(line))


class MarkdownTable:
    def __init__(self, paint: Paint, lead: LinePrefix, header: str, delimiter: str) -> None:
        self.lead = lead
        self._paint = paint
        self._bare = paint.depth is Depth.NONE
        colons = [(cell[:1] == ":", cell[-1:] == ":") for cell in _split_row(delimiter)]
        self._align = [{(True, True): "^", (False, True): ">"}.get(each, "<") for each in colons]
        self._header = [
            [[(text, ("strong", *roles)) for text, roles in runs] for runs in cell]
            for cell in self._cells(header)
        ]
        self._rows: list[list[Cell]] = []
        self._shown: tuple[tuple[int, int, int], list[str]] = ((0, 0, 0), [])

    def add(self, row: str) -> None:
        self._rows.append(self._cells(row))

    def lines(self, width: int, last: int | None = None) -> list[str]:
        """Return the rows of the table, or only the `last` ones."""
        lead = self.lead.fitted(width)[0].rest
        room = width - len(plain_text(lead))
        body = self._rows if last is None else self._rows[len(self._rows) - last :]
        count = max(map(len, [self._header, *body]))
        grid = [row + [[[]]] * (count - len(row)) for row in [self._header, *body]]
        natural = [
            max(1, *(columns_of(plain_text(runs)) for cell in column for runs in cell))
            for column in zip(*grid, strict=True)
        ]
        widths = _fit_columns(natural, room)
        lines = self._records(grid, room) if widths is None else self._boxed(grid, widths)
        before = "".join([paint_run(self._paint, *run) for run in lead])
        return [before + line for line in lines]

    def preview(self, width: int, last: int) -> list[str]:
        last = min(last, len(self._rows))
        asked = (width, last, len(self._rows))
        if self._shown[0] != asked:
            self._shown = (asked, self.lines(width, last))
        return self._shown[1]

    def _cells(self, row: str) -> list[Cell]:
        return [
            [parse_inline(line, bare=self._bare).runs for line in _BREAK.split(cell)]
            for cell in _split_row(row)
        ]

    def _boxed(self, grid: list[list[Cell]], widths: list[int]) -> list[str]:
        drawn = [self._row(row, widths) for row in grid]
        between = any(len(lines) > 1 for lines in drawn[1:])
        lines = [self._border("top", widths), *drawn[0], self._border("middle", widths)]
        for at, row in enumerate(drawn[1:]):
            if at and between:
                lines.append(self._border("middle", widths))
            lines += row
        return [*lines, self._border("bottom", widths)]

    def _border(self, place: str, widths: list[int]) -> str:
        left, cross, right = _BORDERS[place]
        return self._paint("rule", left + cross.join("─" * (each + 2) for each in widths) + right)

    def _row(self, row: list[Cell], widths: list[int]) -> list[str]:
        cells = [
            self._cell(cell, columns, self._align[at] if at < len(self._align) else "<")
            for at, (cell, columns) in enumerate(zip(row, widths, strict=True))
        ]
        bar = self._paint("rule", "│")
        lines = []
        for at in range(max(map(len, cells))):
            parts = [
                cell[at] if at < len(cell) else " " * columns
                for cell, columns in zip(cells, widths, strict=True)
            ]
            lines.append(f"{bar} {f' {bar} '.join(parts)} {bar}")
        return lines

    def _cell(self, cell: Cell, columns: int, align: str) -> list[str]:
        lines = []
        for runs in cell:
            text = plain_text(runs)
            ranges = wrap_ranges(text, columns) or [(0, 0)]
            for (start, end), line in zip(
                ranges, paint_ranges(self._paint, runs, ranges), strict=True
            ):
                free = max(0, columns - columns_of(text[start:end]))
                left = {"<": 0, "^": free // 2, ">": free}[align]
                lines.append(" " * left + line + " " * (free - left))
        return lines

    def _records(self, grid: list[list[Cell]], room: int) -> list[str]:
        header, *body = grid
        if not body:
            return [line for cell in header for line in self._record([], cell, room)]
        lines: list[str] = []
        for at, row in enumerate(body):
            if at:
                lines.append(self._paint("rule", "─" * min(room, 2 * _NARROWEST)))
            for name, cell in zip(header, row, strict=True):
                lines += self._record([run for runs in name for run in runs], cell, room)
        return lines

    def _record(self, name: list[Run], cell: Cell, room: int) -> list[str]:
        label: list[Run] = [*name, (": ", ("strong",))] if name else []
        lines: list[str] = []
        for runs in [[*label, *cell[0]], *cell[1:]]:
            at = 0 if lines else room
            text = plain_text(runs)
            if not lines and (first := wrap_ranges(text, room)[:1]):
                lines += paint_ranges(self._paint, runs, first)
                at = first[0][1]
            rest = [(at + a, at + b) for a, b in wrap_ranges(text[at:], room - len(_HANGING))]
            lines += [_HANGING + line for line in paint_ranges(self._paint, runs, rest)]
        return lines


def _split_row(row: str) -> list[str]:
    cells = _BAR.split(row.strip(" ").removeprefix("|"))
    if len(cells) > 1 and not cells[-1].strip(" "):
        cells.pop()
    return [cell.strip(" ").replace("\\|", "|") for cell in cells]


def _fit_columns(natural: list[int], room: int) -> list[int] | None:
    """Return the column widths, reducing the widest; None if the table does not fit."""
    room -= 3 * len(natural) + 1
    if sum(natural) <= room:
        return natural
    level, left = 0, room
    for done, width in enumerate(sorted(natural)):
        level = left // (len(natural) - done)
        if width > level:
            break
        left -= width
    if level < _NARROWEST:
        return None
    widths = [min(width, level) for width in natural]
    for at, width in enumerate(natural):
        if width > level and sum(widths) < room:
            widths[at] += 1
    return widths
