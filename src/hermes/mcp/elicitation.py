"""A server asks the user. Nobody there, or a question that should not be asked: declined."""

import asyncio
import logging
from typing import Any

import msgspec

from hermes.core.events import QuestionAnswered, QuestionAsked
from hermes.core.ports import Clarifier
from hermes.core.tool import ToolContext
from hermes.mcp.caller import Ticket
from hermes.mcp.form import NO, SKIP, YES, AnswerInvalid, Field, FormInvalid, fields
from hermes.mcp.lines import one_line

DECLINE = "decline"
MOST_TRIES = 3
MESSAGE_CHARS, URL_CHARS = 1_000, 2_000
DECLINED: dict[str, Any] = {"action": "decline"}
CANCELLED: dict[str, Any] = {"action": "cancel"}

log = logging.getLogger(__name__)


class Wanted(msgspec.Struct, frozen=True, rename="camel"):
    """The parameters of `elicitation/create`."""

    message: str = ""
    mode: str = "form"
    requested_schema: Any = None
    url: str = ""


class _Declined(Exception):
    """The person does not want to say."""


class _Unanswered(Exception):
    """The person said nothing, or nothing that fits."""


class Elicitation:
    """`timeout` is `clarify.timeout`: how long a person may think about one question."""

    def __init__(self, server: str, timeout: float) -> None:
        self._server, self._timeout = server, timeout

    def abilities(self) -> dict[str, Any]:
        return {"elicitation": {"form": {}}}

    async def answer(self, params: dict[str, Any], ticket: Ticket | None) -> dict[str, Any]:
        if ticket is None:
            log.info("%s has a question, but nobody knows for whom", self._server)
            return DECLINED
        wanted = msgspec.convert(params, Wanted)
        if wanted.mode != "form":
            show_url(ticket.call, self._server, wanted.message, wanted.url)
            return DECLINED
        clarifier = ticket.caller.clarifier
        if clarifier is None:
            return DECLINED
        try:
            asked = fields(wanted.requested_schema or {})
        except FormInvalid as error:
            ticket.call.output(f"{self._server} asked a question that was declined: {error}\n")
            return DECLINED
        with ticket.paused():
            async with ticket.caller.asking:
                return await self._fill(_Desk(clarifier, ticket.call, self._timeout), wanted, asked)

    async def _fill(self, desk: "_Desk", wanted: Wanted, asked: list[Field]) -> dict[str, Any]:
        why = one_line(wanted.message, MESSAGE_CHARS)
        head = f"The MCP server {self._server} asks: {why}"
        content: dict[str, Any] = {}
        try:
            if not asked and await desk.ask(head, (YES, NO)) != YES:
                return DECLINED
            for field in asked:
                content |= await desk.fill(head, field)
                head = f"The MCP server {self._server} also asks"
        except _Declined:
            return DECLINED
        except _Unanswered:
            return CANCELLED
        return {"action": "accept", "content": content}


class _Desk:
    """Puts questions to the person of one call."""

    def __init__(self, clarifier: Clarifier, call: ToolContext, timeout: float) -> None:
        self._clarifier, self._call, self._timeout = clarifier, call, timeout

    async def fill(self, head: str, field: Field) -> dict[str, Any]:
        problem = ""
        for _ in range(MOST_TRIES):
            text = "\n".join(part for part in (head, field.question, problem) if part)
            answer = await self.ask(text, field.choices)
            if answer.lower() == SKIP and not field.required:
                return field.skipped()
            try:
                return {field.name: field.read(answer)}
            except AnswerInvalid as error:
                problem = str(error)
        raise _Unanswered

    async def ask(self, text: str, choices: tuple[str, ...]) -> str:
        """What was said. The question is closed in every case."""
        asked = QuestionAsked(self._call.call_id, text, (*choices, DECLINE))
        answer = ""
        self._call.announce(asked)
        try:
            async with asyncio.timeout(self._timeout or None):
                answer = (await self._clarifier.clarify(asked)).strip()
        except TimeoutError:
            raise _Unanswered from None
        finally:
            self._call.announce(QuestionAnswered(asked.call_id, answer))
        if not answer:
            raise _Unanswered
        if answer.lower() == DECLINE:
            raise _Declined
        return answer


def show_url(call: ToolContext, server: str, message: str, url: str) -> None:
    """A page the server wants the user to open; nobody opens it for them."""
    why = one_line(message, MESSAGE_CHARS)
    call.output(f"{server} wants you to open {one_line(url, URL_CHARS)} ({why})\n")
