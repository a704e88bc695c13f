"""Attaching what git knows: changes, staged changes, the latest commits."""

import re

from hermes.app.references.blocks import fenced_text
from hermes.app.references.desk import Attached, Desk, NotAttached
from hermes.app.references.places import holds_secrets
from hermes.app.references.written import Reference, spellings
from hermes.app.user_git import UserGit
from hermes.util.text import clean, many
from hermes.util.threads import in_thread

MOST_COMMITS = 10
_PATCH = (
    "--no-ext-diff", "--no-textconv", "--no-color", "--no-relative", "--submodule=short",
    "--src-prefix=a/", "--dst-prefix=b/",
)  # fmt: skip
_HEADER = re.compile(r"^(?=diff --)", re.MULTILINE)
_BETWEEN = re.compile(r'[\s/"]+')
LEFT_OUT = "[left out: keys, passwords and shell settings are not attached]\n"


async def attach_changes(reference: Reference, desk: Desk) -> Attached:
    """Raises `NotAttached` and `GitFailed`."""
    match reference.kind:
        case "diff":
            what, nothing = ["diff", *_PATCH], "there are no changes that are not staged"
        case "staged":
            what, nothing = ["diff", "--cached", *_PATCH], "nothing is staged"
        case _:
            count = _commits(reference)
            what = ["log", f"-n{count}", "-p", "--format=medium", "--no-show-signature", *_PATCH]
            nothing = "there are no commits"
    git = UserGit(desk.folder)
    if not await git.line("rev-parse", "--git-dir"):
        raise NotAttached("this folder is not in a git repository")
    if what[0] == "log" and not await git.line("rev-parse", "--verify", "--quiet", "HEAD"):
        raise NotAttached(nothing)
    said = await git.run(*what, most=desk.most_bytes)
    if not said.output:
        raise NotAttached(nothing)
    text = await in_thread(lambda: desk.redact(clean(without_secrets(said.text))))
    return Attached(
        key=" ".join(what),
        written=reference.written,
        detail=many(text.count("\n"), "line"),
        text=fenced_text(text, ".diff"),
        size=len(said.output) + 1 if said.cut else 0,
    )


def _commits(reference: Reference) -> int:
    for value in spellings(reference):
        if value.isdecimal() and 1 <= int(value) <= MOST_COMMITS:
            return int(value)
    raise NotAttached(f"a number of commits from 1 to {MOST_COMMITS} is needed, as in @git:3")


def without_secrets(patch: str) -> str:
    """A patch without the files that must not be attached."""
    return "".join(map(_checked, _HEADER.split(patch)))


def _checked(section: str) -> str:
    header = section.partition("\n")[0]
    if not header.startswith("diff --"):
        return section
    parts = [part for part in _BETWEEN.split(header.casefold()) if part]
    if not holds_secrets(tuple(parts)):
        return section
    # What follows the patch in a log is the next commit, which is to be seen.
    after = re.search(r"^commit [0-9a-f]{40,64}\b", section, re.MULTILINE)
    return f"{header}\n{LEFT_OUT}{section[after.start() :] if after else ''}"
