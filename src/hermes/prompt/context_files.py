"""Project context files: what a project wants an agent to know. The first kind found wins."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from hermes.prompt.tree import Tree
from hermes.prompt.vetting import CONTEXT_FILE_MAX_CHARS, Redact, presentable, vetted
from hermes.util.paths import inside, upwards

HERMES_FILES = (".hermes.md", "HERMES.md")
AGENTS_FILES = ("AGENTS.md", "agents.md")
CLAUDE_FILES = ("CLAUDE.md", "claude.md")
CURSOR_RULES = ".cursorrules"
CURSOR_FOLDER, CURSOR_ENDING = ".cursor/rules", ".mdc"
MOST_RULES = 50
GIT = ".git"

FENCE = "---"
HEADING = """\
# Project Context
These files of the project were loaded for you; follow what they say."""


class Found(NamedTuple):
    name: str
    """As shown: the file name, with its folder for one of several rules."""
    text: str


Kind = Callable[[Tree, str], Iterator[Found]]


def project_context(tree: Tree, folder: str, redact: Redact = str, *, soul: str = "") -> str:
    """The context files for work in `folder`, vetted, under one heading; "" when there are none.

    `soul` is the vetted text of SOUL.md when it is to follow them.
    """
    sections = list(_sections(find(tree, folder), redact))
    if soul:
        sections.append(f"## SOUL.md\n\n{soul}")
    return "\n\n".join([HEADING, *sections]) if sections else ""


def _sections(files: list[Found], redact: Redact) -> Iterator[str]:
    """One for each file, until together they reach the size that one file may have."""
    room, left_out = CONTEXT_FILE_MAX_CHARS, []
    for file in files:
        if room <= 0:
            left_out.append(file.name)
            continue
        text = vetted(file.name, file.text, redact)
        room -= len(text)
        yield f"## {file.name}\n\n{text}"
    if left_out:
        yield f"[Not shown for their size: {', '.join(left_out)}. Read them with the file tools.]"


def find(tree: Tree, folder: str) -> list[Found]:
    """The files of the first kind that has any with text in them."""
    return next((files for kind in KINDS if (files := list(kind(tree, folder)))), [])


def first_of(tree: Tree, folder: str, names: tuple[str, ...]) -> Iterator[Found]:
    """The first of these files that has text; at most one."""
    for name in names:
        text = tree.read(inside(folder, name))
        if text and text.strip("\ufeff \t\r\n"):
            yield Found(name, text)
            return


def without_frontmatter(text: str) -> str:
    """`text` without the block of settings at its beginning, if it has a whole one and more."""
    text = text.removeprefix("\ufeff")
    lines = text.splitlines(keepends=True)
    if not lines or lines[0].rstrip() != FENCE:
        return text
    for number, line in enumerate(lines[1:], 2):
        if line.rstrip() == FENCE:
            return "".join(lines[number:]).strip() or text
    return text


def _hermes(tree: Tree, folder: str) -> Iterator[Found]:
    """The nearest, from the working folder up to the root of its git repository."""
    for each in _up_to_git_root(tree, folder):
        for file in first_of(tree, each, HERMES_FILES):
            yield Found(file.name, without_frontmatter(file.text))
            return


def _up_to_git_root(tree: Tree, folder: str) -> Sequence[str]:
    way = upwards(folder)
    for steps, each in enumerate(way, 1):
        if tree.exists(inside(each, GIT)):  # a folder, or a file in a worktree
            return way[:steps]
    return [folder]


def _agents(tree: Tree, folder: str) -> Iterator[Found]:
    return first_of(tree, folder, AGENTS_FILES)


def _claude(tree: Tree, folder: str) -> Iterator[Found]:
    return first_of(tree, folder, CLAUDE_FILES)


def _cursor(tree: Tree, folder: str) -> Iterator[Found]:
    yield from first_of(tree, folder, (CURSOR_RULES,))
    names = [n for n in tree.names(inside(folder, CURSOR_FOLDER)) if n.endswith(CURSOR_ENDING)]
    for name in names[:MOST_RULES]:
        if presentable(name):
            yield from first_of(tree, folder, (f"{CURSOR_FOLDER}/{name}",))


KINDS: tuple[Kind, ...] = (_hermes, _agents, _claude, _cursor)
"""By priority."""
