"""Questions of the agent to people in chats: for consent, or for an answer it needs."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from hermes.config.settings.platforms import Role
from hermes.core.errors import UsageError
from hermes.core.events import ApprovalAsked, QuestionAsked
from hermes.core.ports import Consent
from hermes.gateway.auth import OWNERS
from hermes.gateway.platforms.kit.contract import Button, SessionSource

YES = frozenset({"yes", "y", "approve", "ok", "go"})
NO = frozenset({"no", "n", "deny", "cancel"})
WORDS = {"once": Consent.ONCE, "session": Consent.SESSION, "always": Consent.ALWAYS}
TOLD = {
    Consent.ONCE: "Allowed this once.",
    Consent.SESSION: "Allowed for this conversation.",
    Consent.ALWAYS: "Allowed from now on.",
    Consent.DENY: "Not allowed.",
}
LABELS = (("Allow", "once"), ("For this chat", "session"), ("Always", "always"), ("Deny", "deny"))
OFFERED: Mapping[Role, str] = {
    "owner": "`/approve`, `/approve session`, `/approve always` or `/deny`",
    "member": "`/approve`, `/approve session` or `/deny`",
    "guest": "`yes` or `no`",
}
"""What whoever is asked can answer in words."""
MOST_SUBJECT = 1500

Put = Callable[[str, tuple[Button, ...]], Awaitable[None]]
"""Says something in the chat, with buttons where it has any."""


class Waiting(msgspec.Struct, eq=False):
    """A question nobody has answered yet."""

    token: str
    answer: "asyncio.Future[str]"
    person: SessionSource
    """Whose turn it is; only they, or an owner, may answer."""
    choices: tuple[str, ...] = ()
    consent: bool = False


class ChatQuestions:
    """`core.ports.Approver` and `Clarifier` of one chat."""

    def __init__(self, put: Put) -> None:
        self._put = put
        self.person: SessionSource | None = None
        """Who wrote the message that is worked on."""
        self.role: Role = "guest"
        """What they are."""
        self._waiting: dict[str, Waiting] = {}

    @property
    def waits(self) -> bool:
        return bool(self._waiting)

    @property
    def state(self) -> str:
        """What it waits for, in words; "" when for nothing."""
        if not self._waiting:
            return ""
        consent = any(each.consent for each in self._waiting.values())
        return "waiting for consent" if consent else "waiting for an answer to its question"

    def has(self, data: str) -> bool:
        """Whether a button belongs to a question that waits here."""
        waiting = self._waiting.get(data.partition(":")[0])
        return waiting is not None and not waiting.answer.done()

    async def ask(self, question: ApprovalAsked) -> Consent:
        """Cancelled when the time is up: then nobody has consented."""
        buttons = tuple(
            Button(label, data)
            for label, data in LABELS
            if data != "always" or self.role == "owner"
        )
        subject = question.subject[:MOST_SUBJECT]
        text = (
            f"⚠️ **{question.tool}** wants to do this:\n```\n{subject}\n```\n{question.reason}\n"
            f"{OFFERED[self.role]}"
        )
        return Consent(await self._answer(text, buttons, consent=True))

    async def clarify(self, question: QuestionAsked) -> str:
        lines = [f"{number}. {each}" for number, each in enumerate(question.choices, 1)]
        buttons = tuple(
            Button(each[:40], str(number)) for number, each in enumerate(question.choices)
        )
        text = "\n".join((f"❓ {question.question}", *lines))
        return await self._answer(text, buttons, choices=question.choices)

    async def _answer(
        self,
        text: str,
        buttons: tuple[Button, ...],
        *,
        choices: tuple[str, ...] = (),
        consent: bool = False,
    ) -> str:
        if self.person is None:
            raise UsageError("nobody is there to ask")
        token = secrets.token_hex(4)
        waiting = Waiting(
            token, asyncio.get_running_loop().create_future(), self.person, choices, consent
        )
        self._waiting[token] = waiting
        try:
            named = tuple(Button(each.label, f"{token}:{each.data}") for each in buttons)
            await self._put(text, named)
            return await waiting.answer
        finally:
            del self._waiting[token]

    def takes(self, source: SessionSource, text: str) -> bool:
        """Whether a plain message is an answer: a word of consent, or anything to a question."""
        waiting = self._of(source)
        if waiting is None or not text.strip():
            return False
        return not waiting.consent or text.strip().lower() in YES | NO

    def take(self, source: SessionSource, text: str) -> None:
        """Give a plain message to whoever waits for it; see `takes`."""
        waiting = self._of(source)
        if waiting is None:
            return
        said = text.strip()
        if waiting.consent:
            _give(waiting, (Consent.ONCE if said.lower() in YES else Consent.DENY).value)
        else:
            _give(waiting, _chosen(said, waiting.choices))

    def decide(self, source: SessionSource, role: Role, word: str) -> str:
        """`/approve [session|always]` and `/deny`; what to answer. Raises `UsageError`."""
        asked = [each for each in self._waiting.values() if each.consent and not each.answer.done()]
        if not asked:
            raise UsageError("nothing waits for consent")
        return self._consent(asked[0], source, role, word)

    def press(self, source: SessionSource, role: Role, data: str) -> str:
        """A button was pressed; what to answer. Raises `UsageError`."""
        token, _, value = data.partition(":")
        waiting = self._waiting.get(token)
        if waiting is None or waiting.answer.done():
            raise UsageError("this question is over")
        if waiting.consent:
            return self._consent(waiting, source, role, value)
        if not same_person(waiting.person, source) and role != "owner":
            raise UsageError("somebody else was asked")
        if not value.isdecimal() or int(value) >= len(waiting.choices):
            raise UsageError("there is no such answer")
        _give(waiting, waiting.choices[int(value)])
        return waiting.choices[int(value)]

    def _consent(self, waiting: Waiting, source: SessionSource, role: Role, word: str) -> str:
        if not same_person(waiting.person, source) and role != "owner":
            raise UsageError("somebody else was asked")
        answer = Consent.DENY if word == "deny" else WORDS.get(word or "once")
        if answer is None:
            raise UsageError(f"{word!r} is no answer", hint="/approve [session | always], /deny")
        if answer is Consent.ALWAYS and role != "owner":
            raise UsageError("only an owner may allow something for always", hint=OWNERS)
        _give(waiting, answer.value)
        return TOLD[answer]

    def _of(self, source: SessionSource) -> Waiting | None:
        mine = (
            each
            for each in self._waiting.values()
            if same_person(each.person, source) and not each.answer.done()
        )
        return next(mine, None)


def same_person(one: SessionSource, other: SessionSource) -> bool:
    ids = (one.platform, one.account, one.user_id)
    return bool(one.user_id) and ids == (other.platform, other.account, other.user_id)


def _chosen(said: str, choices: tuple[str, ...]) -> str:
    """`2` means the second choice."""
    if said.isdecimal() and 1 <= int(said) <= len(choices):
        return choices[int(said) - 1]
    return said


def _give(waiting: Waiting, answer: str) -> None:
    if not waiting.answer.done():
        waiting.answer.set_result(answer)
