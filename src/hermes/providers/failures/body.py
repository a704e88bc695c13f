"""Reads the body of a failed response into a `Complaint`.

Endpoints agree on little: message, type and code are at the top or under `error`, `detail`,
`base_resp` or `response`, in a list, or in a string that contains JSON. So the body is searched
along the known names, and their values are collected.
"""

import math
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import msgspec

from hermes.core.errors import ProviderError, QuotaSpent, RateLimited, ServerFault

SEARCHED_CHARACTERS = 4000  #: Length of the text that the rules search.


class Complaint(msgspec.Struct, frozen=True, kw_only=True):
    message: str = ""
    """The endpoint's message; that of the model's host rather than of a relay. Not yet cleaned."""
    codes: frozenset[str] = frozenset()  #: Every type, code, status and reason, in lower case.
    text: str = ""  #: All messages, parameters and codes together, for rules that match wording.
    status: int | None = None  #: HTTP status stated inside the body.
    waits: dict[str, str] = {}  #: Values that state a wait, by lower-case name.
    headers: dict[str, str] = {}
    """Headers that a relay passed on inside the body, with lower-case names."""
    is_page: bool = False  #: The body is a web page: a proxy answered, not the model endpoint.


MAX_BODY = 1_000_000  #: Bodies longer than this are not decoded as JSON.
_MAX_DEPTH = 8
_PAGE_SEARCHED = 4000
_MESSAGE_NAMES = ("message", "msg", "status_msg", "detail", "error_description", "error", "raw")
_CODE_NAMES = re.compile(
    "type|code|status|reason|error_type|__type|status_code|http_code|quotaid|blockreason"
)
_NESTED_NAMES = re.compile(
    "error|errors|detail|details|message|metadata|raw|innererror|base_resp|response|param"
    "|upstream_error|violations|promptfeedback"
)
_FLAG_NAMES = re.compile("flagged_input|content_filter_result")
"""Names whose presence counts as a code."""
_WAIT_NAMES = re.compile(
    "retrydelay|resets_in_seconds|resets_at|retry_after|retry_after_seconds|estimated_time"
)
_GENERIC = re.compile(
    r"(provider returned error|upstream request failed|error|bad request|not found|forbidden"
    r"|unauthorized|too many requests|internal server error)?\.?",
    re.IGNORECASE,
)
_TITLE = re.compile(r"<(title|h1)\b[^>]*>(.*?)</\1", re.IGNORECASE | re.DOTALL)
_EVENT = re.compile(r"^data: *([{\[].*)$", re.MULTILINE)


def read_body(body: bytes, headers: Mapping[str, str]) -> Complaint:
    """Read the body of an HTTP response; `headers` have lower-case names."""
    amazon = headers.get("x-amzn-errortype", "").partition(":")[0]
    text = body[:MAX_BODY].decode("utf-8", "replace").strip()
    if text.startswith("<"):
        title = _TITLE.search(text[:_PAGE_SEARCHED])
        return _complaint(_Findings(messages=[title[2] if title else ""]), is_page=True)
    findings = _Findings(codes=[amazon] if amazon else [])
    _walk(text, findings, 0)
    return _complaint(findings)


def read_error(error: object) -> Complaint:
    """Read decoded JSON."""
    findings = _Findings()
    _walk(error, findings, 0)
    if not findings.messages:
        findings.messages.append("no details" if not error else str(error))
    return _complaint(findings)


class _Findings(msgspec.Struct):
    messages: list[str] = []
    codes: list[str] = []
    params: list[str] = []
    statuses: list[int] = []
    waits: dict[str, str] = {}
    headers: dict[str, str] = {}


def _complaint(findings: _Findings, *, is_page: bool = False) -> Complaint:
    specific = (words for words in findings.messages if not _GENERIC.fullmatch(words.strip()))
    message = next(specific, next(iter(findings.messages), ""))
    return Complaint(
        message=message,
        codes=frozenset(mark.lower() for mark in findings.codes),
        text="\n".join([*findings.messages, *findings.params, *findings.codes])[
            :SEARCHED_CHARACTERS
        ],
        status=next(iter(findings.statuses), None),
        waits=findings.waits,
        headers=findings.headers,
        is_page=is_page,
    )


def _walk(node: object, findings: _Findings, depth: int) -> None:
    match node:
        case _ if depth > _MAX_DEPTH:
            return
        case str():
            _read_text(node, findings, depth)
        case dict():
            _read_object(node, findings, depth)
        case list():
            for item in node[:20]:
                _walk(item, findings, depth + 1)
        case _:
            return


def _read_text(text: str, findings: _Findings, depth: int) -> None:
    """Take text as a message, unless it is JSON or contains an event with JSON."""
    event = _EVENT.search(text)
    inside = _decode_json(event[1] if event else text)
    if inside is not None:
        _walk(inside, findings, depth + 1)
    elif text.strip():
        findings.messages.append(text)


def _decode_json(text: str) -> object:
    if text.lstrip()[:1] not in ("{", "[") or len(text) > MAX_BODY:
        return None
    try:
        return msgspec.json.decode(text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return None


def _read_object(node: dict[object, object], findings: _Findings, depth: int) -> None:
    named = {str(name).lower(): value for name, value in node.items()}
    for name in _MESSAGE_NAMES:
        value = named.get(name)
        if isinstance(value, str):
            place = named.get("loc")
            if isinstance(place, Sequence) and not isinstance(place, str):  # from FastAPI
                value = f"{'.'.join(str(step) for step in place)}: {value}"
            _read_text(value, findings, depth)
    for name, value in named.items():
        _read_code(name, value, findings)
        if _NESTED_NAMES.fullmatch(name) and isinstance(value, (dict, list)):
            _walk(value, findings, depth + 1)
    if isinstance(passed_on := named.get("headers"), dict):
        findings.headers |= {str(name).lower(): str(value) for name, value in passed_on.items()}


def _read_code(name: str, value: object, findings: _Findings) -> None:
    if _FLAG_NAMES.fullmatch(name) and value:
        findings.codes.append(name)
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return
    words = str(value)
    if _WAIT_NAMES.fullmatch(name):
        findings.waits[name] = words
    if name == "param":
        findings.params.append(words)
    if _CODE_NAMES.fullmatch(name) or (name == "error" and " " not in words):
        findings.codes.append(words.rpartition("#")[2])
        if words.isascii() and words.isdigit() and len(words) == 3 and 300 <= int(words) < 600:
            findings.statuses.append(int(words))


# Messages of endpoints, cleaned for display: one line, no control characters, no keys.

HIDDEN = "***"
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])|\x9b[0-?]*[@-~]"
)
_KEYS = re.compile(
    r"""
    (?<![A-Za-z0-9])(?:
        (?:sk|pk|rk|ak|gsk|csk|xai|hf|nvapi|vck|ghp|gho|ghu|ghs|ghr|github_pat|tgp|fw|r8|bce)
            [-_][A-Za-z0-9_\-*.…]{5,}[A-Za-z0-9*…]      # with a known beginning, cut or not
      | AIza[A-Za-z0-9_\-*.…]{6,}
      | (?:AKIA|ASIA)[A-Z0-9]{8,}
      | eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){0,2}   # a JSON Web Token
      | [A-Za-z0-9_\-]{0,12}\*{3,}[A-Za-z0-9_\-]{0,12}  # shown in part: na***ys
      | (?=[A-Za-z_]*[0-9])(?=[0-9_]*[A-Za-z])[A-Za-z0-9_]{32,}(?:\.[A-Za-z0-9]{8,})?
    )
  | (?<=\bBearer\ )\S+
  | (?<=key\ provided:\ )\S+
    """,
    re.VERBOSE,
)
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def printable(text: str, limit: int) -> str:
    """Return at most `limit` characters of `text` without control characters and keys."""
    plain = _ESCAPES.sub("", text[: limit * 10])
    shown = "".join(
        " " if unicodedata.category(char) in _HIDDEN_CATEGORIES else char for char in plain
    )
    hidden = _KEYS.sub(HIDDEN, " ".join(shown.split()))
    return hidden if len(hidden) <= limit else f"{hidden[: limit - 1].rstrip()}…"


# How long the endpoint asks to wait.

MAX_WAIT = 31 * 86400.0  #: Seconds. A longer wait is treated as a mistake.
_EPOCH = 1_000_000_000
_EPOCH_MS = 100_000_000_000
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PIECE = re.compile(
    r"(\d+(?:\.\d+)?)\s*"
    r"(?:(ms|milliseconds?)|(s|secs?|seconds?)|(m|mins?|minutes?)|(h|hrs?|hours?)|(d|days?))"
    r"(?![a-z])[\s,]*(?:and\s+)?",
    re.IGNORECASE,
)
_SPAN = re.compile(rf"(?:{_PIECE.pattern})+", re.IGNORECASE)
_WAIT_SENTENCE = re.compile(
    rf"(?:try again|retry|wait)\s+(?:in|after|for)?\s*(?P<span>{_SPAN.pattern})", re.IGNORECASE
)
_BUCKET = re.compile(r"((?:x|anthropic)-ratelimit-(?:.+-)?)reset(-.+)?")


class RetryHints:
    """Everything a response states about waiting, and when it arrived."""

    def __init__(self, headers: Mapping[str, str], complaint: Complaint, now: float) -> None:
        self.headers = {**complaint.headers, **headers}
        self.waits = complaint.waits
        self.text = complaint.text
        self.now = now

    def header(self, name: str) -> float | None:
        return parse_wait(self.headers.get(name, ""), self.now)

    def wait(self, name: str) -> float | None:
        return parse_wait(self.waits.get(name, ""), self.now)


def requested_wait(kind: type[ProviderError], hints: RetryHints) -> float | None:
    """Return the seconds to wait before retrying after this kind of error, or None."""
    for classes, sources in _WAIT_SOURCES:
        if issubclass(kind, classes):
            found = (source(hints) for source in sources)
            return next((seconds for seconds in found if seconds is not None), None)
    return None


def parse_wait(value: str, now: float) -> float | None:
    """Parse a number, a span such as `6m0s`, an epoch time or a date into seconds from now."""
    text = value[:100].strip()
    for reader in (_number, _span, _date):
        seconds = reader(text, now)
        if seconds is not None:
            return max(0.0, seconds) if seconds <= MAX_WAIT else None
    return None


def _number(text: str, now: float) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    if not math.isfinite(number):
        return None
    if number >= _EPOCH_MS:
        return number / 1000 - now
    return number - now if number >= _EPOCH else number


def _span(text: str, now: float) -> float | None:
    del now
    if not _SPAN.fullmatch(text):
        return None
    pieces = _PIECE.findall(text)
    return sum(
        float(amount) * factor
        for amount, *units in pieces
        for factor, unit in zip(_UNITS.values(), units, strict=True)
        if unit
    )


def _date(text: str, now: float) -> float | None:
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = parse(text)
        except (ValueError, TypeError, OverflowError):
            continue
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - now
    return None


def _milliseconds(hints: RetryHints) -> float | None:
    seconds = _number(hints.headers.get("retry-after-ms", ""), hints.now)
    return None if seconds is None or seconds < 0 else min(seconds / 1000, MAX_WAIT)


def _wait_in_text(hints: RetryHints) -> float | None:
    match = _WAIT_SENTENCE.search(hints.text)
    return parse_wait(match["span"], hints.now) if match else None


def _first_of(
    take: Callable[[RetryHints, str], float | None], *names: str
) -> Callable[[RetryHints], float | None]:
    def source(hints: RetryHints) -> float | None:
        found = (take(hints, name) for name in names)
        return next((seconds for seconds in found if seconds is not None), None)

    return source


def _rate_limit_buckets(hints: RetryHints) -> float | None:
    """Return the wait of the rate limit headers of OpenAI, Groq and Anthropic.

    Of exhausted limits the last reset counts; if none is marked as exhausted, the first, because
    nothing states which one was hit.
    """
    matches = (match for match in map(_BUCKET.fullmatch, hints.headers) if match)
    resets: list[tuple[float, str]] = []
    for match in matches:
        if (seconds := hints.header(match[0])) is not None:
            left = hints.headers.get(f"{match[1]}remaining{match[2] or ''}", "")
            resets.append((seconds, left))
    exhausted = [seconds for seconds, left in resets if left == "0"]
    return max(exhausted) if exhausted else min((wait for wait, _ in resets), default=None)


_RETRY_AFTER_HEADERS = (_milliseconds, _first_of(RetryHints.header, "retry-after"))
_RESET_FIELDS = _first_of(RetryHints.wait, "resets_in_seconds", "resets_at")
_WAIT_FIELDS = _first_of(
    RetryHints.wait, "retrydelay", "retry_after", "retry_after_seconds", "estimated_time"
)
_RESET_HEADER = _first_of(RetryHints.header, "x-ratelimit-reset")
_WAIT_SOURCES: tuple[
    tuple[tuple[type[ProviderError], ...], tuple[Callable[[RetryHints], float | None], ...]], ...
] = (
    # The short pauses of a per-minute limit say nothing about a spent quota.
    ((QuotaSpent,), (_RESET_FIELDS, *_RETRY_AFTER_HEADERS, _RESET_HEADER)),
    (
        (RateLimited, ServerFault),
        (*_RETRY_AFTER_HEADERS, _RESET_FIELDS, _WAIT_FIELDS, _wait_in_text, _rate_limit_buckets),
    ),
)
