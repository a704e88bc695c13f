"""Every tool there is, and what becomes of it in a session."""

import json
import threading
import time
from pathlib import Path

import msgspec
import pytest

from hermes.app.tools import unbound_tool_deps
from hermes.config.home import Home
from hermes.config.loader import load
from hermes.config.settings import Settings
from hermes.core.cancel import CancelToken
from hermes.core.model import ToolSpec
from hermes.core.tool import Effect, Tool, ToolContext
from hermes.sdk.testing.plugin import call_tool, load_plugin
from hermes.tools.registry import (
    SERVICE_TOOLS,
    ToolRegistry,
    ToolUsage,
    assemble,
    discover_builtin,
)
from hermes.tools.toolsets import TOOLSETS, all_toolsets, expand
from tests.cases import cases
from tests.workspace import make_tool

CASES = cases(__file__)

SCHEMA = {
    "name": "weather",
    "description": "The weather of a place.",
    "parameters": {"type": "object", "properties": {"place": {"type": "string"}}},
}


@pytest.fixture
def deps(hermes_home, tmp_path):
    home = Home(hermes_home)
    return unbound_tool_deps(load(home), home, tmp_path)


@pytest.fixture
def registry():
    found = ToolRegistry()
    discover_builtin(found)
    return found


def known(registry: ToolRegistry):
    return all_toolsets(found=registry.added_toolsets())


def context() -> ToolContext:
    return ToolContext("s1", "c1", CancelToken(), print)


def test_every_module_of_the_folder_is_a_tool(registry):
    folder = Path(__file__).parents[3] / "src/hermes/tools/builtin"
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    grouped = {"rl": set(TOOLSETS["rl"].tools)}  # a module with all tools of a toolset
    tools = {name for module in modules for name in grouped.get(module, {module})}
    names = tools | {entry.name for entry in SERVICE_TOOLS}
    assert [entry.name for entry in registry.entries] == sorted(names)
    for entry in registry.entries:
        assert entry.name in TOOLSETS[entry.toolset].tools
    assert registry.extended_toolsets() == {}


def test_schemas_of_builtin_tools_stay_the_same(registry):
    """Providers cache the start of a request: a change here costs every user a cache miss."""
    names = sorted({entry.name for entry in registry.entries} - {e.name for e in SERVICE_TOOLS})
    unused = object()
    services = ("scheduler", "outbox", "spawner", "sessions", "trainer")
    parts = dict.fromkeys(services, unused)
    made = [make_tool(name, **parts) for name in names]
    found = [
        {**msgspec.to_builtins(tool.spec), "effect": tool.effect, "serial": tool.serial}
        for tool in made
    ]
    kept = Path(__file__).with_name("schemas.json").read_text()
    assert "\n".join(json.dumps(each, ensure_ascii=False) for each in found) + "\n" == kept


def test_builtin_tool_joins_its_toolset_without_being_listed(registry):
    todo = registry.get("todo")
    registry.add(msgspec.structs.replace(todo, name="append_file", toolset="file"))
    toolsets = all_toolsets(found=registry.extended_toolsets())
    assert expand(["file"], toolsets) == [*TOOLSETS["file"].tools, "append_file"]
    assert "append_file" in expand(["hermes-cli"], toolsets)


def test_plugin_tool_joins_a_toolset_of_its_own_and_no_listed_one(registry):
    registry.register("append_file", "file", SCHEMA, str)
    assert registry.extended_toolsets() == {}
    registry.register("weather", "meteo", SCHEMA, str)
    assert known(registry)["meteo"].tools == ("weather",)


async def test_plugins_tool_runs_as_it_is_documented(registry, deps):
    seen = {}

    def handler(args, **kwargs):
        seen.update(args=args, **kwargs, thread=threading.current_thread())
        return json.dumps({"sky": "blue"})

    registry.register("weather", "weather", SCHEMA, handler, emoji="☀")
    made = assemble(["weather"], deps, registry, known(registry))
    (tool,) = made.tools
    assert (tool.spec.description, tool.effect) == ("The weather of a place.", Effect.EXECUTE)
    assert await tool.handler(context(), {"place": "Rome"}) == '{"sky": "blue"}'
    assert (seen["args"], seen["task_id"]) == ({"place": "Rome"}, "s1")
    assert seen["thread"] is not threading.main_thread()


def test_plugin_registers_a_decorated_tool(tmp_path):
    (tmp_path / "moon").mkdir()
    (tmp_path / "moon/plugin.yaml").write_text("name: moon\nversion: 1.0.0\n")
    (tmp_path / "moon/__init__.py").write_text(CASES["plugin"])
    phase = load_plugin(tmp_path / "moon").tools["phase"]
    assert (phase.toolset, list(phase.spec.parameters["properties"])) == ("sky", ["day"])
    assert call_tool(phase, {"day": 3}) == "full on day 3 for session at test"


def test_a_plugins_tool_has_a_time_limit(registry, deps):
    settings = msgspec.convert({"plugins": {"tool_timeout": 7}}, Settings)
    registry.register("weather", "weather", SCHEMA, str)
    made = assemble(
        ["weather", "todo"],
        msgspec.structs.replace(deps, settings=settings),
        registry,
        known(registry),
    )
    assert {tool.name: tool.timeout for tool in made.tools} == {"weather": 7, "todo": 0}


async def test_async_handler_is_awaited_and_data_becomes_json(registry, deps):
    async def handler(args, **_kwargs):
        return {"place": args["place"]}

    registry.register("weather", "weather", SCHEMA, handler, is_async=True)
    (tool,) = assemble(["weather"], deps, registry, known(registry)).tools
    assert await tool.handler(context(), {"place": "Rome"}) == '{"place":"Rome"}'


def test_check_runs_once_and_its_failure_makes_the_tool_unavailable(registry, deps):
    asked = []

    def check():
        asked.append(1)
        raise OSError("no such device")

    registry.register("a", "lab", SCHEMA, str, check_fn=lambda: False)
    registry.register("b", "lab", SCHEMA, str, check_fn=check)
    made = assemble(["a", "b", "todo"], deps, registry, known(registry))
    assert [tool.name for tool in made.tools] == ["todo"]
    assert made.unavailable["a"] == "its check says it cannot be used"
    assert "no such device" in made.unavailable["b"]
    assert asked == [1]


def test_keys_that_are_set_are_found(deps):
    variables = {"EXA_API_KEY": "k", "BRAVE_API_KEY": ""}
    found = msgspec.structs.replace(deps, variables=variables.get)
    assert found.keys({"exa": "EXA_API_KEY", "brave": "BRAVE_API_KEY"}) == {"exa": "k"}


def test_a_tool_of_another_plugin_is_not_replaced(registry, caplog):
    registry.register("other", "mine", SCHEMA, str)
    registry.register("other", "yours", SCHEMA, str)
    assert registry.get("other").toolset == "mine"
    assert "tool other of yours is left out: mine has one already" in caplog.text
    registry.register("other", "mine", SCHEMA, str, emoji="x")
    assert registry.get("other").emoji == "x", "its own plugin may register it again"


def test_a_built_in_tool_is_never_replaced(registry, caplog):
    own = registry.get("todo")
    registry.register("todo", "mine", SCHEMA, str)
    registry.add(msgspec.structs.replace(own, toolset="mine", builtin=False))
    assert registry.get("todo") is own
    assert caplog.text.count("tool todo of mine is left out: Hermes itself has one") == 2
    early = ToolRegistry()
    early.add(msgspec.structs.replace(own, toolset="mine", builtin=False))
    discover_builtin(early)
    assert early.get("todo").toolset == "todo"


def test_execute_code_names_only_the_tools_that_are_there(registry, deps):
    made = assemble(["execute_code", "read_file"], deps, registry, known(registry))
    code = next(tool for tool in made.tools if tool.name == "execute_code")
    assert "import read_file`" in code.spec.description
    assert "web_search" not in code.spec.description


def test_plugin_tools_beyond_the_budget_become_rare(registry, deps):
    for number in range(60):
        registry.register(f"lab_{number}", "lab", {**SCHEMA, "description": "x" * 400}, str)
    names = ["read_file", *(f"lab_{number}" for number in range(60))]
    made = assemble(names, deps, registry, known(registry))
    shown = [tool.name for tool in made.tools]
    assert shown == ["read_file", "tool_search"]
    assert [tool.name for tool in made.rare] == names[1:]


def brought(server: str, tools: int, purpose: str = "", chars: int = 400) -> list[Tool]:
    async def run(context, arguments):
        return "ok"

    return [
        Tool(
            ToolSpec(f"mcp_{server}_do_{number}", "x" * chars, {"type": "object"}),
            run,
            toolset=f"mcp-{server}",
            purpose=purpose,
        )
        for number in range(tools)
    ]


def with_servers(registry, deps, *servers, room=5_000, **fields):
    """The toolsets of servers in the request, and the tools that only tool_search finds."""
    found = registry.with_tools([tool for tools in servers for tool in tools])
    settings = msgspec.convert({"tools": {"max_chars": room}}, Settings)
    fields = {"settings": settings, **fields}
    names = ["todo", *(tool.name for tools in servers for tool in tools)]
    made = assemble(names, msgspec.structs.replace(deps, **fields), found, known(found))
    return {tool.toolset for tool in made.tools} - {"todo", "tool_search"}, made


def test_a_server_is_in_the_request_as_a_whole_or_not_at_all(registry, deps):
    servers = brought("big", 10), brought("small", 3, "Tells the time.")
    shown, made = with_servers(registry, deps, *servers, room=3_000, usage=None)
    assert shown == {"mcp-small"}
    assert [tool.name for tool in made.rare] == [f"mcp_big_do_{number}" for number in range(10)]
    shown, made = with_servers(registry, deps, *servers, room=100, usage=None)
    assert shown == set()
    description = made.tools[-1].spec.description
    assert "- mcp-big: do_0, do_1, do_2" in description
    assert "- mcp-small: Tells the time." in description


def test_servers_that_are_used_most_are_in_the_request(registry, deps, tmp_path):
    usage = ToolUsage(tmp_path / "cache/use.json")
    servers = [brought(name, 5) for name in ("alpha", "beta", "gamma")]
    shown, made = with_servers(registry, deps, *servers, usage=usage, room=3_500)
    assert shown == {"mcp-alpha"}
    hidden = next(tool for tool in made.rare if tool.toolset == "mcp-gamma")
    usage.record(hidden)
    assert with_servers(registry, deps, *servers, usage=usage, room=3_500)[0] == {"mcp-gamma"}
    asks = {"about": "please ask beta about it", "room": 3_500}
    assert with_servers(registry, deps, *servers, usage=usage, **asks)[0] == {"mcp-beta"}


def test_old_uses_count_less_than_recent_ones(tmp_path):
    path = tmp_path / "use.json"
    now = time.time()
    path.write_text(json.dumps({"old": [4, now - 28 * 86_400], "new": [2, now]}))
    scores = ToolUsage(path).scores()
    assert (round(scores["old"], 2), round(scores["new"], 2)) == (1, 2)
    path.write_text("broken")
    assert ToolUsage(path).scores() == {}


def test_rare_toolsets_stay_out_of_the_request_unless_listed(registry, hermes_home, tmp_path):
    def made(settings):
        hermes_home.mkdir(exist_ok=True)
        (hermes_home / "config.yaml").write_text(settings)
        home = Home(hermes_home)
        deps = unbound_tool_deps(load(home), home, tmp_path)
        return [tool.name for tool in assemble(names, deps, registry, known(registry)).tools]

    registry.register("image_generate", "image_gen", SCHEMA, str)
    names = ["todo", "image_generate"]
    assert made("") == ["todo", "tool_search"]
    assert made("tools: {always: [image_gen]}\n") == names
    assert made("tools: {search: false}\n") == names
