"""What a call says: its data, the kind of event, and its own name."""

import hashlib
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

import msgspec

from hermes.gateway.platforms.webhook.signatures import Proof

_EVENTS = ("x-github-event", "x-gitlab-event")
GITHUB = "x-github-delivery"
NAMES = (
    GITHUB,
    "idempotency-key",
    "x-gitlab-event-uuid",
    "webhook-id",
    "x-webhook-id",
    "x-delivery-id",
    "x-request-id",
)
"""Headers that name a call, the same when it is sent again."""
_SAFE_NAME = re.compile(r"[A-Za-z0-9._-]{1,128}")
_SAFE_EVENT = re.compile(r"[A-Za-z0-9_.: -]{1,64}")
MOST_FIELDS = 1000


class Unreadable(Exception):
    """The body is not what it should be; the text is for the caller."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


def data_of(content_type: str, body: bytes) -> Any:
    """The JSON of a body, or the fields of a form; GitHub's form holds JSON in `payload`. Raises
    `Unreadable`."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind in ("", "application/json") or kind.endswith("+json"):
        return _json(body)
    if kind != "application/x-www-form-urlencoded":
        raise Unreadable("send application/json or application/x-www-form-urlencoded", 415)
    try:
        fields = parse_qs(
            body.decode(), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS
        )
    except ValueError:
        raise Unreadable("the form cannot be read") from None
    if set(fields) == {"payload"} and len(fields["payload"]) == 1:
        return _json(fields["payload"][0].encode())
    return {name: values[0] if len(values) == 1 else values for name, values in fields.items()}


def _json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Unreadable("the body is no JSON") from None
    except RecursionError:
        raise Unreadable("the JSON is nested too deeply") from None


def event_of(headers: Mapping[str, str], data: Any) -> str:
    """The kind of event; "" when the call does not say."""
    said = next((headers[name] for name in _EVENTS if headers.get(name)), "")
    if not said and isinstance(data, dict) and isinstance(data.get("event_type"), str):
        said = data["event_type"]
    said = said.strip()
    return said if _SAFE_EVENT.fullmatch(said) else ""


def same_event(one: str, other: str) -> bool:
    """Whether two names mean one kind: GitLab's `Merge Request Hook` is `merge_request`."""
    return _plain(one) == _plain(other)


def _plain(event: str) -> str:
    return event.strip().lower().removesuffix(" hook").replace(" ", "_")


def delivery_of(headers: Mapping[str, str], body: bytes, proof: Proof, window: int) -> str:
    """The call's own name, the same when it comes again. Without a header it is made of what was
    signed, and of the time (`window`) when no time was signed."""
    for name in NAMES:
        if said := headers.get(name, "").strip():
            return said if _SAFE_NAME.fullmatch(said) else _hash(said.encode())
    return _hash(body, proof.timestamp.encode() or b"%d" % window)


def _hash(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:32]
