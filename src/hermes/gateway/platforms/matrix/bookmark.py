"""How far we have read, and what is still to be done, over a restart."""

import asyncio
import logging
from pathlib import Path

import msgspec

from hermes.gateway.platforms.kit.keeping import remember
from hermes.gateway.platforms.matrix.shapes import Json
from hermes.util import atomic

log = logging.getLogger(__name__)

MOST_THREADS = 200
MOST_SEALED = 200
MOST_REPLACED = 500


class Sealed(msgspec.Struct, frozen=True):
    """An encrypted message whose key has not come yet."""

    room_id: str
    event: Json


class Invite(msgspec.Struct, frozen=True):
    by: str
    direct: bool = False
    """It is to be a private chat."""
    via: str = ""
    """A homeserver that knows the room, when nobody invited us."""


class Replaced(msgspec.Struct, frozen=True):
    """A room that was ended for another one."""

    by: str
    group: bool
    """It was no private chat, whoever is left."""


class _State(msgspec.Struct):
    user_id: str = ""
    since: str = ""
    """The homeserver's name for the place up to which everything was taken."""
    threads: list[str] = []
    """Threads that we talk in, those used last."""
    invites: dict[str, Invite] = {}
    """Rooms we are to join."""
    replaced: dict[str, Replaced] = {}
    origins: dict[str, str] = {}
    """Rooms that took the place of others, and the first one of each."""
    sealed: list[Sealed] = []
    taken: list[str] = []
    """Events after `since` that were taken: the answer they came with was not done."""


class Bookmark:
    def __init__(self, file: Path, user_id: str) -> None:
        """What another account left there is not ours."""
        self._file, self._turn = file, asyncio.Lock()
        found = _read(file)
        self._state = found if found.user_id == user_id else _State(user_id)
        self._changed = False
        self._writing: asyncio.Future[None] | None = None

    @property
    def since(self) -> str:
        return self._state.since

    @property
    def invites(self) -> dict[str, Invite]:
        return dict(self._state.invites)

    @property
    def sealed(self) -> tuple[Sealed, ...]:
        return tuple(self._state.sealed)

    def talks_in(self, thread_id: str) -> bool:
        return thread_id in self._state.threads

    def move(self, since: str) -> None:
        self._changed |= since != self._state.since or bool(self._state.taken)
        self._state.since, self._state.taken = since, []

    def took(self, event_id: str) -> None:
        self._state.taken.append(event_id)
        self._changed = True

    def has_taken(self, event_id: str) -> bool:
        return event_id in self._state.taken

    def invited(self, room_id: str, invite: Invite) -> None:
        self._state.invites[room_id] = invite
        self._changed = True

    def answered(self, room_id: str) -> None:
        """The invitation is done with."""
        self._changed |= self._state.invites.pop(room_id, None) is not None

    def replaced(self, room_id: str) -> Replaced | None:
        return self._state.replaced.get(room_id)

    def replace(self, room_id: str, replaced: Replaced) -> None:
        remember(self._state.replaced, room_id, replaced, MOST_REPLACED)
        self._changed = True

    def origin(self, room_id: str) -> str:
        """The room that a conversation began in."""
        return self._state.origins.get(room_id, room_id)

    def moved_from(self, origin: str) -> list[str]:
        """Rooms that its conversation moved to, the latest last."""
        return [room for room, first in self._state.origins.items() if first == origin]

    def follow(self, old: str, new: str) -> str:
        """The conversation of a room goes on in another one. Where it began."""
        if new not in self._state.origins:
            remember(self._state.origins, new, self.origin(old), MOST_REPLACED)
            self._changed = True
        return self.origin(new)

    def talk_in(self, thread_id: str) -> None:
        if not self.talks_in(thread_id):
            self._state.threads = [*self._state.threads, thread_id][-MOST_THREADS:]
            self._changed = True

    def set_aside(self, sealed: Sealed) -> None:
        self._state.sealed = [*self._state.sealed, sealed][-MOST_SEALED:]
        self._changed = True

    def opened(self, sealed: Sealed) -> None:
        self._state.sealed.remove(sealed)
        self._changed = True

    async def keep(self) -> None:
        """On disk when this returns. Without it the same messages come again after a restart."""
        async with self._turn:
            if self._writing is not None:  # of somebody who was cancelled
                await asyncio.wait([self._writing])
            if not self._changed:
                return
            self._changed, data = False, msgspec.json.encode(self._state)
            self._writing = asyncio.ensure_future(asyncio.to_thread(self._write, data))
            await asyncio.shield(self._writing)

    def _write(self, data: bytes) -> None:
        try:
            atomic.write_bytes(self._file, data, mode=0o600)
        except OSError as error:
            self._changed = True
            log.error("how far Matrix was read cannot be kept: %s", error.strerror)


def _read(file: Path) -> _State:
    try:
        return msgspec.json.decode(file.read_bytes(), type=_State)
    except FileNotFoundError:
        return _State()
    except (OSError, msgspec.DecodeError) as error:
        log.error("how far Matrix was read is not known any more: %s", error)
        return _State()
