"""The tool `clarify`: ask the user a question."""

import asyncio
from typing import Annotated

import msgspec

from hermes.core.errors import ToolArgumentsInvalid
from hermes.core.events import QuestionAnswered, QuestionAsked
from hermes.core.tool import Effect, ToolContext
from hermes.tools.registry import ToolDeps, tool

MAX_CHOICES = 4
DECIDE = "Make the most sensible choice yourself, and say in your answer what you assumed."


@tool(name="clarify", toolset="clarify", effect=Effect.READ, serial=True, emoji="❓")
class Clarify:
    def __init__(self, deps: ToolDeps) -> None:
        self._clarifier = deps.clarifier  # None when no user is present
        self._timeout = max(deps.settings.clarify.timeout, deps.patience)
        self._one_question = asyncio.Lock()  # parallel calls would overwrite each other's prompt

    async def clarify(
        self,
        call: ToolContext,
        question: str,
        choices: Annotated[list[str], msgspec.Meta(max_length=MAX_CHOICES)] | None = None,
    ) -> str:
        """Ask the user a question whose answer you need to continue.

        choices: likely answers; the user can always give another one
        """
        if not question.strip():
            raise ToolArgumentsInvalid("the question is empty")
        if self._clarifier is None:
            return f"No user is present to answer. {DECIDE}"
        offered = tuple(dict.fromkeys(text for each in choices or () if (text := each.strip())))
        asked, answer = QuestionAsked(call.call_id, question.strip(), offered), ""
        with call.cancel.scope():
            async with self._one_question:
                call.announce(asked)
                try:
                    async with asyncio.timeout(self._timeout):
                        answer = (await self._clarifier.clarify(asked)).strip()
                except TimeoutError:
                    answer = ""
                finally:
                    call.announce(QuestionAnswered(asked.call_id, answer))
        return (
            f"The user answers: {answer}"
            if answer
            else f"The user did not answer in time. {DECIDE}"
        )
