"""Discord's Markdown: no tables, three sizes of headings, nothing longer than three backticks."""

import re

from hermes.gateway.platforms.kit.markdown.lines import Style

_NOTHING = "\u200b"
_SPECIAL = re.compile(r"([\\*_~`|\[\]])")
_LINE_START = re.compile(r"^([^\S\n]*)((?:-#|#{1,3}|>{1,3}|[-+])(?=\s))", re.MULTILINE)
_NUMBER = re.compile(r"^([^\S\n]*\d+)(?=\.\s)", re.MULTILINE)
_LANGUAGE = re.compile(r"[\w+#.-]{1,40}")


def _paragraph(text: str) -> str:
    return _NUMBER.sub(r"\1\\", _LINE_START.sub(r"\1\\\2", text))


def _code(code: str) -> str:
    marks = "``" if "`" in code else "`"
    padding = " " if code.startswith("`") or code.endswith("`") else ""
    return f"{marks}{padding}{code.replace('``', _NOTHING.join('``'))}{padding}{marks}"


def _fence(language: str, code: str) -> str:
    name = language if _LANGUAGE.fullmatch(language) else ""
    return f"```{name}\n{code.replace('```', _NOTHING.join('```'))}\n```"


def _heading(level: int, label: str) -> str:
    if not label:
        return ""
    return f"{'#' * level} {label}" if level <= 3 else f"**{label.replace('**', '')}**"


STYLE = Style(
    text=lambda text: _SPECIAL.sub(r"\\\1", text),
    marks={"bold": ("**", "**"), "italic": ("*", "*"), "strike": ("~~", "~~")},
    code=_code,
    link=lambda label, url: f"[{label}]({url.replace('(', '%28').replace(')', '%29')})",
    fence=_fence,
    heading=_heading,
    quote=lambda text: "\n".join(f"> {line}" for line in text.split("\n")),
    paragraph=_paragraph,
    point="- ",
    quotes_nest=False,
)
