"""Telling the user once what is wrong with a plugin."""

import logging
from collections.abc import Callable, Hashable

log = logging.getLogger(__name__)

Tell = Callable[[str], None]


class Reports:
    """Each problem is a log line and a notice, the first time; later only a debug line.

    Where no log is open the notice is enough: Python would print the line beside it.
    """

    def __init__(self, tell: Tell = lambda _text: None) -> None:
        self._tell = tell
        self._told: set[Hashable] = set()

    def once(
        self,
        problem: Hashable,
        text: str,
        cause: BaseException | None = None,
        *,
        series: Hashable = None,
    ) -> None:
        """`problem` says which problems are the same; `cause` goes to the log. Of the problems of
        one `series` the user hears only of the first, the log of each."""
        if problem in self._told:
            log.debug("again: %s", text)
            return
        self._told.add(problem)
        if log.hasHandlers():
            log.warning("%s", text)
            log.debug("the cause:", exc_info=cause)
        if series is None:
            self._tell(text)
        elif series not in self._told:
            self._told.add(series)
            self._tell(text)
