"""Stored text made harmless for a terminal and for a page.

Conversations hold whatever tools printed and strangers wrote: escape sequences that move the
cursor or set the clipboard, controls that turn the direction of text around.
"""

import re

_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # colours, cursor
    r"|(?:\x1b[\]P^_X]|[\x9d\x90\x9e\x9f\x98])[^\x07\x1b\x9c\n]{0,4096}(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"  # everything else that starts with escape
)
_LINE_END = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_UNSAFE_IN_JSON = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """`text` without escape sequences, control characters and changes of direction; every kind of
    line end is a newline."""
    return _CONTROL.sub("", _LINE_END.sub("\n", _SEQUENCE.sub("", text)))


def plain_line(text: str) -> str:
    """The same on one line, with single spaces."""
    return " ".join(plain(text).split())


def escaped_json(document: str) -> str:
    """JSON text that says the same, with `\\u…` for the characters JSON allows and terminals or
    programs that split lines stumble over."""
    return _UNSAFE_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", document)
