"""Streamed Markdown as lines of a terminal."""

from hermes.tui.markdown.code import CodeBlock, MarkdownTable, is_delimiter_row
from hermes.tui.markdown.parser import (
    MAX_HEAD,
    TAB,
    LineContext,
    LinePrefix,
    MarkdownLine,
    Roles,
    Run,
    TextCleaner,
    append_run,
    drop_chars,
    guess_inline,
    is_only_markup,
    paint_ranges,
    paint_run,
    parse_inline,
    parse_line,
    plain_text,
)
from hermes.tui.text import Depth, Paint, wrap_ranges

# Paragraphs, headings and list items: wrapped rows, returned as soon as they are final.

_WIDEST = 1000  #: Spaces between two words that are kept; no row is wider.


class Prose:
    """One line of the source, of any length."""

    def __init__(self, paint: Paint, lead: LinePrefix, roles: Roles) -> None:
        self._paint, self._lead, self._roles = paint, lead, roles
        self._bare = paint.depth is Depth.NONE
        self._raw, self._before = "", " "
        self._tried = 0
        self._runs: list[Run] = []  #: Text that was read but not returned.
        self._started = False

    def feed(self, raw: str, width: int) -> list[str]:
        """Return the final rows. Wrapping is repeated only when there is enough text for another
        row."""
        self._raw += raw
        if len(self._raw) - self._tried < width:
            return []
        parsed = parse_inline(self._raw, self._before, bare=self._bare, whole=False)
        self._take(parsed.runs, parsed.taken)
        self._tried = len(self._raw)
        return self._rows(width, 2)  # the last two rows may still change

    def whole(self, raw: str, width: int) -> list[str]:
        self._raw = raw
        return self.finish(width)

    def finish(self, width: int) -> list[str]:
        parsed = parse_inline(self._raw, self._before, bare=self._bare)
        self._take(parsed.runs, parsed.taken)
        return self._rows(width, 0)

    def pending(self, width: int, more: str = "") -> list[str]:
        """Return the unfinished rows, with `more` text that is not consumed."""
        runs = [*self._runs, *guess_inline(self._raw + more, self._before, bare=self._bare)]
        return self._laid_out(runs, width, 0)[0]

    def _take(self, runs: list[Run], taken: int) -> None:
        if taken:
            for run in runs:
                append_run(self._runs, *run)
            if self._runs:
                text, roles = self._runs[-1]
                spaces = len(text) - len(text.rstrip(" "))
                self._runs[-1] = (text[: len(text) - max(0, spaces - _WIDEST)], roles)
            self._before = self._raw[taken - 1]
            self._raw = self._raw[taken:]

    def _rows(self, width: int, kept: int) -> list[str]:
        lead, moved = self._lead.fitted(width)
        if moved and not self._started:
            self._lead = lead
            self._runs.insert(0, (moved, ("accent",)))
        lines, rest = self._laid_out(self._runs, width, kept)
        self._started = self._started or bool(lines)
        self._runs = rest
        return lines

    def _laid_out(self, runs: list[Run], width: int, kept: int) -> tuple[list[str], list[Run]]:
        """Return the lines except the last `kept` ones, and the remaining text."""
        lead, _ = self._lead.fitted(width)
        columns = width - len(plain_text(lead.rest))
        ranges = wrap_ranges(plain_text(runs), columns)
        if len(ranges) <= kept:
            if kept or self._started:
                return [], runs if ranges else []
            return [paint_run(self._paint, plain_text(lead.first).rstrip(), ("accent",))], []
        out = ranges[: len(ranges) - kept]
        dressed = [(text, self._roles + roles) for text, roles in runs]
        lines = paint_ranges(self._paint, dressed, out)
        rest = "".join([paint_run(self._paint, *run) for run in lead.rest])
        first = "".join([paint_run(self._paint, *run) for run in lead.first])
        lines = [(rest if self._started or at else first) + line for at, line in enumerate(lines)]
        return lines, drop_chars(runs, ranges[-kept][0]) if kept else []


class MarkdownStream:
    """Renders streamed Markdown as lines of a terminal.

    Each line is returned once, as soon as it is final, independent of how the text was split. A
    line end of the source is a line end on the terminal. `width` may be changed between calls; it
    is at least 10.
    """

    def __init__(self, paint: Paint, width: int) -> None:
        self._paint = paint
        self.width = width
        self._begin()

    def _begin(self) -> None:
        self._cleaner = TextCleaner()
        self._parts: list[str] = []  #: The incomplete line.
        self._size = 0  #: Its length.
        self._waits = False  #: It is long, but no part of it is final before its end.
        self._prose: Prose | None = None  #: It is long and is returned row by row.
        self._code: CodeBlock | None = None
        self._fenced = False
        self._table: MarkdownTable | None = None
        self._header: MarkdownLine | None = None
        """A line that becomes the header of a table if the next line is a delimiter row."""
        self._around = LineContext()
        self._blank: list[int] = []
        """Blank lines before the next one, by the depth of their quotes."""
        self._empty = True

    def feed(self, text: str) -> list[str]:
        """Consume text and return the lines that are final now."""
        return self._take(self._cleaner.feed(text))

    def finish(self) -> list[str]:
        """Return the rest at the end of the message and reset the stream."""
        lines = self._take(self._cleaner.finish())
        if self._size or self._prose:
            lines += self._end_line()
        lines += self._end_table()
        self._begin()
        return lines

    def pending(self, rows: int) -> list[str]:
        """Return the unfinished part as at most `rows` lines, the last ones."""
        lines = self._pending(rows) if rows > 0 else []
        if lines and self._blank and not self._empty:
            lines = ["", *lines]
        return lines[max(0, len(lines) - rows) :]

    def _take(self, text: str) -> list[str]:
        if "\n" not in text:  # most pieces of a stream
            return self._more(text)
        head, *others = text.split("\n")
        lines = self._more(head)
        for other in others:
            lines += [*self._end_line(), *self._more(other)]
        return lines

    def _more(self, text: str) -> list[str]:
        if self._prose is not None:
            return self._prose.feed(text.replace("\t", " "), self.width)
        self._parts.append(text)
        self._size += len(text)
        if self._size <= MAX_HEAD or self._waits:
            return []
        # The line is so long that what follows does not matter for its kind.
        line, rest = self._read("".join(self._parts))
        if self._fenced or line.kind in ("row", "code"):
            self._waits = True
            return []
        lines = [*self._end_header(), *self._end_table(), *self._space(line)]
        self._prose = self._begin_prose(line)
        self._parts, self._size = [], 0
        return lines + self._prose.feed(line.text + rest, self.width)

    def _end_line(self) -> list[str]:
        if self._prose is not None:
            lines = self._prose.finish(self.width)
            self._prose = None
            return lines
        text = "".join(self._parts)
        self._parts, self._size, self._waits = [], 0, False
        if self._fenced and self._code is not None:
            code = self._code.inside(text)
            if code is not None and not self._code.closes(code):
                return self._code.line(code, self.width)
            self._code, self._fenced = None, False
            if code is not None:
                return []
        return self._whole_line(*self._read(text))

    def _read(self, text: str) -> tuple[MarkdownLine, str]:
        """Return the kind of the line, and the text after the part that decides it."""
        head, rest = text[:MAX_HEAD].expandtabs(TAB), text[MAX_HEAD:].replace("\t", " ")
        return parse_line(head, self._around, long=len(text) > MAX_HEAD), rest

    def _whole_line(self, line: MarkdownLine, rest: str) -> list[str]:
        text = line.text + rest
        if line.kind == "row":
            if self._table is not None and line.lead.quotes == self._table.lead.quotes:
                self._table.add(text)
                return []
            header = self._header
            if (
                header
                and header.lead.quotes == line.lead.quotes
                and is_delimiter_row(header.text, text)
            ):
                self._header = None
                lines = self._space(header)
                self._enter(header, in_text=False)
                self._table = MarkdownTable(self._paint, header.lead, header.text, text)
                return lines
        lines = [*self._end_header(), *self._end_table()]
        if line.kind == "blank":
            self._around = self._around._replace(in_text=False)
            self._blank.append(line.lead.quotes)
            return lines
        if line.kind == "row":
            self._header = line._replace(text=text)
            return lines
        return [*lines, *self._space(line), *self._show(line, rest)]

    def _show(self, line: MarkdownLine, rest: str) -> list[str]:
        """Return the lines of a block that is neither blank nor part of a table."""
        match line.kind:
            case "fence":
                self._enter(line, in_text=False)
                self._code = CodeBlock(self._paint, line.lead, fence=line.fence, info=line.text)
                self._fenced = True
                return []
            case "code":
                self._enter(line, in_text=False)
                self._code = self._code or CodeBlock(self._paint, line.lead)
                return self._code.line((line.text + rest).rstrip(" "), self.width)
            case "rule":
                self._enter(line, in_text=False)
                lead = line.lead.fitted(self.width)[0].first
                before = "".join([paint_run(self._paint, *run) for run in lead])
                rule = "─" * (self.width - len(plain_text(lead)))
                return [before + self._paint("rule", rule)]
            case _:
                return self._begin_prose(line).whole(line.text + rest, self.width)

    def _enter(self, line: MarkdownLine, *, in_text: bool) -> None:
        self._empty = False
        self._around = LineContext(line.items, line.lead.quotes, in_text)
        if line.kind != "code":
            self._code = None

    def _begin_prose(self, line: MarkdownLine) -> Prose:
        self._enter(line, in_text=line.kind != "heading")
        return Prose(self._paint, line.lead, _line_roles(line))

    def _space(self, line: MarkdownLine) -> list[str]:
        """Return the blank lines before a line: one, or all inside indented code."""
        blank, self._blank = self._blank, []
        if self._empty or not blank:
            return []
        quotes = min(*blank, line.lead.quotes)
        count = len(blank) if line.kind == "code" and self._code else 1
        bars = min(quotes, self.width // 4)
        return [self._paint("quote", ("│ " * bars).rstrip())] * count

    def _end_header(self) -> list[str]:
        header, self._header = self._header, None
        if header is None:
            return []
        return [*self._space(header), *self._show(header._replace(kind="text"), "")]

    def _end_table(self) -> list[str]:
        table, self._table = self._table, None
        return table.lines(self.width) if table else self._end_header()

    def _pending(self, rows: int) -> list[str]:
        if self._prose is not None:
            return self._prose.pending(self.width)
        if self._table is not None:
            return self._table.preview(self.width, rows)
        first, wanted = len(self._parts), max(MAX_HEAD, (rows + 1) * self.width)
        while first and wanted > 0:  # the end of a long line is enough
            first -= 1
            wanted -= len(self._parts[first])
        text = "".join(self._parts[first:])
        if self._fenced and self._code is not None:
            code = self._code.inside(text)
            if not self._size or code is None or self._code.may_close(code):
                return []
            return self._code.line(code, self.width, complete=False)
        lines = self._pending_text(self._header) if self._header else []
        if self._size and not is_only_markup(text):
            line, rest = self._read(text)
            lines += self._pending_text(line._replace(text=line.text + rest))
        return lines

    def _pending_text(self, line: MarkdownLine) -> list[str]:
        if line.kind == "code":
            return CodeBlock(self._paint, line.lead).line(line.text, self.width, complete=False)
        if line.kind in ("fence", "rule", "blank"):
            return []
        return Prose(self._paint, line.lead, _line_roles(line)).pending(self.width, line.text)


def _line_roles(line: MarkdownLine) -> Roles:
    if line.kind == "heading":
        return ("heading",) if line.level <= 2 else ("strong",)
    return ("quote",) if line.lead.quotes else ()
