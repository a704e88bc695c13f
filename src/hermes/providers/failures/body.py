"""From the body of a failed answer to a `Complaint`.

Endpoints agree on little: the message, the type and the code stand at the top or under `error`,
`detail`, `base_resp`, `response`, in a list, or in a string that is JSON again. So the body is
walked through the names that are known to lead somewhere, and what they hold is collected.
"""

import re
from collections.abc import Mapping, Sequence

import msgspec

from hermes.providers.failures.complaint import SEARCHED, Complaint

LONGEST = 1_000_000
"""Bodies longer than this are not decoded as JSON."""
_DEEPEST = 8
_PAGE_SEARCHED = 4000
_MESSAGES = ("message", "msg", "status_msg", "detail", "error_description", "error", "raw")
_MARKS = re.compile(
    "type|code|status|reason|error_type|__type|status_code|http_code|quotaid|blockreason"
)
_PATHS = re.compile(
    "error|errors|detail|details|message|metadata|raw|innererror|base_resp|response|param"
    "|upstream_error|violations|promptfeedback"
)
_TELLING = re.compile("flagged_input|content_filter_result")
"""Names that count as a mark by being there."""
_WAITS = re.compile(
    "retrydelay|resets_in_seconds|resets_at|retry_after|retry_after_seconds|estimated_time"
)
_GENERIC = re.compile(
    r"(provider returned error|upstream request failed|error|bad request|not found|forbidden"
    r"|unauthorized|too many requests|internal server error)?\.?",
    re.IGNORECASE,
)
_TITLE = re.compile(r"<(title|h1)\b[^>]*>(.*?)</\1", re.IGNORECASE | re.DOTALL)
_EVENT = re.compile(r"^data: *([{\[].*)$", re.MULTILINE)


def read(body: bytes, headers: Mapping[str, str]) -> Complaint:
    """What the body of an HTTP answer says; `headers` have lower-case names."""
    amazon = headers.get("x-amzn-errortype", "").partition(":")[0]
    text = body[:LONGEST].decode("utf-8", "replace").strip()
    if text.startswith("<"):
        title = _TITLE.search(text[:_PAGE_SEARCHED])
        return _complaint(_Finds(messages=[title[2] if title else ""]), page=True)
    finds = _Finds(marks=[amazon] if amazon else [])
    _walk(text, finds, 0)
    return _complaint(finds)


def look(error: object) -> Complaint:
    """What decoded JSON says."""
    finds = _Finds()
    _walk(error, finds, 0)
    if not finds.messages:
        finds.messages.append("no details" if not error else str(error))
    return _complaint(finds)


class _Finds(msgspec.Struct):
    messages: list[str] = []
    marks: list[str] = []
    params: list[str] = []
    statuses: list[int] = []
    waits: dict[str, str] = {}
    headers: dict[str, str] = {}


def _complaint(finds: _Finds, *, page: bool = False) -> Complaint:
    telling = (words for words in finds.messages if not _GENERIC.fullmatch(words.strip()))
    said = next(telling, next(iter(finds.messages), ""))
    return Complaint(
        message=said,
        marks=frozenset(mark.lower() for mark in finds.marks),
        text="\n".join([*finds.messages, *finds.params, *finds.marks])[:SEARCHED],
        status=next(iter(finds.statuses), None),
        waits=finds.waits,
        headers=finds.headers,
        page=page,
    )


def _walk(node: object, finds: _Finds, depth: int) -> None:
    match node:
        case _ if depth > _DEEPEST:
            return
        case str():
            _read_text(node, finds, depth)
        case dict():
            _read_object(node, finds, depth)
        case list():
            for item in node[:20]:
                _walk(item, finds, depth + 1)
        case _:
            return


def _read_text(text: str, finds: _Finds, depth: int) -> None:
    """Text is a message, unless it is JSON or holds an event with JSON."""
    event = _EVENT.search(text)
    inside = _decoded(event[1] if event else text)
    if inside is not None:
        _walk(inside, finds, depth + 1)
    elif text.strip():
        finds.messages.append(text)


def _decoded(text: str) -> object:
    if text.lstrip()[:1] not in ("{", "[") or len(text) > LONGEST:
        return None
    try:
        return msgspec.json.decode(text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return None


def _read_object(node: dict[object, object], finds: _Finds, depth: int) -> None:
    named = {str(name).lower(): value for name, value in node.items()}
    for name in _MESSAGES:
        value = named.get(name)
        if isinstance(value, str):
            _read_text(_placed(value, named.get("loc")), finds, depth)
    for name, value in named.items():
        _read_mark(name, value, finds)
        if _PATHS.fullmatch(name) and isinstance(value, (dict, list)):
            _walk(value, finds, depth + 1)
    if isinstance(passed_on := named.get("headers"), dict):
        finds.headers |= {str(name).lower(): str(value) for name, value in passed_on.items()}


def _placed(message: str, place: object) -> str:
    """The message with the place it is about, as FastAPI gives it."""
    if not isinstance(place, Sequence) or isinstance(place, str):
        return message
    return f"{'.'.join(str(step) for step in place)}: {message}"


def _read_mark(name: str, value: object, finds: _Finds) -> None:
    if _TELLING.fullmatch(name) and value:
        finds.marks.append(name)
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return
    words = str(value)
    if _WAITS.fullmatch(name):
        finds.waits[name] = words
    if name == "param":
        finds.params.append(words)
    if _MARKS.fullmatch(name) or (name == "error" and " " not in words):
        finds.marks.append(words.rpartition("#")[2])
        if words.isascii() and words.isdigit() and len(words) == 3 and 300 <= int(words) < 600:
            finds.statuses.append(int(words))
