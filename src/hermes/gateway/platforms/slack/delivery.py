"""Files on their way to Slack.

A file is first put into Slack's store, which nobody sees, and then shared. Which files belong to a
message is written down before they are shared: so whether the message is there can be asked after
a crash too. Slack shares a little after it says that it did, and only then the message has a name.
"""

import asyncio
import logging
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from hermes.core.ports import Clock
from hermes.gateway.platforms.kit.contract import (
    DeliveryUnknown,
    NotConnected,
    OutgoingMessage,
    SendLater,
    SendUnsure,
)
from hermes.gateway.platforms.kit.inbound import remember, write_in_thread
from hermes.gateway.platforms.kit.media import open_upload, safe_filename
from hermes.gateway.platforms.slack import outbound
from hermes.gateway.platforms.slack.client import (
    GONE,
    TROUBLE,
    Options,
    Workspace,
    code_of,
    of_connecting,
    patiently,
    told,
    ts_at,
    ts_of,
    unseen,
)
from hermes.gateway.platforms.slack.inbound import after
from hermes.gateway.platforms.slack.outbound import is_marked
from hermes.store.records import OutboxRow

logger = logging.getLogger(__name__)

MOST = 200
UPLOADING = aiohttp.ClientTimeout(total=600, sock_connect=10, sock_read=120)
LOOKS = (0.1, 0.2, 0.4, 0.8, 1.5, 3.0, 4.0)
"""Seconds between looks for the message of a file."""
DROPPED = 180.0
"""Seconds after which a file that is not shared never will be."""


class Upload(msgspec.Struct, frozen=True):
    files: tuple[str, ...]
    at: float


class Uploads:
    def __init__(
        self, path: Path, session: aiohttp.ClientSession, options: Options, clock: Clock
    ) -> None:
        self._path, self._session, self._options, self._clock = path, session, options, clock
        self._known = _read(path)
        self._writing = asyncio.Lock()

    async def send(
        self,
        workspace: Workspace,
        channel: str,
        thread: str,
        message: OutgoingMessage,
        key: str,
        limit: int,
    ) -> str:
        """The time of the message. Raises `SendRefused`, `SendLater`, `SendUnsure`."""
        paths = [open_upload(media, limit) for media in message.media]
        names = [
            safe_filename(media.name or path.name, media.mime)
            for media, path in zip(message.media, paths, strict=True)
        ]
        with unseen():
            files = [
                await self._store(workspace, path, name)
                for path, name in zip(paths, names, strict=True)
            ]
        await self._note(key, Upload(tuple(files), self._now()))
        body: dict[str, Any] = {
            "files": [{"id": file, "title": name} for file, name in zip(files, names, strict=True)],
            "channel_id": channel,
            **({"thread_ts": thread} if thread else {}),
            **self._words(message),
        }
        with told():
            await workspace.client.api_call("files.completeUploadExternal", json=body)
        return await self._shared(workspace, channel, files[0])

    async def find(self, workspace: Workspace, channel: str, key: str) -> str | None:
        """The time of a message with files, or None when it is surely not there."""
        upload = self._known.get(outbound.mark_of(key))
        if upload is None:
            return None  # nothing was shared
        try:
            ts = await _share(workspace, channel, upload.files[0])
        except TROUBLE as error:
            code = code_of(error)
            if code == "file_not_found":
                return None
            if code == "missing_scope":
                raise DeliveryUnknown("Slack does not tell of files without files:read") from error
            raise of_connecting(error) from error
        if ts or self._now() - upload.at > DROPPED:
            return ts
        raise NotConnected("Slack has not shared the file yet")

    def _words(self, message: OutgoingMessage) -> dict[str, Any]:
        written = outbound.written(message, self._options)
        if "blocks" in written:
            return {"blocks": written["blocks"]}
        return {"initial_comment": written["text"]} if written["text"].strip() else {}

    async def _store(self, workspace: Workspace, path: Path, name: str) -> str:
        size = path.stat().st_size
        answer = await workspace.client.files_getUploadURLExternal(filename=name, length=size)
        with path.open("rb") as data:
            async with self._session.post(
                str(answer["upload_url"]),
                data=data,
                timeout=UPLOADING,
                proxy=workspace.client.proxy,
            ) as response:
                if response.status != 200:
                    raise SendLater(f"Slack did not take the file ({response.status})", seconds=5.0)
        return str(answer["file_id"])

    async def _shared(self, workspace: Workspace, channel: str, file: str) -> str:
        for pause in LOOKS:
            try:
                if ts := await _share(workspace, channel, file):
                    return ts
            except TROUBLE as error:
                if code_of(error) == "missing_scope":
                    logger.warning("Slack does not tell of files: the scope files:read is missing")
                    return file
                raise SendUnsure("Slack does not tell whether it shared the file") from error
            await self._clock.sleep(pause)
        raise SendUnsure("Slack did not share the file in time")

    async def _note(self, key: str, upload: Upload) -> None:
        async with self._writing:
            remember(self._known, outbound.mark_of(key), upload, MOST)
            data = msgspec.json.encode(self._known)
            try:
                await write_in_thread(self._path, data)
            except OSError as error:
                raise SendLater(f"the upload cannot be noted: {error.strerror}") from error

    def _now(self) -> float:
        return self._clock.now().timestamp()


async def _share(workspace: Workspace, channel: str, file: str) -> str | None:
    """The time of the message that a file is in, in a channel."""
    data = await patiently(workspace.client.files_info, file=file)
    shares = data["file"].get("shares") or {}
    for kind in shares.values():
        for share in kind.get(channel) or ():
            return str(share["ts"])
    return None


def _read(path: Path) -> dict[str, Upload]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Upload])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as error:
        logger.error("uploads to Slack are not known any more: %s", error)
        return {}


# Whether a message in doubt is there: it has a mark of ours that people do not see.

DOUBT_MOST = 1000
"""Messages that are looked at."""
CLOCKS = 300.0
"""Seconds that our clock may differ from Slack's."""


async def find(workspace: Workspace, channel: str, thread: str, row: OutboxRow) -> str | None:
    """Its time, or None when it surely is not there."""
    client = workspace.client
    since = ts_of(row.after_id) or ts_at(row.created_at - CLOCKS)
    where = {"channel": channel, "include_all_metadata": True}
    try:
        if thread:
            there = await after(client.conversations_replies, since, DOUBT_MOST, ts=thread, **where)
        else:
            there = await after(client.conversations_history, since, DOUBT_MOST, **where)
    except TROUBLE as error:
        code = code_of(error)
        if code in GONE:
            return None  # nobody sees it there, and sending will say why
        if code == "missing_scope":
            raise DeliveryUnknown("Slack does not let us read that channel") from error
        raise of_connecting(error) from error
    for message in there:
        if is_marked(message, row.key):
            return str(message["ts"])
    if len(there) >= DOUBT_MOST:
        raise DeliveryUnknown("too much was written on Slack since then")
    return None
