"""Who we are on the homeserver. The same device is used as long as it can be: messages are told
apart by device, and so are keys."""

import logging
import time
from pathlib import Path

import msgspec

from hermes.gateway.platforms.base import CredentialsRefused
from hermes.gateway.platforms.matrix.failures import is_login_refused, told
from hermes.gateway.platforms.matrix.options import HINT, Options
from hermes.gateway.platforms.matrix.shapes import Json, word
from hermes.gateway.platforms.matrix.wire import Refusal, Wire, path
from hermes.util import atomic

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
    before = _read(file)
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


def _read(file: Path) -> Login | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=Login)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        log.error("the last Matrix login cannot be read: %s", type(error).__name__)
        return None
