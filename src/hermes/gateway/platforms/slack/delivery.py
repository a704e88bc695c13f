"""File uploads, and whether an uncertain message was delivered.

A file is first uploaded, which is invisible, and then shared. The files of a message are recorded
before they are shared, so its delivery can be verified even after a crash. Slack shares files
shortly after confirming it, and the message gets its id only then.
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
from hermes.gateway.platforms.kit.inbound import load_state, remember, write_in_thread
from hermes.gateway.platforms.kit.media import open_upload, safe_filename
from hermes.gateway.platforms.slack import outbound
from hermes.gateway.platforms.slack.client import (
    CALL_ERRORS,
    GONE_ERRORS,
    SlackOptions,
    SlackWorkspace,
    error_code,
    map_connect_error,
    retry_rate_limited,
    timestamp_at,
    timestamp_of,
    translate_call_errors,
    translate_invisible_errors,
)
from hermes.gateway.platforms.slack.inbound import fetch_after
from hermes.gateway.platforms.slack.outbound import is_marked
from hermes.store.records import OutboxRow

logger = logging.getLogger(__name__)
MAX_UPLOADS = 200
UPLOAD_TIMEOUT = aiohttp.ClientTimeout(total=600, sock_connect=10, sock_read=120)
LOOKUP_PAUSES = (0.1, 0.2, 0.4, 0.8, 1.5, 3.0, 4.0)
"""Pauses in seconds between lookups of the message of a file."""
ABANDONED_SECONDS = 180.0
"""A file that is not shared after this time never will be."""
MAX_SEARCHED = 1000
"""Maximum number of messages searched."""
CLOCK_TOLERANCE = 300.0
"""Tolerated difference between our clock and Slack's."""


class SlackUpload(msgspec.Struct, frozen=True):
    files: tuple[str, ...]
    at: float


class UploadStore:
    """Uploads files and records which message they belong to."""

    def __init__(
        self, path: Path, session: aiohttp.ClientSession, options: SlackOptions, clock: Clock
    ) -> None:
        self._path, self._session, self._options, self._clock = path, session, options, clock
        what = "the record of uploads to Slack"
        self._uploads = load_state(path, dict[str, SlackUpload], {}, what)
        self._writing = asyncio.Lock()

    async def send(
        self,
        workspace: SlackWorkspace,
        channel: str,
        thread: str,
        message: OutgoingMessage,
        key: str,
        limit: int,
    ) -> str:
        """Send the files; return the timestamp of the message. Raises `SendRefused`, `SendLater` or
        `SendUnsure`."""
        paths = [open_upload(media, limit) for media in message.media]
        names = [
            safe_filename(media.name or path.name, media.mime)
            for media, path in zip(message.media, paths, strict=True)
        ]
        with translate_invisible_errors():
            files = [
                await self._upload_file(workspace, path, name)
                for path, name in zip(paths, names, strict=True)
            ]
        await self._record(key, SlackUpload(tuple(files), self._now()))
        body: dict[str, Any] = {
            "files": [{"id": file, "title": name} for file, name in zip(files, names, strict=True)],
            "channel_id": channel,
            **({"thread_ts": thread} if thread else {}),
            **self._text_body(message),
        }
        with translate_call_errors():
            await workspace.client.api_call("files.completeUploadExternal", json=body)
        return await self._wait_for_share(workspace, channel, files[0])

    async def find_timestamp(self, workspace: SlackWorkspace, channel: str, key: str) -> str | None:
        """Return the timestamp of a message with files; None when it was certainly not
        delivered."""
        upload = self._uploads.get(outbound.message_mark(key))
        if upload is None:
            return None  # nothing was shared
        try:
            ts = await _find_share(workspace, channel, upload.files[0])
        except CALL_ERRORS as error:
            code = error_code(error)
            if code == "file_not_found":
                return None
            if code == "missing_scope":
                raise DeliveryUnknown(
                    "Slack cannot confirm files without the scope files:read"
                ) from error
            raise map_connect_error(error) from error
        if ts or self._now() - upload.at > ABANDONED_SECONDS:
            return ts
        raise NotConnected("Slack has not shared the file yet")

    def _text_body(self, message: OutgoingMessage) -> dict[str, Any]:
        written = outbound.text_body(message, self._options)
        if "blocks" in written:
            return {"blocks": written["blocks"]}
        return {"initial_comment": written["text"]} if written["text"].strip() else {}

    async def _upload_file(self, workspace: SlackWorkspace, path: Path, name: str) -> str:
        size = path.stat().st_size
        answer = await workspace.client.files_getUploadURLExternal(filename=name, length=size)
        with path.open("rb") as data:
            async with self._session.post(
                str(answer["upload_url"]),
                data=data,
                timeout=UPLOAD_TIMEOUT,
                proxy=workspace.client.proxy,
            ) as response:
                if response.status != 200:
                    raise SendLater(
                        f"Slack did not accept the file ({response.status})", seconds=5.0
                    )
        return str(answer["file_id"])

    async def _wait_for_share(self, workspace: SlackWorkspace, channel: str, file: str) -> str:
        for pause in LOOKUP_PAUSES:
            try:
                if ts := await _find_share(workspace, channel, file):
                    return ts
            except CALL_ERRORS as error:
                if error_code(error) == "missing_scope":
                    logger.warning("Slack cannot confirm files: the scope files:read is missing")
                    return file
                raise SendUnsure("Slack did not confirm that it shared the file") from error
            await self._clock.sleep(pause)
        raise SendUnsure("Slack did not share the file in time")

    async def _record(self, key: str, upload: SlackUpload) -> None:
        async with self._writing:
            remember(self._uploads, outbound.message_mark(key), upload, MAX_UPLOADS)
            data = msgspec.json.encode(self._uploads)
            try:
                await write_in_thread(self._path, data)
            except OSError as error:
                raise SendLater(f"the upload cannot be recorded: {error.strerror}") from error

    def _now(self) -> float:
        return self._clock.now().timestamp()


async def find_message(
    workspace: SlackWorkspace, channel: str, thread: str, row: OutboxRow
) -> str | None:
    """Return the timestamp of a message by its invisible mark; None when it was certainly not
    delivered."""
    client = workspace.client
    since = timestamp_of(row.after_id) or timestamp_at(row.created_at - CLOCK_TOLERANCE)
    where = {"channel": channel, "include_all_metadata": True}
    try:
        if thread:
            there = await fetch_after(
                client.conversations_replies, since, MAX_SEARCHED, ts=thread, **where
            )
        else:
            there = await fetch_after(client.conversations_history, since, MAX_SEARCHED, **where)
    except CALL_ERRORS as error:
        code = error_code(error)
        if code in GONE_ERRORS:
            return None  # not visible there; sending again reports why
        if code == "missing_scope":
            raise DeliveryUnknown("Slack does not let us read that channel") from error
        raise map_connect_error(error) from error
    for message in there:
        if is_marked(message, row.key):
            return str(message["ts"])
    if len(there) >= MAX_SEARCHED:
        raise DeliveryUnknown("too much was written on Slack since then")
    return None


async def _find_share(workspace: SlackWorkspace, channel: str, file: str) -> str | None:
    """Return the timestamp of the message that contains the file in the channel."""
    data = await retry_rate_limited(workspace.client.files_info, file=file)
    shares = data["file"].get("shares") or {}
    for kind in shares.values():
        for share in kind.get(channel) or ():
            return str(share["ts"])
    return None
