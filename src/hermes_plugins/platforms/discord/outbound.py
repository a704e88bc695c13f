"""Outbound messages as Discord expects them, and the threads they go to."""

import contextlib
import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import discord
from discord.http import MultipartParameters, handle_message_parameters

from hermes.sdk.platforms import (
    Button,
    ChatTarget,
    OutgoingMessage,
    SendRefused,
    open_upload,
    safe_filename,
)
from hermes_plugins.platforms.discord.client import DiscordClient
from hermes_plugins.platforms.discord.manifest import AllowedMentions

UNKNOWN_CHANNEL = 10003
THREAD_EXISTS = 160004
CANNOT_READ_HISTORY = 160002  #: We may not read the history, and therefore not reply.
ARCHIVE_MINUTES: Literal[1440] = 1440
"""Minutes of silence after which a thread is archived; a new message reopens it."""
MAX_TITLE = 80
_MARKS = re.compile(r"<[@#:a][^>]*>")
MAX_BUTTONS = 25
MAX_LABEL = 80  #: Maximum characters of a button label.


def parse_id(text: str) -> int:
    if not text.isdecimal():
        raise SendRefused(
            f"{text!r} is not a chat of Discord", hint="Chats of Discord are numbers."
        )
    return int(text)


async def call_in_channel(
    bot: DiscordClient, target: ChatTarget, call: Callable[[int], Awaitable[Any]]
) -> Any:
    """Make the call with the target's channel. The thread of a mention is opened by the first
    message to it, so that unauthorized users open none and a crash does not open it twice."""
    if not target.thread_id:
        return await call(parse_id(target.chat_id))
    thread = parse_id(target.thread_id)
    try:
        return await call(thread)
    except discord.NotFound as error:
        if error.code != UNKNOWN_CHANNEL:
            raise
    await _open_thread(bot, parse_id(target.chat_id), thread)
    return await call(thread)


def thread_title(text: str) -> str:
    """Return a thread title made from its first message."""
    words = " ".join(_MARKS.sub(" ", text).split()) or "Talk"
    return words if len(words) <= MAX_TITLE else f"{words[: MAX_TITLE - 1].rstrip()}…"


def make_nonce(key: str) -> str:
    """Discord shows messages sent with the same nonce within a few minutes only once."""
    return hashlib.sha256(key.encode()).hexdigest()[:25]


def allowed_mentions(settings: AllowedMentions) -> discord.AllowedMentions:
    """Return who may be notified by answers, whatever their text contains."""
    return discord.AllowedMentions(
        everyone=settings.everyone,
        roles=settings.roles,
        users=settings.users,
        replied_user=settings.replied_user,
    )


@contextlib.contextmanager
def message_params(
    message: OutgoingMessage,
    key: str,
    allowed: discord.AllowedMentions,
    *,
    reply_to: str = "",
    limit: int,
) -> Iterator[MultipartParameters]:
    """Yield the parameters of a new message. Raises `SendRefused` for files that cannot be sent."""
    paths = [(media, open_upload(media, limit)) for media in message.media]
    if sum(path.stat().st_size for _, path in paths) > limit:
        raise SendRefused("the files are too large for one message")
    flags = discord.MessageFlags(suppress_notifications=True) if message.silent else None
    reference = {"message_id": reply_to, "fail_if_not_exists": False} if reply_to else None
    optional: dict[str, Any] = {
        "flags": flags,
        "message_reference": reference,
        "view": button_view(message.buttons) if message.buttons else None,
    }
    with contextlib.ExitStack() as open_files:
        files = []
        for media, path in paths:
            file = discord.File(path, filename=safe_filename(media.name or path.name))
            open_files.callback(file.close)
            files.append(file)
        optional["files"] = files or None
        yield handle_message_parameters(
            content=message.text,
            nonce=make_nonce(key),
            allowed_mentions=allowed,
            **{name: value for name, value in optional.items() if value is not None},
        )


def edit_params(message: OutgoingMessage, allowed: discord.AllowedMentions) -> MultipartParameters:
    """Return the parameters of an edit; buttons that are not given are removed."""
    return handle_message_parameters(
        content=message.text,
        view=button_view(message.buttons) if message.buttons else None,
        allowed_mentions=allowed,
    )


def forum_post_params(params: MultipartParameters, text: str) -> MultipartParameters:
    """Return the parameters for the first message of a new forum post."""
    name = thread_title(text)
    return _change_payload(params, lambda message: {"name": name, "message": message})


def without_reference(params: MultipartParameters) -> MultipartParameters:
    """Return the parameters without the referenced message."""
    gone = "message_reference"
    return _change_payload(
        params, lambda message: {key: each for key, each in message.items() if key != gone}
    )


def is_same_message(there: discord.Message, message: OutgoingMessage, nonce: str) -> bool:
    """True if this is the uncertain message. Discord reports the nonce of recent messages only;
    older ones are compared by content."""
    if there.nonce is not None:
        return str(there.nonce) == nonce
    files = [safe_filename(media.name or Path(media.path).name) for media in message.media]
    return (
        there.content.strip() == message.text.strip()
        and [file.filename for file in there.attachments] == files
    )


def button_view(buttons: tuple[Button, ...]) -> discord.ui.View:
    view = discord.ui.View(timeout=None)
    for button in buttons[:MAX_BUTTONS]:
        view.add_item(
            discord.ui.Button(label=button.label[:MAX_LABEL] or "…", custom_id=button.data)
        )
    return view


async def _open_thread(bot: DiscordClient, channel: int, message: int) -> None:
    """Open a thread for a message; it gets the id of the message."""
    first = await bot.rest.get_message(channel, message)
    try:
        await bot.rest.start_thread_with_message(
            channel,
            message,
            name=thread_title(first["content"]),
            auto_archive_duration=ARCHIVE_MINUTES,
        )
    except discord.HTTPException as error:
        if error.code != THREAD_EXISTS:
            raise


def _change_payload(
    params: MultipartParameters, change: Callable[[dict[str, Any]], dict[str, Any]]
) -> MultipartParameters:
    if not params.multipart:
        return params._replace(payload=change(params.payload or {}))
    first = params.multipart[0]
    first = {**first, "value": json.dumps(change(json.loads(first["value"])))}
    return params._replace(multipart=[first, *params.multipart[1:]])
