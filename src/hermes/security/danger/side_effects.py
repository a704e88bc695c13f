"""What a program leaves behind for the rest of the same command: files, links, other names."""

import re
from collections.abc import Iterator

import msgspec

from hermes.security.danger.code import MAKES_CODE, files_run
from hermes.security.danger.context import CommandContext, place
from hermes.security.danger.rule import operands, written
from hermes.security.shell.expansion import printed
from hermes.security.shell.launchers import SHELLS
from hermes.security.shell.model import Invocation, program
from hermes.security.shell.wrappers import option_values

# Command lines in makefiles, justfiles and the scripts of a package.

RECIPES = {
    "make": ("Makefile", "makefile", "GNUmakefile"), "gmake": ("Makefile", "GNUmakefile"),
    "just": ("justfile", "Justfile", ".justfile"), "npm": ("package.json",),
    "pnpm": ("package.json",), "yarn": ("package.json",), "bun": ("package.json",),
}  # fmt: skip
"""Files with command lines in them, by the programs that run these."""
_TARGET = re.compile(r"([\w.%/@ -]+):(?![=:])\s*([^;\n]*)(?:;\s*(.*))?")
_SCRIPT = re.compile(r'"([\w:.-]+)"\s*:\s*"((?:[^"\\]|\\.)*)"')
_RUN_WORDS = frozenset({"run", "run-script", "exec"})


def recipes(text: str, invocation: Invocation) -> str:
    """What the program would run of the file: the targets it names and what these need; all of it
    when that cannot be told."""
    if "package.json" in RECIPES[invocation.name]:
        sections = {
            name: ("", [re.sub(r"\\(.)", r"\1", line)]) for name, line in _SCRIPT.findall(text)
        }
        default = list(sections)
    else:
        sections = dict(_targets(text))
        default = list(sections)[:2]  # what stands before the first target, and that one
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


def _targets(text: str) -> Iterator[tuple[str, tuple[str, list[str]]]]:
    """The name of each target, what it needs, and its command lines."""
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


MOST_FILES = 32
_FETCHES = frozenset({"curl", "wget", "aria2c", "http", "fetch"})
_COPIES = frozenset({
    "lwp-download", "axel", "scp", "sftp", "aws", "gsutil", "rclone", "gcloud", "azcopy", "mc",
})  # fmt: skip
"""The last operand, or the name of the source, is what comes from elsewhere."""
_CLIENTS = frozenset({"aws", "gsutil", "rclone", "gcloud", "azcopy", "mc"})
_COPY_WORDS = frozenset({
    "cp", "copy", "copyto", "sync", "mv", "move", "get", "get-object", "download", "mirror", "scp",
})  # fmt: skip
_TAKES_COMMANDS = frozenset({"at", "batch", "ssh", "parallel"})
"""These run the lines of a file: `at -f file`, `ssh host < file`."""


def remember(invocation: Invocation, scene: CommandContext) -> None:
    """Keep what later programs of the same command may run or write through."""
    if len(scene.texts) + len(scene.links) + len(scene.copies) > MOST_FILES:
        return
    name = invocation.name
    if name == "ln":
        _remember_link(invocation, scene)
    if name in ("cp", "mv", "install", "ln", "link"):
        _remember_copy(invocation, scene)
    elif name in _FETCHES or (name in _COPIES and _copies_here(invocation)):
        for path in (*_downloaded(invocation), *written(invocation)):
            scene.fetched.add(place(path, invocation, scene))
    else:
        _remember_text(invocation, scene)


def _copies_here(invocation: Invocation) -> bool:
    """Whether a client of a store or host fetches files, not something else."""
    return invocation.name not in _CLIENTS or not _COPY_WORDS.isdisjoint(invocation.arguments)


def unmasked(invocation: Invocation, scene: CommandContext) -> Invocation | None:
    """The program that the same command has given the name by which it is started now."""
    source = scene.copies.get(invocation.name) if scene.copies and invocation.words else None
    if source is None or program(source) == invocation.name:
        return None
    return msgspec.structs.replace(invocation, words=(source, *invocation.arguments))


def scripts_of(invocation: Invocation, scene: CommandContext) -> Iterator[str]:
    """Shell text that the same command has written into a file and now runs."""
    if not scene.texts:
        return
    name = invocation.name
    if name in RECIPES:
        paths = [*option_values(invocation.arguments, ("-f", "--file", "--makefile", "--justfile"))]
        for path in paths or RECIPES[name]:
            text = scene.texts.get(place(path, invocation, scene))
            yield recipes(text, invocation) if text else ""
    elif name == "git":  # its hooks
        yield from (text for path, text in scene.texts.items() if "/.git/hooks/" in path)
    elif name in _TAKES_COMMANDS:
        paths = [*option_values(invocation.arguments, ("-f", "-a"))]
        paths += [each.target for each in invocation.redirects if each.operator == "<"]
        yield from (scene.texts.get(place(path, invocation, scene), "") for path in paths)
    else:
        yield _script_of(invocation, scene)


def _script_of(invocation: Invocation, scene: CommandContext) -> str:
    texts = (scene.texts.get(real, "") for real in files_run(invocation, scene))
    text = next(filter(None, texts), "")
    shell = invocation.name in SHELLS or invocation.name in ("source", ".")
    first = text.lstrip().partition("\n")[0]
    direct = not first.startswith("#!") or "sh" in first
    return text if shell or (direct and "/" in "".join(invocation.words[:1])) else ""


def _remember_text(invocation: Invocation, scene: CommandContext) -> None:
    paths = [redirect.target for redirect in invocation.redirects if redirect.writes]
    if invocation.name == "tee":
        paths += operands(invocation)
    if not paths:
        return
    plain = Invocation(invocation.words, stdin=invocation.stdin, upstream=invocation.upstream)
    text = printed(plain)
    sources = {invocation.name, *(source.name for source in invocation.sources)}
    for path in paths:
        if sources & MAKES_CODE:
            scene.fetched.add(place(path, invocation, scene))
        if text is not None:
            _keep(path, text, invocation, scene)
        elif invocation.name == "cat" and len(invocation.words) == 2:
            scene.copies[program(path)] = invocation.words[1]


def _remember_link(invocation: Invocation, scene: CommandContext) -> None:
    named = operands(invocation)
    if len(named) < 1:
        return
    target = scene.real(named[0], invocation)
    last = named[-1] if len(named) > 1 else "."
    link = scene.written_as(last, invocation)
    if target and link:
        scene.links[link] = target
        scene.links[f"{link.rstrip('/')}/{target.rpartition('/')[2]}"] = target


def _remember_copy(invocation: Invocation, scene: CommandContext) -> None:
    named = operands(invocation)
    if len(named) < 2:
        return
    old, new = named[-2:]
    scene.copies[program(new)] = scene.copies.get(program(old), old)
    source = place(old, invocation, scene)
    if source in scene.fetched:
        scene.fetched.add(place(new, invocation, scene))
    if source in scene.texts:
        _keep(new, scene.texts[source], invocation, scene)


def _downloaded(invocation: Invocation) -> list[str]:
    """Files a fetching program names after the address."""
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


def _keep(path: str, text: str, invocation: Invocation, scene: CommandContext) -> None:
    real = place(path, invocation, scene)
    if real and not real.startswith("/dev/"):
        before = scene.texts.get(real, "")
        appended = any(r.target == path and ">>" in r.operator for r in invocation.redirects)
        scene.texts[real] = f"{before}\n{text}" if appended else text
