"""Errors nobody catches, in whatever paints or answers a key: ours, or those of a plugin."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

log = logging.getLogger(__name__)


class Mishaps:
    """An exception handler of the event loop: the conversation goes on. Each is told once, since
    what paints may fail with every frame."""

    def __init__(self, note: Callable[[str], Any]) -> None:
        self._note = note
        self._told: set[str] = set()

    def __call__(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        log.error("%s", context["message"], exc_info=error)
        text = repr(error) if error is not None else str(context["message"])
        if text not in self._told:
            self._told.add(text)
            self._note(f"hermes: something went wrong: {text}; `hermes logs errors` tells more")
