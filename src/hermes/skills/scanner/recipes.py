"""Command lines in files of another kind: images, makefiles, workflows, packages, timetables."""

import re
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from hermes.skills.scanner.lines import Lines

_RUN = re.compile(r"^[ \t]*(?:RUN|CMD|ENTRYPOINT)[ \t]+((?:[^\n]*\\\n)*[^\n]*)", re.MULTILINE)
_MOUNT = re.compile(r"^(?:--\w+=\S+\s+)+")
_RECIPE = re.compile(r"^[ \t]+([^\s#].*)$", re.MULTILINE)
_MADE = re.compile(r"\$\(shell[ \t]+([^\n]{3,500})\)")
_STEP = re.compile(
    r"^([ \t-]*)(?:run|script|command|cmd|shell|before_script|args)[ \t]*:[ \t]*(.*)$", re.MULTILINE
)
_EXEC = re.compile(
    r"(?:^|\\n)[ \t]*Exec(?:Start\w*|Stop\w*|Reload)?[ \t]*=[ \t]*[-@+!:]{0,3}"
    r"((?:[^\s\\])(?:[^\n\\]|\\(?!n)){2,500})",
    re.MULTILINE,
)
_CRON = re.compile(
    r"(?:^|([\"'])|\s)(?:(?:[\d*][\d*/,-]{0,20}[ \t]{1,9}){4}[\d*a-zA-Z][\w*/,-]{0,20}"
    r"|@(?:reboot|hourly|daily|weekly|monthly))[ \t]{1,9}"
    r"(?:root[ \t]{1,9})?([/~\w$\"'][^\n]{3,500})",
    re.MULTILINE,
)
_INLINE = re.compile(r"\bpython[\d.]*\s+(?:-[A-Za-z]\s+){0,3}-c\s+([\"'])")
_FED = re.compile(r"\bpython[\d.]*\s+-?\s*<<-?\s*[\"']?(\w{1,40})[\"']?[^\n]*")
_BY_DATABASE = re.compile(
    r"(?:\bPROGRAM\s{1,9}|\bxp_cmdshell\s{1,9}|\bsys_exec\()'([^'\n]{3,500})'", re.IGNORECASE
)
_SSH = re.compile(
    r"(?:^|\\n)[ \t]*(?:ProxyCommand|LocalCommand)[ \t]+(\S[^\n]{2,500})", re.MULTILINE
)
_PLIST = re.compile(r"<string>([^<\n]{8,500})</string>")
_SCRIPT = re.compile(r'"(\w[\w:.-]*)"\s*:\s*"((?:[^"\\\n]|\\.){1,2000})"')
_SCRIPT_LINE = re.compile(r'"\w[\w:.-]*"\s*:\s*"((?:[^"\\\n]|\\.){4,2000})"')
_COMMAND = re.compile(
    r'"(?:command|cmd|run|script|exec|shell|args|\w+Command|hook|program)"\s*:\s*'
    r'"((?:[^"\\\n]|\\.){4,2000})"'
)
_AT_INSTALL: Final = frozenset({"preinstall", "install", "postinstall", "prepare", "prepublish"})
MOST_CELLS: Final = 500
LONGEST_INLINE: Final = 4_000
LONGEST_STEP: Final = 200
"""Lines of one step of a workflow that are read."""


def commands(language: str, text: str) -> Iterator[tuple[int, str]]:
    """Lines (from 0) and commands of a file of data."""
    lines = Lines(text)
    if language == "yaml":
        yield from _steps(text)
    for pattern, plain in _COMMANDS.get(language, ()):
        for match in pattern.finditer(text):
            yield lines.at(match.start()), plain(match[1])


def _of_image(command: str) -> str:
    command = _MOUNT.sub("", command.replace("\\\n", " "))
    return " ".join(_listed(command)) or command


def _of_recipe(command: str) -> str:
    return re.sub(r"\$\((\w+)\)", r"${\1}", command.lstrip("@+-").replace("$$", "$"))


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


_COMMANDS: Final[dict[str, tuple[tuple[re.Pattern[str], Callable[[str], str]], ...]]] = {
    "docker": ((_RUN, _of_image),),
    "make": ((_RECIPE, _of_recipe), (_MADE, _of_recipe)),
    "json": ((_COMMAND, _unescaped),),
    "package": ((_COMMAND, _unescaped), (_SCRIPT_LINE, _unescaped)),
}


def runs_at_install(text: str) -> Iterator[tuple[int, str]]:
    """What a package.json runs while the package is installed."""
    lines = Lines(text)
    for match in _SCRIPT.finditer(text):
        if match[1] in _AT_INSTALL:
            yield lines.at(match.start()), _unescaped(match[2])


def scheduled(text: str) -> Iterator[tuple[int, str]]:
    """Commands that a unit of systemd, a timetable of cron or launchd would start by itself."""
    lines = Lines(text)
    for match in _CRON.finditer(text):
        command = match[2].partition(match[1])[0] if match[1] else match[2]
        yield lines.at(match.start(2)), command
    for pattern in (_EXEC, _PLIST, _SSH):
        for match in pattern.finditer(text):
            yield lines.at(match.start(1)), match[1]


def by_database(text: str) -> Iterator[tuple[int, str]]:
    """Lines (from 0) and commands that a database server is told to start."""
    lines = Lines(text)
    for match in _BY_DATABASE.finditer(text):
        yield lines.at(match.start()), match[1]


def inline_python(text: str) -> Iterator[tuple[int, str]]:
    """Lines (from 0) and Python code that stands in a command line."""
    lines = Lines(text)
    for match in _INLINE.finditer(text):
        end = text.find(match[1], match.end(), match.end() + LONGEST_INLINE)
        while end > 0 and text[end - 1] == "\\":
            end = text.find(match[1], end + 1, match.end() + LONGEST_INLINE)
        code = text[match.end() : end] if end >= 0 else ""
        yield lines.at(match.end()), code.replace('\\"', '"')
    for match in _FED.finditer(text):
        end = text.find(f"\n{match[1]}", match.end())
        yield lines.at(match.end()) + 1, text[match.end() : end if end >= 0 else None]


def cells(text: str) -> Iterator[tuple[str, str]]:
    """The cells of a notebook, `code` or other, with their text."""
    try:
        book = msgspec.json.decode(text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        yield "text", text
        return
    found = book.get("cells") if isinstance(book, dict) else None
    for cell in found[:MOST_CELLS] if isinstance(found, list) else ():
        if isinstance(cell, dict):
            source = cell.get("source", "")
            lines = source if isinstance(source, list) else [source]
            joined = "".join(line for line in lines if isinstance(line, str))
            yield str(cell.get("cell_type")), re.sub(r"^[!%]", "# ", joined, flags=re.MULTILINE)


def _listed(command: str) -> list[str]:
    """`["sh", "-c", "…"]` as words."""
    if not command.lstrip().startswith("["):
        return []
    try:
        words = msgspec.json.decode(command.strip().encode("utf-8", "replace"), type=list[str])
    except (msgspec.DecodeError, msgspec.ValidationError):
        return []
    return [word if " " not in word else f"'{word}'" for word in words]


def _steps(text: str) -> Iterator[tuple[int, str]]:
    """`run:` and its like in a workflow, on one line or as a block."""
    lines, rows = Lines(text), text.split("\n")
    for match in _STEP.finditer(text):
        first = lines.at(match.start())
        value = match[2].strip()
        if value[:1] not in ("|", ">") and value:
            yield first, value.strip("\"'")
            continue
        indent, block = len(match[1]), []
        for row in rows[first + 1 : first + LONGEST_STEP]:
            if row.strip() and len(row) - len(row.lstrip(" -")) <= indent:
                break
            block.append(row.strip().removeprefix("- "))
        if block:
            yield first + 1, "\n".join(block)
