"""Split a file into pieces that are judged alike: prose, shell, Python, other code, data."""

import re
from collections.abc import Callable, Iterator
from typing import Final, Literal

import msgspec

from hermes.skills.scanner.rules import TABLES, LineIndex, find_all, table_pattern

# Commands in files of other kinds: Dockerfiles, makefiles, workflows, packages, crontabs

_RUN = re.compile(r"^[ \t]*(?:RUN|CMD|ENTRYPOINT)[ \t]+((?:[^\n]*\\\n)*[^\n]*)", re.MULTILINE)
_MOUNT = re.compile(r"^(?:--\w+=\S+\s+)+")
_RECIPE = re.compile(r"^[ \t]+([^\s#].*)$", re.MULTILINE)
_MAKE_SHELL = re.compile(r"\$\(shell[ \t]+([^\n]{3,500})\)")
_STEP = table_pattern("pieces_step")
_EXEC = table_pattern("pieces_exec")
_CRON = table_pattern("pieces_cron")
_INLINE = re.compile(r"\bpython[\d.]*\s+(?:-[A-Za-z]\s+){0,3}-c\s+([\"'])")
_HEREDOC_PYTHON = re.compile(r"\bpython[\d.]*\s+-?\s*<<-?\s*[\"']?(\w{1,40})[\"']?[^\n]*")
_BY_DATABASE = re.compile(
    r"(?:\bPROGRAM\s{1,9}|\bxp_cmdshell\s{1,9}|\bsys_exec\()'([^'\n]{3,500})'", re.IGNORECASE
)
_SSH = table_pattern("pieces_ssh")
_PLIST = re.compile(r"<string>([^<\n]{8,500})</string>")
_SCRIPT = re.compile(r'"(\w[\w:.-]*)"\s*:\s*"((?:[^"\\\n]|\\.){1,2000})"')
_SCRIPT_LINE = re.compile(r'"\w[\w:.-]*"\s*:\s*"((?:[^"\\\n]|\\.){4,2000})"')
_COMMAND = table_pattern("pieces_command")
_AT_INSTALL: Final = frozenset({"preinstall", "install", "postinstall", "prepare", "prepublish"})
MAX_CELLS: Final = 500
MAX_INLINE_CHARS: Final = 4_000
MAX_STEP_LINES: Final = 200  #: Lines of one workflow step that are read.


def embedded_commands(language: str, text: str) -> Iterator[tuple[int, str]]:
    """Yield line (from 0) and text of the commands in a data file."""
    if language == "yaml":
        yield from _workflow_steps(text)
    for pattern, plain in _COMMANDS.get(language, ()):
        for line, match in find_all(pattern, text):
            yield line, plain(match[1])


def _image_command(command: str) -> str:
    command = _MOUNT.sub("", command.replace("\\\n", " "))
    return " ".join(_exec_form(command)) or command


def _recipe_command(command: str) -> str:
    return re.sub(r"\$\((\w+)\)", r"${\1}", command.lstrip("@+-").replace("$$", "$"))


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


_COMMANDS: Final[dict[str, tuple[tuple[re.Pattern[str], Callable[[str], str]], ...]]] = {
    "docker": ((_RUN, _image_command),),
    "make": ((_RECIPE, _recipe_command), (_MAKE_SHELL, _recipe_command)),
    "json": ((_COMMAND, _unescape),),
    "package": ((_COMMAND, _unescape), (_SCRIPT_LINE, _unescape)),
}


def install_scripts(text: str) -> Iterator[tuple[int, str]]:
    """Yield what a package.json runs while the package is installed."""
    for line, match in find_all(_SCRIPT, text):
        if match[1] in _AT_INSTALL:
            yield line, _unescape(match[2])


def scheduled_commands(text: str) -> Iterator[tuple[int, str]]:
    """Yield commands in systemd units, crontabs, launchd files and SSH configurations."""
    lines = LineIndex(text)
    for match in _CRON.finditer(text):
        command = match[2].partition(match[1])[0] if match[1] else match[2]
        yield lines.at(match.start(2)), command
    for pattern in (_EXEC, _PLIST, _SSH):
        for match in pattern.finditer(text):
            yield lines.at(match.start(1)), match[1]


def database_commands(text: str) -> Iterator[tuple[int, str]]:
    """Yield line (from 0) and text of commands that a database server would start."""
    return ((line, match[1]) for line, match in find_all(_BY_DATABASE, text))


def inline_python(text: str) -> Iterator[tuple[int, str]]:
    """Yield line (from 0) and text of Python code in command lines."""
    lines = LineIndex(text)
    for match in _INLINE.finditer(text):
        end = text.find(match[1], match.end(), match.end() + MAX_INLINE_CHARS)
        while end > 0 and text[end - 1] == "\\":
            end = text.find(match[1], end + 1, match.end() + MAX_INLINE_CHARS)
        code = text[match.end() : end] if end >= 0 else ""
        yield lines.at(match.end()), code.replace('\\"', '"')
    for match in _HEREDOC_PYTHON.finditer(text):
        end = text.find(f"\n{match[1]}", match.end())
        yield lines.at(match.end()) + 1, text[match.end() : end if end >= 0 else None]


def notebook_cells(text: str) -> Iterator[tuple[str, str]]:
    """Yield type and text of the cells of a notebook."""
    try:
        book = msgspec.json.decode(text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        yield "text", text
        return
    found = book.get("cells") if isinstance(book, dict) else None
    for cell in found[:MAX_CELLS] if isinstance(found, list) else ():
        if isinstance(cell, dict):
            source = cell.get("source", "")
            lines = source if isinstance(source, list) else [source]
            joined = "".join(line for line in lines if isinstance(line, str))
            yield str(cell.get("cell_type")), re.sub(r"^[!%]", "# ", joined, flags=re.MULTILINE)


def _exec_form(command: str) -> list[str]:
    """Return the words of `["sh", "-c", "…"]`."""
    if not command.lstrip().startswith("["):
        return []
    try:
        words = msgspec.json.decode(command.strip().encode("utf-8", "replace"), type=list[str])
    except (msgspec.DecodeError, msgspec.ValidationError):
        return []
    return [word if " " not in word else f"'{word}'" for word in words]


def _workflow_steps(text: str) -> Iterator[tuple[int, str]]:
    """Yield `run:` and similar keys of a workflow, on one line or as a block."""
    rows = text.split("\n")
    for first, match in find_all(_STEP, text):
        value = match[2].strip()
        if value[:1] not in ("|", ">") and value:
            yield first, value.strip("\"'")
            continue
        indent, block = len(match[1]), []
        for row in rows[first + 1 : first + MAX_STEP_LINES]:
            if row.strip() and len(row) - len(row.lstrip(" -")) <= indent:
                break
            block.append(row.strip().removeprefix("- "))
        if block:
            yield first + 1, "\n".join(block)


# Warnings: text that advises against the code it shows

_PROHIBITION = table_pattern("pieces_prohibition")
_EXCEPTION = table_pattern("pieces_exception")
"""`Never run this without sudo` tells the reader to run it."""
_ATTACK_WORD = (
    r"(?:attacks?|attackers?|malicious|malware|exploits?|backdoors?|jailbreaks?|injections?|"
    r"intruders?|break-ins?|dangerous|destructive|harmful|suspicious|insecure|vulnerable|unsafe|"
    r"persistence|reverse\s+shells?|compromised?)"
)
_EXAMPLE_WORD = (
    r"(?:examples?|signs?|patterns?|looks?\s+like|such\s+as|samples?|techniques?|indicators?|"
    r"typical|commands?\s+that|payloads?|strings?|tests?|detect\w*|recogni[sz]e|findings?)"
)
_ATTACK_EXAMPLE = re.compile(
    rf"\b{_ATTACK_WORD}\b[^.!?\n]{{0,80}}\b{_EXAMPLE_WORD}\b|\b{_EXAMPLE_WORD}\b[^.!?\n]{{0,80}}\b{_ATTACK_WORD}\b",
    re.IGNORECASE,
)
_BAD_HABIT = table_pattern("pieces_bad_habit")
_RUN_ORDER = table_pattern("pieces_run_order")


def is_warning(text: str) -> bool:
    """Whether these sentences keep a reader from doing what follows them."""
    against = _PROHIBITION.search(text)
    if against and not _EXCEPTION.search(text, against.start()):
        return True
    if _RUN_ORDER.search(text):
        return False
    return bool(_ATTACK_EXAMPLE.search(text) or _BAD_HABIT.search(text))


# Markdown: code blocks, commands in sentences, and the text before them

_FENCE = re.compile(r"[ \t>]*(`{3,}|~{3,})[ \t]*(?:\{?[ \t]*\.?([\w+#-]*))?")
_HEADING = re.compile(r"#{1,6}\s")
_SPAN = re.compile(r"(!?)(`{1,2})(?!`)([^`\n]{3,1000})\2(?!`)")
_RUN_VERB = table_pattern("pieces_run_verb")
_BARE_COMMAND = table_pattern("pieces_bare_command")
"""A command line in a sentence without any marks."""
_PIPED = re.compile(r"(\|\s*(?:sudo\s+)?(?:ba|z|da)?sh\b)\s+[A-Za-z].*")
"""Where the sentence continues after a command."""
_SENTENCE = re.compile(r"[.!?]\s|\n\s*\n|\n[-*|\d]")
_MAX_PARAGRAPH_LINES: Final = 6  #: Lines before a block that explain it.
_SENTENCE_CHARS: Final = 240


class FencedCode(msgspec.Struct, frozen=True):
    """A fenced code block."""

    language: str  #: In lower case; "" when not given.
    text: str
    line: int
    warned: bool


class InlineCommand(msgspec.Struct, frozen=True):
    """A command in a sentence."""

    text: str
    line: int
    warned: bool
    inline: bool  #: Has a leading exclamation mark, so it runs while the skill is loaded.


def markdown_code(text: str) -> Iterator[FencedCode | InlineCommand]:
    """Yield the code blocks and inline commands of a Markdown text."""
    lines = text.split("\n")
    prose: list[str] = []
    heading = ""
    at = 0
    while at < len(lines):
        opening = _FENCE.match(lines[at])
        if opening is None:
            if _HEADING.match(lines[at]):
                heading = lines[at]
            prose.append(lines[at])
            at += 1
            continue
        end = _closing_line(lines, at + 1, opening[1])
        inside = "\n".join(lines[at + 1 : end])
        warned = is_warning(f"{heading}\n{_paragraph_before(lines, at)}")
        yield FencedCode((opening[2] or "").lower(), inside, at + 1, warned)
        prose += [""] * (min(end + 1, len(lines)) - at)
        at = end + 1
    yield from _inline_commands("\n".join(prose))


def _closing_line(lines: list[str], at: int, fence: str) -> int:
    """Return the line that closes the block, or the number of lines."""
    for number in range(at, len(lines)):
        line = lines[number].strip("> \t")
        if line.startswith(fence) and not line.strip(fence[0]):
            return number
    return len(lines)


def _paragraph_before(lines: list[str], at: int) -> str:
    """Return the paragraph before a block."""
    end = at
    while end > 0 and at - end < 2 and not lines[end - 1].strip():
        end -= 1
    start = end
    while start > 0 and end - start < _MAX_PARAGRAPH_LINES and lines[start - 1].strip():
        start -= 1
        if _FENCE.match(lines[start]):
            return "\n".join(lines[start + 1 : end])
    return "\n".join(lines[start:end])


def _is_whole_line(prose: str, span: re.Match[str]) -> bool:
    """Whether a span is alone on its line, and therefore used like a block."""
    start = prose.rfind("\n", 0, span.start()) + 1
    before, after = prose[start : span.start()], prose[span.end() :].partition("\n")[0]
    return not before.strip(" \t>*-+0123456789.)") and not after.strip()


def _sentence_before(prose: str, end: int) -> str:
    return _SENTENCE.split(prose[max(0, end - _SENTENCE_CHARS) : end])[-1]


def _inline_commands(prose: str) -> Iterator[InlineCommand]:
    for line, match in find_all(_SPAN, prose):
        sentence = _sentence_before(prose, match.start())
        inline = bool(match[1])
        is_run = _RUN_VERB.search(sentence) or _is_whole_line(prose, match)
        if inline or (re.search("[ =]", match[3]) and is_run):
            yield InlineCommand(match[3], line, is_warning(sentence) and not inline, inline)
    for line, match in find_all(_BARE_COMMAND, prose):
        sentence = _sentence_before(prose, match.start())
        if "|" not in sentence:  # not a row of a table
            command = _PIPED.sub(r"\1", match[0])
            yield InlineCommand(command, line, is_warning(sentence), inline=False)


PieceKind = Literal["prose", "shell", "python", "code", "data"]


class ScanPiece(msgspec.Struct, frozen=True):
    """A part of a file with one kind of content."""

    kind: PieceKind
    text: str
    line: int = 0  #: Its first line in the file, from 0.
    warned: bool = False  #: The surrounding text advises against it.
    script: bool = False  #: A whole file, not a part of a text.
    mentioned: bool = False  #: A command in a sentence, which may not be a command at all.


_MARKDOWN: Final = (".md", ".mdx", ".markdown", ".mdc", ".rst", ".txt", ".adoc")
_ENDINGS: Final = {
    each: kind for kind, endings in TABLES.endings.items() for each in endings.split()
}
_NAMES: Final = {
    "makefile": "make", "gnumakefile": "make", "justfile": "make", "dockerfile": "docker",
    "containerfile": "docker", "package.json": "package", "crontab": "data",
}  # fmt: skip
_FENCES: Final = {
    **_ENDINGS,
    **{each: kind for kind, names in TABLES.fences.items() for each in names.split()},
}
_SHEBANG = re.compile(r"#!.{0,40}?\b(python|node|deno|bun|ruby|perl|php|pwsh|(?:ba|z|k|da|fi)?sh)")
_COMMAND_LINE = table_pattern("pieces_command_line")
_PROMPT = re.compile(r"^[ \t]*(?:[\w.@~:/-]*[$%#>]|>>>) ?", re.MULTILINE)


def split_file(name: str, text: str) -> Iterator[ScanPiece]:
    """Yield the pieces of one file. Prose is the whole file: an attack may span anything."""
    language = _language(name, text)
    if language == "markdown":
        yield ScanPiece("prose", text)
        for part in markdown_code(text):
            yield from _piece_of(part)
        return
    if language == "python":
        yield ScanPiece("python", text, script=True)
        return
    yield from _split_language(language, text, 0, warned=False)


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


def _piece_of(part: FencedCode | InlineCommand) -> Iterator[ScanPiece]:
    if isinstance(part, InlineCommand):
        yield ScanPiece(
            "shell", part.text, part.line, warned=part.warned, mentioned=not part.inline
        )
        return
    language = _FENCES.get(part.language, "data" if part.language else "unknown")
    if language == "unknown":
        language = "shell" if _COMMAND_LINE.search(part.text) else "data"
    yield from _split_language(language, part.text, part.line, warned=part.warned)


def _split_language(language: str, text: str, line: int, *, warned: bool) -> Iterator[ScanPiece]:
    match language:
        case "console":
            lines = text.split("\n")
            shown = [_PROMPT.sub("", each) if _PROMPT.match(each) else "" for each in lines]
            yield ScanPiece("shell", "\n".join(shown), line, warned)
        case "shell":
            yield ScanPiece("shell", _PROMPT.sub("", text) if "$ " in text else text, line, warned)
        case "python":
            yield ScanPiece("python", text, line, warned)
        case "code":
            yield ScanPiece("code", text, line, warned)
        case "notebook":
            for kind, cell in notebook_cells(text):
                yield ScanPiece("python" if kind == "code" else "prose", cell, line, warned)
        case _:
            yield ScanPiece("data", text, line, warned)
            for at, command in embedded_commands(language, text):
                yield ScanPiece("shell", command, line + at, warned)
