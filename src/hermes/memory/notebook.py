"""The notes of one target: what may be written, and how they are shown to a model."""

import logging
from collections.abc import Callable, Sequence

import msgspec

from hermes.core.errors import ToolArgumentsInvalid, ToolError
from hermes.memory import entries
from hermes.memory.notes import Edit, NoteFile
from hermes.security.injection import blocked
from hermes.util.text import many

log = logging.getLogger(__name__)

Scan = Callable[[str], Sequence[str]]
"""The ids of what is suspicious about a text; empty when nothing is."""
Entries = tuple[str, ...]

GLANCE = 80
"""Characters of an entry in a list."""
MOST_LISTED = 50


class Change(msgspec.Struct, frozen=True):
    """What became of a request to remember."""

    content: str
    """The entry that was added, put in or taken out."""
    changed: bool
    """False when it was there already."""
    report: str
    """How full the notes are now and what is in them, for the model."""


class Notebook:
    """`name` and `heading` are what a model sees, in results and in the system prompt; `limit` is
    in characters. Whatever writes raises `ToolError` when nothing could be saved."""

    def __init__(self, name: str, heading: str, file: NoteFile, limit: int, scan: Scan) -> None:
        self._name, self._heading, self._file = name, heading, file
        self._limit, self._scan = limit, scan

    def entries(self) -> Entries:
        """As they stand in the file, suspicious ones too."""
        return self._file.read()

    def add(self, content: str) -> Change:
        entry = self._checked(content)

        def edit(before: Entries) -> Entries:
            return before if entry in before else self._fitting(before, (*before, entry))

        return self._change(edit, entry)

    def replace(self, old_text: str, content: str) -> Change:
        """Put `content` in the place of the one entry that holds `old_text`."""
        entry = self._checked(content)

        def edit(before: Entries) -> Entries:
            old = self._only(before, old_text)
            after = dict.fromkeys(entry if each == old else each for each in before)
            return self._fitting(before, tuple(after))

        return self._change(edit, entry)

    def remove(self, old_text: str) -> Change:
        """Take out the one entry that holds `old_text`."""
        removed = ""

        def edit(before: Entries) -> Entries:
            nonlocal removed
            removed = self._only(before, old_text)
            return tuple(each for each in before if each != removed)

        change = self._change(edit, "")
        return msgspec.structs.replace(change, content=removed)

    def section(self) -> str:
        """The notes under a heading, for the system prompt; "" when there are none. What a person
        wrote beyond the limit is cut; a file that cannot be read is named."""
        try:
            found = self._file.read()
        except ToolError as error:
            log.warning("%s", error)
            return f"## {self._heading}\n[{error}]"
        if not found:
            return ""
        text = entries.join([self._shown(entry) for entry in found])
        if (over := len(text) - self._limit) > 0:
            log.warning("%s is over its limit of %d characters", self._file.name, self._limit)
            text = f"{text[: self._limit]}…\n[{over:,} characters over the limit left out]"
        return f"## {self._heading} [{self._fullness(found)}]\n{text}"

    def _change(self, edit: Edit, content: str) -> Change:
        changed = False

        def watched(before: Entries) -> Sequence[str]:
            nonlocal changed
            after = edit(before)
            changed = after != before
            return after

        after = self._file.change(watched)
        return Change(content, changed, self._report(after))

    def _checked(self, content: str) -> str:
        entry = entries.tidy(content)
        if not entry:
            raise ToolArgumentsInvalid("content is empty", hint="say what to remember")
        if entries.holds_separator(entry):
            raise ToolArgumentsInvalid(
                "content has a line with nothing but §, which separates entries",
                hint="save one entry with each call",
            )
        if findings := self._scan(entry):
            raise ToolError(
                f"not saved: this reads like a prompt injection ({', '.join(findings)})",
                hint="memory is for plain facts; say it in your own words or leave it",
            )
        return entry

    def _only(self, found: Entries, old_text: str) -> str:
        """The one entry that is `old_text` or, if none is, that holds it."""
        wanted = entries.tidy(old_text)
        if not wanted:
            raise ToolArgumentsInvalid("old_text is empty", hint="give a part of the entry")
        matches = [entry for entry in found if entry == wanted]
        matches = matches or [entry for entry in found if wanted in entry]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise ToolError(
                f"{len(matches)} entries hold {_glance(wanted)!r}:\n{self._list(matches)}",
                hint="give a longer part of the one you mean",
            )
        raise ToolError(
            f"no entry holds {_glance(wanted)!r}\n{self._report(found)}",
            hint="copy a part of the entry exactly",
        )

    def _fitting(self, before: Entries, after: Entries) -> Entries:
        """`after`, unless it is too long. What was too long before may become shorter."""
        size = len(entries.join(after))
        if size <= self._limit or size < len(entries.join(before)):
            return after
        raise ToolError(
            f"not saved: {self._name} would have {size:,} characters, the limit is "
            f"{self._limit:,}. It holds, with sizes:\n{self._list(before, sizes=True)}",
            hint="put entries together with replace, or remove some, then try again",
        )

    def _report(self, found: Entries) -> str:
        usage = f"{self._name}: {many(len(found), 'note')}, {self._fullness(found)}"
        return f"{usage}\n{self._list(found)}" if found else usage

    def _list(self, found: Sequence[str], *, sizes: bool = False) -> str:
        lines = [
            f"- {f'({len(entry):,}) ' if sizes else ''}{_glance(self._shown(entry))}"
            for entry in found[:MOST_LISTED]
        ]
        if len(found) > MOST_LISTED:
            lines.append(f"- … and {len(found) - MOST_LISTED:,} more")
        return "\n".join(lines)

    def _shown(self, entry: str) -> str:
        """The entry as a model may see it; one that somebody slipped into the file is left out."""
        findings = self._scan(entry)
        return blocked(f"an entry of {self._file.name}", findings) if findings else entry

    def _fullness(self, found: Entries) -> str:
        size = len(entries.join(found))
        return f"{100 * size // max(self._limit, 1)}%, {size:,}/{self._limit:,} characters"


def _glance(entry: str) -> str:
    text = " ".join(entry.split())
    return text if len(text) <= GLANCE else f"{text[:GLANCE]}…"
