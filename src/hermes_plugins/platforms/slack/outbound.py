"""Outbound messages as Slack expects them, file uploads, and the delivery check.

A file is first uploaded, which is invisible, and then shared. The files of a message are recorded
before they are shared, so its delivery can be verified even after a crash. Slack shares files
shortly after confirming it, and the message gets its id only then.
"""

import asyncio
import hashlib
import logging
import unicodedata
from pathlib import Path

import aiohttp
import msgspec

from hermes.sdk import Clock
from hermes.sdk.platforms import (
    Button,
    DeliveryQuery,
    DeliveryUnknown,
    NotConnected,
    OutgoingMessage,
    SendLater,
    SendRefused,
    SendUnsure,
    load_state,
    open_upload,
    remember,
    safe_filename,
    split_text,
    write_in_thread,
)
from hermes_plugins.platforms.slack.client import (
    CALL_ERRORS,
    GONE_ERRORS,
    Json,
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
from hermes_plugins.platforms.slack.inbound import fetch_after
from hermes_plugins.platforms.slack.manifest import escape_text

logger = logging.getLogger(__name__)
METADATA_EVENT = "hermes_message"
MAX_BUTTONS = 25
MAX_LABEL = 75  #: Maximum characters of a button label.
MAX_SECTION = 3000  #: Maximum characters of one text block.
_EMOJI_NAMES = {
    "👀": "eyes",
    "👍": "+1",
    "👎": "-1",
    "👌": "ok_hand",
    "👏": "clap",
    "🙏": "pray",
    "✅": "white_check_mark",
    "✔": "heavy_check_mark",
    "❌": "x",
    "❗": "exclamation",
    "❓": "question",
    "⚠": "warning",
    "⛔": "no_entry",
    "⏳": "hourglass_flowing_sand",
    "⌛": "hourglass",
    "⏸": "double_vertical_bar",
    "🛑": "octagonal_sign",
    "🤔": "thinking_face",
    "😂": "joy",
    "😢": "cry",
    "❤": "heart",
    "🔥": "fire",
    "🎉": "tada",
    "💯": "100",
    "🚀": "rocket",
    "⚙": "gear",
    "🔄": "arrows_counterclockwise",
    "✍": "writing_hand",
    "🤖": "robot_face",
}
_COLOUR_SELECTOR = "\ufe0f"  #: Variation selector that requests the coloured form.
MAX_UPLOADS = 200
UPLOAD_TIMEOUT = aiohttp.ClientTimeout(total=600, sock_connect=10, sock_read=120)
LOOKUP_PAUSES = (0.1, 0.2, 0.4, 0.8, 1.5, 3.0, 4.0)
"""Pauses in seconds between lookups of the message of a file."""
ABANDONED_SECONDS = 180.0  #: A file that is not shared after this time never will be.
MAX_SEARCHED = 1000  #: Maximum number of messages searched.
CLOCK_TOLERANCE = 300.0  #: Tolerated difference between our clock and Slack's.


def message_mark(key: str) -> str:
    """Return the mark by which a delivered message is recognized."""
    return hashlib.sha256(key.encode()).hexdigest()[:32]


def is_marked(there: Json, key: str) -> bool:
    """True if this message carries the mark of the key."""
    metadata = there.get("metadata") or {}
    payload = metadata.get("event_payload") or {}
    return metadata.get("event_type") == METADATA_EVENT and payload.get("key") == message_mark(key)


def add_prefix(text: str, message: OutgoingMessage, options: SlackOptions) -> str:
    """Add the configured prefix to the first part of an answer, which is the one that replies;
    without replies the parts cannot be distinguished."""
    prefix = options.settings.reply_prefix
    if not prefix or not text.strip() or (options.reply_references and not message.reply_to):
        return text
    return f"{escape_text(prefix)}{text}"


def message_body(message: OutgoingMessage, options: SlackOptions, key: str, thread: str) -> Json:
    """Return the body of a new message, without its channel."""
    body: Json = {
        **text_body(message, options),
        "unfurl_links": False,
        "unfurl_media": False,
        "metadata": {"event_type": METADATA_EVENT, "event_payload": {"key": message_mark(key)}},
    }
    if thread:
        body["thread_ts"] = thread
        if options.broadcast and (message.reply_to or not options.reply_references):
            body["reply_broadcast"] = True
    return body


def text_body(message: OutgoingMessage, options: SlackOptions) -> Json:
    """Return text and blocks. Raises `SendRefused` when there is nothing to show."""
    text = add_prefix(message.text, message, options)
    if not text.strip() and not message.media:
        raise SendRefused("Slack does not accept empty messages")
    if not message.buttons:
        return {"text": text}
    # A code block that continues in the next section is closed and opened again.
    sections = [
        {"type": "section", "text": {"type": "mrkdwn", "text": part}}
        for part in split_text(text, MAX_SECTION, "utf16")
    ]
    return {"text": text, "blocks": [*sections, _actions(message.buttons)]}


def plain_body(body: Json, message: OutgoingMessage, options: SlackOptions) -> Json:
    """Return the body without formatting, and therefore without buttons."""
    rest = {name: value for name, value in body.items() if name != "blocks"}
    text = escape_text(message.plain or message.text)
    return {**rest, "text": add_prefix(text, message, options), "mrkdwn": False}


def emoji_name(emoji: str) -> str:
    """Return Slack's name of an emoji. Most are the Unicode names; `:name:` and names are
    accepted."""
    sign = emoji.replace(_COLOUR_SELECTOR, "").strip()
    if sign in _EMOJI_NAMES:
        return _EMOJI_NAMES[sign]
    if len(sign) == 1 and not sign.isascii():
        return unicodedata.name(sign, "question").lower().replace(" ", "_").replace("-", "_")
    return sign.strip(":")


def _actions(buttons: tuple[Button, ...]) -> Json:
    elements = [
        {
            "type": "button",
            "action_id": f"hermes_{number}",
            "text": {"type": "plain_text", "text": button.label[:MAX_LABEL] or "…", "emoji": True},
            "value": button.data,
        }
        for number, button in enumerate(buttons[:MAX_BUTTONS])
    ]
    return {"type": "actions", "elements": elements}


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
        self._uploads: dict[str, SlackUpload] = load_state(path, dict[str, SlackUpload], {}, what)
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
        body: Json = {
            "files": [{"id": file, "title": name} for file, name in zip(files, names, strict=True)],
            "channel_id": channel,
        }
        if thread:
            body["thread_ts"] = thread
        written = text_body(message, self._options)
        if "blocks" in written:
            body["blocks"] = written["blocks"]
        elif written["text"].strip():
            body["initial_comment"] = written["text"]
        with translate_call_errors():
            await workspace.client.api_call("files.completeUploadExternal", json=body)
        return await self._wait_for_share(workspace, channel, files[0])

    async def find_timestamp(self, workspace: SlackWorkspace, channel: str, key: str) -> str | None:
        """Return the timestamp of a message with files; None when it was certainly not
        delivered."""
        upload = self._uploads.get(message_mark(key))
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
            remember(self._uploads, message_mark(key), upload, MAX_UPLOADS)
            data = msgspec.json.encode(self._uploads)
            try:
                await write_in_thread(self._path, data)
            except OSError as error:
                raise SendLater(f"the upload cannot be recorded: {error.strerror}") from error

    def _now(self) -> float:
        return self._clock.now().timestamp()


async def find_message(
    workspace: SlackWorkspace, channel: str, thread: str, query: DeliveryQuery
) -> str | None:
    """Return the timestamp of a message by its invisible mark; None when it was certainly not
    delivered."""
    client = workspace.client
    since = timestamp_of(query.after_id) or timestamp_at(query.created_at - CLOCK_TOLERANCE)
    where: Json = {"channel": channel, "include_all_metadata": True}
    if thread:
        where["ts"] = thread
    try:
        call = client.conversations_replies if thread else client.conversations_history
        there = await fetch_after(call, since, MAX_SEARCHED, **where)
    except CALL_ERRORS as error:
        code = error_code(error)
        if code in GONE_ERRORS:
            return None  # not visible there; sending again reports why
        if code == "missing_scope":
            raise DeliveryUnknown("Slack does not let us read that channel") from error
        raise map_connect_error(error) from error
    for message in there:
        if is_marked(message, query.key):
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
