"""From what the agent says to messages that fit the platform."""

import re
from collections.abc import Callable
from pathlib import Path

from hermes.gateway.events import Media, MediaKind, Outgoing
from hermes.gateway.platforms.base import Capabilities
from hermes.gateway.platforms.kit.markdown import convert
from hermes.gateway.platforms.kit.markdown.blocks import fence_after
from hermes.gateway.platforms.kit.media import kind_of, mime_of
from hermes.gateway.platforms.kit.splitting import split

MaySend = Callable[[str], bool]
"""Whether a file of this machine may go out."""
_TAG = re.compile(r"[`\"'(*]*MEDIA:(?P<path>/[^\n]*)")
_AFTER_PATH = " \t`\"')*.,;"


def compose(text: str, capabilities: Capabilities, may_send: MaySend) -> list[Outgoing]:
    """Messages in the platform's dialect, each within its limit, then one for each file that a tag
    `MEDIA:/absolute/path` names. A tag outside code whose file is there is taken out; a file that
    may not or cannot go out is named instead. Blank text without files gives no message."""
    written, files = _without_files(text, capabilities, may_send)

    def dialect(part: str) -> str:
        return convert(part, capabilities.dialect)

    parts = split(written, capabilities.max_chars, capabilities.counts, dialect)
    messages = [Outgoing(dialect(part), plain=convert(part, "plain")) for part in parts]
    return messages + [Outgoing(media=(media,)) for media in files]


def _without_files(
    text: str, capabilities: Capabilities, may_send: MaySend
) -> tuple[str, list[Media]]:
    if "MEDIA:" not in text:
        return text, []
    files: list[Media] = []
    lines = []
    opened = None
    for line in text.split("\n"):
        inside = opened is not None
        opened = fence_after(line, opened)
        taken = None if inside else _taken(line)
        if taken is None:
            lines.append(line)
            continue
        before, path, after = taken
        media = _media(path, capabilities) if may_send(str(path)) else None
        if media is not None:
            files.append(media)
        note = "" if media is not None else f"[file not sent: {path.name}]"
        if rest := f"{before.rstrip()} {note} {after}".strip():
            lines.append(rest)
    return "\n".join(lines), list(dict.fromkeys(files))


def _taken(line: str) -> tuple[str, Path, str] | None:
    """What is before the tag of a line, the file it names, and what is after it. A path with blanks
    is taken as far as it names a file."""
    tag = _TAG.search(line)
    if tag is None:
        return None
    words = tag["path"].split(" ")
    for count in range(len(words), 0, -1):
        name = " ".join(words[:count]).rstrip(_AFTER_PATH)
        path = Path(name)
        if "\0" not in name and path.is_file():
            after = tag["path"][len(name) :].lstrip("`\"')*")
            return line[: tag.start()], path, after
    return None


def _media(path: Path, capabilities: Capabilities) -> Media | None:
    """None when the platform takes no such file, or none so large."""
    size = path.stat().st_size
    kind: MediaKind = kind_of("", path.name)
    if kind not in capabilities.media_out:
        kind = "document"
    if kind not in capabilities.media_out or size > capabilities.max_upload_bytes:
        return None
    return Media(kind, path.name, mime_of(path.name), size, path=str(path))
