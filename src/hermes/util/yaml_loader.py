"""Loading of YAML with limits on its size, its depth and what its aliases expand to.

A few lines of aliases can stand for billions of values, and deeply nested text crashes the C
parser. Every part of Hermes that reads YAML checks these limits first.
"""

from typing import Any

import yaml

MAX_CHARS = 1_000_000
MAX_DEPTH = 100
MAX_EXPANDED = 50_000  #: Values of a document that uses aliases, with each alias written out.
_OPENERS = "[{:-?"  #: Every level of nesting needs at least one of these.
_TEXT_PER_VALUE = 100  #: Characters of a text that count as one more value.


class YamlTooComplex(yaml.MarkedYAMLError):
    """A document exceeds one of the limits."""


def load_yaml(text: str) -> Any:
    """Return the only document of `text`. Raises `yaml.YAMLError`."""
    check_limits(text)
    return yaml.load(text, Loader=yaml.CSafeLoader)


def check_limits(text: str) -> None:
    """Raise `YamlTooComplex` for text that would take too long to load, or crash the parser.

    Text without aliases and with few brackets and colons is not parsed for this.
    """
    if len(text) > MAX_CHARS:
        raise YamlTooComplex(problem=f"it has more than {MAX_CHARS:,} characters")
    has_aliases = "&" in text and "*" in text
    if not has_aliases and sum(map(text.count, _OPENERS)) <= MAX_DEPTH:
        return
    meter = _ExpandedSize()
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        meter.add(event)


class _ExpandedSize:
    """Counts the values of a document, with each alias written out."""

    def __init__(self) -> None:
        self._total = 0
        self._open: list[tuple[str | None, int]] = []  #: Anchors of open blocks; the total before.
        self._sizes: dict[str | None, int] = {}  #: Sizes of complete values, by anchor.

    def add(self, event: yaml.Event) -> None:
        """Raise `YamlTooComplex` if the document exceeds a limit with this event."""
        match event:
            case yaml.AliasEvent(anchor=anchor):
                if anchor not in self._sizes and any(anchor == name for name, _ in self._open):
                    raise _problem(event, f"the alias *{anchor} contains itself")
                self._total += self._sizes.get(anchor, 1)
                if self._total > MAX_EXPANDED:
                    text = f"its aliases stand for more than {MAX_EXPANDED:,} values"
                    raise _problem(event, text)
            case yaml.ScalarEvent(anchor=anchor, value=value):
                size = 1 + len(value) // _TEXT_PER_VALUE
                self._total += size
                self._sizes[anchor] = size
            case yaml.CollectionStartEvent(anchor=anchor):
                self._open.append((anchor, self._total))
                self._sizes.pop(anchor, None)
                self._total += 1
                if len(self._open) > MAX_DEPTH:
                    raise _problem(event, "it is nested too deeply")
            case yaml.CollectionEndEvent():
                anchor, before = self._open.pop()
                self._sizes[anchor] = self._total - before


def _problem(event: yaml.Event, text: str) -> YamlTooComplex:
    mark: Any = event.start_mark
    return YamlTooComplex(problem=text, problem_mark=mark)
