"""Inbound mail: parsing, quotes, sender authentication, screening, and watching the mailbox.

Anyone can send us mail, so parsing is bounded: the standard library needs minutes for some headers
of a few thousand characters, and hours for texts in unsuitable encodings.
"""

import asyncio
import codecs
import hashlib
import logging
import re
import selectors
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.message import EmailMessage, Message
from email.policy import EmailPolicy
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Literal

import msgspec

from hermes.sdk import Clock, clean, plain_text, sanitize_html
from hermes.sdk.platforms import AdapterError, NotConnected, load_state, write_private
from hermes_plugins.platforms.email.client import (
    FETCH_BATCH,
    EmailOptions,
    Mailbox,
    MailboxSession,
    MailHead,
)

logger = logging.getLogger(__name__)
MAX_HEADER_BYTES = 128_000  #: Limit for the headers of a mail; a mail with more gets no answer.
MAX_CONTENT_FIELDS = 600
"""Limit of content headers; of a mail with more only the beginning is read."""
PARTIAL_BYTES = 200_000  #: Bytes read of a mail that is too large.
MAX_HEADER_CHARS = {"references": 16_000, "authentication-results": 4000, "subject": 4000}
"""Characters read of a header."""
DEFAULT_HEADER_CHARS = 1000
MAX_PROPERTIES = 16  #: Limit of parameters in a content header.
_UNSAFE_CHARSETS = frozenset(
    {"idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined", "mbcs", "oem"}
)
_HIDDEN_STYLE = re.compile(
    r"display:none|visibility:hidden|mso-hide:all"
    r"|(?:font-size|opacity):0*\.?0+(?:px|pt|em|rem|%)?(?:!important)?(?:;|$)"
)
_QUOTE_CLASSES = frozenset(
    {"gmail_quote", "gmail_attr", "yahoo_quoted", "moz-cite-prefix", "protonmail_quote"}
)
_OUTLOOK_IDS = frozenset(
    {"appendonsend", "divrplyfwdmsg", "mail-editor-reference-message-container"}
)
_VOID_TAGS = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "wbr"}
)
MAX_HTML_CHARS = 1_000_000
_HEAD_FIRST = re.compile(r"\*?(From|Von|De|Da|Van|Från|Fra|Od|От)\s?:\*?\s+\S.*")
_HEAD_NEXT = re.compile(
    r"\*?(Sent|Date|To|Subject|Gesendet|Datum|An|Betreff|Envoyé|À|Objet|Enviado|Fecha|Para|Asunto"
    r"|Data|Inviato|A|Oggetto|Verzonden|Aan|Onderwerp|Cc)\s?:.*"
)
_RULE = re.compile(r"[-_]{3,}\s*\w[^-_]*[-_]{3,}|_{10,}")
_ATTRIBUTION = re.compile(r".*[0-9@].*:\s*", re.DOTALL)
_DEVICE = re.compile(
    r"(Sent from my|Get Outlook for|Von meinem .+ gesendet|Gesendet von|Envoyé de mon|Enviado desde"
    r"|Inviato da)\b.{0,60}"
)
_FORWARDED = re.compile(r"\s*(fwd?|wg|tr|rv|i|enc)\s*:", re.IGNORECASE)
MAX_ATTRIBUTION_LINES = 3
MAX_LINE = 500
"""Longer lines are not matched: the patterns are slow on them, and people do not type such
lines."""
_TOKEN = re.compile(
    r'\s*(?:(?P<quoted>"(?:[^"\\]|\\.)*")|(?P<sign>[;=()])|(?P<word>[^\s;="()]+))', re.DOTALL
)
_PROGRAM_ADDRESSES = re.compile(
    r"(mailer-daemon|postmaster|no-?_?reply|do-?_?not-?_?reply|bounces?|auto-?reply)"
    r"([+._-].*)?|.*[+._-](no-?reply|bounces?)",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"[^\s<>,;:\"()\\]+@[^\s<>,;:@\"()\\]+")
_COMMENT = re.compile(r"\([^()]*\)")
_BULK_PRECEDENCES = frozenset({"bulk", "list", "junk", "auto_reply"})
_LIST_HEADERS = ("List-Id", "List-Post", "List-Unsubscribe", "Feedback-ID")
_AUTO_HEADERS = ("X-Autoreply", "X-Autorespond", "X-Auto-Reply")
_MESSAGE_ID = re.compile(r"<([^<>\s]{1,500})>")
_CONTROL_CHARS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
MAX_PARTS = 200
MAX_REFERENCES = 100
IDLE_SECONDS = 300.0
"""Duration of one IDLE command. Servers disconnect after 30 minutes, many routers much earlier."""
MAX_FAILURES = 3
HandleMail = Callable[[MailHead, int], Awaitable[bool]]
"""Handles a mail with this UIDVALIDITY, for as long as needed; False if it is not for us."""


class _TruncatingPolicy(EmailPolicy):
    """Truncates long headers, also those of parts."""

    def header_source_parse(self, sourcelines: Sequence[str]) -> tuple[str, str]:
        name, value = super().header_source_parse(list(sourcelines))
        if name.lower().startswith("content-"):
            value = ";".join(
                value[:DEFAULT_HEADER_CHARS].split(";", MAX_PROPERTIES)[:MAX_PROPERTIES]
            )
        return name, value[: MAX_HEADER_CHARS.get(name.lower(), DEFAULT_HEADER_CHARS)]


_POLICY = _TruncatingPolicy()


def parse_bytes(raw: bytes) -> EmailMessage:
    message: Any = message_from_bytes(raw, policy=_POLICY)
    assert isinstance(message, EmailMessage)
    return message


def has_too_many_parts(raw: bytes) -> bool:
    return raw.lower().count(b"\ncontent-") > MAX_CONTENT_FIELDS


def decode_text(data: bytes, charset: str) -> str:
    """Decode text. Unknown charsets are treated as UTF-8 or windows-1252."""
    for name in (charset, "utf-8"):
        try:
            if codecs.lookup(name).name not in _UNSAFE_CHARSETS:
                return data.decode(name)
        except (LookupError, ValueError):
            continue
    return data.decode("windows-1252", "replace")


class _QuoteSplitter(HTMLParser):
    """Splits visible HTML into new and quoted parts; hidden parts are dropped."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.new: list[str] = []
        self.quoted: list[str] = []
        self._into: list[str] | None = self.new
        self._tag, self._depth = "", 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._tag:
            self._depth += tag == self._tag
        elif tag not in _VOID_TAGS:
            said = {name: (value or "").lower() for name, value in attrs}
            style = "".join(said.get("style", "").split())
            if "hidden" in said or _HIDDEN_STYLE.search(style):
                self._redirect(tag, None)
            elif tag == "blockquote" or _QUOTE_CLASSES & set(said.get("class", "").split()):
                self._redirect(tag, self.quoted)
            elif said.get("id", "") in _OUTLOOK_IDS:
                self._redirect("html", self.quoted)  # everything that follows
        self._append(self.get_starttag_text() or "")

    def handle_endtag(self, tag: str) -> None:
        if tag in _VOID_TAGS:
            return
        self._append(f"</{tag}>")
        if tag == self._tag:
            self._depth -= 1
            if not self._depth:
                self._tag, self._into = "", self.new

    def handle_data(self, data: str) -> None:
        self._append(data)

    def handle_entityref(self, name: str) -> None:
        self._append(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self._append(f"&#{name};")

    def _redirect(self, tag: str, into: list[str] | None) -> None:
        self._tag, self._depth, self._into = tag, 1, into

    def _append(self, text: str) -> None:
        if self._into is not None:
            self._into.append(text)


def split_html(html: str) -> tuple[str, str]:
    """Return the new and the quoted text of an HTML mail."""
    sorter = _QuoteSplitter()
    sorter.feed(sanitize_html(html[:MAX_HTML_CHARS]))
    sorter.close()
    return plain_text("".join(sorter.new)).text, plain_text("".join(sorter.quoted)).text


def is_forwarded(subject: str) -> bool:
    """True for a forwarded mail, whose quoted part is its content."""
    return bool(_FORWARDED.match(subject))


def split_quote(text: str) -> tuple[str, str]:
    """Return the new and the quoted part. A mail without anything new counts as new as a whole."""
    lines = text.split("\n")
    lines, below = _cut_outlook_quote(lines)
    lines, quoted = _cut_trailing_quote(lines)
    lines, above = _cut_leading_quote(lines)
    new = "\n".join(_cut_signature(lines)).strip("\n")
    if not new.strip():
        return text.strip("\n"), ""
    old = [
        line[1:].removeprefix(" ") if _is_quoted(line) else line
        for line in (*above, *quoted, *below)
    ]
    return new, "\n".join(old).strip()


class AuthenticationResult(msgspec.Struct, frozen=True):
    method: str
    verdict: str
    properties: dict[str, str]


def check_sender(
    head: EmailMessage, address: str, *, required: Literal["auto"] | bool, server: str
) -> tuple[str, bool]:
    """Return why a mail is refused ("" if it is not), and whether its sender is proven.

    From can be forged. The receiving server checks DMARC, DKIM and SPF and adds the result above
    the received headers. Only a header with the server's own name (`authserv_id`) proves anything,
    because servers remove forged ones with that name. Without a name the topmost header is used,
    which may be forged: it can reject a mail but proves nothing.
    """
    if required is False:
        return "", True
    for header in head.get_all("Authentication-Results", []):
        name, results = parse_results(str(header))
        if not server or name == server.lower():
            if _is_genuine(results, address.rpartition("@")[2].lower()):
                return "", bool(server)
            return "Authentication-Results does not say that the sender is genuine", False
    return ("no server confirms that the sender is genuine" if required is True else ""), False


def parse_results(header: str) -> tuple[str, list[AuthenticationResult]]:
    """Return the server's name and its results."""
    first, *rest = _split_statements(" ".join(header.split()))
    results = []
    for words in rest:
        pairs = [  # `name=value`, in order
            (words[place - 1].lower(), words[place + 1].lower())
            for place in range(1, len(words) - 1)
            if words[place] == "="
        ]
        if pairs:
            (method, verdict), *properties = pairs
            results.append(
                AuthenticationResult(method.partition("/")[0], verdict, dict(properties))
            )
    return (first[0].lower() if first else ""), results


def parse_sender(head: EmailMessage) -> tuple[str, str]:
    """Return address and name of the author from the only From header; ("", "") if it is ambiguous,
    so that other programs might read it differently. Non-ASCII addresses are rejected: they have
    look-alikes, and few servers support them."""
    written_from = [str(value) for name, value in head.raw_items() if name.lower() == "from"]
    if len(written_from) != 1:
        return "", ""
    said: Any = head["From"]
    addresses: Any = said.addresses
    if len(addresses) != 1:
        return "", ""
    address, raw = addresses[0].addr_spec, written_from[0]
    raw = _COMMENT.sub("", raw).strip()
    written = raw.endswith(f"<{address}>") if "<" in raw else raw == address
    if not written or not address.isascii() or not _ADDRESS.fullmatch(address):
        return "", ""
    return address.lower(), clean(" ".join(addresses[0].display_name.split())[:100])


def screen_message(head: EmailMessage, own: str) -> str:
    """Return why a mail gets no answer; "" if it does.

    Mail of programs, of lists and of ourselves gets none: two programs that answer each other never
    stop.
    """
    address, _ = parse_sender(head)
    if not address:
        return "it does not clearly name its author"
    if address == own:
        return "it is ours"
    if _PROGRAM_ADDRESSES.fullmatch(address.rpartition("@")[0]):
        return "a program wrote it"
    if _header(head, "Auto-Submitted").partition(";")[0].strip() not in ("", "no"):
        return "a program sent it"
    if _header(head, "Precedence") in _BULK_PRECEDENCES or any(
        name in head for name in _LIST_HEADERS
    ):
        return "it went to a list"
    if any(name in head for name in _AUTO_HEADERS):
        return "it is an automatic reply"
    if _header(head, "Return-Path") == "<>" or head.get_content_type() == "multipart/report":
        return "it reports about another mail"
    return ""


class MailAttachment(msgspec.Struct, frozen=True):
    number: int  #: Index among the parts of the mail.
    name: str
    mime: str
    size: int


class ParsedMail(msgspec.Struct, frozen=True):
    message_id: str  #: Without angle brackets; "" for none.
    sender: str
    name: str
    subject: str
    references: tuple[str, ...]  #: Earlier mails of the thread, oldest first.
    answers: str  #: The mail it replies to; "" for none.
    text: str
    quoted: str
    attachments: tuple[MailAttachment, ...] = ()


def parse_mail(message: EmailMessage) -> ParsedMail:
    address, name = parse_sender(message)
    subject = " ".join(clean(str(message.get("Subject", ""))).split())[:300]
    before = _message_ids(message, "References")[-MAX_REFERENCES:]
    answers = (_message_ids(message, "In-Reply-To") or [""])[0]
    if answers and answers not in before:
        before = [*before, answers]
    text, quoted = _split_body(message, forwarded=is_forwarded(subject))
    return ParsedMail(
        message_id=(_message_ids(message, "Message-ID") or [""])[0],
        sender=address,
        name=name,
        subject=subject,
        references=tuple(before),
        answers=answers,
        text=text,
        quoted=quoted,
        attachments=tuple(_list_attachments(message)),
    )


def attachment_content(message: EmailMessage, number: int) -> bytes | None:
    """Return the content of an attachment; None if there is no such part."""
    return next(
        (_part_bytes(part) for place, part in _leaf_parts(message) if place == number), None
    )


class NewMailSignal:
    """Signals that there may be new mail: by IDLE on a connection of its own, or by polling.

    Call `arm`, look for mail, then `wait`: mail that arrives between the last two is signalled too.
    A notice sent before `arm` returned may be lost in a buffer, but the look finds that mail.
    """

    def __init__(self, options: EmailOptions, *, idle: bool) -> None:
        self._options, self._idle = options, idle
        self._session = MailboxSession(options)

    async def arm(self) -> None:
        """Start watching. Raises `NotConnected` or `CredentialsRefused`."""
        if self._idle:
            await self._session.use(lambda box: box.idle(self._options.extra.folder))

    async def wait(self) -> None:
        """Return when there may be new mail. Raises `NotConnected`."""
        if self._idle:
            await self._session.use(_wait_for_change, reopen=False)
        else:
            await asyncio.sleep(self._options.poll_seconds)

    def close(self) -> None:
        """End a wait in progress."""
        self._session.close()


class MailboxPosition(msgspec.Struct, frozen=True):
    validity: int  #: UIDVALIDITY: when it changes, uids refer to other mails.
    uid: int  #: The last mail that was handled.
    at: float  #: When it was handled.


class MailWatcher:
    """Handles new mail in order. The position moves past a mail only after it was accepted."""

    def __init__(
        self,
        options: EmailOptions,
        session: MailboxSession,
        signal: NewMailSignal,
        state: Path,
        clock: Clock,
        handle: HandleMail,
    ) -> None:
        self._folder, self._session, self._signal = options.extra.folder, session, signal
        self._clock, self._handle = clock, handle
        name = f"{options.address}\0{options.imap.name}\0{self._folder}"
        self._file = state / f"inbox-{hashlib.sha256(name.encode()).hexdigest()[:16]}.json"
        self._position: MailboxPosition | None = None
        self._failures = (0, 0)  #: The mail that last broke the connection, and how often in a row.

    async def start(self) -> None:
        """Find the position. On the first start it is the end: older mail is not answered. Raises
        `AdapterError`."""
        validity, following = await self._session.use(lambda box: box.folder_state(self._folder))
        known = load_state(self._file, MailboxPosition, None, "the read position of Email")
        self._position = known or self._save_position(validity, following - 1)

    async def run_once(self, on_success: Callable[[], None]) -> None:
        """Handle new mail, call `on_success`, and wait for the signal. Raises `AdapterError`."""
        try:
            await self._signal.arm()
            await self._handle_new()
            on_success()
            await self._signal.wait()
        except OSError as error:
            raise AdapterError(f"Email: the state cannot be written: {error.strerror}") from error

    async def _handle_new(self) -> None:
        place = self._position
        if place is None:
            return
        validity, following = await self._session.use(lambda box: box.folder_state(self._folder))
        if validity != place.validity:
            uids = await self._rescan(place, validity)
        elif following > place.uid + 1:
            uids = await self._session.use(lambda box: box.uids_after(self._folder, place.uid))
        else:
            return
        for start in range(0, len(uids), FETCH_BATCH):
            heads = partial(
                Mailbox.fetch_heads, folder=self._folder, uids=uids[start : start + FETCH_BATCH]
            )
            for head in await self._session.use(heads):
                taken = await self._try_handle(head, validity)
                self._position = self._save_position(validity, head.uid)
                if taken:
                    await self._mark_seen(head.uid)

    async def _rescan(self, place: MailboxPosition, validity: int) -> list[int]:
        """The server assigned new uids: offer everything since a day before the last mail again.
        The gateway recognizes known mails by Message-ID."""
        logger.warning("Email: the server assigned new numbers to the mail in %s", self._folder)
        day = (datetime.fromtimestamp(place.at, UTC) - timedelta(days=1)).date()
        uids = await self._session.use(lambda box: box.uids_since(self._folder, day))
        self._position = self._save_position(validity, min(uids) - 1 if uids else 0)
        return uids

    async def _try_handle(self, head: MailHead, validity: int) -> bool:
        """Handle a mail. One that breaks the connection repeatedly must not block the others."""
        try:
            return await self._handle(head, validity)
        except NotConnected as error:
            await self._session.use(Mailbox.ping)  # raises if the mail is not the cause
            uid, times = self._failures
            self._failures = (head.uid, times + 1 if uid == head.uid else 1)
            if self._failures[1] < MAX_FAILURES:
                raise
            logger.error("Email: mail %s is left in the mailbox: %s", head.uid, error)
            return False

    async def _mark_seen(self, uid: int) -> None:
        """Mark as read, which only informs people; the position is what counts."""
        try:
            await self._session.use(lambda box: box.mark_seen(self._folder, uid))
        except AdapterError as error:
            logger.warning("a handled mail is not marked as read: %s", error)

    def _save_position(self, validity: int, uid: int) -> MailboxPosition:
        place = MailboxPosition(validity, uid, self._clock.now().timestamp())
        write_private(self._file, msgspec.json.encode(place))
        return place


def _matches(pattern: re.Pattern[str], text: str) -> bool:
    return len(text) <= MAX_LINE and pattern.fullmatch(text) is not None


def _cut_outlook_quote(lines: list[str]) -> tuple[list[str], list[str]]:
    """Cut a quote without marks below the headers of the answered mail, as Outlook writes it."""
    for place, line in enumerate(lines[:-1]):
        heads = lines[place + 1 : place + 6]
        if _matches(_HEAD_FIRST, line.strip()) and any(
            _matches(_HEAD_NEXT, each.strip()) for each in heads
        ):
            start = place
            while start and (
                not lines[start - 1].strip() or _matches(_RULE, lines[start - 1].strip())
            ):
                start -= 1
            return lines[:start], lines[place + 1 :]
    return lines, []


def _cut_trailing_quote(lines: list[str]) -> tuple[list[str], list[str]]:
    """Cut quoted lines at the end, if a line above attributes them."""
    end = len(lines)
    while end and (not lines[end - 1].strip() or _is_quoted(lines[end - 1])):
        end -= 1
    quoted = [line for line in lines[end:] if _is_quoted(line)]
    start = _find_attribution(lines, end)
    return (lines[:start], quoted) if quoted and start < end else (lines, [])


def _cut_leading_quote(lines: list[str]) -> tuple[list[str], list[str]]:
    """Cut quoted lines at the beginning, for authors who write below the quote."""
    place = 0
    while place < len(lines) and not _is_quoted(lines[place]):
        place += 1
    end = place
    while end < len(lines) and (not lines[end].strip() or _is_quoted(lines[end])):
        end += 1
    above = [line for line in lines[:place] if line.strip()]
    if (
        not above
        or len(above) > MAX_ATTRIBUTION_LINES
        or not any(line.strip() for line in lines[end:])
    ):
        return lines, []
    if not _matches(_ATTRIBUTION, "\n".join(above)):
        return lines, []
    return lines[end:], [line for line in lines[place:end] if _is_quoted(line)]


def _find_attribution(lines: list[str], end: int) -> int:
    """Return the index of an attribution line (`On …, X wrote:`) before `end`; `end` for none."""
    last = end
    while last and not lines[last - 1].strip():
        last -= 1
    if not last or not lines[last - 1].rstrip().endswith(":"):
        return end
    for count in range(1, MAX_ATTRIBUTION_LINES + 1):
        part = lines[max(0, last - count) : last]
        if not all(line.strip() for line in part):
            return end
        if _matches(_ATTRIBUTION, "\n".join(part)) and re.search(r"\d", "".join(part)):
            return last - len(part)
    return end


def _cut_signature(lines: list[str]) -> list[str]:
    for place in range(len(lines) - 1, -1, -1):
        if lines[place].rstrip("\r") in ("-- ", "--"):
            lines = lines[:place]
            break
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    return lines[:-1] if lines and _matches(_DEVICE, lines[-1].strip()) else lines


def _is_quoted(line: str) -> bool:
    return line.startswith(">")


def _is_genuine(results: list[AuthenticationResult], domain: str) -> bool:
    """DMARC decides; without a DMARC result, a signature or sending server of the same domain."""
    dmarc = [each.verdict for each in results if each.method == "dmarc"]
    if any(verdict in ("fail", "permerror", "temperror") for verdict in dmarc):
        return False
    if "pass" in dmarc:
        return True
    return any(_is_aligned(each, domain) for each in results if each.verdict == "pass")


def _is_aligned(result: AuthenticationResult, domain: str) -> bool:
    said = result.properties
    match result.method:
        case "dkim":
            proven = said.get("header.d") or said.get("header.i", "")
        case "spf":
            proven = said.get("smtp.mailfrom", "")
        case _:
            return False
    proven = proven.rpartition("@")[2].strip().lower()
    return bool(proven) and (domain == proven or domain.endswith(f".{proven}"))


def _split_statements(header: str) -> Iterator[list[str]]:
    """Yield the words between semicolons, without comments; a quoted string is one word."""
    words: list[str] = []
    depth = 0
    for token in _TOKEN.finditer(header):
        sign = token["sign"]
        if sign in ("(", ")"):
            depth = max(0, depth + (1 if sign == "(" else -1))
        elif depth:
            continue
        elif sign == ";":
            yield words
            words = []
        else:
            quoted = token["quoted"]
            words.append(quoted[1:-1] if quoted else sign or token["word"])
    yield words


def _header(head: EmailMessage, name: str) -> str:
    return str(head.get(name, "")).strip().lower()


def _message_ids(message: EmailMessage, name: str) -> list[str]:
    return [found[1] for found in _MESSAGE_ID.finditer(str(message.get(name, "")))]


def _split_body(message: EmailMessage, *, forwarded: bool) -> tuple[str, str]:
    bodies: dict[str, str] = {}
    for _, part in _leaf_parts(message):
        if _is_body(part):
            bodies.setdefault(part.get_content_type(), _part_text(part))
    plain, html = bodies.get("text/plain", ""), bodies.get("text/html", "")
    if plain.strip() or not html:
        return (plain.strip("\n"), "") if forwarded else split_quote(plain)
    new, quoted = split_html(html)
    if forwarded:
        return f"{new}\n\n{quoted}".strip(), ""
    below, more = split_quote(new)
    return (below, f"{more}\n{quoted}".strip()) if below.strip() else (quoted, "")


def _list_attachments(message: EmailMessage) -> Iterator[MailAttachment]:
    for number, part in _leaf_parts(message):
        if not _is_body(part) and (data := _part_bytes(part)):
            name = clean(part.get_filename() or "")
            if part.get_content_type() == "message/rfc822" and not name:
                name = "mail.eml"
            yield MailAttachment(number, name, part.get_content_type(), len(data))


def _leaf_parts(message: EmailMessage) -> Iterator[tuple[int, Message]]:
    """Yield the leaves of the part tree with their numbers. An embedded mail is a leaf."""
    pending: list[Message] = [message]
    number = 0
    while pending and number < MAX_PARTS:
        part = pending.pop(0)
        if part.get_content_maintype() == "multipart" and part.is_multipart():
            inner = part.get_payload()
            pending = [each for each in inner if isinstance(each, Message)] + pending
        else:
            yield number, part
            number += 1


def _is_body(part: Message) -> bool:
    shown = part.get_content_disposition() != "attachment" and not part.get_filename()
    return shown and part.get_content_type() in ("text/plain", "text/html")


def _part_bytes(part: Message) -> bytes:
    inner = part.get_payload()
    if part.get_content_maintype() == "message" and isinstance(inner, list):
        return b"".join(each.as_bytes() for each in inner if isinstance(each, Message))
    data = part.get_payload(decode=True)
    return data if isinstance(data, bytes) else b""


def _part_text(part: Message) -> str:
    text = decode_text(_part_bytes(part), part.get_content_charset() or "utf-8")
    return _CONTROL_CHARS.sub("", clean(text.replace("\r\n", "\n").replace("\r", "\n")))


def _wait_for_change(box: Mailbox) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(box.socket_number(), selectors.EVENT_READ)
        selector.select(IDLE_SECONDS)
    box.idle_done()
