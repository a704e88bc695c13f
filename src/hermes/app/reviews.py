"""After a longer piece of work: what could be learnt from it."""

from collections.abc import Callable, Mapping

from hermes.agent import Agent
from hermes.app.last_turn import calls_of
from hermes.app.looking_back import LookingBack
from hermes.core.events import TurnFinished
from hermes.core.messages import User
from hermes.core.tool import Tool

TASK = "skill_review"
TOOL = "skill_manage"
MOST_ROUNDS = 6
ASKED = User.say(
    "[The work is done; the user does not read this.] Did it teach a method that will be needed "
    "again, or did a skill turn out wrong or incomplete? Then mend or write one with "
    "skill_manage: look at what there is with skills_list and skill_view, rather patch than "
    "create, keep it general and free of secrets. Use no other tool. If not, say: nothing."
)


class Reviews:
    """Counts tool calls over the turns of a session. After `interval` of them without a change of a
    skill, the model looks back while the user thinks of the next question."""

    def __init__(
        self,
        looking: LookingBack,
        tools: Mapping[str, Tool | None],
        interval: int,
        tell: Callable[[str], None],
    ) -> None:
        """`tools` are what it may use; `tell` says to the user what was learnt."""
        self._looking, self._tools = looking, tools
        self._interval, self._tell = interval, tell
        self._calls = 0

    async def __call__(self, agent: Agent, end: TurnFinished) -> None:
        done = calls_of(agent.history)
        learnt = any(call.name == TOOL and not call.failed for call in done)
        self._calls = 0 if learnt else self._calls + len(done)
        if not end.completed or self._calls < self._interval or not self._looking.has(TOOL):
            return
        self._calls = 0
        results = await self._looking.ask(agent, ASKED, TASK, self._tools, MOST_ROUNDS)
        for result in results:
            if result.name == TOOL and not result.failed:
                self._tell(f"Learnt: {result.text}. `hermes skills log` shows what changed.")
