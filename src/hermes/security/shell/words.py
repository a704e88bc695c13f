"""Words of the syntax tree with quotes, variables and substitutions resolved."""

import re
from collections.abc import Callable

from tree_sitter import Node

from hermes.security.shell.expansion import braces, expand, unescape
from hermes.security.shell.model import SPLIT, UNKNOWN, TooMuch
from hermes.security.shell.variables import Variables

LONGEST_WORD = 200_000
_QUOTED = frozenset({"string", "raw_string", "ansi_c_string", "translated_string"})
_PLAIN = re.compile(r"[\w./:=@%+,-]+")
_BLANKS = re.compile(r"\s+")
_ESCAPED = re.compile(r"\\(\n?)(.?)", re.DOTALL)
_ESCAPED_IN_QUOTES = re.compile(r'\\([\\"$`\n])')


_WIDE = re.compile(r"[^\x00-\xfe]")
_NARROW = re.compile("\xff([\xc0-\xcf]{6})")


def narrow(text: str) -> bytes:
    """Text for the grammar: its scanner reads beyond its tables at letters above 255 and may crash.

    Each such letter becomes `ÿ` and its number, spelled with letters that are safe.
    """

    def spelled(found: re.Match[str]) -> str:
        return "\xff" + "".join(chr(0xC0 + int(digit, 16)) for digit in f"{ord(found[0]):06x}")

    return (text if text.isascii() else _WIDE.sub(spelled, text)).encode("utf-8", "replace")


def widened(data: bytes) -> str:
    """What `narrow` was given."""
    text = data.decode("utf-8", "replace")
    if text.isascii():
        return text

    def letter(found: re.Match[str]) -> str:
        number = int("".join(f"{ord(digit) - 0xC0:x}" for digit in found[1]), 16)
        return chr(number) if number <= 0x10FFFF else "?"

    return _NARROW.sub(letter, text)


def text_of(node: Node) -> str:
    return widened(node.text or b"")


class Words:
    """`printed_by` gives the output of a command substitution, or UNKNOWN."""

    def __init__(self, variables: Variables, printed_by: Callable[[Node], str]) -> None:
        self._variables, self._printed_by = variables, printed_by

    def of(self, node: Node) -> list[str]:
        """The words one word of the source becomes."""
        if node.type == "word":
            text = text_of(node)
            if _PLAIN.fullmatch(text):
                return [text]
        value = self.value(node, quoted=False)
        quoted = node.type in _QUOTED
        words = [word for word in value.split(SPLIT) if word or quoted]
        if quoted:
            return words or [""]
        return [piece for word in words for piece in braces(word)]

    def value(self, node: Node, *, quoted: bool) -> str:
        match node.type:
            case "raw_string":
                return text_of(node)[1:-1]
            case "ansi_c_string":
                return unescape(text_of(node)[2:-1])
            case "string":
                return self._joined(node, quoted=True)
            case "translated_string":  # `$"…"`: the dollar only asks for a translation
                return "".join(self.value(child, quoted=True) for child in node.named_children)
            case "simple_expansion" | "expansion" | "command_substitution":
                return self._split(self._expanded(node), quoted)
            case "process_substitution" | "arithmetic_expansion":
                return UNKNOWN
            case "string_content":
                return _ESCAPED_IN_QUOTES.sub(r"\1", text_of(node))
            case "array":
                return SPLIT.join(word for child in node.named_children for word in self.of(child))
            case _ if node.child_count:
                return self._joined(node, quoted=quoted)
            case _:
                return _ESCAPED.sub(r"\2", text_of(node))

    def _expanded(self, node: Node) -> str:
        if node.type == "command_substitution":
            return self._printed_by(node)
        if node.type == "simple_expansion":
            return self._simple(node)
        return expand(text_of(node).strip(), self._variables, lambda: self._argument(node))

    def _simple(self, node: Node) -> str:
        name = text_of(node).strip().lstrip("$")
        value = self._variables(name)
        if value is None:
            return UNKNOWN
        return value if name in "@*" else value.split(SPLIT)[0]

    def _split(self, value: str, quoted: bool) -> str:
        """The value with the shell's word boundaries marked. An array keeps its own."""
        if quoted or SPLIT in value:
            return value
        blanks = self._variables.known.get("IFS", "").strip()
        if blanks and UNKNOWN not in blanks:
            value = re.sub(f"[{re.escape(blanks)}]", SPLIT, value)
        return _BLANKS.sub(SPLIT, value)

    def _argument(self, node: Node) -> str:
        """The value of what follows the operator of `${x:-…}`; `:=` sets the variable too."""
        children = node.named_children[1:]
        value = "".join(self.value(child, quoted=True) for child in children)
        if children and "=" in {child.type[-1:] for child in node.children}:
            self._variables.assign(text_of(node.named_children[0]), value)
        return value

    def _joined(self, node: Node, *, quoted: bool) -> str:
        """The values of the children, with the text between them."""
        parts: list[str] = []
        whole, start = node.text or b"", node.start_byte
        position, size = start, 0
        for child in node.children:
            gap = whole[position - start : child.start_byte - start]
            parts.append(widened(gap))
            if child.type == '"':
                parts.append(text_of(child).replace('"', ""))  # may come with blanks before it
            else:
                if child.type in ("simple_expansion", "expansion", "command_substitution"):
                    text = text_of(child)
                    parts.append(text[: len(text) - len(text.lstrip())] if quoted else "")
                parts.append(self.value(child, quoted=quoted))
            position = child.end_byte
            size += len(parts[-1])
            if size > LONGEST_WORD:
                raise TooMuch
        return "".join(parts)
