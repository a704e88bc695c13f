"""All sources by name and identifier, and the sources on this machine."""

import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import msgspec

from hermes.core.errors import ConfigError, UsageError
from hermes.skills.history import SKIPPED_FOLDERS
from hermes.skills.hub.contents import (
    DECODE_ERRORS,
    InvalidContent,
    ListedSkill,
    NotAvailable,
    combined_hash,
    file_hashes,
    list_skill,
    make_private_folder,
    read_folder,
)
from hermes.skills.hub.repositories import GitHubRepos, GitHubSource, GitSource, is_git_address
from hermes.skills.hub.sources import (
    MAX_LISTED,
    FetchedSkill,
    HubAddresses,
    HubHttpClient,
    SkillOffer,
    SkillOrigin,
    SkillSource,
    WarnCallback,
    check_address,
    choose_folder,
    parse_repo_path,
)
from hermes.skills.hub.web_sources import (
    MarketplaceSource,
    SkillsShSource,
    WellKnownSource,
    is_site,
)
from hermes.skills.index import SkillIndex
from hermes.skills.prompt import search_skills
from hermes.skills.skill import SKILL_FILE, SkillRoot, Source
from hermes.util import files

# Local folders

MAX_FOLDERS = 5_000  #: Folders that are searched for skills.


class FolderSource(SkillSource):
    """A local folder."""

    name = "folder"

    async def browse(self) -> list[SkillOffer]:
        raise UsageError("a folder is not browsed", hint="`hermes skills install ./folder`")

    async def list_place(self, identifier: str) -> list[SkillOffer]:
        folder = Path(identifier).expanduser().absolute()
        return [
            SkillOffer(self.name, str(folder / one.folder), one.name, one.description)
            for one in _list_folder(folder)
        ]

    async def fetch(self, identifier: str) -> FetchedSkill:
        folder = resolve_folder(identifier)
        files = _read_folder(folder)
        return FetchedSkill(files, SkillOrigin(combined_hash(file_hashes(files)), str(folder)))

    async def version(self, identifier: str) -> str:
        return combined_hash(file_hashes(_read_folder(resolve_folder(identifier))))


def resolve_folder(identifier: str) -> Path:
    """Return the absolute path of a local skill folder. Raises `NotAvailable`."""
    try:
        folder = Path(identifier).expanduser().absolute()
        if folder.name == SKILL_FILE:
            folder = folder.parent
        skills = _list_folder(folder)
        if len(skills) == 1:
            return folder / skills[0].folder
        if skills:
            names = ", ".join(f"{identifier.rstrip('/')}/{one.folder}" for one in skills[:8])
            raise NotAvailable(
                f"{folder} has {len(skills)} skills",
                hint=f"one of {names}; --all installs all of them",
            )
        what = f"{folder} holds no {SKILL_FILE}" if folder.is_dir() else f"there is no {folder}"
    except (RuntimeError, OSError):  # an unknown user after `~`, or an invalid name
        what = f"there is no {identifier[:60]}"
    raise NotAvailable(what, hint="name the folder of one skill")


def _list_folder(folder: Path) -> list[ListedSkill]:
    """Return the skills in and below a folder. A SKILL.md inside another skill does not count."""
    found: list[ListedSkill] = []
    for place, folders, names in islice(os.walk(folder), MAX_FOLDERS):
        if SKILL_FILE in names:
            relative = Path(place).relative_to(folder).as_posix()
            data = Path(place, SKILL_FILE).read_bytes()
            found.append(list_skill("" if relative == "." else relative, data, Path(place).name))
            folders.clear()
        if len(found) >= MAX_LISTED:
            break
        folders[:] = sorted(each for each in folders if each not in SKIPPED_FOLDERS)
    return found


def _read_folder(folder: Path) -> dict[str, bytes]:
    try:
        return read_folder(folder)
    except OSError as error:
        raise InvalidContent(f"{folder} cannot be read: {error.strerror}") from error


# Optional skills of Hermes: `official/<category>/<name>`

OFFICIAL_PREFIX = "official/"
MAX_FOUND = 12


class OfficialSource(SkillSource):
    """The optional skills that come with Hermes."""

    name = "official"

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    async def browse(self) -> list[SkillOffer]:
        return [
            SkillOffer(self.name, f"{OFFICIAL_PREFIX}{one.folder}", one.name, one.description)
            for one in self._list_skills()
        ]

    async def list_place(self, identifier: str) -> list[SkillOffer]:
        start = f"{identifier.rstrip('/')}/"
        return [one for one in await self.browse() if f"{one.identifier}/".startswith(start)]

    async def search(self, query: str) -> list[SkillOffer]:
        if self._folder is None:
            return []
        index = SkillIndex([SkillRoot(self._folder, Source.BUNDLED)])
        found = search_skills(index.entries(), query, MAX_FOUND, index.instructions)
        return [
            SkillOffer(self.name, f"{OFFICIAL_PREFIX}{one.folder}", one.name, one.description)
            for one in found
        ]

    async def fetch(self, identifier: str) -> FetchedSkill:
        folder = self._resolve_folder(identifier)
        files = read_folder(folder)
        version = combined_hash(file_hashes(files))
        category = "" if folder.parent == self._folder else folder.parent.name
        exactly = f"{OFFICIAL_PREFIX}{folder.relative_to(self._root()).as_posix()}"
        return FetchedSkill(
            files, SkillOrigin(version, "comes with Hermes"), self.name, category, exactly
        )

    async def version(self, identifier: str) -> str:
        return combined_hash(file_hashes(read_folder(self._resolve_folder(identifier))))

    def has(self, name: str) -> bool:
        """Whether an optional skill has this name."""
        return any(one.name == name for one in self._list_skills())

    def _resolve_folder(self, identifier: str) -> Path:
        wanted = identifier.removeprefix(OFFICIAL_PREFIX).strip("/")
        return self._root() / choose_folder(identifier, wanted, self._list_skills())

    def _root(self) -> Path:
        if self._folder is None:
            raise NotAvailable("this installation has no optional skills")
        return self._folder

    def _list_skills(self) -> list[ListedSkill]:
        if self._folder is None or not self._folder.is_dir():
            return []
        found = {file.parent: file.read_bytes() for file in sorted(self._folder.rglob(SKILL_FILE))}
        return [
            list_skill(folder.relative_to(self._folder).as_posix(), data, folder.name)
            for folder, data in found.items()
        ]


# Taps: additional repositories and sites, stored in `taps.json`

TAP_SOURCE = "tap"


class TapFile(msgspec.Struct, frozen=True):
    taps: tuple[str, ...] = ()
    version: int = 1


class TapList:
    """The taps of the user."""

    def __init__(self, file: Path, web: str) -> None:
        self._file, self._web = file, web

    def all(self) -> tuple[str, ...]:
        """Return all taps. Raises `ConfigError` for a file that cannot be read."""
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=TapFile).taps
        except FileNotFoundError:
            return ()
        except (OSError, *DECODE_ERRORS) as error:
            raise ConfigError(
                f"the list of taps cannot be read: {error}",
                where=str(self._file),
                hint="correct it, or delete it and add the taps again",
            ) from error

    def normalize(self, text: str) -> str:
        """Return a tap as it is stored: `owner/repo`, or the address of a site. Raises
        `UsageError`."""
        if is_site(text) and not text.startswith(f"{self._web}/"):
            check_address(text)
            return text.rstrip("/")
        place = parse_repo_path(text, self._web)
        if place.path or place.ref:
            raise UsageError(f"{text} is not a repository", hint=f"`tap add {place.repo}`")
        return place.repo

    def add(self, tap: str) -> bool:
        """Return False when the tap already exists."""
        current = self.all()
        if tap.lower() in (each.lower() for each in current):
            return False
        self._write((*current, tap))
        return True

    def remove(self, tap: str) -> bool:
        current = self.all()
        remaining = tuple(each for each in current if each.lower() != tap.lower())
        if remaining == current:
            return False
        self._write(remaining)
        return True

    def _write(self, taps: tuple[str, ...]) -> None:
        make_private_folder(self._file.parent)
        data = msgspec.json.format(msgspec.json.encode(TapFile(taps)), indent=2)
        files.write_bytes(self._file, data + b"\n")


# The registry

SOURCE_NAMES = (
    "official", "github", "skills-sh", "well-known", "tap", "claude-marketplace", "git", "folder",
)  # fmt: skip
"""Values of `--source`."""
PREFIXED = ("official", "skills-sh", "claude-marketplace")
"""Sources whose identifiers begin with their name."""
UNSUPPORTED_SOURCES = ("clawhub", "lobehub")
"""Known from other agents; they get a message of their own."""
DEFAULT_BROWSED = ("official", "tap")
"""What `browse` lists without a source: sources that are cheap to query."""
DEFAULT_SEARCHED = ("official", "tap", "github", "skills-sh")


class SourceRegistry:
    """Finds sources by name and by identifier."""

    def __init__(
        self,
        web: HubHttpClient,
        addresses: HubAddresses,
        repos: GitHubRepos,
        known_taps: TapList,
        git: GitSource,
        official_folder: Path | None,
        warn: WarnCallback,
    ) -> None:
        self._web, self._addresses, self._repos, self._taps = web, addresses, repos, known_taps
        self._warn = warn
        self._official = OfficialSource(official_folder)
        self._single: dict[str, SkillSource] = {
            "official": self._official,
            "github": GitHubSource(repos),
            "skills-sh": SkillsShSource(web, warn, addresses.skills_sh, repos),
            "well-known": WellKnownSource(web, warn),
            "claude-marketplace": MarketplaceSource(repos),
            "git": git,
            "folder": FolderSource(),
        }

    def sources_for(self, names: Sequence[str]) -> list[SkillSource]:
        """Return the sources to query, one for each repository or site: each may fail alone."""
        return [source for name in names for source in self._sources_of(name)]

    def named(self, name: str, query: str = "") -> list[SkillSource]:
        """Return the sources of `--source NAME`, for a query that may name a place itself."""
        check_source_name(name)
        first = query.partition(" ")[0]
        if "/" in first and name in ("github", "well-known", "claude-marketplace"):
            return [self._single[name]]
        return self._sources_of(name)

    def resolve(
        self, identifier: str, name: str = "", *, is_place: bool = False
    ) -> tuple[SkillSource, str]:
        """Return the source of a skill and its full identifier. Raises `UsageError`.

        With `is_place` it identifies a folder or repository that may have several skills.
        """
        name = check_source_name(name or self._guess(identifier))
        if name == TAP_SOURCE:
            name = "well-known" if is_site(identifier) else "github"
        if name == "folder" and not is_place:
            identifier = str(resolve_folder(identifier))
        if name in PREFIXED and not f"{identifier}/".startswith(f"{name}/"):
            identifier = f"{name}/{identifier}"
        return self._single[name], identifier

    def _guess(self, identifier: str) -> str:
        first, slash, _ = identifier.partition("/")
        if identifier == "official":
            return identifier
        if slash and first in (*UNSUPPORTED_SOURCES, *PREFIXED):
            return first
        if identifier.startswith((".", "/", "~")):
            return "folder"
        if is_git_address(identifier):
            return "git"
        if identifier.startswith(f"{self._addresses.github_web}/"):
            return "github"
        if is_site(identifier):
            return "well-known"
        if slash:
            return "github"
        if self._official.has(identifier):
            return "official"
        raise UsageError(
            f"{identifier!r} does not identify a source",
            hint="`hermes skills search WORDS` shows identifiers; a folder is written ./folder",
        )

    def _sources_of(self, name: str) -> list[SkillSource]:
        match name:
            case "github":
                repos = self._addresses.repositories
                return [GitHubSource(self._repos, repo, name) for repo in repos]
            case "tap":
                return [self.tap(tap) for tap in self._taps.all()]
            case "claude-marketplace":
                return [MarketplaceSource(self._repos, it) for it in self._addresses.marketplaces]
            case _:
                return [self._single[name]]

    def tap(self, tap: str) -> SkillSource:
        if is_site(tap):
            return WellKnownSource(self._web, self._warn, tap, TAP_SOURCE)
        return GitHubSource(self._repos, tap, TAP_SOURCE)


def check_source_name(name: str) -> str:
    """Return `name`. Raises `UsageError` when there is no such source."""
    if name in UNSUPPORTED_SOURCES:
        raise UsageError(
            f"{name} is not supported yet",
            hint="most of its skills are at GitHub too: install them by owner/repo/path",
        )
    if name not in SOURCE_NAMES:
        raise UsageError(f"there is no source {name}", hint=f"one of {', '.join(SOURCE_NAMES)}")
    return name
