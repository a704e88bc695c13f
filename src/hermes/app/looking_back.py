"""A model looks back at a conversation, with a few tools of the session and no others."""

from collections.abc import Mapping

from hermes.agent import Agent
from hermes.app.session_models import AuxiliaryRouter
from hermes.core.cancel import CancelToken
from hermes.core.errors import ToolError
from hermes.core.messages import Message, ToolCall, ToolResult, User
from hermes.core.model import ModelRequest
from hermes.core.tool import Tool, ToolContext
from hermes.tools import Toolbox

ASIDE = "[Beside the work, which goes on afterwards. Answer from what you know, use no tool.]"


class LookingBack:
    """Over one session. Requests begin as those of the conversation did, with the same tools in
    them, so that the prompt cache holds."""

    def __init__(self, toolbox: Toolbox, auxiliary: AuxiliaryRouter) -> None:
        self._toolbox, self._auxiliary = toolbox, auxiliary

    def has(self, tool: str) -> bool:
        """Whether it makes sense: the session has the tool, and its model is up to it."""
        return self._toolbox.get(tool) is not None and not self._auxiliary.main.profile.small

    async def ask(
        self, agent: Agent, asked: User, task: str, tools: Mapping[str, Tool | None], rounds: int
    ) -> list[ToolResult]:
        """What its calls gave. `tools` are those it may use; None stands for the session's own.
        Raises a `ProviderError`."""
        messages: tuple[Message, ...] = (agent.system, *agent.history, asked)
        given: list[ToolResult] = []
        for _ in range(rounds):
            request = ModelRequest(messages, agent.tools)
            reply = await self._auxiliary.ask_one_of((self._auxiliary.main,), task, request)
            calls = reply.message.calls
            results = [await self._answered(call, tools, agent.session_id) for call in calls]
            given += results
            if not results:
                break
            messages = (*messages, reply.message, *results)
        return given

    async def aside(self, agent: Agent, question: str) -> str:
        """The answer to a question beside the conversation, which hears nothing of it. No tool
        runs. Raises a `ProviderError`."""
        asked = User.say(f"{ASIDE}\n\n{question}")
        request = ModelRequest((agent.system, *agent.history, asked), agent.tools)
        reply = await self._auxiliary.ask_one_of((self._auxiliary.main,), "btw", request)
        return reply.message.text.strip() or "There was no answer in words; ask it in the open."

    async def _answered(
        self, call: ToolCall, tools: Mapping[str, Tool | None], session_id: str
    ) -> ToolResult:
        tool = (tools[call.name] or self._toolbox.get(call.name)) if call.name in tools else None
        if tool is None:
            only = f"the work has ended: only {', '.join(tools)} can be used now"
            return ToolResult(call.id, call.name, only, True)
        context = ToolContext(session_id, call.id, CancelToken(), lambda _text: None)
        try:
            text = await tool.handler(context, self._toolbox.decode(tool, call.arguments))
        except ToolError as error:
            return ToolResult(call.id, call.name, _told(error), True)
        return ToolResult(call.id, call.name, await self._toolbox.fit(call.name, call.id, text))


def _told(error: ToolError) -> str:
    return f"{error} ({error.hint})" if error.hint else str(error)
