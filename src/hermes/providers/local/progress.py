"""Where a long download is shown."""

from typing import Protocol


class Progress(Protocol):
    def report(self, label: str, done: int, total: int) -> None: ...

    def say(self, text: str) -> None: ...
