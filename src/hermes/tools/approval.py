"""The one point that decides whether a call may run."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, assert_never

from hermes.core.errors import ToolDenied
from hermes.core.events import ApprovalAnswered, ApprovalAsked
from hermes.core.ports import Approver, Consent
from hermes.core.tool import Concern, Tool

Announce = Callable[[ApprovalAsked | ApprovalAnswered], None]
Remember = Callable[[str], Awaitable[None]]


class Approvals:
    """`mode` is `approvals.mode`; anything but `off` asks (`smart` has no judge here yet).

    `approver` is None when nobody is there. `allowlist` holds classes that are always allowed;
    `remember` adds one for good. `timeout` is in seconds; no answer in time means no.
    """

    def __init__(
        self,
        mode: str,
        approver: Approver | None,
        allowlist: Iterable[str],
        timeout: float,
        remember: Remember,
    ) -> None:
        self._mode, self._approver = mode, approver
        self._allowed = {kind.strip().lower() for kind in allowlist}
        self._timeout, self._remember = timeout, remember
        self._one_question = asyncio.Lock()

    async def permit(
        self, tool: Tool, arguments: dict[str, Any], call_id: str, announce: Announce
    ) -> None:
        """Returns when the call may run; raises `ToolDenied` when it may not."""
        concern = tool.examine(arguments)
        if concern is None:
            return
        if concern.refused:
            raise ToolDenied(
                f"refused: {concern.reason}",
                hint="no approval can lift this; tell the user what you wanted to do",
            )
        if self._mode == "off" or self._covers(concern):
            return
        if self._approver is None:
            raise ToolDenied(
                f"not allowed without a person's consent: {concern.reason}",
                hint="nobody is here to ask. The user can allow it in an interactive chat, with "
                f"{' and '.join(map(repr, _kinds(concern)))} in command_allowlist of config.yaml, "
                "or with approvals.mode: off",
            )
        async with self._one_question:
            # An answer to the question before may have covered this one.
            if not self._covers(concern):
                await self._ask(self._approver, tool, concern, call_id, announce)

    async def _ask(
        self, approver: Approver, tool: Tool, concern: Concern, call_id: str, announce: Announce
    ) -> None:
        question = ApprovalAsked(call_id, tool.name, concern.subject, concern.reason)
        announce(question)
        in_time = True
        try:
            async with asyncio.timeout(self._timeout):
                answer = await approver.ask(question)
        except TimeoutError:
            answer, in_time = Consent.DENY, False
        announce(ApprovalAnswered(call_id, answer.value))
        match answer:
            case Consent.ONCE:
                return
            case Consent.SESSION:
                self._allowed |= set(_kinds(concern))
            case Consent.ALWAYS:
                for kind in _kinds(concern):
                    if kind not in self._allowed:
                        self._allowed.add(kind)
                        await self._remember(kind)
            case Consent.DENY:
                who = "the user did not allow this" if in_time else "nobody answered in time"
                raise ToolDenied(
                    f"{who}: {concern.reason}",
                    hint="do not try the same in another way; go on without it or ask the user",
                )
            case _:
                assert_never(answer)

    def _covers(self, concern: Concern) -> bool:
        return all(kind in self._allowed for kind in _kinds(concern))


def _kinds(concern: Concern) -> tuple[str, ...]:
    return (concern.kind.lower(), *(kind.lower() for kind in concern.also))
