"""What happens beside the conversation and the agent should hear of: a background process ended."""

import asyncio

from hermes.core.messages import User


class Notices:
    """Collects texts until the agent can hear them: after its tool calls, or in a turn of its own.

    Used in the event loop's thread.
    """

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._there = asyncio.Event()

    def add(self, text: str) -> None:
        self._texts.append(text)
        self._there.set()

    def take(self) -> User | None:
        """All of them as one message; None when there is none."""
        texts, self._texts = self._texts, []
        self._there.clear()
        return User.say("\n\n".join(texts)) if texts else None

    async def wait(self) -> None:
        """Returns as soon as there is something to take."""
        await self._there.wait()
