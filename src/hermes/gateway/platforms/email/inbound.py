"""A mail as it came, and what it says."""

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
from typing import Any, Literal, Protocol

import msgspec

from hermes.core.ports import Clock
from hermes.gateway.platforms.email.client import BATCH, Desk, Head, Mailbox, Options
from hermes.gateway.platforms.kit.contract import AdapterError, NotConnected
from hermes.tools.web_pages import plain_text, sanitize_html
from hermes.util.atomic import write_bytes
from hermes.util.text import clean
from hermes.util.threads import in_thread

# From bytes to a mail, in a time that its writer cannot make long.
#
# The standard library needs minutes for some headers of a few thousand signs, and hours for texts
# in
# encodings that are none. Anybody can send such a mail.

MOST_HEAD_BYTES = 128_000
"""Of the headers of a mail as a whole; a mail with more gets no answer."""
MOST_FIELDS = 600
"""Headers that say what a part is; of a mail with more only the beginning is read."""
BEGINNING = 200_000
"""Bytes that are read of a mail that is too large."""
LONGEST = {"references": 16_000, "authentication-results": 4000, "subject": 4000}
"""Signs of a header that are read."""
USUAL = 1000
MOST_PROPERTIES = 16
"""Of a header that says what a part is."""

_NO_CHARSETS = frozenset(
    {"idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined", "mbcs", "oem"}
)


class _Brief(EmailPolicy):
    """Cuts long headers, also those of parts."""

    def header_source_parse(self, sourcelines: Sequence[str]) -> tuple[str, str]:
        name, value = super().header_source_parse(list(sourcelines))
        if name.lower().startswith("content-"):
            value = ";".join(value[:USUAL].split(";", MOST_PROPERTIES)[:MOST_PROPERTIES])
        return name, value[: LONGEST.get(name.lower(), USUAL)]


_POLICY = _Brief()


def read(raw: bytes) -> EmailMessage:
    message: Any = message_from_bytes(raw, policy=_POLICY)
    assert isinstance(message, EmailMessage)
    return message


def too_many_parts(raw: bytes) -> bool:
    return raw.lower().count(b"\ncontent-") > MOST_FIELDS


def decoded(data: bytes, charset: str) -> str:
    """As text, whatever the charset is called; unknown ones are taken for the usual ones."""
    for name in (charset, "utf-8"):
        try:
            if codecs.lookup(name).name not in _NO_CHARSETS:
                return data.decode(name)
        except (LookupError, ValueError):
            continue
    return data.decode("windows-1252", "replace")


# Mail in HTML as text: what a reader sees, and what is quoted.

_HIDING = re.compile(
    r"display:none|visibility:hidden|mso-hide:all"
    r"|(?:font-size|opacity):0*\.?0+(?:px|pt|em|rem|%)?(?:!important)?(?:;|$)"
)
_QUOTES = frozenset(
    {"gmail_quote", "gmail_attr", "yahoo_quoted", "moz-cite-prefix", "protonmail_quote"}
)
_OUTLOOK = frozenset({"appendonsend", "divrplyfwdmsg", "mail-editor-reference-message-container"})
_VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "wbr"}
)
LARGEST = 1_000_000


class _Sorter(HTMLParser):
    """Sorts what is shown into new and quoted; what is hidden is neither."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.new: list[str] = []
        self.quoted: list[str] = []
        self._into: list[str] | None = self.new
        self._tag, self._depth = "", 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._tag:
            self._depth += tag == self._tag
        elif tag not in _VOID:
            said = {name: (value or "").lower() for name, value in attrs}
            style = "".join(said.get("style", "").split())
            if "hidden" in said or _HIDING.search(style):
                self._turn(tag, None)
            elif tag == "blockquote" or _QUOTES & set(said.get("class", "").split()):
                self._turn(tag, self.quoted)
            elif said.get("id", "") in _OUTLOOK:
                self._turn("html", self.quoted)  # all the rest
        self._put(self.get_starttag_text() or "")

    def handle_endtag(self, tag: str) -> None:
        if tag in _VOID:
            return
        self._put(f"</{tag}>")
        if tag == self._tag:
            self._depth -= 1
            if not self._depth:
                self._tag, self._into = "", self.new

    def handle_data(self, data: str) -> None:
        self._put(data)

    def handle_entityref(self, name: str) -> None:
        self._put(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self._put(f"&#{name};")

    def _turn(self, tag: str, into: list[str] | None) -> None:
        self._tag, self._depth, self._into = tag, 1, into

    def _put(self, text: str) -> None:
        if self._into is not None:
            self._into.append(text)


def split_html(html: str) -> tuple[str, str]:
    """What is new and what is quoted, as text."""
    sorter = _Sorter()
    sorter.feed(sanitize_html(html[:LARGEST]))
    sorter.close()
    return plain_text("".join(sorter.new)).text, plain_text("".join(sorter.quoted)).text


# The new part of a mail, without what it quotes and without the signature.

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
LONGEST_ATTRIBUTION = 3
LONGEST_LINE = 500
"""Of lines that are looked at: patterns need long for lines that nobody types."""


def _fits(pattern: re.Pattern[str], text: str) -> bool:
    return len(text) <= LONGEST_LINE and pattern.fullmatch(text) is not None


def is_forwarded(subject: str) -> bool:
    """Then what it quotes is what it is about."""
    return bool(_FORWARDED.match(subject))


def split(text: str) -> tuple[str, str]:
    """What is new, and what is quoted. A mail that says nothing new is new as a whole."""
    lines = text.split("\n")
    lines, below = _without_outlook(lines)
    lines, quoted = _without_trailing(lines)
    lines, above = _without_leading(lines)
    new = "\n".join(_without_signature(lines)).strip("\n")
    if not new.strip():
        return text.strip("\n"), ""
    return new, _bare([*above, *quoted, *below])


def _without_outlook(lines: list[str]) -> tuple[list[str], list[str]]:
    """Some programs put the heads of the answered mail above it and mark nothing."""
    for place, line in enumerate(lines[:-1]):
        heads = lines[place + 1 : place + 6]
        if _fits(_HEAD_FIRST, line.strip()) and any(
            _fits(_HEAD_NEXT, each.strip()) for each in heads
        ):
            start = place
            while start and (
                not lines[start - 1].strip() or _fits(_RULE, lines[start - 1].strip())
            ):
                start -= 1
            return lines[:start], lines[place + 1 :]
    return lines, []


def _without_trailing(lines: list[str]) -> tuple[list[str], list[str]]:
    """Quoted lines at the end, when a line above them says whose words they are."""
    end = len(lines)
    while end and (not lines[end - 1].strip() or _quoted(lines[end - 1])):
        end -= 1
    quoted = [line for line in lines[end:] if _quoted(line)]
    start = _attribution(lines, end)
    return (lines[:start], quoted) if quoted and start < end else (lines, [])


def _without_leading(lines: list[str]) -> tuple[list[str], list[str]]:
    """The same at the beginning, where some write below what they answer."""
    place = 0
    while place < len(lines) and not _quoted(lines[place]):
        place += 1
    end = place
    while end < len(lines) and (not lines[end].strip() or _quoted(lines[end])):
        end += 1
    above = [line for line in lines[:place] if line.strip()]
    if (
        not above
        or len(above) > LONGEST_ATTRIBUTION
        or not any(line.strip() for line in lines[end:])
    ):
        return lines, []
    if not _fits(_ATTRIBUTION, "\n".join(above)):
        return lines, []
    return lines[end:], [line for line in lines[place:end] if _quoted(line)]


def _attribution(lines: list[str], end: int) -> int:
    """Where the line `On …, somebody wrote:` before `end` begins; `end` when there is none."""
    last = end
    while last and not lines[last - 1].strip():
        last -= 1
    if not last or not lines[last - 1].rstrip().endswith(":"):
        return end
    for count in range(1, LONGEST_ATTRIBUTION + 1):
        part = lines[max(0, last - count) : last]
        if not all(line.strip() for line in part):
            return end
        if _fits(_ATTRIBUTION, "\n".join(part)) and re.search(r"\d", "".join(part)):
            return last - len(part)
    return end


def _without_signature(lines: list[str]) -> list[str]:
    for place in range(len(lines) - 1, -1, -1):
        if lines[place].rstrip("\r") in ("-- ", "--"):
            lines = lines[:place]
            break
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    return lines[:-1] if lines and _fits(_DEVICE, lines[-1].strip()) else lines


def _quoted(line: str) -> bool:
    return line.startswith(">")


def _bare(lines: list[str]) -> str:
    return "\n".join(
        line[1:].removeprefix(" ") if _quoted(line) else line for line in lines
    ).strip()


# Whether who wrote a mail is proven, as the receiving server says in Authentication-Results.
#
# From is whatever the writer wants it to be. The receiving server checks DMARC, DKIM and SPF and
# writes down what came of it, above what came with the mail. Only a header with the server's own
# name (`authserv_id`) proves anything: servers remove forged ones of that name. Without a name the
# topmost header is taken, which a forger may have written: it can refuse a mail but proves
# nothing.

_TOKEN = re.compile(
    r'\s*(?:(?P<quoted>"(?:[^"\\]|\\.)*")|(?P<sign>[;=()])|(?P<word>[^\s;="()]+))', re.DOTALL
)


class Result(msgspec.Struct, frozen=True):
    method: str
    verdict: str
    properties: dict[str, str]


def why_not(
    head: EmailMessage, address: str, *, required: Literal["auto"] | bool, server: str
) -> str:
    """Why the sender is not believed; "" when they are."""
    if required is False:
        return ""
    for header in head.get_all("Authentication-Results", []):
        name, results = parsed(str(header))
        if not server or name == server.lower():
            return (
                ""
                if _genuine(results, address.rpartition("@")[2].lower())
                else ("Authentication-Results does not say that the sender is genuine")
            )
    return "nobody says that the sender is genuine" if required is True else ""


def parsed(header: str) -> tuple[str, list[Result]]:
    """The server's name, and what it found."""
    first, *rest = _statements(" ".join(header.split()))
    results = []
    for words in rest:
        said = _pairs(words)
        if said:
            (method, verdict), *properties = said
            results.append(Result(method.partition("/")[0], verdict, dict(properties)))
    return (first[0].lower() if first else ""), results


def _genuine(results: list[Result], domain: str) -> bool:
    """DMARC decides; where it has no opinion, a signature or sending server of the same domain."""
    dmarc = [each.verdict for each in results if each.method == "dmarc"]
    if any(verdict in ("fail", "permerror", "temperror") for verdict in dmarc):
        return False
    if "pass" in dmarc:
        return True
    return any(_aligned(each, domain) for each in results if each.verdict == "pass")


def _aligned(result: Result, domain: str) -> bool:
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


def _statements(header: str) -> Iterator[list[str]]:
    """Words between semicolons, without comments; a quoted text is one word."""
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


def _pairs(words: list[str]) -> list[tuple[str, str]]:
    """`name=value`, in their order."""
    return [
        (words[place - 1].lower(), words[place + 1].lower())
        for place in range(1, len(words) - 1)
        if words[place] == "="
    ]


# Mail that is not for the agent: of programs, of lists, of ourselves, or of whom it does not say.
#
# Two programs that answer each other never stop; so whatever looks like a program gets no answer.

_PROGRAMS = re.compile(
    r"(mailer-daemon|postmaster|no-?_?reply|do-?_?not-?_?reply|bounces?|auto-?reply)"
    r"([+._-].*)?|.*[+._-](no-?reply|bounces?)",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"[^\s<>,;:\"()\\]+@[^\s<>,;:@\"()\\]+")
_COMMENT = re.compile(r"\([^()]*\)")
_BULK = frozenset({"bulk", "list", "junk", "auto_reply"})
_LIST_HEADERS = ("List-Id", "List-Post", "List-Unsubscribe", "Feedback-ID")
_AUTO_HEADERS = ("X-Autoreply", "X-Autorespond", "X-Auto-Reply")


def sender(head: EmailMessage) -> tuple[str, str]:
    """Address and name of who wrote it, as the one From header says; ("", "") when it does not say
    clearly, so that other programs might read it differently. Addresses beyond ASCII are not
    taken: they have look-alikes, and few servers carry them."""
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
    """Why a mail gets no answer; "" when it does."""
    address, _ = sender(head)
    if not address:
        return "it does not say clearly who wrote it"
    if address == own:
        return "it is ours"
    if _PROGRAMS.fullmatch(address.rpartition("@")[0]):
        return "a program wrote it"
    if _said(head, "Auto-Submitted").partition(";")[0].strip() not in ("", "no"):
        return "a program sent it"
    if _said(head, "Precedence") in _BULK or any(name in head for name in _LIST_HEADERS):
        return "it went to a list"
    if any(name in head for name in _AUTO_HEADERS):
        return "a program answers for somebody who is away"
    if _said(head, "Return-Path") == "<>" or head.get_content_type() == "multipart/report":
        return "it reports about another mail"
    return ""


def _said(head: EmailMessage, name: str) -> str:
    return str(head.get(name, "")).strip().lower()


_ID = re.compile(r"<([^<>\s]{1,500})>")
_ODD = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
MOST_PARTS = 200
MOST_REFERENCES = 100


class Attachment(msgspec.Struct, frozen=True):
    number: int
    """Among the parts of the mail."""
    name: str
    mime: str
    size: int


class Letter(msgspec.Struct, frozen=True):
    message_id: str
    """Without the angle brackets; "" when it has none."""
    sender: str
    name: str
    subject: str
    references: tuple[str, ...]
    """The mails before it in the thread, the oldest first."""
    answers: str
    """The mail it answers; "" for none."""
    text: str
    quoted: str
    attachments: tuple[Attachment, ...] = ()


def letter(message: EmailMessage) -> Letter:
    address, name = sender(message)
    subject = " ".join(clean(str(message.get("Subject", ""))).split())[:300]
    before = _ids(message, "References")[-MOST_REFERENCES:]
    answers = (_ids(message, "In-Reply-To") or [""])[0]
    if answers and answers not in before:
        before = [*before, answers]
    text, quoted = _text(message, forwarded=is_forwarded(subject))
    return Letter(
        message_id=(_ids(message, "Message-ID") or [""])[0],
        sender=address,
        name=name,
        subject=subject,
        references=tuple(before),
        answers=answers,
        text=text,
        quoted=quoted,
        attachments=tuple(_attachments(message)),
    )


def content(message: EmailMessage, number: int) -> bytes | None:
    """The bytes of an attachment; None when there is none of that number."""
    return next((_bytes(part) for place, part in _parts(message) if place == number), None)


def _ids(message: EmailMessage, name: str) -> list[str]:
    return [found[1] for found in _ID.finditer(str(message.get(name, "")))]


def _text(message: EmailMessage, *, forwarded: bool) -> tuple[str, str]:
    bodies: dict[str, str] = {}
    for _, part in _parts(message):
        if _is_body(part):
            bodies.setdefault(part.get_content_type(), _decoded(part))
    plain, html = bodies.get("text/plain", ""), bodies.get("text/html", "")
    if plain.strip() or not html:
        return (plain.strip("\n"), "") if forwarded else split(plain)
    new, quoted = split_html(html)
    if forwarded:
        return f"{new}\n\n{quoted}".strip(), ""
    below, more = split(new)
    return (below, f"{more}\n{quoted}".strip()) if below.strip() else (quoted, "")


def _attachments(message: EmailMessage) -> Iterator[Attachment]:
    for number, part in _parts(message):
        if not _is_body(part) and (data := _bytes(part)):
            name = clean(part.get_filename() or "")
            if part.get_content_type() == "message/rfc822" and not name:
                name = "mail.eml"
            yield Attachment(number, name, part.get_content_type(), len(data))


def _parts(message: EmailMessage) -> Iterator[tuple[int, Message]]:
    """The leaves of the tree, numbered. A mail inside the mail is a leaf."""
    pending: list[Message] = [message]
    number = 0
    while pending and number < MOST_PARTS:
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


def _bytes(part: Message) -> bytes:
    inner = part.get_payload()
    if part.get_content_maintype() == "message" and isinstance(inner, list):
        return b"".join(each.as_bytes() for each in inner if isinstance(each, Message))
    data = part.get_payload(decode=True)
    return data if isinstance(data, bytes) else b""


def _decoded(part: Message) -> str:
    text = decoded(_bytes(part), part.get_content_charset() or "utf-8")
    return _ODD.sub("", clean(text.replace("\r\n", "\n").replace("\r", "\n")))


# What says that there may be new mail: the server (IDLE), or the clock.
#
# `arm` first, then look, then `wait`: mail that comes between the look and the wait rings too.

IDLE_SECONDS = 300.0
"""Seconds of one IDLE. Servers hang up after half an hour, many routers much earlier."""


class Bell(Protocol):
    async def arm(self) -> None:
        """From now on it rings. Raises `NotConnected`, `CredentialsRefused`."""
        ...

    async def wait(self) -> None:
        """Until it rings, or might have. Raises `NotConnected`."""
        ...

    def close(self) -> None:
        """Ends a wait under way."""
        ...


class PollBell:
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def arm(self) -> None:
        """Nothing to do."""

    async def wait(self) -> None:
        await asyncio.sleep(self._seconds)

    def close(self) -> None:
        """Nothing to do."""


class IdleBell:
    """A connection of its own, on which nothing is asked. What the server said before `arm`
    returned may lie in a buffer; the look after it finds that mail, so nothing is missed."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._box: Mailbox | None = None
        self._closed = False

    async def arm(self) -> None:
        await in_thread(self._guarded, self._arm)

    async def wait(self) -> None:
        await in_thread(self._guarded, _wait)

    def close(self) -> None:
        self._closed = True
        if self._box is not None:
            self._box.hang_up()

    def _guarded(self, work: "Step") -> None:
        try:
            if self._box is None:
                self._box = Mailbox(self._options)
            if self._closed:
                raise NotConnected("Email is not connected")
            self._box.run(work)
        except BaseException:
            box, self._box = self._box, None
            if box is not None:
                box.hang_up()
            raise

    def _arm(self, box: Mailbox) -> None:
        box.idle(self._options.extra.folder)


class Step(Protocol):
    def __call__(self, box: Mailbox, /) -> None: ...


def _wait(box: Mailbox) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(box.socket_number(), selectors.EVENT_READ)
        selector.select(IDLE_SECONDS)
    box.idle_done()


# Which mail was looked at last, so that none is missed and none comes twice.


class Place(msgspec.Struct, frozen=True):
    validity: int
    """UIDVALIDITY: when it changes, numbers mean other mails."""
    uid: int
    """The last mail that was taken or left."""
    at: float
    """When."""


def load(file: Path) -> Place | None:
    """None when there is none, or one that cannot be read."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=Place)
    except (OSError, msgspec.DecodeError):
        return None


def save(file: Path, place: Place) -> None:
    """On disk when it returns. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_bytes(file, msgspec.json.encode(place))


# Takes new mail, one after the other: each is offered until it is kept, and only then passed.

log = logging.getLogger(__name__)

MOST_BREAKS = 3

Take = Callable[[Head, int], Awaitable[bool]]
"""Takes the mail with this UIDVALIDITY, for as long as that needs; False when it is not for us."""


class Watch:
    def __init__(
        self, options: Options, desk: Desk, bell: Bell, state: Path, clock: Clock, take: Take
    ) -> None:
        self._folder, self._desk, self._bell = options.extra.folder, desk, bell
        self._clock, self._take = clock, take
        name = f"{options.address}\0{options.imap.name}\0{self._folder}"
        self._file = state / f"inbox-{hashlib.sha256(name.encode()).hexdigest()[:16]}.json"
        self._place: Place | None = None
        self._breaks = (0, 0)
        """The mail that broke the connection last, and how often in a row."""

    async def begin(self) -> None:
        """Find the place. The first time ever it is the end: mail that was there before us is not
        answered. Raises `AdapterError`."""
        validity, following = await self._desk.use(lambda box: box.state(self._folder))
        known = load(self._file)
        if known is None:
            known = self._moved(validity, following - 1)
        self._place = known

    async def look(self, works: Callable[[], None]) -> None:
        """Take what is new, say that this works, and wait for the bell. Raises `AdapterError`."""
        try:
            await self._bell.arm()
            await self._look()
            works()
            await self._bell.wait()
        except OSError as error:
            raise AdapterError(f"Email: the state cannot be written: {error.strerror}") from error

    async def _look(self) -> None:
        place = self._place
        if place is None:
            return
        validity, following = await self._desk.use(lambda box: box.state(self._folder))
        if validity != place.validity:
            uids = await self._renumbered(place, validity)
        elif following > place.uid + 1:
            uids = await self._desk.use(lambda box: box.after(self._folder, place.uid))
        else:
            return
        for start in range(0, len(uids), BATCH):
            heads = partial(Mailbox.heads, folder=self._folder, uids=uids[start : start + BATCH])
            for head in await self._desk.use(heads):
                await self._pass(head, validity)

    async def _renumbered(self, place: Place, validity: int) -> list[int]:
        """The server gave new numbers: whatever came since a day before the last mail is offered
        again, and the gateway knows by the Message-ID what it had."""
        log.warning("Email: the server has numbered the mail of %s anew", self._folder)
        day = (datetime.fromtimestamp(place.at, UTC) - timedelta(days=1)).date()
        uids = await self._desk.use(lambda box: box.since(self._folder, day))
        self._place = self._moved(validity, min(uids) - 1 if uids else 0)
        return uids

    async def _pass(self, head: Head, validity: int) -> None:
        taken = await self._taken(head, validity)
        self._place = self._moved(validity, head.uid)
        if taken:
            await self._mark(head.uid)

    async def _taken(self, head: Head, validity: int) -> bool:
        """A mail that breaks the connection again and again does not hold up the others."""
        try:
            return await self._take(head, validity)
        except NotConnected as error:
            await self._desk.use(Mailbox.alive)  # raises when it is not the mail
            uid, times = self._breaks
            self._breaks = (head.uid, times + 1 if uid == head.uid else 1)
            if self._breaks[1] < MOST_BREAKS:
                raise
            log.error("Email: mail %s is left in the mailbox: %s", head.uid, error)
            return False

    async def _mark(self, uid: int) -> None:
        """The mark only helps people; what counts is the place."""
        try:
            await self._desk.use(lambda box: box.mark_seen(self._folder, uid))
        except AdapterError as error:
            log.warning("a mail that was taken is not marked as read: %s", error)

    def _moved(self, validity: int, uid: int) -> Place:
        place = Place(validity, uid, self._clock.now().timestamp())
        save(self._file, place)
        return place
