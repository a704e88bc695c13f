"""The optional skills that come with Hermes: `official/<category>/<name>`."""

from pathlib import Path

from hermes.skills.hub.contents import hashes, read_folder, whole_hash
from hermes.skills.hub.errors import NotThere
from hermes.skills.hub.heads import head_of
from hermes.skills.hub.sources.choosing import Listed, chosen_folder
from hermes.skills.hub.sources.source import Fetched, Offer, Origin, matching
from hermes.skills.skill import SKILL_FILE

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
