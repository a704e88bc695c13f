"""Web pages as text. Loaded with the first page: an HTTP client is slow to import."""

from hermes.core.errors import ToolError
from hermes.tools import ToolDeps
from hermes.tools.builtin.web_extract import url_guard
from hermes.tools.web_pages import PageFetcher, read_page


async def page(url: str, deps: ToolDeps) -> str:
    """Only public addresses, also behind redirects. Raises `ToolError`."""
    reading = await read_page(await PageFetcher(url_guard(deps)).fetch(url))
    if not reading.text:
        raise ToolError("the page has no text in it; it may need JavaScript")
    notes = "".join(f"[{note}]\n" for note in reading.notes)
    title = "" if reading.text.lstrip("# ").startswith(reading.title) else f"# {reading.title}\n\n"
    return f"{notes}{title}{reading.text}"
