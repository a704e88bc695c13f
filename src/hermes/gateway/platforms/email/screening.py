"""Mail that is not for the agent: of programs, of lists, of ourselves, or of whom it does not say.

Two programs that answer each other never stop; so whatever looks like a program gets no answer.
"""

import re
from email.message import EmailMessage
from typing import Any

from hermes.util.text import clean

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


def why_not(head: EmailMessage, own: str) -> str:
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
