"""End-to-end encryption, by matrix-nio. Only keys are its business: it is told what the homeserver
says of rooms and devices, opens events, and seals what we send.

Devices of others are trusted when they are first seen: nobody is there to compare emoji.
"""

import asyncio
import hashlib
import hmac
import json
import logging
from base64 import b64decode, b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

import nio  # type: ignore[import-untyped]  # the library has no types
from Crypto.Cipher import AES
from Crypto.Hash import SHA256
from Crypto.Protocol.KDF import HKDF
from Crypto.PublicKey import ECC
from Crypto.Signature import eddsa
from nio.crypto.attachments import (  # type: ignore[import-untyped]  # the library has no types
    decrypt_attachment,
    encrypt_attachment,
)

from hermes.gateway.platforms.kit.contract import AdapterError, NotConnected, SendLater
from hermes.gateway.platforms.matrix.client import (
    PATIENCE,
    TROUBLE,
    Json,
    Login,
    Refusal,
    Wire,
    number,
    path,
    table,
    tables,
    word,
    words,
)

# The recovery key of an account opens its secret storage. With the key in there that signs devices
# ours is signed, so that people see it as verified and their clients give it keys.

log = logging.getLogger(__name__)

SECRET = "m.cross_signing.self_signing"
_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_PREFIX = b"\x8b\x01"


class WrongKey(ValueError):
    """It is no recovery key, or not that of this account."""


async def sign_device(wire: Wire, login: Login, recovery_key: str) -> None:
    """Told in the log when it cannot be done. Raises what `wire.TROUBLE` names."""
    try:
        seed = await _signing_seed(wire, login, decoded(recovery_key))
    except (ValueError, Refusal) as error:
        log.error("MATRIX_RECOVERY_KEY cannot be used: %s", error)
        return
    signer = ECC.construct(curve="Ed25519", seed=seed)
    public = unpadded(signer.public_key().export_key(format="raw"))
    query: Json = {"device_keys": {login.user_id: []}}
    known = await wire.call("POST", path("keys", "query"), query)
    if public not in table(known, "self_signing_keys", login.user_id, "keys").values():
        log.error("MATRIX_RECOVERY_KEY cannot be used: the account has other keys by now")
        return
    device = table(known, "device_keys", login.user_id, login.device_id)
    name = f"ed25519:{public}"
    if name in table(device, "signatures", login.user_id):
        return
    plain = {key: each for key, each in device.items() if key not in ("signatures", "unsigned")}
    signature = unpadded(eddsa.new(signer, "rfc8032").sign(canonical(plain)))
    signed = plain | {"signatures": {login.user_id: {name: signature}}}
    body = {login.user_id: {login.device_id: signed}}
    await wire.call("POST", path("keys", "signatures", "upload"), body)
    log.info("the Matrix device %s is signed by its owner now", login.device_id)


def decoded(recovery_key: str) -> bytes:
    """The 32 bytes that people write down as groups of letters. Raises `WrongKey`."""
    number = 0
    for letter in "".join(recovery_key.split()):
        if letter not in _ALPHABET:
            raise WrongKey("it is no recovery key")
        number = number * 58 + _ALPHABET.index(letter)
    try:
        data = number.to_bytes(35, "big")
    except OverflowError:
        raise WrongKey("it is no recovery key") from None
    parity = 0
    for each in data:
        parity ^= each
    if parity or not data.startswith(_PREFIX):
        raise WrongKey("it is no recovery key")
    return data[2:-1]


def opened(secret: Json, key: bytes, name: str) -> bytes:
    """A secret of the storage. Raises `WrongKey` when another key sealed it."""
    cipher_key, mac_key = _keys(key, name)
    sealed = padded(word(secret, "ciphertext"))
    if not hmac.compare_digest(hmac.digest(mac_key, sealed, sha256), padded(word(secret, "mac"))):
        raise WrongKey("it is not that of this account")
    cipher = AES.new(cipher_key, AES.MODE_CTR, initial_value=padded(word(secret, "iv")), nonce=b"")
    return cipher.decrypt(sealed)


def canonical(value: Json) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


def unpadded(data: bytes) -> str:
    return b64encode(data).decode().rstrip("=")


def padded(text: str) -> bytes:
    try:
        return b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        raise WrongKey("the secret storage cannot be read") from None


async def _signing_seed(wire: Wire, login: Login, key: bytes) -> bytes:
    async def stored(name: str) -> Json:
        return await wire.get(path("user", login.user_id, "account_data", name))

    key_id = word(await stored("m.secret_storage.default_key"), "key")
    secret = table(await stored(SECRET), "encrypted", key_id)
    return padded(opened(secret, key, SECRET).decode("ascii", "replace"))


def _keys(key: bytes, name: str) -> tuple[bytes, bytes]:
    both = bytes(HKDF(key, 64, b"\0" * 32, SHA256, context=name.encode()))
    return both[:32], both[32:]


class Secrecy:
    def __init__(self, wire: Wire, login: Login, folder: Path) -> None:
        """Keys are in the folder, readable by us alone. Raises `NotConnected` without a device."""
        if not login.device_id:
            raise NotConnected("the Matrix token has no device, so nothing can be encrypted")
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.chmod(0o700)
        device = f"{login.user_id} {login.device_id}"
        name = f"{hashlib.sha256(device.encode()).hexdigest()[:24]}.db"
        (folder / name).touch(mode=0o600)
        config = nio.AsyncClientConfig(
            store=nio.store.SqliteStore,
            store_name=name,
            max_limit_exceeded=0,
            max_timeouts=0,
            request_timeout=PATIENCE,
        )
        self._client = nio.AsyncClient(
            login.homeserver, login.user_id, login.device_id, str(folder), config
        )
        self._wire, self._login = wire, login
        self._client.client_session = wire.session
        self._client.restore_login(login.user_id, login.device_id, wire.token)
        self._turns: dict[str, asyncio.Lock] = {}

    def close(self) -> None:
        self._client.store.database.close()

    @property
    def olm(self) -> Any:
        return self._client.olm

    async def publish(self, recovery_key: str = "") -> None:
        """People find our keys after that; with the recovery key they see that the device is that
        of the account's owner. Raises what `wire.TROUBLE` names."""
        if self._client.should_upload_keys:
            _checked(await self._client.keys_upload())
        if recovery_key:
            await sign_device(self._wire, self._login, recovery_key)

    async def absorb(self, sync: Json) -> None:
        """Keys that came, devices that changed, members of encrypted rooms."""
        answer = nio.SyncResponse.from_dict(_of_rooms_and_devices(sync))
        if isinstance(answer, nio.ErrorResponse):
            log.error("what Matrix says of keys and members cannot be read")
            return
        await self._client.receive_response(answer)
        left = table(sync, "device_one_time_keys_count")
        if "signed_curve25519" in left:  # nio does not heed that none are left
            self.olm.uploaded_key_count = number(left, "signed_curve25519")
        self.olm.add_changed_users(
            self.olm.tracked_users & set(words(sync, "device_lists", "changed"))
        )
        await self._upkeep()

    def has_key(self, room_id: str, event: Json) -> bool:
        session_id = word(event, "content", "session_id")
        return any(session_id in each for each in self.olm.inbound_group_store[room_id].values())

    def open(self, room_id: str, event: Json) -> Json | None:
        """What is in an encrypted event, with its id, sender and time; None when it cannot be
        opened."""
        sealed = nio.MegolmEvent.from_dict(self._complete(room_id, event))
        if not isinstance(sealed, nio.MegolmEvent):
            return None
        sealed.room_id = room_id
        try:
            opened = self.olm.decrypt_megolm_event(sealed, room_id)
        except nio.EncryptionError as error:
            log.debug("an event cannot be decrypted: %s", error)
            return None
        inside = dict(opened.source)
        inside["unsigned"] = table(event, "unsigned")
        return inside

    async def seal(self, room_id: str, kind: str, content: Json) -> tuple[str, Json]:
        """The type and content of the encrypted event; everybody in the room has its key then.
        Raises `SendLater` and what `wire.TROUBLE` names."""
        async with self._turns.setdefault(room_id, asyncio.Lock()):
            try:
                await self._share(room_id)
                kind, sealed = self._client.encrypt(room_id, kind, content)
            except (nio.LocalProtocolError, nio.EncryptionError, nio.GroupEncryptionError) as error:
                raise SendLater(f"it cannot be encrypted: {type(error).__name__}") from error
            return str(kind), sealed

    def seal_file(self, data: bytes) -> tuple[bytes, Json]:
        sealed, keys = encrypt_attachment(data)
        return sealed, keys

    async def _share(self, room_id: str) -> None:
        client = self._client
        room = client.rooms.get(room_id)
        if room is None or not room.encrypted:
            raise SendLater("the members of an encrypted room are not known yet")
        if not room.members_synced:
            _checked(await client.joined_members(room_id))
        if client.should_query_keys:
            _checked(await client.keys_query())
        if not self.olm.should_share_group_session(room_id):
            return
        if missing := client.get_missing_sessions(room_id):
            _checked(await client.keys_claim(missing))
        try:
            await client.share_group_session(room_id, ignore_unverified_devices=True)
        finally:
            client.sharing_session.pop(room_id, None)  # nio leaves it behind when a call fails
        if not self._is_shared(room_id):
            client.invalidate_outbound_session(room_id)
            raise SendLater("the key of an encrypted room did not reach everybody")

    def _is_shared(self, room_id: str) -> bool:
        """Whether all devices that can be written to have the key."""
        session = self.olm.outbound_group_sessions[room_id]
        for user_id in self._client.rooms[room_id].users:
            for device in self.olm.device_store.active_user_devices(user_id):
                has = (user_id, device.id) in session.users_shared_with | session.users_ignored
                if not has and self.olm.session_store.get(device.curve25519):
                    return False
        return True

    async def _upkeep(self) -> None:
        """What the homeserver and the devices of others are to have of us."""
        client = self._client
        try:
            if client.should_upload_keys:
                _checked(await client.keys_upload())
            if client.should_query_keys:
                _checked(await client.keys_query())
            if client.should_claim_keys:
                _checked(await client.keys_claim(client.get_users_for_key_claiming()))
            for answer in await client.send_to_device_messages():
                _checked(answer)
        except TROUBLE as error:
            log.info("Matrix keys are not up to date: %s", error)

    def _complete(self, room_id: str, event: Json) -> Json:
        """Newer clients leave out what nio wants to know; our copy of the key knows it too."""
        content = table(event, "content")
        if "sender_key" in content and "device_id" in content:
            return event
        session_id = word(content, "session_id")
        known = self.olm.inbound_group_store[room_id].items()
        sender_key = next((key for key, sessions in known if session_id in sessions), "")
        return event | {"content": {"sender_key": sender_key, "device_id": "", **content}}


def _checked(answer: Any) -> None:
    """nio gives errors back instead of raising them."""
    if isinstance(answer, nio.ErrorResponse):
        status = answer.transport_response.status if answer.transport_response else 0
        seconds = (answer.retry_after_ms or 0) / 1000
        raise Refusal(status, answer.status_code or "", answer.message, seconds)


def _of_rooms_and_devices(sync: Json) -> Json:
    """What nio is to know: no messages."""
    rooms = {}
    for room_id, joined in table(sync, "rooms", "join").items():
        timeline = [each for each in tables(joined, "timeline", "events") if "state_key" in each]
        rooms[room_id] = {
            "state": {"events": tables(joined, "state", "events")},
            "timeline": {"events": timeline, "limited": False, "prev_batch": ""},
            "summary": table(joined, "summary"),
            "ephemeral": {"events": []},
            "account_data": {"events": []},
        }
    return {
        "next_batch": word(sync, "next_batch"),
        "rooms": {"join": rooms, "invite": {}, "leave": {}},
        "to_device": {"events": tables(sync, "to_device", "events")},
        "device_lists": {
            "changed": words(sync, "device_lists", "changed"),
            "left": words(sync, "device_lists", "left"),
        },
        "device_one_time_keys_count": table(sync, "device_one_time_keys_count"),
    }


def open_file(data: bytes, file: Json) -> bytes:
    """Raises `AdapterError` when it is not what was sent."""
    key, iv = word(file, "key", "k"), word(file, "iv")
    try:
        opened: bytes = decrypt_attachment(data, key, word(file, "hashes", "sha256"), iv)
    except (nio.EncryptionError, ValueError) as error:
        raise AdapterError("an encrypted file cannot be opened") from error
    return opened
