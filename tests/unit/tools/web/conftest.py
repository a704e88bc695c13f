"""A web site on this machine, and what fetches from it."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from hermes.core.testing.http_server import Action, LoopbackServer, Outgoing, RecordedRequest
from hermes.security import Blocklist, UrlGuard
from hermes.tools.web_pages import PageFetcher
from hermes.util.http import LateTls


class Site:
    """A real HTTP server. Pages are set by path; every request is remembered."""

    def __init__(self) -> None:
        self.requests: list[RecordedRequest] = []
        self._pages: dict[str, Outgoing] = {}
        self.server = LoopbackServer(self._respond)

    @property
    def port(self) -> int:
        return self.server.port

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def page(
        self, path: str, *actions: Action, status: int = 200, chunked: bool = False, **headers: str
    ) -> str:
        """Sets a page and gives its URL. `content_type="text/html"` is a header."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self._pages[path] = Outgoing(status, named, actions, chunked)
        return self.url(path)

    def redirect(self, path: str, target: str, status: int = 302, **headers: str) -> str:
        return self.page(path, status=status, location=target, **headers)

    def _respond(self, request: RecordedRequest) -> Outgoing:
        self.requests.append(request)
        return self._pages.get(request.path, Outgoing(404, {}, (b"nothing here",)))


@pytest.fixture
def site():
    site = Site()
    yield site
    site.server.close()


async def fail_lookup(host: str, port: int) -> Sequence[str]:
    raise OSError("name not known")


@pytest.fixture
def guard(site):
    """Only the site may be reached; `blocked.example` is on the blocklist."""
    allowed = frozenset({("127.0.0.1", site.port)})
    return UrlGuard(fail_lookup, blocklist=Blocklist(["blocked.example"]), allowed=allowed)


@pytest.fixture
def fetcher(guard):
    return PageFetcher(guard, context=LateTls())  # no test of it reads certificates


async def eventually(true: Callable[[], bool]) -> None:
    """Waits until something that happens in another thread has happened."""
    async with asyncio.timeout(30):
        while not true():
            await asyncio.sleep(0.01)


def pdf(*pages: str, title: str = "") -> bytes:
    """A PDF with one line of text a page."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, text in enumerate(pages):
        stream = f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET"
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 200] /Contents {5 + 2 * number} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>"
        )
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    objects.append(f"<< /Title ({title}) >>")
    data, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(data))
        data += f"{number} 0 obj\n{body}\nendobj\n".encode("latin-1")
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    size = len(objects) + 1
    end = f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer\n"
    end += f"<< /Size {size} /Root 1 0 R /Info {size - 1} 0 R >>\nstartxref\n{len(data)}\n%%EOF\n"
    return data + end.encode()
