"""Side effects of a program on the rest of the same command: files, links, renamed programs."""

import re
from collections.abc import Iterator

import msgspec

from hermes.security.danger.code import MAKES_CODE, executed_files
from hermes.security.danger.context import ShellContext, locate_word
from hermes.security.danger.rule import operands, written_paths
from hermes.security.shell.expansion import predict_output
from hermes.security.shell.launchers import SHELLS
from hermes.security.shell.model import Invocation, program_name
from hermes.security.shell.wrappers import option_values

# Command lines in makefiles, justfiles and the scripts of a package.

RECIPES = {
    "make": ("Makefile", "makefile", "GNUmakefile"), "gmake": ("Makefile", "GNUmakefile"),
    "just": ("justfile", "Justfile", ".justfile"), "npm": ("package.json",),
    "pnpm": ("package.json",), "yarn": ("package.json",), "bun": ("package.json",),
}  # fmt: skip
"""Files that contain command lines, by the programs that run them."""
_TARGET = re.compile(r"([\w.%/@ -]+):(?![=:])\s*([^;\n]*)(?:;\s*(.*))?")
_SCRIPT = re.compile(r'"([\w:.-]+)"\s*:\s*"((?:[^"\\]|\\.)*)"')
_RUN_WORDS = frozenset({"run", "run-script", "exec"})


def recipe_commands(text: str, invocation: Invocation) -> str:
    """Return what the program would run of the file: the named targets and their prerequisites;
    all of it if that is unknown."""
    if "package.json" in RECIPES[invocation.name]:
        sections = {
            name: ("", [re.sub(r"\\(.)", r"\1", line)]) for name, line in _SCRIPT.findall(text)
        }
        default = list(sections)
    else:
        sections = dict(_recipe_targets(text))
        default = list(sections)[:2]  # the lines before the first target, and that target
    named = [word for word in operands(invocation) if "=" not in word and word not in _RUN_WORDS]
    wanted = [name for name in named if name in sections] or (default if not named else [*sections])
    wanted.append("")
    lines: list[str] = []
    done: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name not in done and name in sections:
            done.add(name)
            needed, commands = sections[name]
            wanted += [*needed.split(), f"pre{name}", f"post{name}"]
            lines += commands
    return "\n".join(lines).replace("$$", "$")


def _recipe_targets(text: str) -> Iterator[tuple[str, tuple[str, list[str]]]]:
    """Yield the name of each target, its prerequisites, and its command lines."""
    names, needed, commands = [""], "", list[str]()
    for line in text.split("\n"):
        found = None if line[:1].isspace() else _TARGET.match(line)
        if found:
            for name in names:
                yield name, (needed, commands)
            names, needed = found[1].split() or [""], found[2] or ""
            commands = [found[3]] if found[3] else []
        elif line[:1].isspace() and line.strip():
            commands.append(line.strip().lstrip("@+-"))
        elif "$(shell" in line or "`" in line:
            commands.append(line.replace("$(shell", "$("))
    for name in names:
        yield name, (needed, commands)


MAX_FILES = 32
_FETCHES = frozenset({"curl", "wget", "aria2c", "http", "fetch"})
_COPIES = frozenset({
    "lwp-download", "axel", "scp", "sftp", "aws", "gsutil", "rclone", "gcloud", "azcopy", "mc",
})  # fmt: skip
"""The last operand, or the name of the source, is the downloaded file."""
_CLIENTS = frozenset({"aws", "gsutil", "rclone", "gcloud", "azcopy", "mc"})
_COPY_WORDS = frozenset({
    "cp", "copy", "copyto", "sync", "mv", "move", "get", "get-object", "download", "mirror", "scp",
})  # fmt: skip
_TAKES_COMMANDS = frozenset({"at", "batch", "ssh", "parallel"})
"""These run the lines of a file: `at -f file`, `ssh host < file`."""


def record_side_effects(invocation: Invocation, context: ShellContext) -> None:
    """Record what later programs of the same command may run or write through."""
    if len(context.texts) + len(context.links) + len(context.copies) > MAX_FILES:
        return
    name = invocation.name
    if name == "ln":
        _record_link(invocation, context)
    if name in ("cp", "mv", "install", "ln", "link"):
        _record_copy(invocation, context)
    elif name in _FETCHES or (name in _COPIES and _copies_here(invocation)):
        for path in (*_downloaded_files(invocation), *written_paths(invocation)):
            context.fetched.add(locate_word(path, invocation, context))
    else:
        _record_written_text(invocation, context)


def _copies_here(invocation: Invocation) -> bool:
    """Return whether a storage or host client downloads files."""
    return invocation.name not in _CLIENTS or not _COPY_WORDS.isdisjoint(invocation.arguments)


def original_program(invocation: Invocation, context: ShellContext) -> Invocation | None:
    """Return the program that the same command has renamed to the name started now."""
    source = context.copies.get(invocation.name) if context.copies and invocation.words else None
    if source is None or program_name(source) == invocation.name:
        return None
    return msgspec.structs.replace(invocation, words=(source, *invocation.arguments))


def scripts_run(invocation: Invocation, context: ShellContext) -> Iterator[str]:
    """Yield shell text that the same command has written to a file and now runs."""
    if not context.texts:
        return
    name = invocation.name
    if name in RECIPES:
        paths = [*option_values(invocation.arguments, ("-f", "--file", "--makefile", "--justfile"))]
        for path in paths or RECIPES[name]:
            text = context.texts.get(locate_word(path, invocation, context))
            yield recipe_commands(text, invocation) if text else ""
    elif name == "git":  # its hooks
        yield from (text for path, text in context.texts.items() if "/.git/hooks/" in path)
    elif name in _TAKES_COMMANDS:
        paths = [*option_values(invocation.arguments, ("-f", "-a"))]
        paths += [each.target for each in invocation.redirects if each.operator == "<"]
        yield from (context.texts.get(locate_word(path, invocation, context), "") for path in paths)
    else:
        yield _script_run(invocation, context)


def _script_run(invocation: Invocation, context: ShellContext) -> str:
    texts = (context.texts.get(real, "") for real in executed_files(invocation, context))
    text = next(filter(None, texts), "")
    shell = invocation.name in SHELLS or invocation.name in ("source", ".")
    first = text.lstrip().partition("\n")[0]
    direct = not first.startswith("#!") or "sh" in first
    return text if shell or (direct and "/" in "".join(invocation.words[:1])) else ""


def _record_written_text(invocation: Invocation, context: ShellContext) -> None:
    paths = [redirect.target for redirect in invocation.redirects if redirect.writes]
    if invocation.name == "tee":
        paths += operands(invocation)
    if not paths:
        return
    plain = Invocation(invocation.words, stdin=invocation.stdin, upstream=invocation.upstream)
    text = predict_output(plain)
    sources = {invocation.name, *(source.name for source in invocation.sources)}
    for path in paths:
        if sources & MAKES_CODE:
            context.fetched.add(locate_word(path, invocation, context))
        if text is not None:
            _record_text(path, text, invocation, context)
        elif invocation.name == "cat" and len(invocation.words) == 2:
            context.copies[program_name(path)] = invocation.words[1]


def _record_link(invocation: Invocation, context: ShellContext) -> None:
    named = operands(invocation)
    if len(named) < 1:
        return
    target = context.real(named[0], invocation)
    last = named[-1] if len(named) > 1 else "."
    link = context.written_as(last, invocation)
    if target and link:
        context.links[link] = target
        context.links[f"{link.rstrip('/')}/{target.rpartition('/')[2]}"] = target


def _record_copy(invocation: Invocation, context: ShellContext) -> None:
    named = operands(invocation)
    if len(named) < 2:
        return
    old, new = named[-2:]
    context.copies[program_name(new)] = context.copies.get(program_name(old), old)
    source = locate_word(old, invocation, context)
    if source in context.fetched:
        context.fetched.add(locate_word(new, invocation, context))
    if source in context.texts:
        _record_text(new, context.texts[source], invocation, context)


def _downloaded_files(invocation: Invocation) -> list[str]:
    """Return the files that a download program names after the URL."""
    words = invocation.arguments
    addresses = [word for word in words if "://" in word or (word[:1] != "-" and "/" in word)]
    named = [address.partition("?")[0].rstrip("/").rpartition("/")[2] for address in addresses]
    if invocation.name in _COPIES:
        return [*named, *words[-1:]]
    if invocation.name == "aria2c" and not list(option_values(words, ("-o", "--out"))):
        return named
    if invocation.name == "wget" and not list(option_values(words, ("-O", "--output-document"))):
        return named
    remote = any(word[:1] == "-" and word[:2] != "--" and "O" in word for word in words)
    return named if remote or "--remote-name" in words else []


def _record_text(path: str, text: str, invocation: Invocation, context: ShellContext) -> None:
    real = locate_word(path, invocation, context)
    if real and not real.startswith("/dev/"):
        before = context.texts.get(real, "")
        appended = any(r.target == path and ">>" in r.operator for r in invocation.redirects)
        context.texts[real] = f"{before}\n{text}" if appended else text
