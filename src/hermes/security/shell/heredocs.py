r"""Preparation of a command line for the grammar: here-documents extracted, odd spellings made
plain.

In some commands the grammar loses what follows `<<WORD` on its line, and it joins words at an
escaped line break; it accepts here-strings in few places, and parses `$a/$b.c` and `a\ b` as two
words. All this is rewritten first, with regard to quotes and comments.
"""

import re

import msgspec

from hermes.security.shell.model import GIVEN, HELD

_WORD = re.compile(r"<<(-?)[ \t]*((?:\\.|'[^'\n]*'|\"[^\"\n]*\"|[^\s|&;<>()'\"\\])+)")
_PLAIN = re.compile(r"[^\\'\"`$#(){}<\n]+")
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
            plain = _PLAIN.match(self._text, self._at)
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
        elif (found := _WORD.match(text, at)) is not None:
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
