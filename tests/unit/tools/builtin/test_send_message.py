"""send_message: looking at where messages can go is not sending one."""

from typing import Any

import pytest

from hermes.core.cancel import CancelToken
from hermes.core.errors import ToolDenied, ToolError, UsageError
from hermes.core.events import ApprovalAsked
from hermes.core.ports import ApprovalAnswer, Attachments
from hermes.core.tool import ToolContext
from hermes.tools.approval import ApprovalRules, Approvals
from tests.workspace import make_tool

MESSAGE = {"target": "telegram", "message": "hi"}


class Letters:
    async def send(self, target: str, text: str, *, attachments: Attachments | None = None) -> str:
        if target == "local":
            raise UsageError("'local' is a file", hint="there are telegram")
        return "send:1"

    async def delivered(self, delivery: str) -> str:
        return "sent"

    async def targets(self) -> list[str]:
        return ["telegram (home channel: 7)"]


class DenyingApprover:
    async def ask(self, question: ApprovalAsked) -> ApprovalAnswer:
        return ApprovalAnswer.DENY


async def no_memory(_kind: str) -> None:
    """Nothing is allowed for good."""


async def permitted(effects: dict[str, Any], arguments: dict[str, Any]) -> bool:
    policy = Approvals(ApprovalRules(effects=effects), DenyingApprover(), (), no_memory)
    try:
        await policy.permit(
            make_tool("send_message", outbox=Letters()), arguments, "c", lambda _event: None
        )
    except ToolDenied:
        return False
    return True


@pytest.mark.parametrize("effects", [{}, {"send": "allow"}, {"send_message": "deny"}])
async def test_sending_needs_approval_and_listing_does_not(effects):
    assert await permitted(effects, {"action": "list"})
    for sends in (MESSAGE, {**MESSAGE, "action": "send"}):
        assert await permitted(effects, sends) == (effects == {"send": "allow"})


async def test_unsendable_message_names_the_valid_targets():
    tool = make_tool("send_message", outbox=Letters(), origin="telegram:7")
    context = ToolContext("s", "c", CancelToken(), lambda _text: None)
    assert await tool.handler(context, {"action": "list"}) == "telegram (home channel: 7)"
    assert "Queued" in await tool.handler(context, MESSAGE)
    with pytest.raises(ToolError, match=r"'local' is a file\. there are telegram"):
        await tool.handler(context, {"target": "local", "message": "hi"})
