"""A file taken apart into pieces that are judged alike: prose, shell, Python, other code, data."""

import re
from collections.abc import Iterator
from typing import Final, Literal

import msgspec

from hermes.skills.scanner import recipes
from hermes.skills.scanner.markdown import Block, Span, blocks

Kind = Literal["prose", "shell", "python", "code", "data"]


class Piece(msgspec.Struct, frozen=True):
    kind: Kind
    text: str
    line: int = 0
    """Where it begins in the file, from 0."""
    warned: bool = False
    """The text around it speaks against it."""
    script: bool = False
    """A file of its own, not a part of a text."""
    mentioned: bool = False
    """A command inside a sentence, which may be no command at all."""


_MARKDOWN: Final = (".md", ".mdx", ".markdown", ".mdc", ".rst", ".txt", ".adoc")
_ENDINGS: Final[dict[str, str]] = {
    "sh": "shell", "bash": "shell", "zsh": "shell", "ksh": "shell", "fish": "shell",
    "command": "shell", "py": "python", "pyw": "python", "pyi": "python", "yml": "yaml",
    "yaml": "yaml", "json": "json", "ipynb": "notebook", "mk": "make", "dockerfile": "docker",
    "js": "code", "mjs": "code", "cjs": "code", "ts": "code", "tsx": "code", "jsx": "code",
    "rb": "code", "php": "code", "pl": "code", "pm": "code", "lua": "code", "ps1": "code",
    "psm1": "code", "bat": "code", "cmd": "code", "vbs": "code", "go": "code", "rs": "code",
    "java": "code", "c": "code", "cpp": "code", "cs": "code", "swift": "code",
    "applescript": "code", "html": "code", "htm": "code", "svg": "code", "r": "code",
    "jl": "code", "groovy": "code",
}  # fmt: skip
_NAMES: Final = {
    "makefile": "make", "gnumakefile": "make", "justfile": "make", "dockerfile": "docker",
    "containerfile": "docker", "package.json": "package", "crontab": "data",
}  # fmt: skip
_FENCES: Final[dict[str, str]] = {
    **_ENDINGS, "shell": "shell", "python": "python", "python3": "python", "console": "console",
    "shell-session": "console", "shellsession": "console", "terminal": "console", "pycon": "data",
    "javascript": "code", "typescript": "code", "node": "code", "ruby": "code", "perl": "code",
    "powershell": "code", "pwsh": "code", "batch": "code", "docker": "docker", "make": "make",
    "makefile": "make", "text": "data", "plaintext": "data", "txt": "data", "output": "data",
    "diff": "data", "ini": "data", "toml": "data", "xml": "data", "csv": "data", "sql": "data",
}  # fmt: skip
_SHEBANG = re.compile(r"#!.{0,40}?\b(python|node|deno|bun|ruby|perl|php|pwsh|(?:ba|z|k|da|fi)?sh)")
_COMMAND_LINE = re.compile(
    r"^[ \t]*(?:\$ |sudo |curl |wget |rm |git |docker |pip3? |npm |npx |python3? |bash |sh |cat |"
    r"echo |export |chmod |cd |nc |dd |eval |ssh |crontab |tar |base64 |apt |brew |kubectl |make )",
    re.MULTILINE,
)
_PROMPT = re.compile(r"^[ \t]*(?:[\w.@~:/-]*[$%#>]|>>>) ?", re.MULTILINE)


def pieces(name: str, text: str) -> Iterator[Piece]:
    """The pieces of one file. Prose is given as the whole file: an attack may span anything."""
    language = _language(name, text)
    if language == "markdown":
        yield Piece("prose", text)
        for part in blocks(text):
            yield from _of_part(part)
        return
    if language == "python":
        yield Piece("python", text, script=True)
        return
    yield from _as(language, text, 0, warned=False)


def is_prose(name: str) -> bool:
    return name.lower().endswith(_MARKDOWN)


def _language(name: str, text: str) -> str:
    base = name.replace("\\", "/").rpartition("/")[2].lower()
    if base in _NAMES:
        return _NAMES[base]
    if base.startswith(("dockerfile.", "makefile.")):
        return _NAMES[base.partition(".")[0]]
    if base.startswith("requirements") and base.endswith(".txt"):
        return "requirements"
    if base.endswith(_MARKDOWN):
        return "markdown"
    shebang = _SHEBANG.match(text)
    if shebang:
        program = shebang[1]
        return "python" if program == "python" else "shell" if program.endswith("sh") else "code"
    return _ENDINGS.get(base.rpartition(".")[2], "data")


def _of_part(part: Block | Span) -> Iterator[Piece]:
    if isinstance(part, Span):
        yield Piece("shell", part.text, part.line, warned=part.warned, mentioned=not part.inline)
        return
    language = _FENCES.get(part.language, "data" if part.language else "unknown")
    if language == "unknown":
        language = "shell" if _COMMAND_LINE.search(part.text) else "data"
    yield from _as(language, part.text, part.line, warned=part.warned)


def _as(language: str, text: str, line: int, *, warned: bool) -> Iterator[Piece]:
    match language:
        case "console":
            lines = text.split("\n")
            shown = [_PROMPT.sub("", each) if _PROMPT.match(each) else "" for each in lines]
            yield Piece("shell", "\n".join(shown), line, warned)
        case "shell":
            yield Piece("shell", _PROMPT.sub("", text) if "$ " in text else text, line, warned)
        case "python":
            yield Piece("python", text, line, warned)
        case "code":
            yield Piece("code", text, line, warned)
        case "notebook":
            for kind, cell in recipes.cells(text):
                yield Piece("python" if kind == "code" else "prose", cell, line, warned)
        case _:
            yield Piece("data", text, line, warned)
            for at, command in recipes.commands(language, text):
                yield Piece("shell", command, line + at, warned)
