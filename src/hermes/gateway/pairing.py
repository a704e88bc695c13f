"""Pairing: authorizes users by a code.

There are two ways. A stranger writes, gets a code, and the owner approves it; or the owner creates
an invitation, and the stranger sends its code. A code is valid for an hour and can be used once.

    <folder>/<platform>-pending.json    requests and invitations, codes hashed
    <folder>/<platform>-approved.json   authorized users, by user id
    <folder>/_rate_limits.json          times of requests, wrong codes, lockouts
"""

import contextlib
import errno
import hashlib
import hmac
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
from msgspec import field

from hermes.config.home import change_lock, tilde, unusable
from hermes.config.own_files import write_own
from hermes.core.errors import ConfigError, HermesError, UsageError
from hermes.core.ports import Clock
from hermes.gateway.platforms.registry import user_ids

ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"  #: 32 characters, without 0 and O, 1 and I.
LENGTH = 8
COST = 2**14
"""Cost of one scrypt call: 16 MB and 50 ms; all codes would take one core 2000 years."""

_CODE = re.compile(f"[{ALPHABET}]{{{LENGTH}}}")
_LONGEST = 64


class HashedCode(msgspec.Struct, frozen=True):
    salt: str
    digest: str
    cost: Annotated[int, msgspec.Meta(ge=2, le=2**20)]


def new_code() -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))


def normalize_code(text: str) -> str:
    """Return the code in a text, ignoring spaces, dashes and case; "" if there is none."""
    if len(text) > _LONGEST or not text.isascii():
        return ""
    code = re.sub(r"[\s-]", "", text).upper()
    return code if _CODE.fullmatch(code) else ""


def hash_code(code: str, cost: int = COST) -> HashedCode:
    salt = secrets.token_hex(16)
    return HashedCode(salt, _digest(code, salt, cost), cost)


def code_matches(code: str, kept: HashedCode) -> bool:
    """Compare in constant time. A hash with invalid parameters matches no code."""
    try:
        digest = _digest(code, kept.salt, kept.cost)
    except ValueError:
        return False
    return hmac.compare_digest(digest.encode(), kept.digest.encode())


def _digest(code: str, salt: str, cost: int) -> str:
    return hashlib.scrypt(code.encode(), salt=salt.encode(), n=cost, r=8, p=1, dklen=32).hex()


LOCK_FILE = ".lock"
LOCK_SECONDS = 10.0
MOST_BYTES = 4_000_000

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OTHERS = stat.S_IRWXG | stat.S_IRWXO

T = TypeVar("T")


class PrivateFolder:
    """JSON files in one folder that only their owner reads and writes; each is replaced as a whole.

    A file that another user could have written is refused and left unchanged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, name: str, kind: type[T]) -> T | None:
        """Return the content of a file; None if it does not exist. Raises `ConfigError` if it is
        damaged or cannot be trusted."""
        path = self.folder / name
        self._check_folder()
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise _untrusted(path, "is a symbolic link", "put the file itself there") from error
            raise unusable(path, error) from error
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise _untrusted(path, "is not a file", "move it away")
            _check_owner(path, found)
            if found.st_mode & _OTHERS and found.st_uid == os.geteuid():
                os.fchmod(descriptor, 0o600)
            if found.st_size > MOST_BYTES:
                raise _untrusted(path, "is far too large", "move it away to start over")
            with open(descriptor, "rb", closefd=False) as file:
                data = file.read()
        except OSError as error:
            raise unusable(path, error) from error
        finally:
            os.close(descriptor)
        try:
            return msgspec.json.decode(data, type=kind)
        except msgspec.DecodeError as error:
            hint = "the file was not changed; fix it, or move it away to start over"
            raise ConfigError(f"{tilde(path)} is damaged: {error}", hint=hint) from error

    def write(self, name: str, value: object) -> None:
        path = self.folder / name
        if path.is_symlink():
            raise _untrusted(path, "is a symbolic link", "put the file itself there")
        data = msgspec.json.format(msgspec.json.encode(value), indent=2)
        try:
            write_own(self.folder.parent, path, data + b"\n", mode=0o600)
        except OSError as error:
            raise unusable(path, error) from error

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock for changing the files, across processes and threads."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._check_folder()
        except OSError as error:
            raise unusable(self.folder, error) from error
        with change_lock(self.folder / LOCK_FILE, LOCK_SECONDS, tilde(self.folder)):
            yield

    def _check_folder(self) -> None:
        try:
            found = self.folder.lstat()
        except FileNotFoundError:
            return
        except OSError as error:
            raise unusable(self.folder, error) from error
        if not stat.S_ISDIR(found.st_mode):
            raise _untrusted(self.folder, "is not a folder", "a folder of ours is expected there")
        _check_owner(self.folder, found)


def _check_owner(path: Path, found: os.stat_result) -> None:
    if os.geteuid() and found.st_uid not in (0, os.geteuid()):
        raise _untrusted(path, "belongs to another user", f"chown it: {tilde(path)}")
    if found.st_mode & _OTHERS_WRITE:
        hint = f"look at what it says, then: chmod go-rwx {tilde(path)}"
        raise _untrusted(path, "can be written by others", hint)


def _untrusted(path: Path, what: str, hint: str) -> ConfigError:
    return ConfigError(f"{tilde(path)} {what}, so it is not used", hint=hint)


# Ids are compared exactly. Only where a platform itself ignores case is the case of ASCII letters
# ignored: other letters have look-alikes that fold into ASCII.

EVERYBODY = "*"

_ASCII_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_SPACE = " \t\r\n"
_TRUE = frozenset({"1", "true", "yes", "on"})


def identity(platform: str, user_id: str) -> str:
    """Return a user id in the form in which ids are compared."""
    return user_id.translate(_ASCII_LOWER) if user_ids(platform).ignore_case else user_id


def parse_user_list(platform: str, text: str | None) -> frozenset[str]:
    """Return the user ids in a list such as TELEGRAM_ALLOWED_USERS."""
    words = (word.strip(_SPACE) for word in (text or "").split(","))
    return frozenset(identity(platform, word) for word in words if word)


def is_switched_on(text: str | None) -> bool:
    """Return whether a variable such as TELEGRAM_ALLOW_ALL_USERS clearly says yes."""
    return (text or "").strip(_SPACE).lower() in _TRUE


def users_on(platform: str, names: Iterable[str]) -> frozenset[str]:
    """Return the users of `platform` among entries such as `telegram:12345`."""
    parts = (name.strip(_SPACE).partition(":") for name in names)
    return frozenset(
        identity(platform, user.strip(_SPACE))
        for where, _, user in parts
        if where == platform and user.strip(_SPACE)
    )


FOLDER = "pairing"  #: Folder in the Hermes home.
LIFE_SECONDS = 3600.0
ASK_SECONDS = 600.0  #: Seconds between two requests of one user.
MOST_REQUESTS = 20  #: Open requests per platform.
MOST_INVITATIONS = 3  #: Open invitations per platform.
MOST_WRONG = 5
LOCKOUT_SECONDS = 3600.0
SKEW_SECONDS = 60.0
"""Tolerated clock difference. A code further ahead was made before a clock change."""
LIMITS = "_rate_limits.json"
PENDING, APPROVED = "-pending.json", "-approved.json"

_PLATFORM = re.compile(r"[a-z0-9][a-z0-9_]{0,39}")
_LONGEST_NAME = 100


class Pending(msgspec.Struct, frozen=True):
    """An open code: the request of a stranger or, without a user, an invitation."""

    code: HashedCode
    made_at: float
    user_id: str = ""
    user_name: str = ""


class Approved(msgspec.Struct, frozen=True):
    user_name: str = ""
    approved_at: float = 0.0


class PairingLimits(msgspec.Struct):
    asked: dict[str, float] = field(default_factory=dict)
    """Time of the last request, by `platform:user`."""
    wrong: dict[str, int] = field(default_factory=dict)  #: Wrong codes in a row, by platform.
    guessed: dict[str, int] = field(default_factory=dict)
    """Wrong codes of a stranger since the last invitation, by `platform:user`."""
    locked_until: dict[str, float] = field(default_factory=dict)


class PairingRequest(msgspec.Struct, frozen=True):
    code: str = ""  #: "" if no code was created; `why` says the reason.
    why: str = ""


class _PlatformState(msgspec.Struct):
    """The limits and the open codes of a platform, while the lock is held."""

    now: float
    limits: PairingLimits
    waiting: list[Pending]
    approved: dict[str, Approved] = {}  #: Users to approve.


class PairingStore:
    """Stores pairing requests, invitations and approved users. Safe to use from several processes.

    Raises `ConfigError` if a file is damaged or could have been written by other users; then no
    user is paired.
    """

    def __init__(self, folder: Path, clock: Clock, *, cost: int = COST) -> None:
        self._files, self._clock, self._cost = PrivateFolder(folder), clock, cost

    def is_approved(self, platform: str, user_id: str) -> bool:
        return bool(user_id) and identity(platform, user_id) in self.approved(platform)

    def approved(self, platform: str) -> dict[str, Approved]:
        return self._files.read(_file(platform, APPROVED), dict[str, Approved]) or {}

    def pending(self, platform: str) -> list[Pending]:
        """Return the requests that can be approved now, oldest first."""
        return [each for each in self._open_codes(platform) if each.user_id]

    def invitations(self, platform: str) -> list[Pending]:
        """Return the invitations that can still be redeemed."""
        return [each for each in self._open_codes(platform) if not each.user_id]

    def _open_codes(self, platform: str) -> list[Pending]:
        return _live(self._files.read(_file(platform, PENDING), list[Pending]) or [], self._now())

    def platforms(self) -> list[str]:
        """Return the platforms that have requests or approved users."""
        found = (path.name for path in self._files.folder.glob("*.json"))
        ends = (PENDING, APPROVED)
        names = {name.removesuffix(end) for name in found for end in ends if name.endswith(end)}
        return sorted(name for name in names if _PLATFORM.fullmatch(name))

    def request(self, platform: str, user_id: str, user_name: str = "") -> PairingRequest:
        """Create a code for a stranger, at most once in ten minutes."""
        user = identity(platform, user_id)
        with self._change(platform) as state:
            if platform in state.limits.locked_until:
                return PairingRequest(why="too many wrong codes were tried")
            if f"{platform}:{user}" in state.limits.asked:
                return PairingRequest(why="asked a moment ago")
            others = [each for each in state.waiting if each.user_id != user]
            requests = [each for each in others if each.user_id]
            if len(requests) >= MOST_REQUESTS:
                # Strangers must not keep others out for long, nor remove a request at once.
                oldest = min(requests, key=lambda each: each.made_at)
                if state.now - oldest.made_at < ASK_SECONDS:
                    return PairingRequest(why="too many wait for approval")
                others.remove(oldest)
            code = new_code()
            hashed = hash_code(code, self._cost)
            state.limits.asked[f"{platform}:{user}"] = state.now
            state.waiting = [*others, Pending(hashed, state.now, user, user_name[:_LONGEST_NAME])]
        return PairingRequest(code)

    def approve(self, platform: str, text: str) -> tuple[str, Approved]:
        """Approve the request with this code and return its user. The code is used up.

        Raises `UsageError` for a wrong code and `HermesError` after too many wrong ones.
        """
        with self._change(platform) as state:
            _refuse_locked(state, platform)
            code = normalize_code(text)
            if not code:
                raise UsageError(
                    f"{text.strip()[:20]!r} is not a pairing code",
                    hint=f"a code has {LENGTH} letters and digits, such as K7PXM2QA",
                )
            found = _match(code, [each for each in state.waiting if each.user_id])
            wrong = 0 if found else state.limits.wrong.get(platform, 0) + 1
            state.limits.wrong[platform] = wrong % MOST_WRONG
            if found is None:
                hint = f"{MOST_WRONG - wrong} more wrong codes and {platform} is locked for an hour"
                if wrong >= MOST_WRONG:
                    state.limits.locked_until[platform] = state.now + LOCKOUT_SECONDS
                    hint = f"too many wrong codes: {platform} is locked for an hour"
                raise UsageError(
                    f"no request on {platform} has this code, or it has run out", hint=hint
                )
            state.waiting = [each for each in state.waiting if each.user_id != found.user_id]
            state.approved[found.user_id] = approved = Approved(found.user_name, state.now)
            return found.user_id, approved

    def invite(self, platform: str) -> str:
        """Create an invitation code, which the first person to send it can redeem."""
        with self._change(platform) as state:
            _refuse_locked(state, platform)
            if sum(not each.user_id for each in state.waiting) >= MOST_INVITATIONS:
                raise UsageError(
                    f"{MOST_INVITATIONS} invitations to {platform} are open already",
                    hint=f"they end after an hour, or by: hermes pairing clear-pending {platform}",
                )
            code = new_code()
            state.limits.guessed = {
                user: count
                for user, count in state.limits.guessed.items()
                if not user.startswith(f"{platform}:")
            }
            state.waiting.append(Pending(hash_code(code, self._cost), state.now))
        return code

    def redeem(self, platform: str, text: str, user_id: str, user_name: str = "") -> bool:
        """Return whether `text` is the code of an invitation; if so, its sender is approved.
        After several wrong codes no code of this sender counts, until the next invitation."""
        code = normalize_code(text)
        if not code or not user_id:
            return False
        with self._change(platform) as state:
            guesses = state.limits.guessed.get(f"{platform}:{identity(platform, user_id)}", 0)
            if platform in state.limits.locked_until or guesses >= MOST_WRONG:
                return False
            found = _match(code, [each for each in state.waiting if not each.user_id])
            if found is not None:
                state.waiting.remove(found)
                approved = Approved(user_name[:_LONGEST_NAME], state.now)
                state.approved[identity(platform, user_id)] = approved
                return True
            state.limits.guessed[f"{platform}:{identity(platform, user_id)}"] = guesses + 1
            return False

    def revoke(self, platform: str, user_id: str) -> bool:
        """Remove a user and their requests. Returns False if the user was not approved."""
        user = identity(platform, user_id)
        with self._change(platform) as state:
            state.waiting = [each for each in state.waiting if each.user_id != user]
            held = self.approved(platform)
            if held.pop(user, None) is None:
                return False
            self._files.write(_file(platform, APPROVED), held)
        return True

    def clear_pending(self, platform: str) -> int:
        """Remove all requests and invitations. Returns their number."""
        with self._change(platform) as state:
            count, state.waiting = len(state.waiting), []
        return count

    @contextlib.contextmanager
    def _change(self, platform: str) -> Iterator[_PlatformState]:
        """Hold the lock, and at the end of the block write what it changed, also if it raises.

        Expired codes are deleted, so that setting the clock back does not revive them.
        """
        pending, now = _file(platform, PENDING), self._now()
        with self._files.locked():
            limits = self._files.read(LIMITS, PairingLimits) or PairingLimits()
            before = msgspec.json.encode(limits)
            limits.asked = {
                user: at for user, at in limits.asked.items() if abs(now - at) < ASK_SECONDS
            }
            limits.locked_until = {
                name: min(until, now + LOCKOUT_SECONDS)
                for name, until in limits.locked_until.items()
                if until > now
            }
            held = self._files.read(pending, list[Pending]) or []
            state = _PlatformState(now, limits, _live(held, now))
            try:
                yield state
            finally:
                if msgspec.json.encode(state.limits) != before:
                    self._files.write(LIMITS, state.limits)
                # The code is deleted first, so that it cannot be used twice after a crash.
                if state.waiting != held:
                    self._files.write(pending, state.waiting)
                if state.approved:
                    everyone = self.approved(platform) | state.approved
                    self._files.write(_file(platform, APPROVED), everyone)

    def _now(self) -> float:
        return self._clock.now().timestamp()


def _live(held: list[Pending], now: float) -> list[Pending]:
    """Return the codes that have not expired, and are not from before a clock change."""
    return [each for each in held if -SKEW_SECONDS <= now - each.made_at < LIFE_SECONDS]


def _refuse_locked(state: _PlatformState, platform: str) -> None:
    until = state.limits.locked_until.get(platform)
    if until is not None:
        raise HermesError(
            f"too many wrong codes were tried on {platform}",
            hint=f"pairing works there again in {max(1, round((until - state.now) / 60))} min",
        )


def _match(code: str, waiting: Iterable[Pending]) -> Pending | None:
    """Return the entry with this code. All are compared, so that the time reveals nothing."""
    found = [each for each in waiting if code_matches(code, each.code)]
    return found[0] if found else None


def _file(platform: str, ending: str) -> str:
    if not _PLATFORM.fullmatch(platform):
        raise UsageError(f"{platform!r} is not the name of a platform")
    return f"{platform}{ending}"
