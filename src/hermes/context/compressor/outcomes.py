"""A tool call and its result in one line: which tool, on what, how it ended, how much it said."""

import re

import msgspec

from hermes.context.compressor.reading import arguments_of, one_line
from hermes.core.messages import ToolCall
from hermes.util.text import many

SUBJECTS = (
    *("command", "pattern", "query", "path", "file_path", "url", "urls", "goal"),
    *("session_id", "action", "name", "question", "code"),
)
"""Arguments that say what a call is about, the most telling first."""
SUBJECT_CHARS, WORDS_CHARS, LINE_CHARS = 60, 50, 180
TELLING_AT_THE_END = frozenset({"terminal", "process", "execute_code"})
"""Tools whose last line says more than the first."""

_EXIT = re.compile(r"""\[exit code (-?\d+)|"exit_code": ?(-?\d+)""")
_ERROR = re.compile(r'\s*\{\s*"error"\s*:\s*"((?:[^"\\]|\\.)*)')


def subject(call: ToolCall) -> str:
    """What the call is about, in a few words."""
    arguments = arguments_of(call)
    for key in (*SUBJECTS, *arguments):
        value = arguments.get(key)
        if value and isinstance(value, str | list):
            text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
            return one_line(text, SUBJECT_CHARS)
    return ""


def failure(text: str) -> str:
    """What went wrong according to a result; "" when nothing did."""
    if error := _ERROR.match(text):
        return f"error: {one_line(error[1], WORDS_CHARS)}"
    codes = [code for found in _EXIT.finditer(text[-2_000:]) if (code := found[1] or found[2])]
    return f"exit code {codes[-1]}" if codes and codes[-1] != "0" else ""


def described(call: ToolCall | None, name: str, text: str) -> str:
    """One line of at most `LINE_CHARS` characters."""
    about = subject(call) if call else ""
    told = failure(text) or f"ok: {_words(name, text)}"
    size = f"{many(text.count(chr(10)) + 1, 'line')}, {many(len(text), 'character')}"
    line = f"{one_line(name, 30)}{' ' + about if about else ''}: {told}"
    return one_line(f"{line} ({size})" if len(text) > WORDS_CHARS else line, LINE_CHARS)


def _words(name: str, text: str) -> str:
    lines = text.splitlines()
    for line in reversed(lines) if name in TELLING_AT_THE_END else lines:
        if any(map(str.isalnum, line)):
            return one_line(line, WORDS_CHARS)
    return "nothing"
