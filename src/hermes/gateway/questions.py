"""Open questions of the agent to people in chats: approvals and clarifications.

Approving is a right of a role. A member approves what stays in the member's own sandbox; what
touches the machine, other chats or later sessions is asked of an owner, in the owner's chat.
"""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from hermes.config.settings.platforms import Role
from hermes.core.approval_text import fenced, render_approval
from hermes.core.errors import HermesError, StoreError, ToolDenied, UsageError
from hermes.core.events import ApprovalAsked, QuestionAsked
from hermes.core.ports import ApprovalAnswer
from hermes.core.tool import Effect
from hermes.gateway.auth import OWNERS, may_approve
from hermes.sdk.platforms import Button, ChatTarget, SessionSource
from hermes.util.processes import process_name
from hermes.util.text import visible

if TYPE_CHECKING:
    from hermes.gateway.gateway import Gateway

log = logging.getLogger(__name__)

MAX_NAME = 100  #: Characters of the name of a person or chat in a question.
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
}
"""How a person of each role can answer an approval in words. Guests approve nothing."""
OWNER_HINT = "`/approve {0}`, `/approve {0} session`, `/approve {0} always` or `/deny {0}`"
"""How an owner answers a question that came up in another chat: by its code, so that an answer
meant for one question never counts for another."""
ASKED_OWNER = "🔒 **{}** needs the approval of an owner. An owner was asked; please wait."
ANSWERED_ELSEWHERE = "{} (answered by an MCP client)"
POLL_SECONDS = 0.5  #: Seconds between two checks for an answer of another process.
VALID_SECONDS = 30.0
"""Seconds for which other processes may answer a stored question; extended while it is open."""
NO_OWNER = "only an owner may approve this, and no owner can be asked"
NO_OWNER_HINT = (
    "an owner has to write to Hermes in a private chat once, or set a home channel with /sethome"
)


class SharedApproval(msgspec.Struct, frozen=True):
    """An approval as other processes see it, in `ApprovalRow.body`."""

    question: ApprovalAsked
    text: str  #: The whole request, as `render_approval` returns it.
    session_key: str  #: The conversation that asks.
    target: ChatTarget  #: The chat in which the question was asked.


class SharedResolution(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of an approval, in `ApprovalRow.body`."""

    answer: str  #: `once`, `session`, `always`, `deny`, or `expired` if it was not answered.
    scope: str = ""
    by: str = ""  #: `mcp` for the answer of an MCP client, `chat` for one in a chat.


class PendingQuestion(msgspec.Struct, eq=False):
    token: str
    answer: "asyncio.Future[Any]"
    person: SessionSource
    """The person who started the turn."""
    target: ChatTarget  #: The chat it was asked in.
    choices: tuple[str, ...] = ()
    approval: ApprovalAsked | None = None
    owners_only: bool = False
    """Only an owner may answer. Otherwise the person who started the turn may, too."""
    text: str = ""  #: The whole request of an approval.
    mcp_confirmation: str = ""  #: The confirmation of an answer that an MCP client gave.

    def check_right(self, source: SessionSource, role: Role) -> None:
        """Raise `UsageError` if this person may not answer."""
        if role == "owner":
            return
        if self.owners_only:
            raise UsageError("only an owner may approve this", hint=OWNERS)
        if not same_person(self.person, source):
            raise UsageError("this question is for another person")


class ChatQuestions:
    """Implements `core.ports.Approver` and `Clarifier` for one chat."""

    def __init__(self, gateway: "Gateway", key: str) -> None:
        self._gateway, self._outbox, self._key = gateway, gateway.outbox, key
        self.person: SessionSource | None = None  #: The author of the message in work.
        self.role: Role = "guest"  #: The role of that person.
        self.isolated = False
        """True if commands of this chat run in a sandbox or container."""
        self._pending: dict[str, PendingQuestion] = {}

    @property
    def has_open(self) -> bool:
        return bool(self._pending)

    @property
    def open_approvals(self) -> list[PendingQuestion]:
        asked = self._pending.values()
        return [each for each in asked if each.approval and not each.answer.done()]

    @property
    def state(self) -> str:
        """What the turn waits for, in words; "" if no question is open."""
        if not self._pending:
            return ""
        if any(each.owners_only for each in self._pending.values()):
            return "waiting for the approval of an owner"
        is_approval = any(each.approval for each in self._pending.values())
        return "waiting for approval" if is_approval else "waiting for an answer to its question"

    def owns_button(self, data: str) -> bool:
        """Return whether a button belongs to an open question of this chat."""
        pending = self._pending.get(data.partition(":")[0])
        return pending is not None and not pending.answer.done()

    async def ask(self, question: ApprovalAsked) -> ApprovalAnswer:
        """Ask for approval: the person who started the turn, if that person has the right,
        otherwise an owner. A timeout cancels the call, which counts as a denial.

        Raises `ToolDenied` if an owner is needed and cannot be asked.
        """
        person = self._require_person()
        if may_approve(self.role, question, isolated=self.isolated):
            pending = self._new_question(person.target, approval=question)
            text, hint = render_approval(question), ANSWER_HINTS[self.role]
        else:
            target = await self._owner_chat(person, question)
            pending = self._new_question(target, approval=question, owners_only=True)
            text = render_approval(question, asked_by=_describe_person(person, self.role))
            hint = OWNER_HINT.format(pending.token)
            notice = ASKED_OWNER.format(_label(question.tool))
            if target != person.target:
                await self._outbox.notify(person.target, notice)
        pending.text = "\n".join(text.lines)
        role: Role = "owner" if pending.owners_only else self.role
        allowed = [each for each in LABELS if each[1] != "always" or role == "owner"]
        if not question.scopes:
            allowed = [each for each in allowed if each[1] in ("once", "deny")]
        buttons = tuple(Button(*each) for each in allowed)
        hint += scope_hints(question, role)
        shown = f"⚠️ **Approval needed**\n{fenced(text.lines)}\n{hint}"
        answer: ApprovalAnswer = await self._answer(shown, buttons, pending)
        return answer

    async def _owner_chat(self, person: SessionSource, question: ApprovalAsked) -> ChatTarget:
        """Return the chat in which an owner is asked. Raises `ToolDenied`, also for what a guest
        may not have at all: something that outlives the conversation."""
        reason = question.reason
        if self.role == "guest" and question.effect == Effect.PERSIST:
            raise ToolDenied(f"not allowed for guests: {reason}", hint=ToolDenied.NO_OTHER_WAY)
        target = await self._gateway.owner_chat(person)
        if target is None:
            log.warning("%s: %s: %s", question.tool, NO_OWNER, NO_OWNER_HINT)
            await self._outbox.notify(person.target, f"⚠️ {_label(question.tool)}: {NO_OWNER}.")
            raise ToolDenied(f"{NO_OWNER}: {reason}", hint=NO_OWNER_HINT)
        return target

    async def clarify(self, question: QuestionAsked) -> str:
        choices = tuple(enumerate(question.choices))
        lines = [f"{number + 1}. {each}" for number, each in choices]
        buttons = tuple(Button(each[:40], str(number)) for number, each in choices)
        text = "\n".join((f"❓ {question.question}", *lines))
        pending = self._new_question(self._require_person().target, choices=question.choices)
        return str(await self._answer(text, buttons, pending))

    def _require_person(self) -> SessionSource:
        if self.person is None:
            raise UsageError("there is no user to ask")
        return self.person

    def _new_question(self, target: ChatTarget, **fields: Any) -> PendingQuestion:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        person = self._require_person()
        return PendingQuestion(secrets.token_hex(4), answer, person, target, **fields)

    async def _answer(
        self, text: str, buttons: tuple[Button, ...], pending: PendingQuestion
    ) -> Any:
        """Send a question and wait for its answer."""
        token = pending.token
        self._pending[token] = pending
        try:
            named = tuple(Button(each.label, f"{token}:{each.data}") for each in buttons)
            await self._outbox.notify(pending.target, text, "question", named)
            async with self._shared(pending):
                return await pending.answer
        finally:
            del self._pending[token]

    @contextlib.asynccontextmanager
    async def _shared(self, pending: PendingQuestion) -> AsyncIterator[None]:
        """Let other processes see and answer an approval inside the block. If the store fails, the
        question can still be answered in the chat."""
        if pending.approval is None:
            yield
            return
        gateway, approvals, token = self._gateway, self._gateway.store.approvals, pending.token
        owner, until = process_name(), gateway.now() + VALID_SECONDS
        shared = SharedApproval(pending.approval, pending.text, self._key, pending.target)
        body = msgspec.json.encode(shared)
        try:
            await approvals.ask(token, body, owner, now=gateway.now(), until=until)
        except StoreError as error:
            log.warning("an approval cannot be shared with other processes: %s", error)
        watcher = asyncio.create_task(self._watch_store(pending))
        try:
            yield
        finally:
            watcher.cancel()
            resolution = SharedResolution("expired")
            if pending.answer.done() and not pending.answer.cancelled():
                answer, by = pending.answer.result(), "mcp" if pending.mcp_confirmation else "chat"
                resolution = SharedResolution(answer.value, answer.scope, by)
            try:
                data = msgspec.json.encode(resolution)
                await approvals.resolve(token, data, owner, gateway.now())
                if pending.mcp_confirmation:
                    done = ANSWERED_ELSEWHERE.format(pending.mcp_confirmation)
                    await self._outbox.notify(pending.target, done)
            except HermesError as error:  # the answer counts anyway
                log.warning("the end of an approval cannot be reported: %s", error)

    async def _watch_store(self, pending: PendingQuestion) -> None:
        """Accept the answer that another process stores for an approval. That process has the
        rights of an owner: it can read and write the store."""
        gateway, token = self._gateway, pending.token
        renew_at = gateway.now() + VALID_SECONDS / 3
        while not pending.answer.done():
            await gateway.clock.sleep(POLL_SECONDS)
            try:
                if gateway.now() >= renew_at:
                    renew_at = gateway.now() + VALID_SECONDS / 3
                    await gateway.store.approvals.renew(token, gateway.now() + VALID_SECONDS)
                found = (await gateway.store.approvals.get(token)).get("answer")
            except StoreError as error:
                log.warning("answers of other processes cannot be read: %s", error)
                continue
            if found is None or pending.answer.done():
                continue
            try:
                words = found.body.decode()
                pending.mcp_confirmation = decide(pending, pending.person, "owner", words)
            except UsageError as error:
                log.warning("the stored answer to an approval is not valid: %s", error)
                return

    def is_answer(self, source: SessionSource, text: str) -> bool:
        """Return whether a message answers a question: yes or no for an approval, else any text."""
        pending = self._question_for(source)
        if pending is None or not text.strip():
            return False
        return not pending.approval or text.strip().lower() in YES | NO

    def accept_answer(self, source: SessionSource, text: str) -> None:
        """Answer the open question with a plain message; see `is_answer`."""
        pending = self._question_for(source)
        if pending is None:
            return
        reply = text.strip()
        if pending.approval:
            answer = ApprovalAnswer.ONCE if reply.lower() in YES else ApprovalAnswer.DENY
            pending.answer.set_result(answer)
        else:
            numbers = {str(number): each for number, each in enumerate(pending.choices, 1)}
            pending.answer.set_result(numbers.get(reply, reply))

    def press(self, source: SessionSource, role: Role, data: str) -> str:
        """Handle a pressed button. Returns the confirmation. Raises `UsageError`."""
        token, _, value = data.partition(":")
        pending = self._pending.get(token)
        if pending is None or pending.answer.done():
            raise UsageError("this question is closed")
        if pending.approval:
            return decide(pending, source, role, value)
        pending.check_right(source, role)
        if not value.isdecimal() or int(value) >= len(pending.choices):
            raise UsageError("this is not one of the answers")
        pending.answer.set_result(pending.choices[int(value)])
        return pending.choices[int(value)]

    def _question_for(self, source: SessionSource) -> PendingQuestion | None:
        """Return the question that a plain message of this person answers. Questions in the chat
        of an owner are answered by command or button: a plain yes there may be meant for the
        conversation of the owner."""
        for each in self._pending.values():
            asked = same_person(each.person, source) and not each.owners_only
            if asked and not each.answer.done():
                return each
        return None


def decide(pending: PendingQuestion, source: SessionSource, role: Role, words: str) -> str:
    """Answer an approval with what follows `/approve`, or with `deny`. Returns the confirmation.
    Raises `UsageError`."""
    pending.check_right(source, role)
    if pending.approval is None:
        raise UsageError("this question is not an approval")
    answer, done = parse_answer(pending.approval, role, words)
    pending.answer.set_result(answer)
    return done


def parse_answer(question: ApprovalAsked, role: Role, words: str) -> tuple[ApprovalAnswer, str]:
    """Return the answer to an approval that the words mean, and its confirmation. Raises
    `UsageError`."""
    first, *rest = words.split() or ["once"]
    answer = ApprovalAnswer.DENY if first == "deny" else WORDS.get(first)
    if answer is None:
        raise UsageError(f"{words!r} is not an answer", hint="/approve [session | always], /deny")
    if answer == ApprovalAnswer.ALWAYS and role != "owner":
        raise UsageError("only an owner may allow something permanently", hint=OWNERS)
    done = CONFIRMATIONS[answer]
    if answer.value in ("session", "always"):
        answer = _with_scope(answer, question, rest)
        scope = question.find_scope(answer.scope)
        done = f"{done[:-1]}: {scope.label}." if scope else CONFIRMATIONS[ApprovalAnswer.ONCE]
    return answer, done


def _with_scope(
    answer: ApprovalAnswer, question: ApprovalAsked, words: list[str]
) -> ApprovalAnswer:
    """Return the answer for the scope that the words name. Raises `UsageError`."""
    confirmed = words[-1:] == ["confirm"]
    names = words[:-1] if confirmed else words
    scope = question.find_scope(names[0] if names else "")
    if len(names) > 1 or (scope is None and question.scopes):
        offered = ", ".join(each.value for each in question.scopes)
        raise UsageError(f"{' '.join(words)!r} is not a scope", hint=f"it can be {offered}")
    if scope is None:
        return ApprovalAnswer.ONCE
    if scope.confirm and not confirmed:
        raise UsageError(
            f"this allows {scope.label}, which cannot be undone",
            hint=f"to confirm: /approve {answer.value} {scope.value} confirm",
        )
    return ApprovalAnswer(answer.value, scope.value, confirmed=confirmed)


def scope_hints(question: ApprovalAsked, role: Role) -> str:
    """Return what `session` and `always` cover, for the end of a question."""
    if role == "guest":
        return ""
    if not question.scopes:
        return "\nThis can be allowed once only."
    words = "`session` and `always` cover" if role == "owner" else "`session` covers"
    # A folder may have any name, so the labels are in a block as well.
    scopes = fenced(tuple(f"{each.value}: {visible(each.label)}" for each in question.scopes))
    return f"\n{words} the first of these; another one is named by its word:\n{scopes}"


def _describe_person(source: SessionSource, role: Role) -> str:
    """Return who asks, and where. The ids come from the platform; people choose their names."""
    who = f"{source.platform}:{source.user_id}"
    name = f" ({source.user_name[:MAX_NAME]})" if source.user_name else ""
    place = f"{source.chat_type} {source.platform}:{source.chat_id}"
    called = f" ({source.chat_name[:MAX_NAME]})" if source.chat_name else ""
    return f"{who}{name}, a {role}, in the {place}{called}"


def _label(tool: str) -> str:
    """Return the name of a tool for a sentence in Markdown."""
    return "".join(each for each in tool if each.isalnum() or each in "_-.")


def same_person(one: SessionSource, other: SessionSource) -> bool:
    ids = (one.platform, one.account, one.user_id, one.proven)
    return bool(one.user_id) and ids == (
        other.platform,
        other.account,
        other.user_id,
        other.proven,
    )
