"""The reference server that uses every part of the protocol, as a program."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from hermes.core.cancel import CancelToken
from hermes.core.errors import Interrupted, ToolError
from hermes.core.tool import Effect, Tool, ToolContext
from hermes.mcp import Caller, McpHub
from tests.installed import node_server
from tests.integration.mcp.stage import Stage, inside
from tests.integration.mcp.test_elicitation import Person
from tests.integration.mcp.test_sampling import Scripted


class Everything:
    """The server in a hub that several tests share, so that it starts once."""

    def __init__(self, stage: Stage, hub: McpHub) -> None:
        self.stage, self.hub = stage, hub

    async def tool(self, name: str, caller: Caller | None = None) -> Tool:
        tools = {tool.name: tool for tool in await self.hub.tools(caller or Caller())}
        return tools[f"mcp_all_{name}"]

    async def call(self, name: str, caller: Caller | None = None, /, **arguments: Any) -> str:
        return inside(await self.stage.run(await self.tool(name, caller), **arguments))

    async def begun(self, context: ToolContext | None = None) -> "asyncio.Task[str]":
        """A call that lasts, and is under way."""
        self.stage.shown.clear()
        long = await self.tool("trigger_long_running_operation")
        call = asyncio.create_task(self.stage.run(long, context, duration=60, steps=600))
        while not self.stage.shown:
            await asyncio.sleep(0.02)
        return call

    def processes(self) -> list[psutil.Process]:
        children = psutil.Process().children(recursive=True)
        return [each for each in children if "mcp-server-everything" in command_line(each)]


def command_line(process: psutil.Process) -> str:
    """Return "" for a process that has ended since it was listed."""
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


@pytest.fixture(scope="module")
async def everything(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Everything]:
    folder = tmp_path_factory.mktemp("everything")
    stage = Stage(folder)
    settings = node_server("everything", "stdio", env={"FLAVOUR": "vanilla"}, roots=("cwd",))
    options = {"folder": str(folder), "question_seconds": 20.0}
    yield Everything(stage, stage.hub({"all": settings}, options))
    await stage.close()


async def test_its_tools_are_offered_by_what_they_may_do(everything: Everything) -> None:
    tools = {tool.name: tool for tool in await everything.hub.tools()}
    assert tools["mcp_all_echo"].effect is Effect.READ
    assert tools["mcp_all_echo"].examine is None
    write = tools["mcp_all_gzip_file_as_resource"]
    assert write.effect is Effect.EXECUTE
    assert write.examine is not None
    concern = await write.examine({"name": "x"})
    assert concern is not None
    assert "mcp:all:gzip-file-as-resource" in str(concern)
    assert {tool.toolset for tool in tools.values()} == {"mcp-all"}
    assert everything.stage.notices == []


async def test_tool_that_runs_as_a_task_asks_and_answers(everything: Everything) -> None:
    person = Person("programming")
    caller = Caller(clarifier=person)
    report = await everything.call(
        "simulate_research_query", caller, topic="python", ambiguous=True
    )
    assert "# Research Report: python (programming)" in report
    assert person.done()


async def test_calls_with_every_kind_of_answer(everything: Everything) -> None:
    assert await everything.call("echo", message="grüß dich ✓") == "Echo: grüß dich ✓"
    assert "The sum of 2 and 40 is 42." in await everything.call("get_sum", a=2, b=40)
    weather = await everything.call("get_structured_content", location="Chicago")
    assert json.loads(weather)["conditions"]
    picture = await everything.call("get_tiny_image")
    assert "image/png" in picture
    assert len(picture) < 1_000, "pictures are described, not spelled out"
    assert "demo://resource" in await everything.call("get_resource_links", count=2)
    reference = await everything.call("get_resource_reference", resourceType="Text", resourceId=1)
    assert "demo://resource/dynamic/text/1" in reference


async def test_arguments_it_does_not_take_are_its_own_error(everything: Everything) -> None:
    tool = await everything.tool("get_sum")
    with pytest.raises(ToolError, match=r"(?i)invalid"):
        await everything.stage.run(tool, a="two", b=None)


async def test_resources_and_prompts(everything: Everything) -> None:
    listed = await everything.call("list_resources")
    assert "demo://resource/static/document/architecture.md" in listed
    assert "template: demo://resource/dynamic/text/{resourceId}" in listed
    uri = "demo://resource/static/document/architecture.md"
    assert "Architecture" in await everything.call("read_resource", uri=uri)
    made = await everything.call("read_resource", uri="demo://resource/dynamic/text/7")
    assert "Resource 7" in made
    assert "args-prompt(city, [state])" in await everything.call("list_prompts")
    filled = await everything.call("get_prompt", name="args-prompt", arguments={"city": "Bonn"})
    assert "Bonn" in filled
    with pytest.raises(ToolError):
        await everything.call("get_prompt", name="no-such-prompt")


async def test_server_sees_no_variables_of_the_parent(everything: Everything) -> None:
    seen = json.loads(await everything.call("get_env"))
    assert seen["FLAVOUR"] == "vanilla"
    assert not [name for name in seen if name.startswith(("HERMES", "PYTEST"))]


async def test_server_gets_the_working_folder(everything: Everything) -> None:
    assert everything.stage.folder.as_uri() in await everything.call("get_roots_list")


async def test_server_asks_the_model(everything: Everything) -> None:
    model = Scripted()
    said = await everything.call(
        "trigger_sampling_request", Caller(sampler=model), prompt="say hello", maxTokens=30
    )
    assert "hello" in said
    (request,) = model.asked
    assert request.max_tokens == 30
    assert "say hello" in str(request.messages[-1])


async def test_server_asks_the_user(everything: Everything) -> None:
    class Agreeable(Person):
        async def clarify(self, question: Any) -> str:
            self.asked.append(question)
            if "legal name" in question.question:
                return "Ann"
            if "terms and conditions" in question.question:
                return "yes"
            return "skip" if not question.choices else question.choices[0]

    person = Agreeable()
    said = await everything.call("trigger_elicitation_request", Caller(clarifier=person))
    assert "Name: Ann" in said
    assert '"check": true' in said
    assert '"untitledSingleSelectEnum": "Monica"' in said
    assert "The MCP server all asks: Please provide inputs" in person.asked[0].question


async def test_elicitation_without_a_user_is_declined(everything: Everything) -> None:
    assert "declined" in await everything.call("trigger_elicitation_request")
    refuses = Caller(clarifier=Person("decline"))
    assert "declined" in await everything.call("trigger_elicitation_request", refuses)


async def test_progress_is_shown(everything: Everything) -> None:
    everything.stage.shown.clear()
    said = await everything.call("trigger_long_running_operation", duration=0.4, steps=4)
    assert "Long running operation completed" in said
    assert "1 of 4\n" in everything.stage.shown
    assert "4 of 4\n" in everything.stage.shown


async def test_sessions_share_one_program_and_do_not_wait_for_each_other(everything):
    slow = await everything.begun()
    sessions = [everything.stage.context(f"session-{number}") for number in range(5)]
    tool = await everything.tool("echo")
    said = await asyncio.gather(
        *(everything.stage.run(tool, each, message=each.session_id) for each in sessions)
    )
    assert [inside(each) for each in said] == [f"Echo: {each.session_id}" for each in sessions]
    assert not slow.done()
    assert len(everything.processes()) == 1
    slow.cancel()


async def test_cancel_ends_a_call_at_once_and_the_server_stays(everything: Everything) -> None:
    cancel = CancelToken()
    call = await everything.begun(everything.stage.context(cancel=cancel))
    (program,) = everything.processes()
    cancel.cancel()
    with pytest.raises(Interrupted):
        await call
    assert await everything.call("echo", message="still here") == "Echo: still here"
    assert everything.processes() == [program]


async def test_killed_in_a_call_it_is_an_error_and_the_next_call_starts_it_again(everything):
    call = await everything.begun()
    (program,) = everything.processes()
    os.kill(program.pid, signal.SIGKILL)
    with pytest.raises(ToolError, match="all was killed by signal 9"):
        await call
    assert await everything.call("echo", message="again") == "Echo: again"
    assert program.pid not in [each.pid for each in everything.processes()]


async def test_the_next_process_knows_its_tools_without_starting_it(everything, stage):
    await everything.hub.tools()
    kept = everything.stage.folder / "cache" / "all.json"
    (stage.folder / "cache").mkdir()
    (stage.folder / "cache" / "all.json").write_bytes(kept.read_bytes())
    before = everything.processes()
    settings = node_server("everything", "stdio", env={"FLAVOUR": "vanilla"})
    hub = stage.hub({"all": settings})
    assert "mcp_all_echo" in await stage.tools(hub)
    assert hub.status()[0].state == "starts at first use"
    assert everything.processes() == before


def test_nothing_was_installed_into_the_repository() -> None:
    program = Path(node_server("everything").command)
    assert not program.is_relative_to(Path(__file__).parents[3])
