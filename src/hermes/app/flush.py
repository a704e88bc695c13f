"""The last look at a conversation that is left: what matters later is saved."""

import asyncio
import logging

from hermes.agent import Agent
from hermes.app.looking_back import LookingBack
from hermes.core.errors import HermesError
from hermes.core.messages import User

log = logging.getLogger(__name__)

TASK = "memory_flush"
TOOL = "memory"
MOST_ROUNDS = 3
SECONDS = 60.0
"""Longest time somebody waits for it."""
ASKED = User.say(
    "[The conversation ends here.] Save with memory what later ones need to know: lasting facts, "
    "preferences, corrections. Use no other tool. If there is nothing, say so."
)


async def flush(agent: Agent, looking: LookingBack, *, least: int) -> int:
    """How many notes were written. Nothing is asked when the user said less than `least` things;
    0 never asks. What fails is logged: the conversation is over either way."""
    said = sum(isinstance(message, User) for message in agent.history)
    if not least or said < least or not looking.has(TOOL):
        return 0
    try:
        async with asyncio.timeout(SECONDS):
            results = await looking.ask(agent, ASKED, TASK, {TOOL: None}, MOST_ROUNDS)
    except (HermesError, TimeoutError) as error:
        log.warning("nothing was saved at the end of the conversation: %r", error)
        return 0
    return sum(not result.failed for result in results)
