"""The HTML that Telegram reads: few tags, no lists, no tables, no quotes in quotes."""

import re
from html import escape

from hermes.gateway.platforms.kit.markdown.lines import Style

_LANGUAGE = re.compile(r"[\w+#.-]{1,40}")


def _text(text: str) -> str:
    return escape(text, quote=False)


def _fence(language: str, code: str) -> str:
    if _LANGUAGE.fullmatch(language):
        return f'<pre><code class="language-{language}">{_text(code)}</code></pre>'
    return f"<pre>{_text(code)}</pre>"


STYLE = Style(
    text=_text,
    marks={"bold": ("<b>", "</b>"), "italic": ("<i>", "</i>"), "strike": ("<s>", "</s>")},
    code=lambda code: f"<code>{_text(code)}</code>",
    link=lambda label, url: f'<a href="{escape(url)}">{label}</a>',
    url=_text,
    fence=_fence,
    heading=lambda level, label: f"<b>{label}</b>" if label else "",  # noqa: ARG005 - one size
    quote=lambda text: f"<blockquote>{text}</blockquote>",
    quotes_nest=False,
)
