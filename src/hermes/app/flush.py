"""The last look at a conversation that is left: what matters later is saved."""

import asyncio
import logging

from hermes.agent.agent import Agent
from hermes.app.session_models import AuxiliaryRouter
from hermes.core.cancel import CancelToken
from hermes.core.errors import HermesError, ToolError
from hermes.core.messages import Message, ToolCall, ToolResult, User
from hermes.core.model import ModelRequest
from hermes.core.tool import ToolContext
from hermes.providers.target import Target
from hermes.tools.toolbox import Toolbox

log = logging.getLogger(__name__)

TASK = "memory_flush"
TOOL = "memory"
MOST_ROUNDS = 3
SECONDS = 60.0
"""Longest time somebody waits for it."""
ASKED = User.say(
    "[The conversation ends here.] Save with memory what later ones need to know: "
    "lasting facts, preferences, corrections. Use no other tool. If there is nothing, say so."
)
ONLY_MEMORY = "the conversation has ended: only memory can be used now"


async def flush(
    agent: Agent, toolbox: Toolbox, auxiliary: AuxiliaryRouter, main: Target, *, least: int
) -> int:
    """How many notes were written. Nothing is asked when the user said less than `least` things;
    0 never asks. What fails is logged: the conversation is over either way."""
    said = sum(isinstance(message, User) for message in agent.history)
    if not least or said < least or toolbox.get(TOOL) is None or main.profile.small:
        return 0
    try:
        async with asyncio.timeout(SECONDS):
            return await _rounds(agent, toolbox, auxiliary, main)
    except (HermesError, TimeoutError) as error:
        log.warning("nothing was saved at the end of the conversation: %r", error)
        return 0


async def _rounds(agent: Agent, toolbox: Toolbox, auxiliary: AuxiliaryRouter, main: Target) -> int:
    """The request begins as those of the conversation did, so that the prompt cache holds."""
    messages: tuple[Message, ...] = (agent.system, *agent.history, ASKED)
    written = 0
    for _ in range(MOST_ROUNDS):
        reply = await auxiliary.ask_one_of((main,), TASK, ModelRequest(messages, agent.tools))
        results = [await _answered(toolbox, call, agent.session_id) for call in reply.message.calls]
        written += sum(not result.failed for result in results)
        if not results:
            break
        messages = (*messages, reply.message, *results)
    return written


async def _answered(toolbox: Toolbox, call: ToolCall, session_id: str) -> ToolResult:
    tool = toolbox.get(TOOL) if call.name == TOOL else None
    if tool is None:
        return ToolResult(call.id, call.name, ONLY_MEMORY, True)
    context = ToolContext(session_id, call.id, CancelToken(), lambda _text: None)
    try:
        text = await tool.handler(context, toolbox.decode(tool, call.arguments))
    except ToolError as error:
        return ToolResult(call.id, call.name, str(error), True)
    return ToolResult(call.id, call.name, text)
