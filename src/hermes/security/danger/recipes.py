"""Command lines in makefiles, justfiles and the scripts of a package."""

import re
from collections.abc import Iterator

from hermes.security.danger.rule import operands
from hermes.security.shell.model import Invocation

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
