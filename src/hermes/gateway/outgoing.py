"""Builds outgoing messages: splits texts for their platform and attaches the files that a text
names."""

import re
from collections.abc import Iterator, Sequence

import msgspec

from hermes.core.errors import AttachmentRefused
from hermes.core.ports import Attachments
from hermes.sdk.platforms import (
    Button,
    Capabilities,
    ChatTarget,
    Media,
    MediaKind,
    OutgoingMessage,
    compose,
    find_open_fence,
    guess_mime,
    measure,
    media_kind,
    safe_filename,
)
from hermes.store import OutboxItem


def lane(target: ChatTarget) -> str:
    """Return the key that keeps the messages of one chat in order."""
    return msgspec.json.encode(
        [target.platform, target.account, target.chat_id, target.thread_id]
    ).decode()


decode_target = msgspec.json.Decoder(ChatTarget).decode
decode_message = msgspec.json.Decoder(OutgoingMessage).decode


SIDE_LANE = "!"  #: Lane suffix of questions and of replies outside the chat order.
REPEAT_MARK = "(sent again after an interruption)"
"""The first line of a message that may have been delivered before. It has no formatting, so it is
the same in every dialect."""


class OutgoingMeta(msgspec.Struct, frozen=True):
    """Everything about an outgoing message except its text."""

    key: str  #: The parts of a long text get the keys `key:0`, `key:1`, …
    target: ChatTarget
    kind: str = "reply"
    inbox_id: int = 0
    reply_to: str = ""
    reply_to_all: bool = False  #: True if every part quotes the message, not only the first.
    buttons: tuple[Button, ...] = ()
    silent: bool = False
    lane_suffix: str = ""
    """Gives the message its own lane, so that it does not wait for a message that is still growing.
    """
    mirrored: str = ""  #: See `OutgoingMessage.mirrored`; set on the first part.


def mark_repeated(message: OutgoingMessage, able: Capabilities) -> bytes:
    """Return the stored form of a message that may be shown a second time."""
    marked = f"{REPEAT_MARK}\n{message.text}".rstrip()
    if not message.text.startswith(REPEAT_MARK) and measure(marked, able.counts) <= able.max_chars:
        plain = message.plain and f"{REPEAT_MARK}\n{message.plain}"
        message = msgspec.structs.replace(message, text=marked, plain=plain)
    return msgspec.json.encode(message)


def compose_items(
    text: str, meta: OutgoingMeta, capabilities: Capabilities, files: Sequence[Media] = ()
) -> tuple[OutboxItem, ...]:
    """Split a text into as many messages as its platform needs; at least one if it has content."""
    parts, target = compose(text, capabilities, files), meta.target
    items = []
    for number, part in enumerate(parts):
        message = msgspec.structs.replace(
            part,
            reply_to=meta.reply_to if number == 0 or meta.reply_to_all else "",
            buttons=meta.buttons if number == len(parts) - 1 else (),
            silent=meta.silent,
            mirrored=meta.mirrored if number == 0 else "",
        )
        items.append(
            OutboxItem(
                key=f"{meta.key}:{number}",
                platform=target.platform,
                account=target.account,
                target=msgspec.json.encode(target),
                lane=f"{lane(target)}{meta.lane_suffix}",
                body=msgspec.json.encode(message),
                kind=meta.kind,
                inbox_id=meta.inbox_id,
            )
        )
    return tuple(items)


MAX_FILES = 20  #: Maximum number of files in one message.
MAX_WORDS = 12  #: Maximum words of a path with spaces; each word costs one lookup in the workspace.
_TAG = re.compile(r"[`\"'(*<]*MEDIA:\s?(?P<path>[/~](?:(?!MEDIA:)[^\n])*)")
_AFTER_PATH = " \t\r`\"'()*<>.,;"


async def attach_files(
    text: str, attachments: Attachments, capabilities: Capabilities
) -> tuple[str, tuple[Media, ...]]:
    """Copy the files that a text names, as far as the conversation may send them.

    Returns the text without the tags, and the copies. A file that is not sent is named in the text
    with the reason. Tags inside code fences are text.
    """
    found: dict[str, Media] = {}
    lines: list[str] = []
    for line, tags in _tags(text):
        parts: list[str] = []
        for tag in tags:
            try:
                if len(found) >= MAX_FILES:
                    raise AttachmentRefused(f"is one file too many: at most {MAX_FILES} are sent")
                path, media, note = await _attach(tag, attachments, capabilities)
                found.setdefault(path, media)
            except AttachmentRefused as error:
                path = tag.path
                note = f"file not sent: {_printable(path)} {error}"
            after = tag.rest[len(path) :].lstrip("`\"')*>").rstrip("`\"'(*<").strip()
            parts += (part for part in (tag.before.strip(), note, after) if part)
        if parts or not tags:
            lines.append(" ".join(parts) if tags else line)
    return "\n".join(lines), tuple(found.values())


def hide_tags(text: str) -> str:
    """Replace the tags in a text that is still being written by the names of the files."""
    return "\n".join(
        " ".join(f"{tag.before}📎 {_printable(tag.path.rpartition('/')[2])}" for tag in tags)
        if tags
        else line
        for line, tags in _tags(text)
    )


class _Tag(msgspec.Struct, frozen=True):
    before: str
    rest: str  #: The rest of the line, starting with the path.

    @property
    def paths(self) -> list[str]:
        """Possible paths, longest first: a path may contain spaces, and text may follow it."""
        words = self.rest.split(" ")[:MAX_WORDS]
        ends = (" ".join(words[:count]).rstrip(_AFTER_PATH) for count in range(len(words), 0, -1))
        return list(dict.fromkeys(ends))

    @property
    def path(self) -> str:
        """The path to report when no file was found: a tag that begins a line has it to itself."""
        alone = not self.before.strip() and len(self.rest.split(" ")) <= MAX_WORDS
        return self.rest.rstrip(_AFTER_PATH) if alone else self.paths[-1]


def _tags(text: str) -> Iterator[tuple[str, list[_Tag]]]:
    """Yield each line of the text with its tags outside of code."""
    opened = None
    for line in text.split("\n"):
        inside = opened is not None
        opened = find_open_fence(line, opened) if "MEDIA:" in text else None
        matches = [] if inside else list(_TAG.finditer(line))
        ends = [0, *(match.end() for match in matches)]
        yield (
            line,
            [
                _Tag(line[end : match.start()], match["path"])
                for end, match in zip(ends, matches, strict=False)
            ],
        )


async def _attach(
    tag: _Tag, attachments: Attachments, capabilities: Capabilities
) -> tuple[str, Media, str]:
    """Return the path, the copy, and what the reader must know about it.

    Raises the last refusal, or the first one that is not about a file that does not exist.
    """
    refusal = AttachmentRefused("does not exist", missing=True)
    for path in tag.paths:
        try:
            kind: MediaKind = media_kind("", path)
            if kind not in capabilities.media_out:
                kind = "document"
            if kind not in capabilities.media_out:
                raise AttachmentRefused("cannot be sent: this platform takes no such files")
            copy = await attachments.attach(path, capabilities.max_upload_bytes)
        except AttachmentRefused as error:
            if refusal.missing:
                refusal = error
            continue
        name = safe_filename(copy.name)
        note = f"keys and passwords were removed from {name}" if copy.redacted else ""
        return path, Media(kind, name, guess_mime(name), copy.size, path=copy.path), note
    raise refusal


def _printable(path: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in path)
