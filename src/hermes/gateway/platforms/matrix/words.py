"""What people say in a message: without what the client of the writer put around it."""

import re
from html import unescape
from urllib.parse import unquote

import msgspec

from hermes.gateway.platforms.kit.mentions import without_address
from hermes.gateway.platforms.matrix.shapes import Json, table, word, words

_LINK = re.compile(r"""href\s*=\s*["']([^"']+)["']""", re.IGNORECASE)
_PILL = re.compile(r"https://matrix\.to/#/(@[^/?]+)|matrix:u/([^/?]+)")
_TAG = re.compile(r"<(br|/p|/li|/h[1-6]|/pre|/blockquote|/tr)\b[^>]*>|<[^>]*>", re.IGNORECASE)


class Me(msgspec.Struct, frozen=True):
    user_id: str
    name: str = ""
    """As shown to people."""

    @property
    def pattern(self) -> re.Pattern[str]:
        """`@` and one of our names, not the beginning of a longer one."""
        local = self.user_id[1:].partition(":")[0]
        names = (self.user_id[1:], self.name.removeprefix("@"), local)
        either = "|".join(re.escape(name) for name in names if name)
        return re.compile(rf"(?<![\w@])@(?:{either})(?!\w|:\w)", re.IGNORECASE)


def mentions_us(content: Json, me: Me) -> bool:
    """As the writer's client says, by a link to us, or by our name in the text."""
    if me.user_id in words(content, "m.mentions", "user_ids"):
        return True
    if me.user_id in _linked(word(content, "formatted_body")):
        return True
    return me.pattern.search(without_quote(content)) is not None


def said_to_us(content: Json, me: Me) -> str:
    """The text without our name where it is only an address."""
    text = without_quote(content)
    if not mentions_us(content, me):
        return text
    text = without_address(text, me.pattern.pattern)
    if me.name:  # as clients write a link in plain text
        text = re.sub(rf"\A\s*{re.escape(me.name)}(?:[,:]\s*|\s+)", "", text, flags=re.IGNORECASE)
    return text


def without_quote(content: Json) -> str:
    """The body without the lines of the message it answers, which older clients put before it."""
    body = word(content, "body")
    if not table(content, "m.relates_to", "m.in_reply_to") or not body.startswith("> "):
        return body
    lines = body.split("\n")
    while lines and lines[0].startswith(">"):
        lines.pop(0)
    if lines and not lines[0].strip():
        lines.pop(0)
    return "\n".join(lines)


def quoted(content: Json) -> str:
    """Those lines, for when the message itself cannot be had."""
    body = word(content, "body")
    if not body.startswith("> "):
        return ""
    head = body.partition("\n\n")[0]
    text = "\n".join(line.removeprefix(">").strip() for line in head.split("\n"))
    return re.sub(r"\A(?:\* )?<@[^>]*>\s*", "", text)


def plain_of(html: str) -> str:
    """Readable text of HTML that has no plain form."""
    return unescape(_TAG.sub(lambda tag: "\n" if tag[1] else "", html)).strip()


def _linked(html: str) -> list[str]:
    found = []
    for link in _LINK.findall(html):
        pill = _PILL.match(unquote(unescape(link)))
        if pill:
            found.append(pill[1] or f"@{pill[2]}")
    return found
