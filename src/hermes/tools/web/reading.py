"""From what was fetched to text a model can read."""

import asyncio
from threading import Event

import msgspec

from hermes.core.errors import ToolTimedOut
from hermes.tools.web.content import decoded
from hermes.tools.web.fetch import Fetched
from hermes.tools.web.html_text import html_text
from hermes.tools.web.pdf_text import pdf_text
from hermes.util.text import clean
from hermes.util.threads import in_thread

LONGEST = 30.0
"""Seconds for reading one page."""


class Reading(msgspec.Struct, frozen=True):
    """A page as text."""

    url: str
    title: str
    text: str
    notes: tuple[str, ...] = ()
    """What the reader should know about it, in our own words."""


async def read(page: Fetched) -> Reading:
    """Raises `ToolError` when nothing can be read from it."""
    stop = Event()
    try:
        async with asyncio.timeout(LONGEST):
            return await in_thread(_read, page, stop)
    except TimeoutError as error:
        raise ToolTimedOut(f"reading it took longer than {LONGEST:g} seconds") from error
    finally:
        stop.set()


def _read(page: Fetched, stop: Event) -> Reading:
    notes = ("only the beginning was fetched: the page is very large",) if page.cut else ()
    if page.kind == "pdf":
        pdf = pdf_text(page.data, stop)
        if pdf.read < pdf.pages:
            notes = (f"the first {pdf.read} of {pdf.pages} pages",)
        return Reading(page.url, clean(pdf.title), clean(pdf.text), notes)
    text = clean(decoded(page.data, page.charset, page.kind))
    if page.kind == "html":
        found = html_text(text, page.url)
        return Reading(page.url, found.title, found.text, notes)
    return Reading(page.url, "", text.strip(), notes)
