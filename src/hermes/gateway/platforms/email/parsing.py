"""From bytes to a mail, in a time that its writer cannot make long.

The standard library needs minutes for some headers of a few thousand signs, and hours for texts in
encodings that are none. Anybody can send such a mail.
"""

import codecs
from collections.abc import Sequence
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import EmailPolicy
from typing import Any

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
