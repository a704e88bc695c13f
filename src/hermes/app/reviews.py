"""Requests about a finished conversation: skill reviews, memory flush and side questions."""

import asyncio
import logging
from collections.abc import Callable, Mapping

from hermes.agent import Agent
from hermes.app.providers import AuxiliaryModels
from hermes.app.turn_hooks import last_tool_results
from hermes.core.cancel import CancelToken
from hermes.core.errors import HermesError, ToolError
from hermes.core.events import TurnFinished
from hermes.core.messages import Message, ToolCall, ToolResult, User
from hermes.core.model import ModelRequest
from hermes.core.tool import Tool, ToolContext
from hermes.tools import Toolbox

ASIDE = "[Beside the work, which goes on afterwards. Answer from what you know, use no tool.]"


class ReviewRunner:
    """Asks the model of a session about its conversation.

    Requests start with the same messages and tools as those of the conversation, so that the
    prompt cache is used. Only the tools of the review run.
    """

    def __init__(self, toolbox: Toolbox, auxiliary: AuxiliaryModels) -> None:
        self._toolbox, self._auxiliary = toolbox, auxiliary

    def has(self, tool: str) -> bool:
        """Whether the session has the tool and its model is not a small one."""
        return self._toolbox.get(tool) is not None and not self._auxiliary.main.profile.small

    async def ask(
        self, agent: Agent, asked: User, task: str, tools: Mapping[str, Tool | None], rounds: int
    ) -> list[ToolResult]:
        """Return the results of its tool calls. `tools` are the allowed ones; None as a value means
        the tool of the session. Raises `ProviderError`."""
        messages: tuple[Message, ...] = (agent.system, *agent.history, asked)
        given: list[ToolResult] = []
        for _ in range(rounds):
            request = ModelRequest(messages, agent.tools)
            reply = await self._auxiliary.ask_one_of((self._auxiliary.main,), task, request)
            calls = reply.message.calls
            results = [await self._run_tool(call, tools, agent.session_id) for call in calls]
            given += results
            if not results:
                break
            messages = (*messages, reply.message, *results)
        return given

    async def aside(self, agent: Agent, question: str) -> str:
        """Answer a side question (`/btw`) without changing the conversation. No tool runs.
        Raises `ProviderError`."""
        asked = User.say(f"{ASIDE}\n\n{question}")
        request = ModelRequest((agent.system, *agent.history, asked), agent.tools)
        reply = await self._auxiliary.ask_one_of((self._auxiliary.main,), "btw", request)
        return reply.message.text.strip() or "There was no answer in words; ask it in the open."

    async def _run_tool(
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
            reason = f"{error} ({error.hint})" if error.hint else str(error)
            return ToolResult(call.id, call.name, reason, True)
        return ToolResult(call.id, call.name, await self._toolbox.fit(call.name, call.id, text))


REVIEW_TASK = "skill_review"
REVIEW_TOOL = "skill_manage"
MAX_REVIEW_ROUNDS = 6
REVIEW_PROMPT = User.say(
    "[The work is done; the user does not read this.] Did it teach a method that will be needed "
    "again, or did a skill turn out wrong or incomplete? Then mend or write one with "
    "skill_manage: look at what there is with skills_list and skill_view, rather patch than "
    "create, keep it general and free of secrets. Use no other tool. If not, say: nothing."
)


class SkillReviews:
    """Starts a background skill review after `interval` tool calls without a skill change."""

    def __init__(
        self,
        runner: ReviewRunner,
        tools: Mapping[str, Tool | None],
        interval: int,
        tell: Callable[[str], None],
    ) -> None:
        """`tools` are the allowed tools; `tell` reports changed skills to the user."""
        self._runner, self._tools = runner, tools
        self._interval, self._tell = interval, tell
        self._calls = 0

    async def __call__(self, agent: Agent, end: TurnFinished) -> None:
        done = last_tool_results(agent.history)
        learnt = any(call.name == REVIEW_TOOL and not call.failed for call in done)
        self._calls = 0 if learnt else self._calls + len(done)
        if not end.completed or self._calls < self._interval or not self._runner.has(REVIEW_TOOL):
            return
        self._calls = 0
        results = await self._runner.ask(
            agent, REVIEW_PROMPT, REVIEW_TASK, self._tools, MAX_REVIEW_ROUNDS
        )
        for result in results:
            if result.name == REVIEW_TOOL and not result.failed:
                self._tell(f"Learnt: {result.text}. `hermes skills log` shows what changed.")


log = logging.getLogger(__name__)

FLUSH_TASK = "memory_flush"
FLUSH_TOOL = "memory"
MAX_FLUSH_ROUNDS = 3
FLUSH_TIMEOUT = 60.0  #: The user waits for it, so it is limited.
FLUSH_PROMPT = User.say(
    "[The conversation ends here.] Save with memory what later ones need to know: lasting facts, "
    "preferences, corrections. Use no other tool. If there is nothing, say so."
)


async def flush_memory(agent: Agent, runner: ReviewRunner, *, least: int) -> int:
    """Let the model save notes at the end of a conversation; return how many it wrote.

    Do nothing if the user sent fewer than `least` messages or `least` is 0. Failures are logged.
    """
    said = sum(isinstance(message, User) for message in agent.history)
    if not least or said < least or not runner.has(FLUSH_TOOL):
        return 0
    try:
        async with asyncio.timeout(FLUSH_TIMEOUT):
            results = await runner.ask(
                agent, FLUSH_PROMPT, FLUSH_TASK, {FLUSH_TOOL: None}, MAX_FLUSH_ROUNDS
            )
    except (HermesError, TimeoutError) as error:
        log.warning("nothing was saved at the end of the conversation: %r", error)
        return 0
    return sum(not result.failed for result in results)
