"""Open questions of the agent to the people in one chat: approvals and clarifications."""

import asyncio
import secrets
from collections.abc import Mapping

import msgspec

from hermes.config.settings.platforms import Role
from hermes.core.errors import UsageError
from hermes.core.events import ApprovalAsked, QuestionAsked
from hermes.core.ports import ApprovalAnswer
from hermes.gateway.auth import OWNERS
from hermes.gateway.outbox import GatewayOutbox
from hermes.sdk.platforms import Button, SessionSource

YES = frozenset({"yes", "y", "approve", "ok", "go"})
NO = frozenset({"no", "n", "deny", "cancel"})
WORDS = {
    "once": ApprovalAnswer.ONCE,
    "session": ApprovalAnswer.SESSION,
    "always": ApprovalAnswer.ALWAYS,
}
CONFIRMATIONS = {
    ApprovalAnswer.ONCE: "Allowed once.",
    ApprovalAnswer.SESSION: "Allowed for this conversation.",
    ApprovalAnswer.ALWAYS: "Allowed permanently.",
    ApprovalAnswer.DENY: "Denied.",
}
LABELS = (("Allow", "once"), ("For this chat", "session"), ("Always", "always"), ("Deny", "deny"))
ANSWER_HINTS: Mapping[Role, str] = {
    "owner": "`/approve`, `/approve session`, `/approve always` or `/deny`",
    "member": "`/approve`, `/approve session` or `/deny`",
    "guest": "`yes` or `no`",
}
"""How each role can answer an approval in words."""
MAX_SUBJECT = 1500


class PendingQuestion(msgspec.Struct, eq=False):
    token: str
    answer: "asyncio.Future[str]"
    person: SessionSource
    """The person who started the turn; only that person or an owner may answer."""
    choices: tuple[str, ...] = ()
    is_approval: bool = False


class ChatQuestions:
    """Implements `core.ports.Approver` and `Clarifier` for one chat."""

    def __init__(self, outbox: GatewayOutbox) -> None:
        self._outbox = outbox
        self.person: SessionSource | None = None  #: The author of the message in work.
        self.role: Role = "guest"  #: The role of that person.
        self._pending: dict[str, PendingQuestion] = {}

    @property
    def has_open(self) -> bool:
        return bool(self._pending)

    @property
    def state(self) -> str:
        """What the turn waits for, in words; "" if no question is open."""
        if not self._pending:
            return ""
        is_approval = any(each.is_approval for each in self._pending.values())
        return "waiting for approval" if is_approval else "waiting for an answer to its question"

    def owns_button(self, data: str) -> bool:
        """Return whether a button belongs to an open question of this chat."""
        pending = self._pending.get(data.partition(":")[0])
        return pending is not None and not pending.answer.done()

    async def ask(self, question: ApprovalAsked) -> ApprovalAnswer:
        """Ask for approval. A timeout cancels the call, which counts as a denial."""
        allowed = [each for each in LABELS if each[1] != "always" or self.role == "owner"]
        buttons = tuple(Button(label, data) for label, data in allowed)
        subject = question.subject[:MAX_SUBJECT]
        text = (
            f"⚠️ **{question.tool}** wants to do this:\n```\n{subject}\n```\n{question.reason}\n"
            f"{ANSWER_HINTS[self.role]}"
        )
        return ApprovalAnswer(await self._answer(text, buttons, is_approval=True))

    async def clarify(self, question: QuestionAsked) -> str:
        choices = tuple(enumerate(question.choices))
        lines = [f"{number + 1}. {each}" for number, each in choices]
        buttons = tuple(Button(each[:40], str(number)) for number, each in choices)
        text = "\n".join((f"❓ {question.question}", *lines))
        return await self._answer(text, buttons, choices=question.choices)

    async def _answer(
        self,
        text: str,
        buttons: tuple[Button, ...],
        *,
        choices: tuple[str, ...] = (),
        is_approval: bool = False,
    ) -> str:
        if self.person is None:
            raise UsageError("there is no user to ask")
        token = secrets.token_hex(4)
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        pending = PendingQuestion(token, answer, self.person, choices, is_approval)
        self._pending[token] = pending
        try:
            named = tuple(Button(each.label, f"{token}:{each.data}") for each in buttons)
            await self._outbox.notify(self.person.target, text, "question", named)
            return await pending.answer
        finally:
            del self._pending[token]

    def is_answer(self, source: SessionSource, text: str) -> bool:
        """Return whether a message answers a question: yes or no for an approval, else any text."""
        pending = self._question_for(source)
        if pending is None or not text.strip():
            return False
        return not pending.is_approval or text.strip().lower() in YES | NO

    def accept_answer(self, source: SessionSource, text: str) -> None:
        """Answer the open question with a plain message; see `is_answer`."""
        pending = self._question_for(source)
        if pending is None:
            return
        reply = text.strip()
        if pending.is_approval:
            answer = ApprovalAnswer.ONCE if reply.lower() in YES else ApprovalAnswer.DENY
            pending.answer.set_result(answer.value)
        else:
            numbers = {str(number): each for number, each in enumerate(pending.choices, 1)}
            pending.answer.set_result(numbers.get(reply, reply))

    def decide(self, source: SessionSource, role: Role, word: str) -> str:
        """Handle `/approve [session|always]` and `/deny`. Raises `UsageError`."""
        for pending in self._pending.values():
            if pending.is_approval and not pending.answer.done():
                return self._decide(pending, source, role, word)
        raise UsageError("no approval is pending")

    def press(self, source: SessionSource, role: Role, data: str) -> str:
        """Handle a pressed button. Returns the confirmation. Raises `UsageError`."""
        token, _, value = data.partition(":")
        pending = self._pending.get(token)
        if pending is None or pending.answer.done():
            raise UsageError("this question is closed")
        if pending.is_approval:
            return self._decide(pending, source, role, value)
        if not same_person(pending.person, source) and role != "owner":
            raise UsageError("this question is for another person")
        if not value.isdecimal() or int(value) >= len(pending.choices):
            raise UsageError("this is not one of the answers")
        pending.answer.set_result(pending.choices[int(value)])
        return pending.choices[int(value)]

    def _decide(
        self, pending: PendingQuestion, source: SessionSource, role: Role, word: str
    ) -> str:
        if not same_person(pending.person, source) and role != "owner":
            raise UsageError("this question is for another person")
        answer = ApprovalAnswer.DENY if word == "deny" else WORDS.get(word or "once")
        if answer is None:
            hint = "/approve [session | always], /deny"
            raise UsageError(f"{word!r} is not an answer", hint=hint)
        if answer is ApprovalAnswer.ALWAYS and role != "owner":
            raise UsageError("only an owner may allow something permanently", hint=OWNERS)
        pending.answer.set_result(answer.value)
        return CONFIRMATIONS[answer]

    def _question_for(self, source: SessionSource) -> PendingQuestion | None:
        for each in self._pending.values():
            if same_person(each.person, source) and not each.answer.done():
                return each
        return None


def same_person(one: SessionSource, other: SessionSource) -> bool:
    ids = (one.platform, one.account, one.user_id)
    return bool(one.user_id) and ids == (other.platform, other.account, other.user_id)
