"""What the adapter is told by config.yaml and by variables."""

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

from hermes.config.settings.platforms import MatrixSettings
from hermes.core.ports import Clock
from hermes.gateway.platforms.kit.connection import translate_errors
from hermes.gateway.platforms.kit.contract import (
    AdapterContext,
    AdapterError,
    ChatInfo,
    ChatType,
    CredentialsRefused,
    NotConnected,
    SendLater,
    SendRefused,
    SendUnsure,
)
from hermes.util import atomic

HINT = "Set MATRIX_HOMESERVER and MATRIX_ACCESS_TOKEN, or MATRIX_USER_ID and MATRIX_PASSWORD."
YES = frozenset({"true", "1", "yes", "on"})
NO = frozenset({"false", "0", "no", "off"})
MESSAGE, STICKER, ENCRYPTED = "m.room.message", "m.sticker", "m.room.encrypted"
"""Types of events."""


class Options(msgspec.Struct, frozen=True):
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
        """What only one gateway may use at a time."""
        return self.token or f"{self.homeserver} {self.user_id}"


def options_from(context: AdapterContext) -> Options:
    """Raises `CredentialsRefused` when something is missing or cannot be."""

    def said(name: str) -> str:
        return (context.variable(f"MATRIX_{name}") or "").strip()

    token = said("ACCESS_TOKEN") or getattr(context.connection, "token", "")
    user_id, password = said("USER_ID"), said("PASSWORD")
    if not token and not (user_id and password):
        raise CredentialsRefused("Matrix has no access token and no password", hint=HINT)
    settings = context.settings
    return Options(
        homeserver=_homeserver(said("HOMESERVER")),
        token=token,
        user_id=user_id,
        password=password,
        device_id=said("DEVICE_ID"),
        encryption=said("ENCRYPTION").lower() in YES,
        recovery_key=said("RECOVERY_KEY"),
        reactions=said("REACTIONS").lower() not in NO,
        settings=settings if isinstance(settings, MatrixSettings) else MatrixSettings(),
    )


def _homeserver(given: str) -> str:
    if not given:
        raise CredentialsRefused("Matrix has no homeserver", hint=HINT)
    address = given if "://" in given else f"https://{given}"
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
        raise CredentialsRefused(
            "MATRIX_HOMESERVER is no address", hint="it looks like https://matrix.example.org"
        )
    return address.rstrip("/")


# Safe ways into JSON that others wrote: what has the wrong shape counts as not there.

Json = dict[str, Any]


def at(value: Any, *keys: str) -> Any:
    """What is below `keys`; None when the way ends before."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def word(value: Any, *keys: str) -> str:
    found = at(value, *keys)
    return found if isinstance(found, str) else ""


def number(value: Any, *keys: str) -> int:
    found = at(value, *keys)
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


def table(value: Any, *keys: str) -> Json:
    found = at(value, *keys)
    return found if isinstance(found, dict) else {}


def tables(value: Any, *keys: str) -> list[Json]:
    found = at(value, *keys)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def words(value: Any, *keys: str) -> list[str]:
    found = at(value, *keys)
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


# HTTP to the homeserver.

PATIENCE = 30.0
"""Seconds for a call that does nothing long."""
TRANSFER = 300.0
"""Seconds for a file."""
CLIENT = "/_matrix/client/v3"


class Refusal(Exception):
    """The homeserver said no. Its words are its own and have no secrets of ours."""

    def __init__(self, status: int, code: str, said: str, seconds: float = 0.0) -> None:
        super().__init__(f"{code or status}: {said}" if said else code or str(status))
        self.status, self.code, self.seconds = status, code, seconds


TROUBLE = (Refusal, aiohttp.ClientError, TimeoutError)
"""All that a call may end with."""


def path(*parts: str, root: str = CLIENT) -> str:
    return "/".join((root, *(quote(part, safe="") for part in parts)))


class Wire:
    def __init__(self, homeserver: str) -> None:
        self._homeserver = homeserver
        self.session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None))
        self.token = ""

    async def close(self) -> None:
        await self.session.close()

    async def get(
        self, where: str, query: Mapping[str, str] | None = None, *, patience: float = PATIENCE
    ) -> Json:
        return await self.call("GET", where, query=query, patience=patience)

    async def call(
        self,
        method: str,
        where: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        patience: float = PATIENCE,
    ) -> Json:
        """Raises what `TROUBLE` names. What can be done twice is, when its connection breaks."""
        data = None if body is None else msgspec.json.encode(body)
        again = method in ("GET", "PUT")
        while True:
            try:
                return await self._call(method, where, data, query or {}, patience)
            except aiohttp.ClientConnectorError:
                raise
            except aiohttp.ClientConnectionError:
                if not again:
                    raise
                again = False

    async def upload(self, data: bytes, mime: str, name: str) -> str:
        """The mxc address of a file."""
        url = self._url("/_matrix/media/v3/upload", {"filename": name} if name else {})
        async with self._request("POST", url, data, TRANSFER, mime) as answer:
            return word(await _read(answer), "content_uri")

    @contextlib.asynccontextmanager
    async def download(self, mxc: str) -> AsyncIterator[aiohttp.ClientResponse]:
        server, _, media = mxc.removeprefix("mxc://").partition("/")
        new = path("media", "download", server, media, root="/_matrix/client/v1")
        old = path("download", server, media, root="/_matrix/media/v3")
        for where in (new, old):  # a server of before 2024 has only the old one
            async with self._request("GET", self._url(where, {}), None, TRANSFER) as answer:
                if answer.status == 200:
                    yield answer
                    return
                refusal = _refusal(answer, await answer.read())
                if where == old or refusal.code not in ("M_UNRECOGNIZED", ""):
                    raise refusal

    async def _call(
        self, method: str, where: str, data: bytes | None, query: Mapping[str, str], patience: float
    ) -> Json:
        async with self._request(method, self._url(where, query), data, patience) as answer:
            return await _read(answer)

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


async def _read(answer: aiohttp.ClientResponse) -> Json:
    body = await answer.read()
    if answer.status != 200:
        raise _refusal(answer, body)
    found = _json(body)
    if found is None:
        raise Refusal(502, "", "the answer is not of a Matrix homeserver")
    return found


def _refusal(answer: aiohttp.ClientResponse, body: bytes) -> Refusal:
    """How long to wait stands in the answer, in a header, or in both."""
    said = _json(body) or {}
    header = answer.headers.get("Retry-After", "")
    seconds = number(said, "retry_after_ms") / 1000 or float(header if header.isdecimal() else 0)
    return Refusal(answer.status, word(said, "errcode"), word(said, "error")[:300], seconds)


def _json(body: bytes) -> Json | None:
    try:
        found = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return None
    return found if isinstance(found, dict) else None


# What answers of the homeserver and broken connections mean to the gateway.

NO_LOGIN = frozenset({"M_UNKNOWN_TOKEN", "M_MISSING_TOKEN", "M_USER_DEACTIVATED"})
PAUSE = 30.0
"""Seconds that a message waits for a new token; it is not given up."""
NOT_YET = 5.0
"""Seconds, when the homeserver does not say how long."""


def is_login_refused(error: BaseException) -> bool:
    return isinstance(error, Refusal) and (error.code in NO_LOGIN or error.status == 401)


def of_sending(error: BaseException) -> AdapterError:
    if isinstance(error, Refusal):
        return _refused(error)
    if isinstance(error, aiohttp.ClientConnectorError):
        return SendLater(f"Matrix cannot be reached: {type(error).__name__}")
    return SendUnsure(f"the connection to Matrix broke: {type(error).__name__}")


def of_connecting(error: BaseException) -> AdapterError:
    """Errors of `connect`, `probe` and the synchronisation."""
    if is_login_refused(error):
        return CredentialsRefused(f"Matrix does not accept our login ({error})", hint=HINT)
    if isinstance(error, Refusal):
        return NotConnected(f"Matrix answered {error}")
    return NotConnected(f"Matrix cannot be reached: {type(error).__name__}")


told = partial(translate_errors, of_connecting, TROUBLE)
"""Errors of calls that are neither sends nor edits."""
sending = partial(translate_errors, of_sending, TROUBLE)


def _refused(error: Refusal) -> AdapterError:
    if error.code == "M_LIMIT_EXCEEDED" or error.status == 429:
        return SendLater("Matrix wants us to wait", seconds=error.seconds or NOT_YET)
    if is_login_refused(error):
        return SendLater("Matrix does not accept our login", seconds=PAUSE)
    if error.status >= 500:
        return SendUnsure(f"Matrix has a fault: {error}")
    return SendRefused(f"Matrix refused it: {error}")


# Who we are on the homeserver. The same device is used as long as it can be: messages are told
# apart by device, and so are keys.

log = logging.getLogger(__name__)


class Login(msgspec.Struct, frozen=True):
    homeserver: str
    user_id: str
    device_id: str
    since: float
    """When the device was first used, in seconds since 1970."""
    token: str = ""
    """Only when a password got it."""


async def log_in(wire: Wire, options: Options, file: Path) -> Login:
    """The wire has our token after that. Raises `CredentialsRefused` or `NotConnected`."""
    before = _login_read(file)
    if before is not None and not _is_of(before, options):
        before = None
    with told():
        if options.token:
            wire.token = options.token
            who = await wire.get(path("account", "whoami"))
        else:
            who = await _known(wire, options, before) or await _by_password(wire, options, before)
    user_id, device_id = word(who, "user_id"), word(who, "device_id")
    if options.user_id and options.user_id.startswith("@") and options.user_id != user_id:
        raise CredentialsRefused(f"the Matrix token is of {user_id}", hint=HINT)
    if options.device_id and device_id != options.device_id:
        log.warning("the Matrix token is of device %s; MATRIX_DEVICE_ID is not used", device_id)
    same = before is not None and (before.user_id, before.device_id) == (user_id, device_id)
    since = before.since if before is not None and same else time.time()
    kept = "" if options.token else wire.token
    login = Login(options.homeserver, user_id, device_id, since, kept)
    if login != before:
        atomic.write_bytes(file, msgspec.json.encode(login), mode=0o600)
    return login


def _is_of(login: Login, options: Options) -> bool:
    names = ("", login.user_id, login.user_id[1:].partition(":")[0])
    return login.homeserver == options.homeserver and options.user_id in names


async def _known(wire: Wire, options: Options, before: Login | None) -> Json | None:
    """The login of the last time, if it still counts."""
    if before is None or not before.token:
        return None
    if options.device_id not in ("", before.device_id):
        return None
    wire.token = before.token
    try:
        return await wire.get(path("account", "whoami"))
    except Refusal as error:
        if not is_login_refused(error):
            raise
        wire.token = ""
        return None


async def _by_password(wire: Wire, options: Options, before: Login | None) -> Json:
    # The device of a token that somebody gave us may be theirs: to log in as it would end that.
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
        answer = await wire.call("POST", path("login"), body)
    except Refusal as error:
        if error.status == 403:
            raise CredentialsRefused(
                "Matrix does not accept the user id and password", hint=HINT
            ) from None
        raise
    wire.token = word(answer, "access_token")
    return answer


def _login_read(file: Path) -> Login | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=Login)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        log.error("the last Matrix login cannot be read: %s", type(error).__name__)
        return None


# Calls that must be made sooner or later, and calls that only would be nice.

LONGEST_PAUSE = 30.0
MOST_FAULTS = 8
"""Of the homeserver in one call, in about a minute. One broken room must not hold up the others."""
Found = TypeVar("Found")


async def insistently(
    call: Callable[[], Awaitable[Found]], clock: Clock, otherwise: Found, what: str
) -> Found:
    """What the call gives, however long it takes to reach the homeserver; `otherwise` when that
    refuses it for good or cannot do it, again and again. Raises `Refusal` when it refuses us."""
    pause, faults = 0.2, 0
    while True:
        try:
            return await call()
        except TROUBLE as error:
            if is_login_refused(error):
                raise
            faults += isinstance(error, Refusal) and error.status >= 500
            if _is_final(error) or faults >= MOST_FAULTS:
                log.error("%s cannot be had: %s", what, error)
                return otherwise
            log.warning("%s cannot be had yet: %s", what, type(error).__name__)
            wished = error.seconds if isinstance(error, Refusal) else 0.0
        await clock.sleep(max(pause, wished))
        pause = min(pause * 2, LONGEST_PAUSE)


def _is_final(error: Exception) -> bool:
    return isinstance(error, Refusal) and error.status < 500 and error.status != 429


async def tried(work: Awaitable[Any], what: str) -> None:
    """For calls beside everything else: one that fails is left undone."""
    try:
        await work
    except TROUBLE as error:
        log.debug("%s was left undone: %s", what, error)


# The rooms we are in, as far as synchronisations tell.

COUNTS = ("m.joined_member_count", "m.invited_member_count")


class Room:
    def __init__(self, room_id: str, me: str) -> None:
        self.id, self._me = room_id, me
        self.name = self._alias = ""
        self._counts: dict[str, int] = {}
        self._heroes: list[str] = []
        self._names: dict[str, str] = {}
        self._present: set[str] = set()
        """Those who are there or invited, of those we heard of."""
        self.encrypted = False
        self.direct = False
        """We know it as a private chat."""
        self.predecessor = self.replacement = self.ended_by = ""
        """The room it says it replaces, the one that replaces it, and who said that."""
        self.origin = room_id
        """The room that its conversation began in."""
        self.group = False
        """It replaced a group."""

    @property
    def chat_type(self) -> ChatType:
        """A private chat has no name and nobody else in it, or was made as one. As soon as a third
        person is there it is none, whatever it was made as."""
        if self.group or max(sum(self._counts.values()), len(self._present)) > 2:
            return "group"
        return "dm" if self.direct or not (self.name or self._alias) else "group"

    @property
    def title(self) -> str:
        others = ", ".join(self.name_of(user) for user in self._heroes if user != self._me)
        return self.name or self._alias or others or self.id

    def name_of(self, user_id: str) -> str:
        return self._names.get(user_id) or user_id[1:].partition(":")[0]

    def absorb(self, joined: Json) -> None:
        """What a synchronisation says of it."""
        summary = table(joined, "summary")
        self._counts |= {name: number(summary, name) for name in COUNTS if name in summary}
        if "m.heroes" in summary:
            self._heroes = words(summary, "m.heroes")
        for event in (*tables(joined, "state", "events"), *tables(joined, "timeline", "events")):
            self.note(event)

    def note(self, event: Json) -> None:
        """What a piece of state says of it."""
        if "state_key" not in event:
            return
        content = table(event, "content")
        match event.get("type"):
            case "m.room.name":
                self.name = word(content, "name").strip()
            case "m.room.canonical_alias":
                self._alias = word(content, "alias")
            case "m.room.encryption":
                self.encrypted = True
            case "m.room.create":
                self.predecessor = word(content, "predecessor", "room_id")
            case "m.room.tombstone":
                self.replacement = word(content, "replacement_room")
                self.ended_by = word(event, "sender")
            case "m.room.member":
                user = word(event, "state_key")
                there = content.get("membership") in ("join", "invite")
                (self._present.add if there else self._present.discard)(user)
                self._names[user] = word(content, "displayname") or self._names.get(user, "")
                if user == self._me and content.get("is_direct") is True:
                    self.direct = True


class Rooms:
    def __init__(self, me: str) -> None:
        self._me = me
        self._known: dict[str, Room] = {}
        self._direct: dict[str, list[str]] = {}

    def __getitem__(self, room_id: str) -> Room:
        if room_id not in self._known:
            self._known[room_id] = Room(room_id, self._me)
        return self._known[room_id]

    def get(self, room_id: str) -> Room | None:
        return self._known.get(room_id)

    def absorb(self, sync: Json) -> None:
        for event in tables(sync, "account_data", "events"):
            if event.get("type") == "m.direct":
                content = table(event, "content")
                self._direct = {user: words(content, user) for user in content}
                self._mark(self._known.values())
        for room_id, joined in table(sync, "rooms", "join").items():
            room = self[room_id]
            room.absorb(joined)
            self._mark((room,))
        for room_id in table(sync, "rooms", "leave"):
            self._known.pop(room_id, None)

    def directs_with(self, user_id: str, room_id: str) -> Json:
        """The content of `m.direct` with one more private chat in it."""
        mine = [*self._direct.get(user_id, []), room_id]
        self._direct[user_id] = list(dict.fromkeys(mine))
        return dict(self._direct)

    def names(self) -> tuple[ChatInfo, ...]:
        """Of a conversation that moved, only the room it is in."""
        rooms = sorted(self._known.values(), key=lambda each: each.origin != each.id)
        found = {each.origin: ChatInfo(each.origin, each.title, each.chat_type) for each in rooms}
        return tuple(found.values())

    def _mark(self, rooms: Iterable[Room]) -> None:
        direct = {room_id for ids in self._direct.values() for room_id in ids}
        for room in rooms:
            room.direct = room.direct or room.id in direct
