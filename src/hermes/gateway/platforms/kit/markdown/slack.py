"""Slack's mrkdwn. It has no escape for its marks, so one that would count is kept apart from its
word by a space of no width."""

import re

from hermes.gateway.platforms.kit.markdown.lines import Style

_NOTHING = "\u200b"
_MARK = re.compile(r"(?<!\w)([*_~])(?=\S)|(`)")
_QUOTE_LINE = re.compile(r"^([^\S\n]*)(?=&gt;)", re.MULTILINE)


def _plain(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _text(text: str) -> str:
    return _MARK.sub(lambda match: match.group() + _NOTHING, _plain(text))


def _address(url: str) -> str:
    return _plain(url).replace("|", "%7C")


def _fence(language: str, code: str) -> str:  # noqa: ARG001 - Slack would show the language
    return f"```\n{_plain(code).replace('```', _NOTHING.join('```'))}\n```"


def _quote(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.split("\n"))


STYLE = Style(
    text=_text,
    marks={"bold": ("*", "*"), "italic": ("_", "_"), "strike": ("~", "~")},
    code=lambda code: f"`{_plain(code).replace('`', 'ˋ')}`",
    link=lambda label, url: f"<{_address(url)}|{label.replace('|', '¦')}>",
    url=lambda url: f"<{_address(url)}>",
    fence=_fence,
    heading=lambda level, label: f"*{label.replace('*', '')}*" if label else "",  # noqa: ARG005 - every dialect gets both
    quote=_quote,
    paragraph=lambda text: _QUOTE_LINE.sub(rf"\1{_NOTHING}", text),
)
