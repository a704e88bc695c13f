"""A folder of this machine."""

from pathlib import Path

from hermes.core.errors import UsageError
from hermes.skills.hub.contents import hashes, read_folder, whole_hash
from hermes.skills.hub.errors import NotThere, Unfit
from hermes.skills.hub.sources.source import Fetched, Offer, Origin
from hermes.skills.skill import SKILL_FILE


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
