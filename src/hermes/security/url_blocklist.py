"""Web sites the user does not want to be opened: `security.website_blocklist`."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import httpx2

log = logging.getLogger(__name__)

KEPT_SECONDS = 30.0
"""How long the shared files are taken as read."""


class Blocklist:
    """`example.com` is the site with everything below it, `*.example.com` only what is below."""

    def __init__(
        self,
        domains: Iterable[str] = (),
        files: Iterable[Path] = (),
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`domains` and `files` are the settings; a file has one site a line and `#` comments."""
        self._domains, self._files, self._now = tuple(domains), tuple(files), now
        self._rules: frozenset[str] = frozenset()
        self._read_at: float | None = None

    def rule_for(self, host: str) -> str:
        """The entry that blocks `host`, or empty."""
        rules = self._current()
        labels = host.lower().rstrip(".").split(".")
        for start in range(len(labels)):
            parent = ".".join(labels[start:])
            if parent in rules:
                return parent
            if start and f"*.{parent}" in rules:
                return f"*.{parent}"
        return ""

    def _current(self) -> frozenset[str]:
        now = self._now()
        if self._read_at is None or now - self._read_at >= KEPT_SECONDS:
            entries = [*self._domains, *_lines(self._files)]
            self._rules = frozenset(rule for entry in entries if (rule := _rule(entry)))
            self._read_at = now
        return self._rules


def _lines(files: Iterable[Path]) -> Iterator[str]:
    for path in files:
        try:
            text = path.expanduser().read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            log.warning("the blocklist %s cannot be read: %s", path, error)
            continue
        for line in text.splitlines():
            yield line.partition("#")[0]


def _rule(entry: str) -> str:
    """An entry as hosts are written: lower case, IDNA, without scheme and path."""
    entry = entry.strip()
    site = entry.partition("://")[2] or entry
    below = site.startswith("*.")
    try:
        host = httpx2.URL(f"http://{site.removeprefix('*.')}").raw_host.decode().rstrip(".")
    except httpx2.InvalidURL:
        log.warning("the blocklist entry %r is not a site", entry)
        return ""
    return f"*.{host}" if below and host else host
