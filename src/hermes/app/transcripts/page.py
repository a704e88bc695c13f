"""Sessions as one HTML file that needs nothing else: no script, no font, no address.

A page is written in pieces, so that a large store never has to fit in memory: `page_start` with
the index, `session_section` for each session, `PAGE_END`.
"""

import re
from collections.abc import Iterator, Sequence
from html import escape

from hermes.app.transcripts.outline import Call, Entry, Transcript
from hermes.app.transcripts.page_style import STYLE
from hermes.app.transcripts.prose import preformatted, prose
from hermes.app.transcripts.wording import facts, local, moment
from hermes.core.ports import SessionInfo
from hermes.util.plain import plain_line
from hermes.util.text import many

RESULT_LIMIT = 20_000
"""Characters of a tool's result that are kept."""
BRIEF_LIMIT = 90

# Even if something slipped through, the reader's browser fetches and runs nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'"
_PICTURE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]+")

PAGE_END = "<footer>Exported by Hermes.</footer>\n</body>\n</html>\n"


def page_start(sessions: Sequence[SessionInfo]) -> str:
    """Everything before the first session; with several, a list of them."""
    several = len(sessions) != 1
    title = f"{len(sessions):,} sessions" if several else display_name(sessions[0])
    head = (
        "<!DOCTYPE html>\n"
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{escape(title)}</title>\n<style>\n{STYLE}</style>\n</head>\n"
    )
    if not several:
        return f'{head}<body id="top">\n'
    rows = "\n".join(_index_row(number, info) for number, info in enumerate(sessions, start=1))
    return f'{head}<body id="top">\n<h1>{title}</h1>\n<nav><ol>\n{rows}\n</ol></nav>\n'


def display_name(info: SessionInfo) -> str:
    return plain_line(info.title) or plain_line(info.preview) or plain_line(info.id)


def _index_row(number: int, info: SessionInfo) -> str:
    details = f"{moment(info.started_at)} · {info.source} · {many(info.message_count, 'message')}"
    return (
        f'<li><a href="#session-{number}"><bdi>{escape(display_name(info))}</bdi></a>'
        f"<small>{escape(plain_line(details))}</small></li>"
    )


def session_section(transcript: Transcript, number: int, *, several: bool) -> str:
    """One session; `number` is its place in the index."""
    return "\n".join(_section(transcript, number, several=several)) + "\n"


def _section(transcript: Transcript, number: int, *, several: bool) -> Iterator[str]:
    level = "h2" if several else "h1"
    yield f'<article id="session-{number}">'
    yield f"<{level}><bdi>{escape(transcript.name)}</bdi></{level}>"
    shown = (
        f"<div><dt>{label}</dt><dd><bdi>{escape(value)}</bdi></dd></div>"
        for label, value in facts(transcript)
    )
    yield f'<dl class="facts">{"".join(shown)}</dl>'
    for turn in transcript.turns:
        if turn.number:
            yield f"<h3>Turn {turn.number}{_stamp(turn.time)}</h3>"
        for entry in turn.entries:
            yield _entry(entry)
    if several:
        yield '<p class="note"><a href="#top">back to the list</a></p>'
    yield "</article>"


def _stamp(time: float) -> str:
    if not time:
        return ""
    exact = local(time).isoformat(timespec="seconds")
    return f' · <time datetime="{exact}">{moment(time)}</time>'


def _entry(entry: Entry) -> str:
    parts = [f'<p class="who">{escape(entry.role.capitalize())}</p>']
    if entry.reasoning:
        parts.append(
            f"<details><summary>Reasoning</summary><div>{prose(entry.reasoning)}</div></details>"
        )
    parts.append(prose(entry.text))
    parts += [_image(url) for url in entry.images]
    parts += [_call(call) for call in entry.calls]
    return f'<section class="said {escape(entry.role)}">{"".join(parts)}</section>'


def _image(url: str) -> str:
    """A picture the conversation holds; the address of one that would have to be fetched."""
    if _PICTURE.fullmatch(url):
        return f'<img alt="image of the conversation" src="{escape(url)}">'
    return f'<p class="note">image: <code>{escape(plain_line(url[:300]))}</code></p>'


def _call(call: Call) -> str:
    brief = " ".join(call.arguments.split())
    shown = brief if len(brief) <= BRIEF_LIMIT else brief[:BRIEF_LIMIT] + "…"
    state = ' class="bad"' if call.failed else ""
    inside = [preformatted(call.arguments)] if shown != call.arguments else []
    if call.result is None:
        inside.append('<p class="note">It did not finish.</p>')
    else:
        inside.append(preformatted(call.result[:RESULT_LIMIT]))
        missing = len(call.result) - RESULT_LIMIT
        if missing > 0:
            inside.append(f'<p class="note">{missing:,} more characters are not shown.</p>')
    return (
        f"<details><summary{state}><b>{escape(call.name)}</b> "
        f'<span class="brief">{escape(shown)}</span></summary>{"".join(inside)}</details>'
    )
