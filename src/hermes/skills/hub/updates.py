"""What has changed at the places skills came from."""

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from hermes.core.errors import HermesError
from hermes.skills.hub.audit_log import Event
from hermes.skills.hub.errors import NotThere
from hermes.skills.hub.hub import Candidate, Hub
from hermes.skills.hub.lockfile import Entry
from hermes.skills.hub.shelf import utc_now


class State(StrEnum):
    CURRENT = "current"
    NEWER = "update available"
    GONE = "gone from its source"
    UNKNOWN = "could not be checked"


class Standing(msgspec.Struct, frozen=True):
    """How an installed skill compares with its source."""

    name: str
    state: State
    reason: str = ""
    candidate: Candidate | None = None
    """The new version, in quarantine; only with `NEWER`."""


async def standing(hub: Hub, name: str, entry: Entry) -> Standing:
    """Asks the source, and fetches only when it has another version. A failure is a state."""
    try:
        source, _ = hub.sources.of(entry.identifier, entry.source)
        version = await source.version(entry.identifier)
        if version and version == entry.origin.version:
            return Standing(name, State.CURRENT)
        candidate = await hub.prepare(entry.identifier, entry.source)
    except NotThere as error:
        return Standing(name, State.GONE, str(error))
    except HermesError as error:
        return Standing(name, State.UNKNOWN, str(error))
    if candidate.name != name:
        hub.quarantine.discard(candidate.staged)
        return Standing(name, State.GONE, f"it is called {candidate.name} now")
    if candidate.sha256 != entry.sha256:
        return Standing(name, State.NEWER, candidate=candidate)
    hub.quarantine.discard(candidate.staged)
    return Standing(name, State.CURRENT)


async def check(hub: Hub, names: Sequence[str] = ()) -> list[Standing]:
    """All installed skills, or these. New versions are not kept: only named."""
    found: list[Standing] = []
    for name in names or sorted(hub.shelf.lock().skills):
        one = await standing(hub, name, hub.installed(name))
        if one.candidate is not None:
            hub.quarantine.discard(one.candidate.staged)
        found.append(one)
    return found


async def restore(hub: Hub, name: str) -> None:
    """Fetches an installed skill once more and puts back the files as they were installed.

    Raises `NotThere` when the source has other ones now.
    """
    entry = hub.installed(name)
    candidate = await hub.prepare(entry.identifier, entry.source)
    try:
        if candidate.name != name or candidate.sha256 != entry.sha256:
            raise NotThere(
                f"the source of {name} has another version now",
                hint=f"`hermes skills update {name}` shows and installs it",
            )
        event = Event(
            at=utc_now(),
            what="restored",
            skill=name,
            source=entry.source,
            identifier=entry.identifier,
            sha256=entry.sha256,
        )
        with hub.shelf.held():
            hub.shelf.put(name, entry, candidate.staged, event)
    finally:
        hub.quarantine.discard(candidate.staged)
