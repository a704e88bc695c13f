"""Messages of ours, as Discord wants them."""

import contextlib
import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import discord
from discord.http import MultipartParameters, handle_message_parameters

from hermes.config.settings.platforms import AllowedMentions
from hermes.gateway.platforms.discord.client import Bot
from hermes.gateway.platforms.kit.contract import Button, ChatTarget, OutgoingMessage, SendRefused
from hermes.gateway.platforms.kit.media import open_upload, safe_filename

# Where messages go. The thread of a mention is opened by the first thing that goes there: whoever
# is not let in opens none, and after a crash it is not opened twice.

UNKNOWN_CHANNEL = 10003
THREAD_EXISTS = 160004
NO_HISTORY = 160002
"""We may not read what was written, and so not answer it."""
ARCHIVED_AFTER: Literal[1440] = 1440
"""Minutes of silence after which a thread is put away; writing brings it back."""
TITLE = 80
_MARKS = re.compile(r"<[@#:a][^>]*>")


def number(text: str) -> int:
    if not text.isdecimal():
        raise SendRefused(f"{text!r} is no chat of Discord", hint="Chats of Discord are numbers.")
    return int(text)


async def in_place(bot: Bot, target: ChatTarget, call: Callable[[int], Awaitable[Any]]) -> Any:
    """`call` with the channel of the target."""
    if not target.thread_id:
        return await call(number(target.chat_id))
    thread = number(target.thread_id)
    try:
        return await call(thread)
    except discord.NotFound as error:
        if error.code != UNKNOWN_CHANNEL:
            raise
    await _open(bot, number(target.chat_id), thread)
    return await call(thread)


async def _open(bot: Bot, channel: int, message: int) -> None:
    """A thread for a message; it has the message's id."""
    first = await bot.rest.get_message(channel, message)
    try:
        await bot.rest.start_thread_with_message(
            channel, message, name=title(first["content"]), auto_archive_duration=ARCHIVED_AFTER
        )
    except discord.HTTPException as error:
        if error.code != THREAD_EXISTS:
            raise


def title(text: str) -> str:
    """Of a thread, from its first message."""
    words = " ".join(_MARKS.sub(" ", text).split()) or "Talk"
    return words if len(words) <= TITLE else f"{words[: TITLE - 1].rstrip()}…"


MOST_BUTTONS = 25
LABEL = 80
"""Characters of a button."""


def nonce_of(key: str) -> str:
    """A message sent twice with one nonce within a few minutes is shown once."""
    return hashlib.sha256(key.encode()).hexdigest()[:25]


def pings(settings: AllowedMentions) -> discord.AllowedMentions:
    """Whom answers may ping, whatever is written in them."""
    return discord.AllowedMentions(
        everyone=settings.everyone,
        roles=settings.roles,
        users=settings.users,
        replied_user=settings.replied_user,
    )


@contextlib.contextmanager
def parameters(
    message: OutgoingMessage,
    key: str,
    allowed: discord.AllowedMentions,
    *,
    reply_to: str = "",
    limit: int,
) -> Iterator[MultipartParameters]:
    """What creates a message. Raises `SendRefused` for files that cannot go."""
    paths = [(media, open_upload(media, limit)) for media in message.media]
    if sum(path.stat().st_size for _, path in paths) > limit:
        raise SendRefused("the files are too large for one message")
    flags = discord.MessageFlags(suppress_notifications=True) if message.silent else None
    reference = {"message_id": reply_to, "fail_if_not_exists": False} if reply_to else None
    optional: dict[str, Any] = {
        "flags": flags,
        "message_reference": reference,
        "view": view_of(message.buttons) if message.buttons else None,
    }
    with contextlib.ExitStack() as open_files:
        files = [
            open_files.enter_context(_file(path, media.name or path.name)) for media, path in paths
        ]
        optional["files"] = files or None
        yield handle_message_parameters(
            content=message.text,
            nonce=nonce_of(key),
            allowed_mentions=allowed,
            **{name: value for name, value in optional.items() if value is not None},
        )


def edited(message: OutgoingMessage, allowed: discord.AllowedMentions) -> MultipartParameters:
    """What changes a message; buttons that are not given go away."""
    return handle_message_parameters(
        content=message.text,
        view=view_of(message.buttons) if message.buttons else None,
        allowed_mentions=allowed,
    )


def as_post(params: MultipartParameters, text: str) -> MultipartParameters:
    """The same as the first message of a new post in a forum."""
    name = title(text)
    return _changed(params, lambda message: {"name": name, "message": message})


def without_quote(params: MultipartParameters) -> MultipartParameters:
    """The same, without saying what it answers."""
    gone = "message_reference"
    return _changed(
        params, lambda message: {key: each for key, each in message.items() if key != gone}
    )


def _changed(
    params: MultipartParameters, change: Callable[[dict[str, Any]], dict[str, Any]]
) -> MultipartParameters:
    if not params.multipart:
        return params._replace(payload=change(params.payload or {}))
    first = params.multipart[0]
    first = {**first, "value": json.dumps(change(json.loads(first["value"])))}
    return params._replace(multipart=[first, *params.multipart[1:]])


def is_same(there: discord.Message, message: OutgoingMessage, nonce: str) -> bool:
    """Whether a message that is there is the one we mean. Discord tells the nonce of new messages
    only, so for older ones what they say must do."""
    if there.nonce is not None:
        return str(there.nonce) == nonce
    files = [safe_filename(media.name or Path(media.path).name) for media in message.media]
    return (
        there.content.strip() == message.text.strip()
        and [file.filename for file in there.attachments] == files
    )


def view_of(buttons: tuple[Button, ...]) -> discord.ui.View:
    view = discord.ui.View(timeout=None)
    for button in buttons[:MOST_BUTTONS]:
        view.add_item(discord.ui.Button(label=button.label[:LABEL] or "…", custom_id=button.data))
    return view


@contextlib.contextmanager
def _file(path: Path, name: str) -> Iterator[discord.File]:
    file = discord.File(path, filename=safe_filename(name))
    try:
        yield file
    finally:
        file.close()
