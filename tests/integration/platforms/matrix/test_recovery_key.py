"""With the recovery key of the account its device is one that its owner has signed."""

import hmac
import json
import os
from base64 import b64encode
from typing import Any

import pytest
from Crypto.Cipher import AES
from Crypto.Hash import SHA256
from Crypto.Protocol.KDF import HKDF
from Crypto.PublicKey import ECC
from Crypto.Signature import eddsa

from hermes.sdk.testing.platforms.harness import connected
from tests.integration.platforms.matrix.harness import MatrixHarness
from tests.integration.platforms.matrix.people import PASSWORD, path

ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
SECRET = "m.cross_signing.self_signing"


def base64(data: bytes) -> str:
    return b64encode(data).decode().rstrip("=")


def written(key: bytes) -> str:
    """As people write a recovery key down."""
    data = b"\x8b\x01" + key
    parity = 0
    for each in data:
        parity ^= each
    number, letters = int.from_bytes(data + bytes([parity]), "big"), ""
    while number:
        number, rest = divmod(number, 58)
        letters = ALPHABET[rest] + letters
    return " ".join(letters[at : at + 4] for at in range(0, len(letters), 4))


def sealed(data: bytes, key: bytes) -> dict[str, str]:
    keys, iv = HKDF(key, 64, bytes(32), SHA256, context=SECRET.encode()), os.urandom(16)
    hidden = AES.new(keys[:32], AES.MODE_CTR, initial_value=iv, nonce=b"").encrypt(data)
    mac = hmac.digest(keys[32:], hidden, "sha256")
    return {"iv": base64(iv), "ciphertext": base64(hidden), "mac": base64(mac)}


def signed(value: dict[str, Any], user_id: str, name: str, key: ECC.EccKey) -> dict[str, Any]:
    data = json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
    signature = base64(eddsa.new(key, "rfc8032").sign(data))
    return value | {"signatures": {user_id: {f"ed25519:{name}": signature}}}


async def account_with_recovery_key(matrix: MatrixHarness) -> tuple[bytes, ECC.EccKey]:
    """The recovery key of our account, and the key that signs its devices."""
    us, recovery, seed = matrix.us, os.urandom(32), os.urandom(32)
    signer, master = ECC.construct(curve="Ed25519", seed=seed), ECC.generate(curve="Ed25519")
    names = {
        name: base64(key.public_key().export_key(format="raw"))
        for name, key in (("master", master), ("self_signing", signer))
    }
    keys = {
        name: {"user_id": us.user_id, "usage": [name], "keys": {f"ed25519:{public}": public}}
        for name, public in names.items()
    }
    body = {
        "master_key": keys["master"],
        "self_signing_key": signed(keys["self_signing"], us.user_id, names["master"], master),
        "auth": {
            "type": "m.login.password",
            "identifier": {"type": "m.id.user", "user": us.user_id},
            "password": PASSWORD,
        },
    }
    await us.call("POST", path("keys", "device_signing", "upload"), body)
    secret = sealed(base64(seed).encode(), recovery)
    for name, content in (
        ("m.secret_storage.default_key", {"key": "one"}),
        (SECRET, {"encrypted": {"one": secret}}),
    ):
        await us.call("PUT", path("user", us.user_id, "account_data", name), content)
    return recovery, signer


async def signatures(matrix: MatrixHarness) -> dict[str, Any]:
    """Our device as others see it."""
    person, us = await matrix.person(), matrix.us
    body = {"device_keys": {us.user_id: []}}
    answer = await person.call("POST", path("keys", "query"), body)
    device: dict[str, Any] = answer["device_keys"][us.user_id][us.device_id]
    return device


async def test_the_device_is_signed_by_its_owner(matrix):
    recovery, signer = await account_with_recovery_key(matrix)
    matrix.variables |= {"MATRIX_ENCRYPTION": "true", "MATRIX_RECOVERY_KEY": written(recovery)}
    for _ in range(2):
        async with connected(matrix):
            pass
    assert sum(call.endswith("/signatures/upload") for call in matrix.proxy.calls) == 1
    device = await signatures(matrix)
    public = base64(signer.public_key().export_key(format="raw"))
    signature = device.pop("signatures")[matrix.us.user_id][f"ed25519:{public}"]
    device.pop("unsigned", None)
    assert signed(device, "", "", signer)["signatures"][""]["ed25519:"] == signature


@pytest.mark.parametrize("key", [written(bytes(32)), "abcd efgh"])
async def test_wrong_key_is_logged_and_harms_nothing(matrix, key, caplog):
    await account_with_recovery_key(matrix)
    matrix.variables |= {"MATRIX_ENCRYPTION": "true", "MATRIX_RECOVERY_KEY": key}
    async with connected(matrix) as (_, inbox):
        await matrix.says("all the same")
        await inbox.take("all the same")
    assert "MATRIX_RECOVERY_KEY cannot be used" in caplog.text
    assert key not in caplog.text
    assert len((await signatures(matrix))["signatures"][matrix.us.user_id]) == 1
