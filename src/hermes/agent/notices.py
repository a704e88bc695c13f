"""What the agent should hear of while it works: news of background processes, and what the user
says into the running turn."""

import asyncio

from hermes.core.marks import STEERED
from hermes.core.messages import User


class Notices:
    """Collects texts until the agent can hear them: after its tool calls, before it is done with
    its answer (what the user said), or in a turn of its own (news).

    Used in the event loop's thread.
    """

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._there = asyncio.Event()
        self.steered = False
        """Whether the user said something that is not heard yet."""

    def add(self, text: str) -> None:
        self._texts.append(text)
        self._there.set()

    def steer(self, text: str) -> None:
        """Something the user says into the running turn."""
        self.add(f"{STEERED}\n{text}")
        self.steered = True

    def take(self) -> User | None:
        """All of them as one message; None when there is none."""
        texts, self._texts = self._texts, []
        self._there.clear()
        self.steered = False
        return User.say("\n\n".join(texts)) if texts else None

    def unsay(self) -> None:
        """Forget what the user said and nobody heard: it is told in another way."""
        self._texts = [text for text in self._texts if not text.startswith(STEERED)]
        self.steered = False

    async def wait(self) -> None:
        """Returns as soon as there is something to take."""
        await self._there.wait()
