"""Approvals that the user of a client decides in a form, in both eras over both transports."""

import asyncio

import msgspec
import pytest
from mcp.types import ElicitResult

from hermes.config.home import Home
from hermes.config.settings import McpServer
from hermes.core.events import ApprovalAsked, ApprovalScope
from hermes.gateway import SharedApproval, SharedResolution
from hermes.mcp import Caller
from hermes.sdk.platforms import ChatTarget
from hermes.store import open_store
from hermes.util.processes import process_name
from tests.integration.mcp.stage import Stage, inside
from tests.integration.mcp.test_elicitation import Person
from tests.integration.mcp_server.conftest import ERAS, KEY, serve_http

ALWAYS = "Always allow: exactly this"


@pytest.fixture
async def approval(home: Home):
    """An open approval of this process, which applies the answer as a gateway does: what the
    answer was, and an answer in the chat."""
    store = open_store("", home.state_db)
    scopes = (ApprovalScope("command", "exactly this"), ApprovalScope("folder", "all", True))
    asked = ApprovalAsked("c1", "terminal", "rm -rf junk", "it deletes", scopes, effect="execute")
    shared = SharedApproval(asked, "terminal wants to run this: rm -rf junk", KEY, _TARGET)
    body = msgspec.json.encode(shared)
    await store.approvals.ask("t1", body, process_name(), now=1.0, until=10**10)

    async def answered() -> str:
        known = await store.approvals.get("t1")
        return known["answer"].body.decode() if "answer" in known else ""

    async def resolve(answer: str, by: str = "chat") -> None:
        resolution = msgspec.json.encode(SharedResolution(answer, by=by))
        await store.approvals.resolve("t1", resolution, process_name(), 2.0)

    async def apply_answers() -> None:
        while not (words := await answered()):
            await asyncio.sleep(0.05)
        await resolve(words.split()[0], "mcp")

    gateway = asyncio.create_task(apply_answers())
    yield answered, resolve
    gateway.cancel()
    await asyncio.gather(gateway, return_exceptions=True)
    store.close()


_TARGET = ChatTarget("local", "anna")


class User:
    """Answers forms, and remembers them."""

    def __init__(self, action: str = "accept", choice: str = "", before=None) -> None:
        self.action, self.choice, self.before = action, choice, before
        self.forms: list = []

    async def __call__(self, _context, params) -> ElicitResult:
        self.forms.append(params)
        if self.before is not None:
            await self.before()
        content = {"decision": self.choice} if self.action == "accept" else None
        return ElicitResult(action=self.action, content=content)


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_user_of_the_client_decides_in_a_form(connect, approval, transport, mode):
    answered, _resolve = approval
    user = User(choice=ALWAYS)
    client = await connect(transport, mode, elicitation_callback=user)
    assert client.protocol_version == ERAS[mode]
    done = await client.call_tool("permissions_respond", {"id": "t1"})
    assert done.structured_content == {**done.structured_content, "accepted": True, "by": "mcp"}
    (form,) = user.forms
    assert form.message == "terminal wants to run this: rm -rf junk"
    offered = form.requested_schema["properties"]["decision"]["enum"]
    assert offered == ["Allow once", "Allow in this session: exactly this", ALWAYS, "Deny"]
    assert await answered() == "always command"


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_closed_form_leaves_the_approval_open(connect, approval, action, mode):
    answered, _resolve = approval
    client = await connect("stdio", mode, elicitation_callback=User(action))
    result = await client.call_tool("permissions_respond", {"id": "t1", "decision": "ask"})
    assert result.structured_content["accepted"] is False
    assert "still open" in result.structured_content["note"]
    assert await answered() == ""


@pytest.mark.parametrize("mode", ERAS)
async def test_answer_that_the_form_does_not_offer_is_refused(connect, approval, mode):
    answered, _resolve = approval
    client = await connect("stdio", mode, elicitation_callback=User(choice="Always allow: all"))
    result = await client.call_tool("permissions_respond", {"id": "t1"})
    assert result.is_error
    assert "not one of the decisions" in result.content[0].text
    assert await answered() == ""


@pytest.mark.parametrize("mode", ERAS)
async def test_answer_in_the_chat_wins_over_an_open_form(connect, approval, mode):
    answered, resolve = approval
    user = User(choice=ALWAYS, before=lambda: resolve("deny"))
    client = await connect("stdio", mode, elicitation_callback=user)
    result = await client.call_tool("permissions_respond", {"id": "t1"})
    assert result.is_error
    assert "was answered already: deny" in result.content[0].text
    assert await answered() == ""


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_client_without_forms_is_asked_for_the_decision(connect, approval, transport, mode):
    answered, _resolve = approval
    client = await connect(transport, mode)
    refused = await client.call_tool("permissions_respond", {"id": "t1"})
    assert refused.is_error
    assert "cannot ask its user" in refused.content[0].text
    assert await answered() == ""
    await client.call_tool("permissions_respond", {"id": "t1", "decision": "deny"})
    assert await answered() == "deny"


async def test_approval_that_is_not_open_shows_no_form(connect, approval):
    user = User(choice=ALWAYS)
    client = await connect("stdio", elicitation_callback=user)
    result = await client.call_tool("permissions_respond", {"id": "t2"})
    assert "there is no approval 't2'" in result.content[0].text
    assert user.forms == []


async def test_person_behind_our_own_client_decides(approval, tmp_path):
    answered, _resolve = approval
    stage, person = Stage(tmp_path), Person("Deny")
    async with serve_http() as server:
        hub = stage.hub(McpServer(url=server.url, headers=server.headers))
        tools = await stage.tools(hub, Caller(clarifier=person))
        inside(await stage.run(tools["mcp_srv_permissions_respond"], id="t1"))
        await stage.close()
    assert "rm -rf junk" in person.asked[0].question
    assert ALWAYS in person.asked[0].choices
    assert await answered() == "deny"
