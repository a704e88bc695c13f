"""All sources by name, and which one an identifier belongs to."""

from collections.abc import Sequence
from pathlib import Path

from hermes.core.errors import UsageError
from hermes.skills.hub.endpoints import Endpoints
from hermes.skills.hub.sources import marketplace, official, skills_sh, taps
from hermes.skills.hub.sources.folder import FolderSource, folder_of
from hermes.skills.hub.sources.git_url import GitSource, is_git
from hermes.skills.hub.sources.github import GitHubRepos, GitHubSource, RepoListing
from hermes.skills.hub.sources.marketplace import MarketplaceSource
from hermes.skills.hub.sources.official import OfficialSource
from hermes.skills.hub.sources.skills_sh import SkillsShSource
from hermes.skills.hub.sources.source import HubSource, Warn
from hermes.skills.hub.sources.taps import Taps
from hermes.skills.hub.sources.well_known import WellKnownSource, is_site
from hermes.skills.hub.web import Web

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
        if name == taps.NAME:
            name = "well-known" if is_site(identifier) else "github"
        if name == "folder":
            identifier = str(folder_of(identifier))
        for prefix in (official.PREFIX, skills_sh.PREFIX, marketplace.PREFIX):
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
            return WellKnownSource(self._web, self._warn, tap, taps.NAME)
        return RepoListing(self._repos, tap, taps.NAME)


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
