"""Files: put into the store, shared, fetched."""

from typing import TYPE_CHECKING

from aiohttp import web

from tests.fakes.slack.world import Json, World, public

if TYPE_CHECKING:
    from tests.fakes.slack.world import Team


class Uploading:
    def __init__(self, world: World) -> None:
        self.world = world
        self.looks = 1
        """How often a file is looked at before it is shared: Slack does that a little later."""
        self.refuse = 0  #: How many of the next uploads are not taken.
        self._begun: dict[str, Json] = {}
        self._completed: set[str] = set()
        self._waiting: dict[str, tuple[int, str, Json]] = {}

    async def begin(self, team: "Team", given: Json) -> Json:
        file = self.world.file(team.id, given["filename"], b"", "")
        file["_length"] = int(given["length"])
        self._begun[file["id"]] = file
        url = f"{self.world.files_url}/upload/v1/{file['id']}"
        return {"upload_url": url, "file_id": file["id"]}

    async def receive(self, request: web.Request) -> web.Response:
        file = self._begun[request.match_info["file"]]
        file["_data"] = await request.read()
        if self.refuse:
            self.refuse -= 1
            return web.Response(status=500, text="no")
        assert len(file["_data"]) == file["_length"]
        file["size"] = file["_length"]
        return web.Response(text=f"OK - {file['size']}")

    def complete(self, given: Json) -> list[Json] | None:
        wanted = [self._begun.get(each["id"]) for each in given["files"]]
        if any(file is None or file["id"] in self._completed for file in wanted):
            return None
        files = [file for file in wanted if file]
        self._completed.update(file["id"] for file in files)
        return files

    def share(self, files: list[Json], channel: str, message: Json) -> None:
        for file in files:
            self._waiting[file["id"]] = (self.looks, channel, message)

    async def info(self, team: "Team", given: Json) -> Json:
        file = self.world.files.get(given["file"])
        if file is None or (file["id"] in self._begun and file["id"] not in self._completed):
            return {"ok": False, "error": "file_not_found"}
        if file["id"] in self._waiting:
            looks, channel, message = self._waiting[file["id"]]
            if looks > 0:
                self._waiting[file["id"]] = (looks - 1, channel, message)
            else:
                file["shares"] = {"private": {channel: [{"ts": message["ts"]}]}}
        return {"file": public(file)}

    async def download(self, request: web.Request) -> web.Response:
        team, _, number = request.match_info["file"].partition("-")
        token = self.world.teams[team].token
        if request.headers.get("Authorization") != f"Bearer {token}":
            return web.Response(status=302, headers={"Location": "https://slack.com/signin"})
        return web.Response(body=self.world.files[number]["_data"])
