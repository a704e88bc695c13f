"""Text without any formatting: for platforms that show none, and for mail."""

from hermes.gateway.platforms.kit.markdown.lines import Style


def _quote(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


def _underlined(level: int, label: str) -> str:
    return f"{label}\n{('=' if level == 1 else '-') * min(len(label), 72)}" if label else ""


_NO_MARKS = {"bold": ("", ""), "italic": ("", ""), "strike": ("", "")}

PLAIN = Style(
    text=str,
    marks=_NO_MARKS,
    code=str,
    link=lambda label, url: f"{label} ({url})",
    fence=lambda language, code: code,  # noqa: ARG005 - nothing to show it with
    heading=lambda level, label: label,  # noqa: ARG005 - every dialect gets both
    quote=_quote,
    point="- ",
)

EMAIL = Style(
    text=str,
    marks=_NO_MARKS,
    code=str,
    link=lambda label, url: f"{label} <{url}>",
    fence=lambda language, code: "\n".join(f"    {line}".rstrip() for line in code.split("\n")),  # noqa: ARG005 - every dialect gets both
    heading=_underlined,
    quote=_quote,
    point="- ",
    rule="-" * 40,
)
