"""Access to the homeserver: options, HTTP, errors, login, rooms and the read position."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import aiohttp
import msgspec
from yarl import URL

from hermes.sdk import Clock, write_bytes
from hermes.sdk.platforms import (
    AdapterContext,
    AdapterError,
    ChatInfo,
    ChatType,
    CredentialsRefused,
    NotConnected,
    SendLater,
    SendRefused,
    SendUnsure,
    load_state,
    remember,
    translate_errors,
)
from hermes_plugins.platforms.matrix.manifest import MatrixSettings

logger = logging.getLogger(__name__)
MAX_THREADS = 200
MAX_UNDECRYPTED = 200
MAX_REPLACED = 500
HINT = "Set MATRIX_HOMESERVER and MATRIX_ACCESS_TOKEN, or MATRIX_USER_ID and MATRIX_PASSWORD."
MESSAGE, STICKER, ENCRYPTED = "m.room.message", "m.sticker", "m.room.encrypted"  #: Types of events.
Json = dict[str, Any]
REQUEST_SECONDS = 30.0  #: Time limit of a normal request.
TRANSFER_SECONDS = 300.0  #: Time limit for a file.
CLIENT_API = "/_matrix/client/v3"
LOGIN_ERRORS = frozenset({"M_UNKNOWN_TOKEN", "M_MISSING_TOKEN", "M_USER_DEACTIVATED"})
LOGIN_PAUSE = 30.0  #: A message waits this long for a new token instead of being given up.
DEFAULT_RETRY_SECONDS = 5.0  #: Used when the homeserver gives no time.
MAX_RETRY_SECONDS = 30.0
MAX_SERVER_ERRORS = 8
"""Server errors of one call, in about a minute. One broken room must not block the others."""
T = TypeVar("T")
MEMBER_COUNTS = ("m.joined_member_count", "m.invited_member_count")


class MatrixOptions(msgspec.Struct, frozen=True):
    homeserver: str
    token: str = ""
    user_id: str = ""
    password: str = ""
    device_id: str = ""
    encryption: bool = False
    recovery_key: str = ""
    reactions: bool = True
    settings: MatrixSettings = MatrixSettings()

    @property
    def identity(self) -> str:
        """Only one gateway may use this at a time."""
        return self.token or f"{self.homeserver} {self.user_id}"


def read_options(context: AdapterContext) -> MatrixOptions:
    """Read the options. Raises `CredentialsRefused` for a missing or invalid value."""
    token = context.text("MATRIX_ACCESS_TOKEN") or getattr(context.connection, "token", "")
    user_id, password = context.text("MATRIX_USER_ID"), context.text("MATRIX_PASSWORD")
    if not token and not (user_id and password):
        raise CredentialsRefused("Matrix has no access token and no password", hint=HINT)
    given = context.text("MATRIX_HOMESERVER")
    if not given:
        raise CredentialsRefused("Matrix has no homeserver", hint=HINT)
    homeserver = given if "://" in given else f"https://{given}"
    parts = urlsplit(homeserver)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
        raise CredentialsRefused(
            "MATRIX_HOMESERVER is not an address", hint="it looks like https://matrix.example.org"
        )
    settings = context.settings
    return MatrixOptions(
        homeserver=homeserver.rstrip("/"),
        token=token,
        user_id=user_id,
        password=password,
        device_id=context.text("MATRIX_DEVICE_ID"),
        encryption=context.flag("MATRIX_ENCRYPTION", default=False),
        recovery_key=context.text("MATRIX_RECOVERY_KEY"),
        reactions=context.flag("MATRIX_REACTIONS", default=True),
        settings=settings if isinstance(settings, MatrixSettings) else MatrixSettings(),
    )


def get_path(value: Any, *keys: str) -> Any:
    """Return the value below `keys`; None when the path ends early.

    Use these functions for JSON written by others: a value of the wrong shape counts as missing.
    """
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def get_str(value: Any, *keys: str) -> str:
    found = get_path(value, *keys)
    return found if isinstance(found, str) else ""


def get_int(value: Any, *keys: str) -> int:
    found = get_path(value, *keys)
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


def get_dict(value: Any, *keys: str) -> Json:
    found = get_path(value, *keys)
    return found if isinstance(found, dict) else {}


def get_dicts(value: Any, *keys: str) -> list[Json]:
    found = get_path(value, *keys)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def get_strs(value: Any, *keys: str) -> list[str]:
    found = get_path(value, *keys)
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


class MatrixError(Exception):
    """The homeserver rejected a request. Its message contains none of our secrets."""

    def __init__(self, status: int, code: str, said: str, seconds: float = 0.0) -> None:
        super().__init__(f"{code or status}: {said}" if said else code or str(status))
        self.status, self.code, self.seconds = status, code, seconds


CALL_ERRORS = (MatrixError, aiohttp.ClientError, TimeoutError)  #: Everything a call may raise.


def api_path(*parts: str, root: str = CLIENT_API) -> str:
    return "/".join((root, *(quote(part, safe="") for part in parts)))


class MatrixClient:
    def __init__(self, homeserver: str) -> None:
        self._homeserver = homeserver
        self.session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None))
        self.token = ""

    async def close(self) -> None:
        await self.session.close()

    async def get(
        self,
        where: str,
        query: Mapping[str, str] | None = None,
        *,
        patience: float = REQUEST_SECONDS,
    ) -> Json:
        return await self.call("GET", where, query=query, patience=patience)

    async def call(
        self,
        method: str,
        where: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        patience: float = REQUEST_SECONDS,
    ) -> Json:
        """Make a request. A GET or PUT is repeated once when its connection breaks. Raises any of
        `CALL_ERRORS`."""
        data = None if body is None else msgspec.json.encode(body)
        again = method in ("GET", "PUT")
        while True:
            try:
                url = self._url(where, query or {})
                async with self._request(method, url, data, patience) as answer:
                    return await _read_response(answer)
            except aiohttp.ClientConnectorError:
                raise
            except aiohttp.ClientConnectionError:
                if not again:
                    raise
                again = False

    async def upload(self, data: bytes, mime: str, name: str) -> str:
        """Upload a file; return its mxc address."""
        url = self._url("/_matrix/media/v3/upload", {"filename": name} if name else {})
        async with self._request("POST", url, data, TRANSFER_SECONDS, mime) as answer:
            return get_str(await _read_response(answer), "content_uri")

    @contextlib.asynccontextmanager
    async def download(self, mxc: str) -> AsyncIterator[aiohttp.ClientResponse]:
        server, _, media = mxc.removeprefix("mxc://").partition("/")
        new = api_path("media", "download", server, media, root="/_matrix/client/v1")
        old = api_path("download", server, media, root="/_matrix/media/v3")
        for where in (new, old):  # servers from before 2024 have only the old one
            async with self._request("GET", self._url(where, {}), None, TRANSFER_SECONDS) as answer:
                if answer.status == 200:
                    yield answer
                    return
                refusal = _parse_error(answer, await answer.read())
                if where == old or refusal.code not in ("M_UNRECOGNIZED", ""):
                    raise refusal

    def _request(
        self,
        method: str,
        url: URL,
        data: bytes | None,
        patience: float,
        mime: str = "application/json",
    ) -> Any:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        if data is not None:
            headers["Content-Type"] = mime
        timeout = aiohttp.ClientTimeout(total=patience, connect=15.0)
        return self.session.request(
            method, url, data=data, headers=headers, timeout=timeout, allow_redirects=False
        )

    def _url(self, where: str, query: Mapping[str, str]) -> URL:
        asked = f"?{urlencode(query)}" if query else ""
        return URL(f"{self._homeserver}{where}{asked}", encoded=True)


def is_login_refused(error: BaseException) -> bool:
    return isinstance(error, MatrixError) and (error.code in LOGIN_ERRORS or error.status == 401)


def map_error(error: BaseException) -> AdapterError:
    if isinstance(error, MatrixError):
        if error.code == "M_LIMIT_EXCEEDED" or error.status == 429:
            seconds = error.seconds or DEFAULT_RETRY_SECONDS
            return SendLater("Matrix asks us to wait", seconds=seconds)
        if is_login_refused(error):
            return SendLater("Matrix does not accept our login", seconds=LOGIN_PAUSE)
        if error.status >= 500:
            return SendUnsure(f"Matrix reports an error: {error}")
        return SendRefused(f"Matrix rejected it: {error}")
    if isinstance(error, aiohttp.ClientConnectorError):
        return SendLater(f"Matrix cannot be reached: {type(error).__name__}")
    return SendUnsure(f"the connection to Matrix broke: {type(error).__name__}")


def map_connect_error(error: BaseException) -> AdapterError:
    """Map errors of `connect`, `probe` and the sync loop."""
    if is_login_refused(error):
        return CredentialsRefused(f"Matrix does not accept our login ({error})", hint=HINT)
    if isinstance(error, MatrixError):
        return NotConnected(f"Matrix answered {error}")
    return NotConnected(f"Matrix cannot be reached: {type(error).__name__}")


translate_connect_errors = partial(translate_errors, map_connect_error, CALL_ERRORS)
"""Context manager for calls that are neither sends nor edits."""
translate_send_errors = partial(translate_errors, map_error, CALL_ERRORS)


class MatrixLogin(msgspec.Struct, frozen=True):
    """Our login. The same device is used for as long as possible, because transaction ids and
    encryption keys belong to a device."""

    homeserver: str
    user_id: str
    device_id: str
    since: float  #: When the device was first used, in seconds since 1970.
    token: str = ""  #: Set only for a login by password.


async def log_in(http: MatrixClient, options: MatrixOptions, file: Path) -> MatrixLogin:
    """Log in and give the client its token. Raises `CredentialsRefused` or `NotConnected`."""
    before = load_state(file, MatrixLogin, None, "the last Matrix login")
    names = ("", before.user_id, before.user_id[1:].partition(":")[0]) if before else ()
    if before and (before.homeserver != options.homeserver or options.user_id not in names):
        before = None
    with translate_connect_errors():
        if options.token:
            http.token = options.token
            who = await http.get(api_path("account", "whoami"))
        else:
            who = await _resume_login(http, options, before) or await _login_by_password(
                http, options, before
            )
    user_id, device_id = get_str(who, "user_id"), get_str(who, "device_id")
    if options.user_id and options.user_id.startswith("@") and options.user_id != user_id:
        raise CredentialsRefused(f"the Matrix token belongs to {user_id}", hint=HINT)
    if options.device_id and device_id != options.device_id:
        logger.warning(
            "the Matrix token belongs to device %s; MATRIX_DEVICE_ID is ignored", device_id
        )
    same = before is not None and (before.user_id, before.device_id) == (user_id, device_id)
    since = before.since if before is not None and same else time.time()
    kept = "" if options.token else http.token
    login = MatrixLogin(options.homeserver, user_id, device_id, since, kept)
    if login != before:
        write_bytes(file, msgspec.json.encode(login), mode=0o600)
    return login


async def retry_until_final(
    call: Callable[[], Awaitable[T]], clock: Clock, otherwise: T, what: str
) -> T:
    """Make a call until the homeserver is reached. Returns `otherwise` when it rejects the call for
    good or keeps failing. Raises `MatrixError` when it rejects our login."""
    pause, faults = 0.2, 0
    while True:
        try:
            return await call()
        except CALL_ERRORS as error:
            if is_login_refused(error):
                raise
            faults += isinstance(error, MatrixError) and error.status >= 500
            final = isinstance(error, MatrixError) and error.status < 500 and error.status != 429
            if final or faults >= MAX_SERVER_ERRORS:
                logger.error("could not get %s: %s", what, error)
                return otherwise
            logger.warning("could not get %s yet: %s", what, type(error).__name__)
            wished = error.seconds if isinstance(error, MatrixError) else 0.0
        await clock.sleep(max(pause, wished))
        pause = min(pause * 2, MAX_RETRY_SECONDS)


async def attempt(work: Awaitable[Any], what: str) -> None:
    """Make a background call; a failure is only logged."""
    try:
        await work
    except CALL_ERRORS as error:
        logger.debug("%s failed: %s", what, error)


class MatrixRoom:
    """A room we are in, as far as syncs report its state."""

    def __init__(self, room_id: str, me: str) -> None:
        self.id, self._me = room_id, me
        self.name = self._alias = ""
        self._counts: dict[str, int] = {}
        self._heroes: list[str] = []
        self._names: dict[str, str] = {}
        self._present: set[str] = set()  #: Known members who joined or are invited.
        self.encrypted = False
        self.direct = False  #: Known to be a private chat.
        self.predecessor = self.replacement = self.ended_by = ""
        """The room this one replaces, the one that replaces it, and who ended it."""
        self.origin = room_id  #: The room in which its conversation began.
        self.group = False  #: It replaced a group.

    @property
    def chat_type(self) -> ChatType:
        """A private chat has no name and only one other member, or was created as one. With a third
        member it is a group, however it was created."""
        if self.group or max(sum(self._counts.values()), len(self._present)) > 2:
            return "group"
        return "dm" if self.direct or not (self.name or self._alias) else "group"

    @property
    def title(self) -> str:
        others = ", ".join(self.user_name(user) for user in self._heroes if user != self._me)
        return self.name or self._alias or others or self.id

    def user_name(self, user_id: str) -> str:
        return self._names.get(user_id) or user_id[1:].partition(":")[0]

    def update(self, joined: Json) -> None:
        """Apply what a sync reports about the room."""
        summary = get_dict(joined, "summary")
        self._counts |= {name: get_int(summary, name) for name in MEMBER_COUNTS if name in summary}
        if "m.heroes" in summary:
            self._heroes = get_strs(summary, "m.heroes")
        for event in (
            *get_dicts(joined, "state", "events"),
            *get_dicts(joined, "timeline", "events"),
        ):
            self.update_state(event)

    def update_state(self, event: Json) -> None:
        """Apply one state event."""
        if "state_key" not in event:
            return
        content = get_dict(event, "content")
        match event.get("type"):
            case "m.room.name":
                self.name = get_str(content, "name").strip()
            case "m.room.canonical_alias":
                self._alias = get_str(content, "alias")
            case "m.room.encryption":
                self.encrypted = True
            case "m.room.create":
                self.predecessor = get_str(content, "predecessor", "room_id")
            case "m.room.tombstone":
                self.replacement = get_str(content, "replacement_room")
                self.ended_by = get_str(event, "sender")
            case "m.room.member":
                user = get_str(event, "state_key")
                there = content.get("membership") in ("join", "invite")
                (self._present.add if there else self._present.discard)(user)
                self._names[user] = get_str(content, "displayname") or self._names.get(user, "")
                if user == self._me and content.get("is_direct") is True:
                    self.direct = True


class MatrixRooms:
    def __init__(self, me: str) -> None:
        self._me = me
        self._known: dict[str, MatrixRoom] = {}
        self._direct: dict[str, list[str]] = {}

    def __getitem__(self, room_id: str) -> MatrixRoom:
        if room_id not in self._known:
            self._known[room_id] = MatrixRoom(room_id, self._me)
        return self._known[room_id]

    def get(self, room_id: str) -> MatrixRoom | None:
        return self._known.get(room_id)

    def update(self, sync: Json) -> None:
        for event in get_dicts(sync, "account_data", "events"):
            if event.get("type") == "m.direct":
                content = get_dict(event, "content")
                self._direct = {user: get_strs(content, user) for user in content}
                self._mark_direct(self._known.values())
        for room_id, joined in get_dict(sync, "rooms", "join").items():
            room = self[room_id]
            room.update(joined)
            self._mark_direct((room,))
        for room_id in get_dict(sync, "rooms", "leave"):
            self._known.pop(room_id, None)

    def add_direct_chat(self, user_id: str, room_id: str) -> Json:
        """Return the content of `m.direct` with one more private chat."""
        mine = [*self._direct.get(user_id, []), room_id]
        self._direct[user_id] = list(dict.fromkeys(mine))
        return dict(self._direct)

    def names(self) -> tuple[ChatInfo, ...]:
        """Return the chats. A conversation that moved is listed once, with its current room."""
        rooms = sorted(self._known.values(), key=lambda each: each.origin != each.id)
        found = {each.origin: ChatInfo(each.origin, each.title, each.chat_type) for each in rooms}
        return tuple(found.values())

    def _mark_direct(self, rooms: Iterable[MatrixRoom]) -> None:
        direct = {room_id for ids in self._direct.values() for room_id in ids}
        for room in rooms:
            room.direct = room.direct or room.id in direct


class UndecryptedEvent(msgspec.Struct, frozen=True):
    """An encrypted message whose key has not arrived yet."""

    room_id: str
    event: Json


class RoomInvite(msgspec.Struct, frozen=True):
    by: str
    direct: bool = False  #: It is to be a private chat.
    via: str = ""  #: A homeserver that knows the room, when we were not invited.


class ReplacedRoom(msgspec.Struct, frozen=True):
    """A room that was replaced by another one."""

    by: str
    group: bool  #: It was a group, however many members are left.


class _StoredPosition(msgspec.Struct):
    user_id: str = ""
    since: str = ""  #: The homeserver's token for the position up to which everything was handled.
    threads: list[str] = []  #: Threads we take part in, most recently used last.
    invites: dict[str, RoomInvite] = {}  #: Rooms to join.
    replaced: dict[str, ReplacedRoom] = {}
    origins: dict[str, str] = {}
    """First room of each conversation that moved, by its current room."""
    sealed: list[UndecryptedEvent] = []
    taken: list[str] = []
    """Events after `since` that were handled: the sync they came with was not finished."""


class SyncPosition:
    """How far we have read, and what is still to be done, across restarts."""

    def __init__(self, file: Path, user_id: str) -> None:
        """A state of another account is ignored."""
        self._file, self._lock = file, asyncio.Lock()
        what = "the read position of Matrix"
        found = load_state(file, _StoredPosition, _StoredPosition(), what)
        self._state = found if found.user_id == user_id else _StoredPosition(user_id)
        self._changed = False
        self._writing: asyncio.Future[None] | None = None

    @property
    def since(self) -> str:
        return self._state.since

    @property
    def invites(self) -> dict[str, RoomInvite]:
        return dict(self._state.invites)

    @property
    def sealed(self) -> tuple[UndecryptedEvent, ...]:
        return tuple(self._state.sealed)

    def has_thread(self, thread_id: str) -> bool:
        return thread_id in self._state.threads

    def advance(self, since: str) -> None:
        self._changed |= since != self._state.since or bool(self._state.taken)
        self._state.since, self._state.taken = since, []

    def mark_handled(self, event_id: str) -> None:
        self._state.taken.append(event_id)
        self._changed = True

    def is_handled(self, event_id: str) -> bool:
        return event_id in self._state.taken

    def add_invite(self, room_id: str, invite: RoomInvite) -> None:
        self._state.invites[room_id] = invite
        self._changed = True

    def remove_invite(self, room_id: str) -> None:
        """Remove an invite that is settled."""
        self._changed |= self._state.invites.pop(room_id, None) is not None

    def replaced(self, room_id: str) -> ReplacedRoom | None:
        return self._state.replaced.get(room_id)

    def record_replaced(self, room_id: str, replaced: ReplacedRoom) -> None:
        remember(self._state.replaced, room_id, replaced, MAX_REPLACED)
        self._changed = True

    def origin(self, room_id: str) -> str:
        """Return the room in which a conversation began."""
        return self._state.origins.get(room_id, room_id)

    def successors(self, origin: str) -> list[str]:
        """Return the rooms a conversation moved to, the latest last."""
        return [room for room, first in self._state.origins.items() if first == origin]

    def record_successor(self, old: str, new: str) -> str:
        """Record that a conversation continues in another room; return the room in which it
        began."""
        if new not in self._state.origins:
            remember(self._state.origins, new, self.origin(old), MAX_REPLACED)
            self._changed = True
        return self.origin(new)

    def add_thread(self, thread_id: str) -> None:
        if not self.has_thread(thread_id):
            self._state.threads = [*self._state.threads, thread_id][-MAX_THREADS:]
            self._changed = True

    def add_undecrypted(self, sealed: UndecryptedEvent) -> None:
        self._state.sealed = [*self._state.sealed, sealed][-MAX_UNDECRYPTED:]
        self._changed = True

    def remove_undecrypted(self, sealed: UndecryptedEvent) -> None:
        self._state.sealed.remove(sealed)
        self._changed = True

    async def save(self) -> None:
        """Write the state to disk if it changed. Without it the same messages are read again after
        a restart."""
        async with self._lock:
            if self._writing is not None:  # started by a call that was cancelled
                await asyncio.wait([self._writing])
            if not self._changed:
                return
            self._changed, data = False, msgspec.json.encode(self._state)
            self._writing = asyncio.ensure_future(asyncio.to_thread(self._write, data))
            await asyncio.shield(self._writing)

    def _write(self, data: bytes) -> None:
        try:
            write_bytes(self._file, data, mode=0o600)
        except OSError as error:
            self._changed = True
            logger.error("the read position of Matrix cannot be written: %s", error.strerror)


async def _read_response(answer: aiohttp.ClientResponse) -> Json:
    body = await answer.read()
    if answer.status != 200:
        raise _parse_error(answer, body)
    found = _decode_object(body)
    if found is None:
        raise MatrixError(502, "", "the answer is not of a Matrix homeserver")
    return found


def _parse_error(answer: aiohttp.ClientResponse, body: bytes) -> MatrixError:
    """The waiting time is in the body, in a header, or in both."""
    said = _decode_object(body) or {}
    header = answer.headers.get("Retry-After", "")
    seconds = get_int(said, "retry_after_ms") / 1000 or float(header if header.isdecimal() else 0)
    return MatrixError(
        answer.status, get_str(said, "errcode"), get_str(said, "error")[:300], seconds
    )


def _decode_object(body: bytes) -> Json | None:
    try:
        found = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return None
    return found if isinstance(found, dict) else None


async def _resume_login(
    http: MatrixClient, options: MatrixOptions, before: MatrixLogin | None
) -> Json | None:
    """Return the previous login if it is still valid."""
    if before is None or not before.token:
        return None
    if options.device_id not in ("", before.device_id):
        return None
    http.token = before.token
    try:
        return await http.get(api_path("account", "whoami"))
    except MatrixError as error:
        if not is_login_refused(error):
            raise
        http.token = ""
        return None


async def _login_by_password(
    http: MatrixClient, options: MatrixOptions, before: MatrixLogin | None
) -> Json:
    # The device of a given token may belong to another client: logging in as it would end that
    # session.
    device_id = options.device_id or (before.device_id if before and before.token else "")
    body: Json = {
        "type": "m.login.password",
        "identifier": {"type": "m.id.user", "user": options.user_id},
        "password": options.password,
        "initial_device_display_name": "Hermes",
    }
    if device_id:
        body["device_id"] = device_id
    try:
        answer = await http.call("POST", api_path("login"), body)
    except MatrixError as error:
        if error.status == 403:
            raise CredentialsRefused(
                "Matrix does not accept the user id and password", hint=HINT
            ) from None
        raise
    http.token = get_str(answer, "access_token")
    return answer
