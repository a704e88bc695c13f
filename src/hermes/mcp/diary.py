"""What servers say, in the log; but not without an end."""

import logging

LINE_CHARS = 500

log = logging.getLogger(__name__)


class Diary:
    """Takes `most` lines of one server, then no more."""

    def __init__(self, server: str, most: int) -> None:
        self._server, self._left = server, most

    def note(self, text: str, level: int = logging.INFO) -> None:
        if self._left > 0:
            log.log(level, "%s: %s", self._server, text[:LINE_CHARS])
        elif self._left == 0:
            log.log(level, "%s: it says too much; no more of it is logged", self._server)
        self._left -= 1
