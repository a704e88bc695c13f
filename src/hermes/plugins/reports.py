"""Telling the user once what is wrong with a plugin."""

import logging
from collections.abc import Callable, Hashable

log = logging.getLogger(__name__)

Tell = Callable[[str], None]


class Reports:
    """Each problem is a log line and a notice, the first time; later only a debug line."""

    def __init__(self, tell: Tell = lambda _text: None) -> None:
        self._tell = tell
        self._told: set[Hashable] = set()

    def once(self, problem: Hashable, text: str, cause: BaseException | None = None) -> None:
        """`problem` says which problems are the same; `cause` goes to the log."""
        if problem in self._told:
            log.debug("again: %s", text)
            return
        self._told.add(problem)
        log.warning("%s", text)
        if cause is not None:
            log.debug("the cause:", exc_info=cause)
        self._tell(text)
