"""Tools that are found on demand."""

import msgspec
import pytest

from hermes.core.cancel import CancelToken
from hermes.core.errors import ToolArgumentsInvalid
from hermes.core.tool import Tool, ToolContext
from hermes.tools.registry import tool_search_tool


async def ha_call_service(entity_id: str, service: str) -> str:
    """Switch a light, a plug or another device at home."""
    return f"{service} {entity_id}"


async def browser_click(ref: str) -> str:
    """Click an element of the page."""
    return ref


RARE = [
    Tool.from_function(ha_call_service, toolset="homeassistant"),
    Tool.from_function(browser_click, toolset="browser"),
]


async def search(rare=RARE, **arguments) -> str:
    invoked: list[tuple] = []

    async def invoke(name, given):
        invoked.append((name, given))
        return f"ran {name} with {given}"

    context = ToolContext("s", "c", CancelToken(), print, invoke=invoke)
    return await tool_search_tool(rare).handler(context, arguments)


def test_schema_names_the_groups_of_rare_tools():
    spec = tool_search_tool(RARE).spec
    assert "homeassistant, browser" in spec.description
    assert "ha_call_service" not in str(spec)


@pytest.mark.parametrize("query", ["switch the light", "home devices", "LIGHTS", "homeassistant"])
async def test_query_finds_tools_with_their_parameters(query):
    found = await search(query=query)
    assert found.startswith("ha_call_service: Switch a light")
    assert '"entity_id"' in found
    assert "required: entity_id, service" in found


async def test_tool_is_run_by_its_name():
    assert await search(name="browser_click", arguments={"ref": "@e1"}) == (
        "ran browser_click with {'ref': '@e1'}"
    )


async def test_query_without_a_match_lists_the_names_and_without_words_is_an_error():
    assert await search(query="zzz") == "no tool fits; there are: browser_click, ha_call_service"
    with pytest.raises(ToolArgumentsInvalid):
        await search(query=" ")


async def test_only_the_nearest_of_many_names_are_listed():
    async def run():
        """Do something."""
        return ""

    plain = Tool.from_function(run)
    many = [
        msgspec.structs.replace(plain, spec=msgspec.structs.replace(plain.spec, name=name))
        for name in (*(f"mcp_many_tool_{number}" for number in range(1_000)), "mcp_post_sendmail")
    ]
    answer = await search(many, query="zendmail")
    assert answer.startswith("no tool fits; of 1,001 the nearest by name are: mcp_post_sendmail, ")
    assert len(answer.split(", ")) == 20
