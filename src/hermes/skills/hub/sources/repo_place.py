"""`owner/repo/path@ref`: a place in a repository of GitHub."""

import re
from urllib.parse import unquote, urlsplit

import msgspec

from hermes.core.errors import UsageError
from hermes.skills.hub.contents import safe_name

_OWNER = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,38})")
_REPO = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}")
_REF = re.compile(r"(?!.*\.\.)(?![-/.])[A-Za-z0-9._/+-]{1,200}")


class RepoPlace(msgspec.Struct, frozen=True):
    repo: str
    """`owner/name`."""
    path: str = ""
    """A folder in it, or the name of a skill."""
    ref: str = ""
    """Branch, tag or commit; "" is the default branch."""

    def __str__(self) -> str:
        place = f"{self.repo}/{self.path}" if self.path else self.repo
        return f"{place}@{self.ref}" if self.ref else place


def parse_place(text: str, web: str = "") -> RepoPlace:
    """The place that `text` names; `web` is where people browse GitHub. Raises `UsageError`."""
    if web and text.startswith(f"{web}/"):
        return _of_page(text, web)
    body, _, ref = text.partition("@")
    owner, _, rest = body.partition("/")
    repo, _, path = rest.strip("/").partition("/")
    return checked_place(owner, repo.removesuffix(".git"), path, ref)


def checked_place(owner: str, repo: str, path: str = "", ref: str = "") -> RepoPlace:
    if not _OWNER.fullmatch(owner) or not _REPO.fullmatch(repo):
        raise UsageError(
            f"{owner}/{repo} is not a repository",
            hint="write owner/repo or owner/repo/path, for example anthropics/skills/skills/pdf",
        )
    if ref and not _REF.fullmatch(ref):
        raise UsageError(f"{ref!r} is not a branch, tag or commit")
    path = path.strip("/").removesuffix("SKILL.md").rstrip("/")
    return RepoPlace(f"{owner}/{repo}", safe_name(path) if path else "", ref)


def _of_page(text: str, web: str) -> RepoPlace:
    """`https://github.com/owner/repo/tree/main/path`, as copied from a browser."""
    page = unquote(urlsplit(text.removeprefix(web)).path).strip("/")
    owner, repo, *rest = [*page.split("/"), "", ""][: page.count("/") + 3]
    rest = [part for part in rest if part]
    if rest[:1] in (["tree"], ["blob"]) and len(rest) > 1:
        return checked_place(owner, repo.removesuffix(".git"), "/".join(rest[2:]), rest[1])
    return checked_place(owner, repo.removesuffix(".git"), "/".join(rest))
