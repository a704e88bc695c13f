"""Whether who wrote a mail is proven, as the receiving server says in Authentication-Results.

From is whatever the writer wants it to be. The receiving server checks DMARC, DKIM and SPF and
writes down what came of it, above what came with the mail. Only a header with the server's own
name (`authserv_id`) proves anything: servers remove forged ones of that name. Without a name the
topmost header is taken, which a forger may have written: it can refuse a mail but proves nothing.
"""

import re
from collections.abc import Iterator
from email.message import EmailMessage
from typing import Literal

import msgspec

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
