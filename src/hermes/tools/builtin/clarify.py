"""The tool `clarify`: ask the user a question."""

import asyncio
from typing import Annotated

import msgspec

from hermes.core.errors import ToolArgumentsInvalid
from hermes.core.events import QuestionAnswered, QuestionAsked
from hermes.core.ports import Clarifier
from hermes.core.tool import Tool, ToolContext
from hermes.tools.registry import ToolDeps, ToolEntry

MAX_CHOICES = 4
DECIDE = "Decide by yourself what is most sensible, and say in your answer what you assumed."


def clarify_tool(clarifier: Clarifier | None, timeout: float = 120) -> Tool:
    """Make the tool. `clarifier` is None when no user is present; `timeout` is in seconds."""
    one_question = asyncio.Lock()  # parallel calls would overwrite each other's prompt

    async def clarify(
        call: ToolContext,
        question: str,
        choices: Annotated[list[str], msgspec.Meta(max_length=MAX_CHOICES)] | None = None,
    ) -> str:
        """Ask the user a question you cannot go on without.

        choices: likely answers; the user may always say something else
        """
        if not question.strip():
            raise ToolArgumentsInvalid("the question is empty")
        if clarifier is None:
            return f"Nobody is here to answer. {DECIDE}"
        offered = tuple(dict.fromkeys(text for each in choices or () if (text := each.strip())))
        asked = QuestionAsked(call.call_id, question.strip(), offered)
        with call.cancel.scope():
            async with one_question:
                answer = await _ask(call, clarifier, asked, timeout)
        return f"The user answers: {answer}" if answer else f"Nobody answered in time. {DECIDE}"

    return Tool.from_function(clarify, toolset="clarify", serial=True)


async def _ask(
    call: ToolContext, clarifier: Clarifier, asked: QuestionAsked, timeout: float
) -> str:
    """Return the answer, or "" after `timeout` seconds. Both ends of the question are announced."""
    answer = ""
    call.announce(asked)
    try:
        async with asyncio.timeout(timeout):
            answer = (await clarifier.clarify(asked)).strip()
    except TimeoutError:
        return ""
    finally:
        call.announce(QuestionAnswered(asked.call_id, answer))
    return answer


def make(deps: ToolDeps) -> Tool:
    return clarify_tool(deps.clarifier, max(deps.settings.clarify.timeout, deps.patience))


ENTRY = ToolEntry("clarify", "clarify", make, emoji="❓")
