"""web_extract: the text of web pages."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from msgspec import Meta

from hermes.core.errors import ToolArgumentsInvalid, ToolDenied, ToolError
from hermes.core.ports import Auxiliary
from hermes.core.tool import Concern, Effect, Tool, ToolContext
from hermes.security.urls import shown
from hermes.tools.web.fence import fenced
from hermes.tools.web.fetch import Fetcher
from hermes.tools.web.reading import Reading, read
from hermes.tools.web.summary import shortened

MOST_URLS = 5

Scrape = Callable[[str], Awaitable[Reading]]
"""Another way to a page: a service that fetches it. Raises `ToolError`."""
FindScrape = Callable[[], Scrape | None]


def no_scrape() -> None:
    """There is no service."""


def web_extract_tool(
    fetcher: Fetcher, auxiliary: Auxiliary | None = None, find_scrape: FindScrape = no_scrape
) -> Tool:
    """`auxiliary` summarises long pages; what `find_scrape` finds is tried before our own fetch."""

    async def web_extract(
        call: ToolContext, urls: Annotated[list[str], Meta(min_length=1, max_length=MOST_URLS)]
    ) -> str:
        """Get the text of web pages and PDFs as Markdown; long ones are summarised."""
        wanted = list(dict.fromkeys(url.strip() for url in urls))
        if not 0 < len(wanted) <= MOST_URLS:
            raise ToolArgumentsInvalid(f"urls must name 1 to {MOST_URLS} pages")
        call.cancel.check()
        scrape = find_scrape()
        pages = asyncio.gather(*(_page(url, fetcher, auxiliary, scrape) for url in wanted))
        found = await call.cancel.guard(pages)
        if all(isinstance(page, ToolError) for page in found):
            raise _all_failed([page for page in found if isinstance(page, ToolError)])
        return "\n\n".join(_failed(page) if isinstance(page, ToolError) else page for page in found)

    async def examine(arguments: dict[str, Any]) -> Concern | None:
        concerns = (fetcher.guard.examine(str(url)) for url in arguments.get("urls", ()))
        return next((concern for concern in concerns if concern), None)

    return Tool.from_function(web_extract, effect=Effect.NETWORK, toolset="web", examine=examine)


async def _page(
    url: str, fetcher: Fetcher, auxiliary: Auxiliary | None, scrape: Scrape | None
) -> str | ToolError:
    """The fenced page, or what went wrong: one page that fails leaves the others alone."""
    try:
        reading = await _scraped(url, fetcher, scrape) or await read(await fetcher.fetch(url))
        if not reading.text:
            raise ToolError(
                f"{shown(url)} has no text in it",
                hint="it may need JavaScript; use the browser tools or another source",
            )
        reading = await shortened(reading, auxiliary)
    except ToolError as error:
        known = shown(url) in str(error)
        return error if known else type(error)(f"{shown(url)}: {error}", hint=error.hint)
    what = "; ".join((shown(reading.url), *reading.notes))
    return fenced("\n\n".join(part for part in (_title(reading), reading.text) if part), what)


async def _scraped(url: str, fetcher: Fetcher, scrape: Scrape | None) -> Reading | None:
    """By the service, when there is one and it can. It must not be sent behind the firewall
    either, so the guard is asked first."""
    if scrape is None:
        return None
    await fetcher.guard.vet(url)
    try:
        return await scrape(url)
    except ToolDenied:
        raise
    except ToolError:
        return None


def _title(reading: Reading) -> str:
    """The page's title, unless its text begins with it anyway."""
    begins = reading.text.lstrip("# ").startswith(reading.title)
    return "" if begins else f"# {reading.title}"


def _failed(error: ToolError) -> str:
    return f"[failed: {error}{f' ({error.hint})' if error.hint else ''}]"


def _all_failed(errors: list[ToolError]) -> ToolError:
    if len(errors) == 1:
        return errors[0]
    return ToolError("\n".join(_failed(error) for error in errors))
