"""The text of a PDF, by pypdf."""

import io
from importlib import import_module
from threading import Event
from typing import Any

import msgspec

from hermes.core.errors import ToolError

MOST_PAGES = 100
MOST_CHARACTERS = 200_000


class PdfText(msgspec.Struct, frozen=True):
    title: str
    text: str
    pages: int
    read: int
    """Pages that were read; fewer than `pages` when it is long."""


def pdf_text(data: bytes, stop: Event) -> PdfText:
    """Raises `ToolError`. Slow: run it in a thread; `stop` ends it after the page at hand."""
    try:
        pypdf = import_module("pypdf")
    except ImportError as error:
        hint = "the user can install it: pip install 'hermes[web]'"
        raise ToolError("PDFs cannot be read: pypdf is not installed", hint=hint) from error
    try:
        return _read(pypdf, data, stop)
    except ToolError:
        raise
    except Exception as error:  # a parser over hostile input
        words = f"{type(error).__name__}: {error}"[:200]
        raise ToolError(f"the PDF is damaged and cannot be read ({words})") from error


def _read(pypdf: Any, data: bytes, stop: Event) -> PdfText:
    reader = pypdf.PdfReader(io.BytesIO(data))
    if reader.is_encrypted and not _opened(pypdf, reader):
        raise ToolError("the PDF is encrypted and needs a password", hint="use another source")
    pages = len(reader.pages)
    texts: list[str] = []
    size = 0
    for number in range(min(pages, MOST_PAGES)):
        if stop.is_set() or size >= MOST_CHARACTERS:
            break
        texts.append((reader.pages[number].extract_text() or "").strip())
        size += len(texts[-1])
    if pages and not any(texts):
        hint = "it is probably scanned; use another source"
        raise ToolError("the PDF has no text in it", hint=hint)
    title = str((reader.metadata and reader.metadata.title) or "")
    return PdfText(" ".join(title.split())[:300], "\n\n".join(texts), pages, len(texts))


def _opened(pypdf: Any, reader: Any) -> bool:
    """Many are encrypted with an empty password, only to forbid printing."""
    try:
        return bool(reader.decrypt(""))
    except (pypdf.errors.DependencyError, NotImplementedError):
        return False
