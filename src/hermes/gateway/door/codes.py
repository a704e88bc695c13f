"""Pairing codes: made from a cryptographic source, kept only as a salted, slow hash."""

import hashlib
import hmac
import re
import secrets
from typing import Annotated

import msgspec

ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
"""32 characters: without 0 and O, 1 and I."""
LENGTH = 8
COST = 2**14
"""Of one try: about 16 MB and 50 ms. All codes would take one core two thousand years."""

_CODE = re.compile(f"[{ALPHABET}]{{{LENGTH}}}")
_LONGEST = 64


class Hashed(msgspec.Struct, frozen=True):
    salt: str
    digest: str
    cost: Annotated[int, msgspec.Meta(ge=2, le=2**20)]


def new_code() -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))


def typed(text: str) -> str:
    """The code somebody typed, or "" when it cannot be one. Spaces, dashes and letter case do not
    matter."""
    if len(text) > _LONGEST or not text.isascii():
        return ""
    code = re.sub(r"[\s-]", "", text).upper()
    return code if _CODE.fullmatch(code) else ""


def hashed(code: str, cost: int = COST) -> Hashed:
    salt = secrets.token_hex(16)
    return Hashed(salt, _digest(code, salt, cost), cost)


def matches(code: str, kept: Hashed) -> bool:
    """Takes the same time whatever the code is. A hash that nobody could have made matches none."""
    try:
        digest = _digest(code, kept.salt, kept.cost)
    except ValueError:
        return False
    return hmac.compare_digest(digest.encode(), kept.digest.encode())


def _digest(code: str, salt: str, cost: int) -> str:
    return hashlib.scrypt(code.encode(), salt=salt.encode(), n=cost, r=8, p=1, dklen=32).hex()
