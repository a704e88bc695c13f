"""Files that a text names by a tag `MEDIA:/absolute/path`."""

import re
from collections.abc import Iterator

import msgspec

from hermes.core.errors import AttachmentRefused
from hermes.core.ports import Attachments
from hermes.gateway.platforms.kit.contract import Capabilities, Media, MediaKind
from hermes.gateway.platforms.kit.markdown import fence_after
from hermes.gateway.platforms.kit.media import kind_of, mime_of, safe_name

MAX_FILES = 20
"""Files of one message."""
MAX_WORDS = 12
"""Words of a path with spaces. Each further word costs one look into the workplace."""
_TAG = re.compile(r"[`\"'(*<]*MEDIA:\s?(?P<path>[/~][^\n]*)")
_AFTER_PATH = " \t\r`\"')*>.,;"


async def attach_files(
    text: str, attachments: Attachments, capabilities: Capabilities
) -> tuple[str, tuple[Media, ...]]:
    """Copy the files that a text names, as far as the conversation may send them.

    Returns the text without the tags, and the copies. A file that is not sent is named in the text
    with the reason. Tags inside code fences are text.
    """
    found: dict[str, Media] = {}
    lines: list[str] = []
    for line, tag in _tags(text):
        if tag is None:
            lines.append(line)
            continue
        try:
            if len(found) >= MAX_FILES:
                raise AttachmentRefused(f"is one file too many: at most {MAX_FILES} are sent")
            path, media, note = await _attach(tag, attachments, capabilities)
            found.setdefault(path, media)
        except AttachmentRefused as error:
            path = tag.path
            note = f"file not sent: {_printable(path)} {error}"
        after = tag.rest[len(path) :].lstrip("`\"')*>").strip()
        if parts := [part for part in (tag.before.rstrip(), note, after) if part]:
            lines.append(" ".join(parts))
    return "\n".join(lines), tuple(found.values())


def hide_tags(text: str) -> str:
    """Replace the tags in a text that is still being written by the names of the files."""
    return "\n".join(
        line if tag is None else f"{tag.before}📎 {_printable(tag.path.rpartition('/')[2])}"
        for line, tag in _tags(text)
    )


class _Tag(msgspec.Struct, frozen=True):
    before: str
    rest: str
    """The line from the path on."""

    @property
    def paths(self) -> list[str]:
        """What the path may be, the longest first: it may contain spaces, and text may follow."""
        words = self.rest.split(" ")[:MAX_WORDS]
        ends = (" ".join(words[:count]).rstrip(_AFTER_PATH) for count in range(len(words), 0, -1))
        return list(dict.fromkeys(ends))

    @property
    def path(self) -> str:
        """The path to report when no file was found: a tag that begins a line has it to itself."""
        return self.paths[-1] if self.before.strip() else self.rest.rstrip(_AFTER_PATH)


def _tags(text: str) -> Iterator[tuple[str, _Tag | None]]:
    """Yield each line of the text, with its tag if it has one outside of code."""
    opened = None
    for line in text.split("\n"):
        inside = opened is not None
        opened = fence_after(line, opened) if "MEDIA:" in text else None
        tag = None if inside else _TAG.search(line)
        yield line, _Tag(line[: tag.start()], tag["path"]) if tag else None


async def _attach(
    tag: _Tag, attachments: Attachments, capabilities: Capabilities
) -> tuple[str, Media, str]:
    """Return the path, the copy, and what the reader must know about it.

    Raises the last refusal, or the first one that is not about a file that does not exist.
    """
    refusal = AttachmentRefused("does not exist", missing=True)
    for path in tag.paths:
        try:
            kind: MediaKind = kind_of("", path)
            if kind not in capabilities.media_out:
                kind = "document"
            if kind not in capabilities.media_out:
                raise AttachmentRefused("cannot be sent: this platform takes no such files")
            copy = await attachments.attach(path, capabilities.max_upload_bytes)
        except AttachmentRefused as error:
            if refusal.missing:
                refusal = error
            continue
        name = safe_name(copy.name)
        note = f"keys and passwords were removed from {name}" if copy.redacted else ""
        return path, Media(kind, name, mime_of(name), copy.size, path=copy.path), note
    raise refusal


def _printable(path: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in path)
