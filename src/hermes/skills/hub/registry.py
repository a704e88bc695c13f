"""Where skills come from, one module for each kind of place."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from hermes.core.errors import ConfigError, UsageError
from hermes.skills.hub import web_sources
from hermes.skills.hub.contents import (
    UNREADABLE,
    NotThere,
    Unfit,
    hashes,
    head_of,
    private_folder,
    read_folder,
    whole_hash,
)
from hermes.skills.hub.git import GitSource, is_git
from hermes.skills.hub.github import GitHubRepos, GitHubSource, RepoListing
from hermes.skills.hub.sources import (
    Endpoints,
    Fetched,
    HubSource,
    Listed,
    Offer,
    Origin,
    Warn,
    Web,
    check_address,
    chosen_folder,
    matching,
    parse_place,
)
from hermes.skills.hub.web_sources import (
    MarketplaceSource,
    SkillsShSource,
    WellKnownSource,
    is_site,
)
from hermes.skills.skill import SKILL_FILE
from hermes.util import atomic

# A folder of this machine.


class FolderSource:
    name = "folder"

    async def browse(self) -> list[Offer]:
        raise UsageError("a folder is not browsed", hint="`hermes skills install ./folder`")

    async def search(self, query: str) -> list[Offer]:  # noqa: ARG002 - as others
        return await self.browse()

    async def fetch(self, identifier: str) -> Fetched:
        folder = folder_of(identifier)
        files = _read(folder)
        return Fetched(files, Origin(whole_hash(hashes(files)), str(folder)))

    async def version(self, identifier: str) -> str:
        return whole_hash(hashes(_read(folder_of(identifier))))


def folder_of(identifier: str) -> Path:
    """The folder of a skill on this machine, as a whole path. Raises `NotThere`."""
    try:
        folder = Path(identifier).expanduser().absolute()
        if folder.name == SKILL_FILE:
            folder = folder.parent
        if (folder / SKILL_FILE).is_file():
            return folder
        what = f"{folder} holds no {SKILL_FILE}" if folder.is_dir() else f"there is no {folder}"
    except (RuntimeError, OSError):  # `~nobody`, or a name that no disk takes
        what = f"there is no {identifier[:60]}"
    raise NotThere(what, hint="name the folder of one skill")


def _read(folder: Path) -> dict[str, bytes]:
    try:
        return read_folder(folder)
    except OSError as error:
        raise Unfit(f"{folder} cannot be read: {error.strerror}") from error


# The optional skills that come with Hermes: `official/<category>/<name>`.

PREFIX = "official/"


class OfficialSource:
    name = "official"

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    async def browse(self) -> list[Offer]:
        return [
            Offer(self.name, f"{PREFIX}{one.folder}", one.name, one.description)
            for one in self._listed()
        ]

    async def search(self, query: str) -> list[Offer]:
        return matching(await self.browse(), query)

    async def fetch(self, identifier: str) -> Fetched:
        folder = self._place(identifier)
        files = read_folder(folder)
        version = whole_hash(hashes(files))
        category = "" if folder.parent == self._folder else folder.parent.name
        exactly = f"{PREFIX}{folder.relative_to(self._root()).as_posix()}"
        return Fetched(files, Origin(version, "comes with Hermes"), self.name, category, exactly)

    async def version(self, identifier: str) -> str:
        return whole_hash(hashes(read_folder(self._place(identifier))))

    def has(self, name: str) -> bool:
        """Whether a skill of this bare name is among them."""
        return any(one.name == name for one in self._listed())

    def _place(self, identifier: str) -> Path:
        wanted = identifier.removeprefix(PREFIX).strip("/")
        return self._root() / chosen_folder(identifier, wanted, self._listed())

    def _root(self) -> Path:
        if self._folder is None:
            raise NotThere("this installation has no optional skills")
        return self._folder

    def _listed(self) -> list[Listed]:
        if self._folder is None or not self._folder.is_dir():
            return []
        found = []
        for file in sorted(self._folder.rglob(SKILL_FILE)):
            head = head_of(file.read_bytes())
            folder = file.parent.relative_to(self._folder).as_posix()
            found.append(Listed(folder, head.name or file.parent.name, head.description))
        return found


# Taps: repositories and sites the user wants searched too, kept in `taps.json`.

NAME = "tap"


class TapFile(msgspec.Struct, frozen=True):
    taps: tuple[str, ...] = ()
    version: int = 1


class Taps:
    def __init__(self, file: Path, web: str) -> None:
        self._file, self._web = file, web

    def all(self) -> tuple[str, ...]:
        """Raises `ConfigError` for a file that cannot be understood."""
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=TapFile).taps
        except FileNotFoundError:
            return ()
        except (OSError, *UNREADABLE) as error:
            raise ConfigError(
                f"the list of taps cannot be read: {error}",
                where=str(self._file),
                hint="correct it, or delete it and add the taps again",
            ) from error

    def named(self, text: str) -> str:
        """A tap as it is kept: `owner/repo`, or the address of a site. Raises `UsageError`."""
        if is_site(text) and not text.startswith(f"{self._web}/"):
            check_address(text)
            return text.rstrip("/")
        place = parse_place(text, self._web)
        if place.path or place.ref:
            raise UsageError(f"{text} is not a repository", hint=f"`tap add {place.repo}`")
        return place.repo

    def add(self, tap: str) -> bool:
        """False when it was there already."""
        held = self.all()
        if tap.lower() in (each.lower() for each in held):
            return False
        self._write((*held, tap))
        return True

    def remove(self, tap: str) -> bool:
        held = self.all()
        kept = tuple(each for each in held if each.lower() != tap.lower())
        if kept == held:
            return False
        self._write(kept)
        return True

    def _write(self, taps: tuple[str, ...]) -> None:
        private_folder(self._file.parent)
        data = msgspec.json.format(msgspec.json.encode(TapFile(taps)), indent=2)
        atomic.write_bytes(self._file, data + b"\n")


# All sources by name, and which one an identifier belongs to.

NAMES = (
    "official",
    "github",
    "skills-sh",
    "well-known",
    "tap",
    "claude-marketplace",
    "git",
    "folder",
)
"""What `--source` takes."""
NOT_YET = ("clawhub", "lobehub")
"""Known from elsewhere; whoever names one is told."""
LISTED_BY_DEFAULT = ("official", "tap")
"""What `browse` shows without a source: what costs little to ask."""
SEARCHED_BY_DEFAULT = ("official", "tap", "github", "skills-sh")


class Sources:
    def __init__(
        self,
        web: Web,
        endpoints: Endpoints,
        repos: GitHubRepos,
        known_taps: Taps,
        git: GitSource,
        official_folder: Path | None,
        warn: Warn,
    ) -> None:
        self._web, self._endpoints, self._repos, self._taps = web, endpoints, repos, known_taps
        self._warn = warn
        self._official = OfficialSource(official_folder)
        self._single: dict[str, HubSource] = {
            "official": self._official,
            "github": GitHubSource(repos),
            "skills-sh": SkillsShSource(web, warn, endpoints.skills_sh, repos),
            "well-known": WellKnownSource(web, warn),
            "claude-marketplace": MarketplaceSource(repos),
            "git": git,
            "folder": FolderSource(),
        }

    def listing(self, names: Sequence[str]) -> list[HubSource]:
        """Everything to ask for a list, one for each repository or site: one may fail alone."""
        return [source for name in names for source in self._listing(name)]

    def named(self, name: str, query: str = "") -> list[HubSource]:
        """The sources that `--source NAME` means, for a query that may name a place itself."""
        known_source(name)
        first = query.partition(" ")[0]
        if "/" in first and name in ("github", "well-known", "claude-marketplace"):
            return [self._single[name]]
        return self._listing(name)

    def of(self, identifier: str, name: str = "") -> tuple[HubSource, str]:
        """The source of a skill, and its identifier as it is written down. Raises `UsageError`."""
        name = known_source(name or self._guess(identifier))
        if name == NAME:
            name = "well-known" if is_site(identifier) else "github"
        if name == "folder":
            identifier = str(folder_of(identifier))
        for prefix in (PREFIX, web_sources.PREFIX, web_sources.MARKETPLACE_PREFIX):
            if prefix.rstrip("/") == name and not identifier.startswith(prefix):
                identifier = f"{prefix}{identifier}"
        return self._single[name], identifier

    def _guess(self, identifier: str) -> str:
        first, slash, _ = identifier.partition("/")
        if slash and first in (*NOT_YET, "official", "skills-sh", "claude-marketplace"):
            return first
        if identifier.startswith((".", "/", "~")):
            return "folder"
        if is_git(identifier):
            return "git"
        if identifier.startswith(f"{self._endpoints.github_web}/"):
            return "github"
        if is_site(identifier):
            return "well-known"
        if slash:
            return "github"
        if self._official.has(identifier):
            return "official"
        raise UsageError(
            f"{identifier!r} does not say where the skill is",
            hint="`hermes skills search WORDS` shows identifiers; a folder is written ./folder",
        )

    def _listing(self, name: str) -> list[HubSource]:
        match name:
            case "github":
                repos = self._endpoints.repositories
                return [RepoListing(self._repos, repo, name) for repo in repos]
            case "tap":
                return [self.tap(tap) for tap in self._taps.all()]
            case "claude-marketplace":
                return [MarketplaceSource(self._repos, it) for it in self._endpoints.marketplaces]
            case _:
                return [self._single[name]]

    def tap(self, tap: str) -> HubSource:
        if is_site(tap):
            return WellKnownSource(self._web, self._warn, tap, NAME)
        return RepoListing(self._repos, tap, NAME)


def known_source(name: str) -> str:
    """`name` itself. Raises `UsageError` for one that cannot be asked."""
    if name in NOT_YET:
        raise UsageError(
            f"{name} is not supported yet",
            hint="most of its skills are at GitHub too: install them by owner/repo/path",
        )
    if name not in NAMES:
        raise UsageError(f"there is no source {name}", hint=f"one of {', '.join(NAMES)}")
    return name
