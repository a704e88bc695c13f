"""Pages fetched by Firecrawl, which also runs their JavaScript."""

from typing import Any

from hermes.core.errors import ToolError
from hermes.tools.web.asking import Connect, ask, service_client
from hermes.tools.web.extract import Scrape
from hermes.tools.web.reading import Reading
from hermes.tools.web.search import chosen
from hermes.tools.web.services import SearchOptions
from hermes.util.text import clean

PATH = "/v2/scrape"


def firecrawl_scrape(options: SearchOptions, connect: Connect = service_client) -> Scrape | None:
    """The way to a page over Firecrawl; None when it is not the service that is used."""
    try:
        service = chosen(options)
    except ToolError:
        return None  # web_search says what is wrong with the setting.
    if service is None or service.name != "firecrawl":
        return None

    async def scrape(url: str) -> Reading:
        body = {"url": url, "formats": ["markdown"], "onlyMainContent": True}
        answer = await ask(service, options, connect, PATH, body)
        data = answer.get("data") if isinstance(answer, dict) else None
        text = data.get("markdown") if isinstance(data, dict) else None
        if not isinstance(text, str) or not text.strip():
            raise ToolError("firecrawl found no text on the page")
        return Reading(url, _title(data), clean(text).strip())

    return scrape


def _title(data: Any) -> str:
    about = data.get("metadata")
    title = about.get("title") if isinstance(about, dict) else None
    return " ".join(clean(title).split())[:300] if isinstance(title, str) else ""
