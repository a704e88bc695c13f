"""End-to-end encryption by matrix-nio. It handles keys only: it is given the room and device
updates of each sync, decrypts events and encrypts what we send.

Devices of others are trusted on first use, because no person could compare emoji.
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

from hermes.sdk.platforms import AdapterError, NotConnected, SendLater
from hermes_plugins.platforms.matrix.client import (
    CALL_ERRORS,
    REQUEST_SECONDS,
    Json,
    MatrixClient,
    MatrixError,
    MatrixLogin,
    api_path,
    get_dict,
    get_dicts,
    get_int,
    get_str,
    get_strs,
)

logger = logging.getLogger(__name__)
SECRET = "m.cross_signing.self_signing"
_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_PREFIX = b"\x8b\x01"


class WrongRecoveryKey(ValueError):
    """Not a recovery key, or not that of this account."""


async def sign_device(http: MatrixClient, login: MatrixLogin, recovery_key: str) -> None:
    """Sign our device, so that users see it as verified and their clients share keys with it.

    The recovery key decrypts the account's secret storage, which holds the signing key. A wrong
    recovery key is logged. Raises any of `CALL_ERRORS`.
    """
    try:
        seed = await _signing_seed(http, login, decode_recovery_key(recovery_key))
    except (ValueError, MatrixError) as error:
        logger.error("MATRIX_RECOVERY_KEY cannot be used: %s", error)
        return
    signer = ECC.construct(curve="Ed25519", seed=seed)
    public = encode_base64(signer.public_key().export_key(format="raw"))
    query: Json = {"device_keys": {login.user_id: []}}
    known = await http.call("POST", api_path("keys", "query"), query)
    if public not in get_dict(known, "self_signing_keys", login.user_id, "keys").values():
        logger.error("MATRIX_RECOVERY_KEY cannot be used: the account has different keys now")
        return
    device = get_dict(known, "device_keys", login.user_id, login.device_id)
    name = f"ed25519:{public}"
    if name in get_dict(device, "signatures", login.user_id):
        return
    plain = {key: each for key, each in device.items() if key not in ("signatures", "unsigned")}
    signature = encode_base64(eddsa.new(signer, "rfc8032").sign(canonical_json(plain)))
    signed = plain | {"signatures": {login.user_id: {name: signature}}}
    body = {login.user_id: {login.device_id: signed}}
    await http.call("POST", api_path("keys", "signatures", "upload"), body)
    logger.info("the Matrix device %s is signed by its owner now", login.device_id)


def decode_recovery_key(recovery_key: str) -> bytes:
    """Return the 32 bytes of a recovery key, which is written as groups of letters. Raises
    `WrongRecoveryKey`."""
    number = 0
    for letter in "".join(recovery_key.split()):
        if letter not in _ALPHABET:
            raise WrongRecoveryKey("it is not a recovery key")
        number = number * 58 + _ALPHABET.index(letter)
    try:
        data = number.to_bytes(35, "big")
    except OverflowError:
        raise WrongRecoveryKey("it is not a recovery key") from None
    parity = 0
    for each in data:
        parity ^= each
    if parity or not data.startswith(_PREFIX):
        raise WrongRecoveryKey("it is not a recovery key")
    return data[2:-1]


def decrypt_secret(secret: Json, key: bytes, name: str) -> bytes:
    """Decrypt a secret of the storage. Raises `WrongRecoveryKey` for another key."""
    both = bytes(HKDF(key, 64, b"\0" * 32, SHA256, context=name.encode()))
    cipher_key, mac_key = both[:32], both[32:]
    sealed = decode_base64(get_str(secret, "ciphertext"))
    if not hmac.compare_digest(
        hmac.digest(mac_key, sealed, sha256), decode_base64(get_str(secret, "mac"))
    ):
        raise WrongRecoveryKey("it is not that of this account")
    cipher = AES.new(
        cipher_key, AES.MODE_CTR, initial_value=decode_base64(get_str(secret, "iv")), nonce=b""
    )
    return cipher.decrypt(sealed)


def canonical_json(value: Json) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


def encode_base64(data: bytes) -> str:
    return b64encode(data).decode().rstrip("=")


def decode_base64(text: str) -> bytes:
    try:
        return b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        raise WrongRecoveryKey("the secret storage cannot be read") from None


class MatrixEncryption:
    def __init__(self, http: MatrixClient, login: MatrixLogin, folder: Path) -> None:
        """Keys are stored in the folder, readable by us alone. Raises `NotConnected` without a
        device."""
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
            request_timeout=REQUEST_SECONDS,
        )
        self._client = nio.AsyncClient(
            login.homeserver, login.user_id, login.device_id, str(folder), config
        )
        self._http, self._login = http, login
        self._client.client_session = http.session
        self._client.restore_login(login.user_id, login.device_id, http.token)
        self._locks: dict[str, asyncio.Lock] = {}

    def close(self) -> None:
        self._client.store.database.close()

    @property
    def olm(self) -> Any:
        return self._client.olm

    async def publish_keys(self, recovery_key: str = "") -> None:
        """Publish our keys; with the recovery key also sign the device. Raises any of
        `CALL_ERRORS`."""
        if self._client.should_upload_keys:
            _raise_for_error(await self._client.keys_upload())
        if recovery_key:
            await sign_device(self._http, self._login, recovery_key)

    async def update(self, sync: Json) -> None:
        """Process received keys, changed devices, and members of encrypted rooms."""
        answer = nio.SyncResponse.from_dict(_without_messages(sync))
        if isinstance(answer, nio.ErrorResponse):
            logger.error("what Matrix says of keys and members cannot be read")
            return
        await self._client.receive_response(answer)
        left = get_dict(sync, "device_one_time_keys_count")
        if "signed_curve25519" in left:  # nio ignores that none are left
            self.olm.uploaded_key_count = get_int(left, "signed_curve25519")
        self.olm.add_changed_users(
            self.olm.tracked_users & set(get_strs(sync, "device_lists", "changed"))
        )
        await self._maintain_keys()

    def has_key(self, room_id: str, event: Json) -> bool:
        session_id = get_str(event, "content", "session_id")
        return any(session_id in each for each in self.olm.inbound_group_store[room_id].values())

    def decrypt(self, room_id: str, event: Json) -> Json | None:
        """Return the decrypted event with id, sender and time; None when it cannot be decrypted."""
        sealed = nio.MegolmEvent.from_dict(self._complete(room_id, event))
        if not isinstance(sealed, nio.MegolmEvent):
            return None
        sealed.room_id = room_id
        try:
            opened = self.olm.decrypt_megolm_event(sealed, room_id)
        except nio.EncryptionError as error:
            logger.debug("an event cannot be decrypted: %s", error)
            return None
        return {**opened.source, "unsigned": get_dict(event, "unsigned")}

    async def encrypt(self, room_id: str, kind: str, content: Json) -> tuple[str, Json]:
        """Return type and content of the encrypted event, after sharing its key with all members.
        Raises `SendLater` and any of `CALL_ERRORS`."""
        async with self._locks.setdefault(room_id, asyncio.Lock()):
            try:
                await self._share_key(room_id)
                kind, sealed = self._client.encrypt(room_id, kind, content)
            except (nio.LocalProtocolError, nio.EncryptionError, nio.GroupEncryptionError) as error:
                raise SendLater(f"it cannot be encrypted: {type(error).__name__}") from error
            return str(kind), sealed

    def encrypt_file(self, data: bytes) -> tuple[bytes, Json]:
        sealed, keys = encrypt_attachment(data)
        return sealed, keys

    async def _share_key(self, room_id: str) -> None:
        client = self._client
        room = client.rooms.get(room_id)
        if room is None or not room.encrypted:
            raise SendLater("the members of an encrypted room are not known yet")
        if not room.members_synced:
            _raise_for_error(await client.joined_members(room_id))
        if client.should_query_keys:
            _raise_for_error(await client.keys_query())
        if not self.olm.should_share_group_session(room_id):
            return
        if missing := client.get_missing_sessions(room_id):
            _raise_for_error(await client.keys_claim(missing))
        try:
            await client.share_group_session(room_id, ignore_unverified_devices=True)
        finally:
            client.sharing_session.pop(room_id, None)  # nio keeps it when a call fails
        if not self._is_shared(room_id):
            client.invalidate_outbound_session(room_id)
            raise SendLater("the key of an encrypted room did not reach all devices")

    def _is_shared(self, room_id: str) -> bool:
        """True if all reachable devices have the key."""
        session = self.olm.outbound_group_sessions[room_id]
        for user_id in self._client.rooms[room_id].users:
            for device in self.olm.device_store.active_user_devices(user_id):
                has = (user_id, device.id) in session.users_shared_with | session.users_ignored
                if not has and self.olm.session_store.get(device.curve25519):
                    return False
        return True

    async def _maintain_keys(self) -> None:
        """Upload, query and claim keys as needed. Failures are only logged."""
        client = self._client
        try:
            if client.should_upload_keys:
                _raise_for_error(await client.keys_upload())
            if client.should_query_keys:
                _raise_for_error(await client.keys_query())
            if client.should_claim_keys:
                _raise_for_error(await client.keys_claim(client.get_users_for_key_claiming()))
            for answer in await client.send_to_device_messages():
                _raise_for_error(answer)
        except CALL_ERRORS as error:
            logger.info("Matrix keys are not up to date: %s", error)

    def _complete(self, room_id: str, event: Json) -> Json:
        """Add fields that newer clients omit and nio requires; our copy of the key has them."""
        content = get_dict(event, "content")
        if "sender_key" in content and "device_id" in content:
            return event
        session_id = get_str(content, "session_id")
        known = self.olm.inbound_group_store[room_id].items()
        sender_key = next((key for key, sessions in known if session_id in sessions), "")
        return event | {"content": {"sender_key": sender_key, "device_id": "", **content}}


def decrypt_file(data: bytes, file: Json) -> bytes:
    """Decrypt a file. Raises `AdapterError` when its hash does not match."""
    key, iv = get_str(file, "key", "k"), get_str(file, "iv")
    try:
        return bytes(decrypt_attachment(data, key, get_str(file, "hashes", "sha256"), iv))
    except (nio.EncryptionError, ValueError) as error:
        raise AdapterError("an encrypted file cannot be decrypted") from error


async def _signing_seed(http: MatrixClient, login: MatrixLogin, key: bytes) -> bytes:
    async def stored(name: str) -> Json:
        return await http.get(api_path("user", login.user_id, "account_data", name))

    key_id = get_str(await stored("m.secret_storage.default_key"), "key")
    secret = get_dict(await stored(SECRET), "encrypted", key_id)
    return decode_base64(decrypt_secret(secret, key, SECRET).decode("ascii", "replace"))


def _raise_for_error(answer: Any) -> None:
    """Raise for an error response: nio returns errors instead of raising them."""
    if isinstance(answer, nio.ErrorResponse):
        status = answer.transport_response.status if answer.transport_response else 0
        seconds = (answer.retry_after_ms or 0) / 1000
        raise MatrixError(status, answer.status_code or "", answer.message, seconds)


def _without_messages(sync: Json) -> Json:
    """Return the part of a sync that nio needs: no messages."""
    rooms = {}
    for room_id, joined in get_dict(sync, "rooms", "join").items():
        timeline = [each for each in get_dicts(joined, "timeline", "events") if "state_key" in each]
        rooms[room_id] = {
            "state": {"events": get_dicts(joined, "state", "events")},
            "timeline": {"events": timeline, "limited": False, "prev_batch": ""},
            "summary": get_dict(joined, "summary"),
            "ephemeral": {"events": []},
            "account_data": {"events": []},
        }
    return {
        "next_batch": get_str(sync, "next_batch"),
        "rooms": {"join": rooms, "invite": {}, "leave": {}},
        "to_device": {"events": get_dicts(sync, "to_device", "events")},
        "device_lists": {
            "changed": get_strs(sync, "device_lists", "changed"),
            "left": get_strs(sync, "device_lists", "left"),
        },
        "device_one_time_keys_count": get_dict(sync, "device_one_time_keys_count"),
    }
