"""What a session gets from the servers, and what it costs to begin one."""

import asyncio

import pytest

from hermes.config.settings import McpServer, McpTools
from hermes.core.errors import ToolError, UsageError
from hermes.core.tool import Concern, Effect
from tests.integration.mcp.stage import ManualClock, Stage, changed, inside, methods, only, program


async def test_tools_carry_the_name_of_their_server_in_letters_providers_take(stage: Stage) -> None:
    tools = await stage.tools(stage.hub({"my-srv": program()}))
    own = ("act", "drop_table", "echo", "look_up")
    added = ("list_resources", "read_resource", "list_prompts", "get_prompt")
    assert list(tools) == [f"mcp_my_srv_{name}" for name in own + added]
    assert {tool.toolset for tool in tools.values()} == {"mcp-my-srv"}


async def test_reading_tools_need_no_approval_and_acting_ones_do(stage: Stage) -> None:
    tools = await stage.tools(stage.hub(program()))
    assert tools["mcp_srv_echo"].effect == Effect.READ
    assert tools["mcp_srv_look_up"].effect == Effect.NETWORK
    assert tools["mcp_srv_echo"].examine is None
    drop = tools["mcp_srv_drop_table"]
    assert drop.effect == Effect.EXECUTE
    assert drop.serial
    assert drop.examine is not None
    assert await drop.examine({"text": "users"}) == Concern(
        "mcp:srv:drop.table",
        'mcp_srv_drop_table {"text":"users"}',
        "drop.table of the MCP server srv may destroy something",
    )


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        (only("echo", "drop.table", resources=False, prompts=False), ["drop_table", "echo"]),
        (
            McpTools(exclude=("echo", "act"), resources=False, prompts=False),
            ["drop_table", "look_up"],
        ),
        (McpTools(include=("echo",), exclude=("echo",), resources=False, prompts=False), ["echo"]),
        (only("none", prompts=False), ["list_resources", "read_resource"]),
    ],
)
async def test_the_settings_choose_by_the_servers_own_names(stage, settings, names):
    tools = await stage.tools(stage.hub(program(tools=settings)))
    assert list(tools) == [f"mcp_srv_{name}" for name in names]


async def test_a_server_without_resources_has_no_tools_for_them(stage: Stage) -> None:
    tools = await stage.tools(stage.hub(program("bare")))
    assert not any("resource" in name or "prompt" in name for name in tools)


async def test_a_switched_off_server_is_not_there(stage: Stage) -> None:
    hub = stage.hub({"a": program(enabled=False), "b": program()})
    assert {tool.toolset for tool in await hub.tools()} == {"mcp-b"}
    assert [each.name for each in hub.status()] == ["b"]


async def test_the_second_session_starts_nothing_and_has_the_very_same_tools(stage: Stage) -> None:
    path = stage.folder / "heard"
    settings = program(env={"HEARD": str(path)})
    first = [tool.spec for tool in await stage.hub(settings).tools()]
    path.unlink()
    hub = stage.hub(settings)
    second = [tool.spec for tool in await hub.tools()]
    assert first == second
    assert methods(path) == []
    assert hub.status()[0].state == "starts at first use"
    assert hub.status()[0].tools == 4
    assert await stage.act(hub, "big 2") == "yy"
    assert "tools/call" in methods(path)


async def test_the_order_in_which_a_server_lists_its_tools_does_not_matter(stage: Stage) -> None:
    one = await stage.hub({"srv": program()}).tools()
    other = await stage.hub({"srv": program("shuffled")}).tools()
    assert [tool.spec for tool in one] == [tool.spec for tool in other]


async def test_other_settings_are_another_server(stage: Stage) -> None:
    await stage.hub(program()).tools()
    assert "mcp_srv_tool0" in await stage.tools(stage.hub(program("pages")))


@pytest.mark.parametrize("data", [b'{"key": 1', b'{"key": "\xff"}'])
async def test_damaged_cache_is_ignored(stage: Stage, data: bytes) -> None:
    await stage.hub(program()).tools()
    (stage.folder / "cache" / "srv.json").write_bytes(data)
    assert "mcp_srv_echo" in await stage.tools(stage.hub(program()))


async def test_a_list_in_pages_is_read_to_its_end(stage: Stage) -> None:
    tools = await stage.tools(stage.hub(program("pages", tools=McpTools(resources=False))))
    assert [name for name in tools if "tool" in name] == [f"mcp_srv_tool{n}" for n in range(3)]


async def test_a_list_without_an_end_is_cut(stage: Stage) -> None:
    tools = await stage.tools(stage.hub(program("endless")))
    assert len([name for name in tools if "_tool" in name]) == 50


async def test_a_slow_server_does_not_hold_up_the_session_and_is_there_in_the_next(stage):
    gate = stage.folder / "gate"
    hub = stage.hub(
        {"slow": program("slow", env={"GATE": str(gate)}), "srv": program("bare")},
        {"start_seconds": 2.0},
    )
    assert "mcp_srv_echo" in await stage.tools(hub)
    assert not any("slow" in name for name in await stage.tools(hub))
    assert stage.notices == [
        "The MCP server slow takes long to start; its tools are there in the next conversation"
    ]
    gate.touch()
    async with asyncio.timeout(20):
        while "mcp_slow_echo" not in await stage.tools(hub):
            await asyncio.sleep(0.02)


async def test_changed_tools_are_reported_and_in_the_next_session(stage: Stage) -> None:
    settings = program(env={"MORE": str(stage.folder / "more")})
    stage.clock = ManualClock()
    hub = stage.hub(settings)
    assert "mcp_srv_new" not in await stage.tools(hub)
    await stage.act(hub, "changed")
    async with asyncio.timeout(20):
        while "mcp_srv_new" not in await stage.tools(hub):
            await asyncio.sleep(0.02)
    assert stage.notices == [
        "The MCP server srv offers other tools than before; new conversations have them"
    ]
    assert "mcp_srv_new" in await stage.tools(stage.hub(settings))


async def test_refresh_looks_again(stage: Stage) -> None:
    more = stage.folder / "more"
    hub = stage.hub(program(env={"MORE": str(more)}))
    await hub.tools()
    more.touch()
    found = await hub.refresh("srv")
    assert "new" in [tool.name for tool in found.tools]
    with pytest.raises(UsageError, match="there is no MCP server 'other'"):
        await hub.refresh("other")


async def test_server_that_keeps_failing_is_paused(stage: Stage) -> None:
    clock = stage.clock = ManualClock()
    hub = stage.hub(program())
    for _ in range(3):
        with pytest.raises(ToolError, match="exit code 3"):
            await stage.act(hub, "die")
    with pytest.raises(ToolError, match="failed 3 times in a row and is left alone for 30s"):
        await stage.act(hub, "big 1")
    assert hub.status()[0].state == "left alone after failures"
    assert len(stage.notices) == 1
    assert "The MCP server srv failed: srv ended with exit code 3" in stage.notices[0]
    clock.time += 31
    with pytest.raises(ToolError, match="exit code 3"):
        await stage.act(hub, "die")
    with pytest.raises(ToolError, match="left alone for 1m"):
        await stage.act(hub, "big 1")
    assert (await hub.refresh("srv")).tools  # the user wants to know now
    assert await stage.act(hub, "big 1") == "y"
    assert hub.status()[0].error == ""
    assert len(stage.notices) == 1


async def test_a_hub_that_was_closed_starts_nothing(stage: Stage) -> None:
    hub = stage.hub(program())
    tools = await stage.tools(hub)
    await hub.close()
    with pytest.raises(ToolError, match="the MCP server srv was stopped"):
        await stage.run(tools["mcp_srv_echo"], text="x")


async def test_a_reload_stops_what_is_gone_or_changed_and_starts_the_others_anew(stage, gone):
    servers = {"a": program(), "b": program(), "c": program()}
    hub = stage.hub(servers)
    tools = await stage.tools(hub)
    here = stage.folder
    pids = [
        int(inside(await stage.run(tools[f"mcp_{name}_act"], text=f"until {here}")))
        for name in servers
    ]
    found = await hub.reload(
        {"b": program("pages"), "c": program(), "d": program(), "e": program("dies")}
    )
    counts = {name: len(each.tools) for name, each in found.items() if name != "e"}
    assert counts == {"b": 3, "c": 4, "d": 4}
    assert "cannot find my settings" in str(found["e"])
    assert stage.notices == [], "who asked has the answer"
    await gone(*pids)
    for name in ("a", "b"):
        with pytest.raises(ToolError, match=f"the MCP server {name} was stopped") as error:
            await stage.run(tools[f"mcp_{name}_echo"], text="x")
        assert "a new conversation has what there is now" in error.value.hint
    assert inside(await stage.run(tools["mcp_c_echo"], text="x")) == "echo x"
    assert {tool.toolset for tool in await hub.tools()} == {"mcp-b", "mcp-c", "mcp-d"}


@pytest.mark.parametrize("stays", [True, False])
async def test_a_reload_lets_calls_under_way_end_first(stage, gone, stays):
    gate, heard_by = stage.folder / "gate", stage.folder / "heard"
    servers = {"srv": program(env={"HEARD": str(heard_by)})}
    hub = stage.hub(servers)
    tools = await stage.tools(hub)
    call = asyncio.create_task(stage.run(tools["mcp_srv_act"], text=f"until {gate}"))
    async with asyncio.timeout(20):
        while "tools/call" not in methods(heard_by):
            await asyncio.sleep(0.02)
    assert await hub.reload(servers if stays else {}) == ({"srv": None} if stays else {})
    assert not call.done()
    gate.touch()
    pid = int(inside(await call))
    await gone(pid)
    again = stage.run(tools["mcp_srv_act"], text=f"until {gate}")
    if stays:
        assert int(inside(await again)) != pid
    else:
        with pytest.raises(ToolError, match="was stopped"):
            await again


async def test_tools_say_what_their_server_is_for(stage: Stage) -> None:
    settings = program()
    for hub in (stage.hub(settings), stage.hub(settings)):  # from the server, then from the cache
        assert {tool.purpose for tool in await hub.tools()} == {"Be nice."}


async def test_known_tools_are_listed_without_starting_a_server(stage: Stage) -> None:
    settings = program()
    assert stage.hub(settings).known_tools() == []
    await stage.hub(settings).tools()
    hub = stage.hub(settings)
    assert "mcp_srv_echo" in [tool.name for tool in hub.known_tools()]
    assert hub.status()[0].state == "starts at first use"


async def test_invalid_settings_are_reported(stage: Stage) -> None:
    both = changed(program(), url="http://127.0.0.1:1/")
    assert await stage.hub({"a": both, "b": McpServer()}).tools() == []
    assert [text.partition(": ")[2] for text in stage.notices] == [
        "the MCP server a has both `command` and `url` (set one of them)",
        "the MCP server b has neither `command` nor `url` (set one of them)",
    ]


async def test_call_does_not_wait_for_a_cancelled_one(stage: Stage) -> None:
    """Two calls need the same connection; the first is given up while it is being made."""
    gate = stage.folder / "gate"
    settings = program("slow", env={"GATE": str(gate)})
    gate.touch()
    await stage.hub(settings).tools()
    gate.unlink()
    tool = (await stage.tools(stage.hub(settings)))["mcp_srv_echo"]
    calls = [asyncio.create_task(stage.run(tool, text=text)) for text in ("a", "b")]
    await asyncio.sleep(0.1)
    calls[0].cancel()
    gate.touch()
    assert "echo b" in await calls[1]
    with pytest.raises(asyncio.CancelledError):
        await calls[0]
