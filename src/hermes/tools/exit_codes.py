"""What an exit code means where it is easily taken for a failure, or hides one."""

import re

_OF_PROGRAMS = (
    (r"(e|f|z)?grep|rg|ag|ack", 1, "nothing matched; this is not an error"),
    (r"diff|cmp|colordiff", 1, "the files differ; this is not an error"),
    (r"test|\[|\[\[", 1, "the condition is false"),
    (r"which|type|pgrep|pidof", 1, "nothing found"),
    (r"timeout", 124, "`timeout` ended it"),
    (r"curl", 6, "the host name is not known"),
    (r"curl", 7, "the connection was refused"),
    (r"curl", 22, "the server answered with an error"),
    (r"curl", 28, "it took too long"),
    (r"pytest", 5, "no test was found"),
)
_OF_ALL = {
    126: "found, but it cannot be executed",
    127: "command not found",
    137: "killed, often for lack of memory",
    139: "it crashed: segmentation fault",
    141: "the reader of its output ended first",
}
_SEPARATORS = re.compile(r"[;|&\n]+")
_PREFIXES = re.compile(r"^(\s|!\s|\w+=\S*\s|(sudo|command|time|env|nice)\s|git (?=diff|grep)|\()*")


def exit_note(command: str, code: int) -> str:
    """A few words, or "" when the number says enough. The last program decides the code."""
    pieces = [piece for piece in _SEPARATORS.split(command) if piece.strip()]
    last = _PREFIXES.sub("", pieces[-1]) if pieces else ""
    program = re.split(r"[\s;)]", last, maxsplit=1)[0].rpartition("/")[2]
    for names, known, meaning in _OF_PROGRAMS:
        if code == known and re.fullmatch(names, program):
            return meaning
    return _OF_ALL.get(code, "")
