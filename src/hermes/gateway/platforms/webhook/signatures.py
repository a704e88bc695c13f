"""Whether a call comes from whom it should.

One of these headers, once, carries the proof; which one it is decides how it is checked, and a
wrong proof is never tried in another way.

    X-Hub-Signature-256    sha256=<hex>           HMAC-SHA256 of the body (GitHub)
    X-Gitlab-Token         <secret>               the secret itself (GitLab)
    X-Webhook-Signature    [sha256=]<hex>         HMAC-SHA256 of the body, or of
    X-Signature            [sha256=]<hex>         `<timestamp>.<body>` when a timestamp is sent

The timestamp (X-Webhook-Timestamp or X-Timestamp, in seconds since 1970) must be at most five
minutes from our clock. The older X-Hub-Signature with SHA-1 proves nothing.
"""

import hashlib
import hmac
import re
from collections.abc import Iterable

import msgspec

WINDOW = 300.0
"""Seconds that the clock of a caller may be off, and that a call is remembered."""

_TIMES = (b"x-webhook-timestamp", b"x-timestamp")
_SIGNED = {
    b"x-hub-signature-256": re.compile(rb"sha256=([0-9a-fA-F]{64})"),
    b"x-webhook-signature": re.compile(rb"(?:sha256=)?([0-9a-fA-F]{64})"),
    b"x-signature": re.compile(rb"(?:sha256=)?([0-9a-fA-F]{64})"),
}
_TOKEN = b"x-gitlab-token"
_SECONDS = re.compile(rb"[0-9]{1,12}")

Headers = Iterable[tuple[bytes, bytes]]


class Forged(Exception):
    """The proof is missing or wrong; the text is for our log only."""


class Proof(msgspec.Struct, frozen=True):
    signed: bool
    """The body is signed: the same body again may be a copy of the call."""
    timestamp: str = ""
    """When the caller signed it, if that is signed too."""


def check(headers: Headers, body: bytes, secret: str, now: float) -> Proof:
    """Raises `Forged`."""
    key = secret.encode()
    found = [(name.lower(), value) for name, value in headers]
    proofs = [each for each in found if each[0] in _SIGNED or each[0] == _TOKEN]
    if len(proofs) != 1:
        raise Forged(f"{len(proofs)} signatures" if proofs else "no signature")
    name, value = proofs[0]
    if name == _TOKEN:
        if not hmac.compare_digest(_digest(key, value), _digest(key, key)):
            raise Forged("wrong token")
        return Proof(signed=False)
    match = _SIGNED[name].fullmatch(value)
    if match is None:
        raise Forged("the signature is no SHA-256 in hexadecimal digits")
    stamp = b"" if name == b"x-hub-signature-256" else _timestamp(found, now)
    wanted = _digest(key, stamp + b"." + body if stamp else body)
    if not hmac.compare_digest(bytes.fromhex(match[1].decode()), wanted):
        raise Forged("wrong signature")
    return Proof(signed=True, timestamp=stamp.decode())


def _timestamp(found: list[tuple[bytes, bytes]], now: float) -> bytes:
    times = [value for name, value in found if name in _TIMES]
    if not times:
        return b""
    if len(times) > 1 or not _SECONDS.fullmatch(times[0]):
        raise Forged("the timestamp is no number of seconds")
    if abs(now - int(times[0])) > WINDOW:
        raise Forged("the timestamp is too old or too new")
    return times[0]


def _digest(key: bytes, text: bytes) -> bytes:
    return hmac.new(key, text, hashlib.sha256).digest()
