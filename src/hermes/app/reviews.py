"""Requests about a finished conversation: skill reviews, memory flush and side questions."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from hermes.agent import Agent, IterationBudget, ToolDispatcher, ToolPolicy, Turn
from hermes.app.providers import AuxiliaryModels
from hermes.app.turn_hooks import last_tool_results
from hermes.core.errors import HermesError, ToolDenied
from hermes.core.events import Emit, TurnFinished
from hermes.core.messages import ToolResult, User
from hermes.core.model import ModelRequest, Reply
from hermes.core.ports import Clock, Hooks
from hermes.core.tool import Concern, Tool
from hermes.tools import Toolbox

log = logging.getLogger(__name__)

ASIDE = "[Beside the work, which goes on afterwards. Answer from what you know, use no tool.]"


class ReviewPolicy:
    """A `ToolPolicy` that allows the tools of one review, as far as `policy` allows their calls."""

    def __init__(self, policy: ToolPolicy, names: Sequence[str]) -> None:
        self._policy, self._names = policy, names

    async def permit(self, tool: Tool, arguments: dict[str, Any], call_id: str, emit: Emit) -> None:
        if tool.name not in self._names:
            only = ", ".join(self._names)
            raise ToolDenied(f"the work has ended: only {only} can be used now")
        await self._policy.permit(tool, arguments, call_id, emit)

    async def require_approval(
        self, tool_name: str, concern: Concern, call_id: str, emit: Emit
    ) -> None:
        await self._policy.require_approval(tool_name, concern, call_id, emit)


class ReviewRunner:
    """Asks the model of a session about its conversation.

    Requests start with the same messages and tools as those of the conversation, so that the
    prompt cache is used. The conversation and its log are not changed.
    """

    def __init__(
        self,
        toolbox: Toolbox,
        auxiliary: AuxiliaryModels,
        policy: ToolPolicy,
        hooks: Hooks,
        clock: Clock,
    ) -> None:
        """`policy` decides about tool calls without asking the user, who does not see them."""
        self._toolbox, self._auxiliary, self._policy = toolbox, auxiliary, policy
        self._hooks, self._clock = hooks, clock

    def has(self, tool: str) -> bool:
        """Return whether the session has the tool and its model is not a small one."""
        return self._toolbox.get(tool) is not None and not self._auxiliary.main.profile.small

    async def run(
        self,
        agent: Agent,
        prompt: User,
        task: str,
        names: Sequence[str],
        rounds: int,
        *own_tools: Tool,
    ) -> list[ToolResult]:
        """Run a review with the tools `names` and return the results of its calls.

        `own_tools` replace tools of the session. Raises `ProviderError`.
        """
        dispatcher = ToolDispatcher(
            self._toolbox.replace(*own_tools),
            ReviewPolicy(self._policy, names),
            None,
            self._hooks,
            self._clock,
        )
        base, budget = ModelRequest((), agent.tools), IterationBudget(rounds)
        history = (*agent.history, prompt)
        turn = Turn(agent.session_id, (agent.system,), history, base, budget, rounds)
        while turn.iteration < rounds and turn.next_step():
            turn.add_reply(await self._ask(task, turn.request()))
            await dispatcher.run(turn, lambda _event: None)
        return [each for each in turn.messages[len(history) :] if isinstance(each, ToolResult)]

    async def answer_aside(self, agent: Agent, question: str) -> str:
        """Answer a side question (`/btw`). No tool runs. Raises `ProviderError`."""
        asked = User.say(f"{ASIDE}\n\n{question}")
        request = ModelRequest((agent.system, *agent.history, asked), agent.tools)
        text = (await self._ask("btw", request)).message.text.strip()
        return text or "There was no answer in words; ask it in the open."

    async def _ask(self, task: str, request: ModelRequest) -> Reply:
        return await self._auxiliary.ask_one_of((self._auxiliary.main,), task, request)


REVIEW_TASK = "skill_review"
REVIEW_TOOL = "skill_manage"
REVIEW_TOOLS = ("skills_list", "skill_view", REVIEW_TOOL)
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
        self, runner: ReviewRunner, manage: Tool, interval: int, tell: Callable[[str], None]
    ) -> None:
        """`manage` is the tool that changes skills; `tell` reports the changes to the user."""
        self._runner, self._manage = runner, manage
        self._interval, self._tell = interval, tell
        self._calls = 0

    async def __call__(self, agent: Agent, end: TurnFinished) -> None:
        done = last_tool_results(agent.history)
        learnt = any(call.name == REVIEW_TOOL and not call.failed for call in done)
        self._calls = 0 if learnt else self._calls + len(done)
        if not end.completed or self._calls < self._interval or not self._runner.has(REVIEW_TOOL):
            return
        self._calls = 0
        results = await self._runner.run(
            agent, REVIEW_PROMPT, REVIEW_TASK, REVIEW_TOOLS, MAX_REVIEW_ROUNDS, self._manage
        )
        for result in results:
            if result.name == REVIEW_TOOL and not result.failed:
                self._tell(f"Learnt: {result.text}. `hermes skills log` shows what changed.")


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
    asked = sum(isinstance(message, User) for message in agent.history)
    if not least or asked < least or not runner.has(FLUSH_TOOL):
        return 0
    try:
        async with asyncio.timeout(FLUSH_TIMEOUT):
            results = await runner.run(
                agent, FLUSH_PROMPT, FLUSH_TASK, (FLUSH_TOOL,), MAX_FLUSH_ROUNDS
            )
    except (HermesError, TimeoutError) as error:
        log.warning("nothing was saved at the end of the conversation: %r", error)
        return 0
    return sum(not result.failed for result in results)
