"""The recovery key of an account opens its secret storage. With the key in there that signs devices
ours is signed, so that people see it as verified and their clients give it keys."""

import hmac
import json
import logging
from base64 import b64decode, b64encode
from hashlib import sha256

from Crypto.Cipher import AES
from Crypto.Hash import SHA256
from Crypto.Protocol.KDF import HKDF
from Crypto.PublicKey import ECC
from Crypto.Signature import eddsa

from hermes.gateway.platforms.matrix.login import Login
from hermes.gateway.platforms.matrix.shapes import Json, table, word
from hermes.gateway.platforms.matrix.wire import Refusal, Wire, path

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
