"""`/reload-mcp`: servers that come, go and change while a conversation is open."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from hermes.config.home import Home
from hermes.config.loader import load
from hermes.core.testing import ModelServer
from tests.integration.mcp.stage import PROGRAM


def server(scene: str = "bare", **more: Any) -> dict[str, Any]:
    return {"command": "python3", "args": [PROGRAM, scene], **more}


@pytest.fixture
def write(hermes_home: Path) -> Callable[..., None]:
    """The servers in config.yaml, and lines of .env."""

    def written(servers: dict[str, Any], saved: str = "") -> None:
        settings = {"sessions": {"auto_title": False}, "mcp_servers": servers}
        (hermes_home / "config.yaml").write_text(yaml.safe_dump(settings))
        (hermes_home / ".env").write_text(saved)

    return written


def offered(model: ModelServer) -> set[str]:
    """The tools of servers in the last request."""
    names = {tool["function"]["name"] for tool in model.calls[-1].body["tools"]}
    return {name for name in names if name.startswith("mcp_")}


async def test_a_server_that_was_added_meanwhile_is_there_for_the_next_conversation(
    talking: Any, write: Callable[..., None]
) -> None:
    with ModelServer(["one", "two"]) as model:
        async with talking(model) as talk:
            assert "There are no MCP servers" in await talk.say("/reload-mcp")
            write({"late": server()})
            answer = await talk.say("/reload-mcp")
            assert answer.startswith("- `late` added: 4 tools\n")
            assert "This conversation keeps the tools it has; `/new` begins one" in answer
            await talk.say("first")
            assert offered(model) == set()
            await talk.say("/new")
            await talk.say("second")
            assert "mcp_late_echo" in offered(model)


async def test_what_is_gone_changed_off_or_broken_is_said(
    talking: Any, write: Callable[..., None]
) -> None:
    with ModelServer([]) as model:
        async with talking(model) as talk:
            write({name: server() for name in ("gone", "new-look", "off", "same")})
            await talk.say("/reload-mcp")
            write(
                {
                    "broken": {"command": "no-such-program"},
                    "liar": server("liar"),
                    "new-look": server("pages", timeout=3),
                    "off": server(enabled=False),
                    "same": server(),
                }
            )
            lines = (await talk.say("/reload-mcp")).splitlines()
            assert lines[0].startswith("- `broken` failed: broken: there is no program 'no-such")
            assert lines[0].endswith(" (install it, or correct `command` of the server)")
            assert lines[1:6] == [
                "- `gone` removed",
                "- `liar` added: 4 tools, 11 left out",
                "- `new-look` changed: 3 tools",
                "- `off` is switched off",
                "- `same` started anew: 4 tools",
            ]
            await talk.say("/new")
            brought = talk.app.session(talk.agent).brought
            assert {tool.toolset for tool in brought} == {"mcp-liar", "mcp-new-look", "mcp-same"}


async def test_settings_that_cannot_be_read_change_nothing(
    talking: Any, write: Callable[..., None], hermes_home: Path
) -> None:
    with ModelServer(["one"]) as model:
        async with talking(model) as talk:
            write({"srv": server()})
            await talk.say("/reload-mcp")
            (hermes_home / "config.yaml").write_text("mcp_servers: [what\n")
            assert "config.yaml" in await talk.say("/reload-mcp")
            await talk.say("/new")
            await talk.say("hello")
            assert "mcp_srv_echo" in offered(model)


async def test_new_secrets_of_the_servers_are_known_from_then_on(
    talking: Any, write: Callable[..., None]
) -> None:
    with ModelServer([]) as model:
        async with talking(model) as talk:
            write({"srv": server(env={"PASS": "${SRV_PASS}"})}, "SRV_PASS=open-sesame\n")
            assert "`srv` added" in await talk.say("/reload-mcp")
            assert "open-sesame" not in talk.app.redact("it is open-sesame")


async def test_settings_that_were_left_aside_stay_there(
    talking: Any, write: Callable[..., None], hermes_home: Path
) -> None:
    with ModelServer([]) as model:
        async with talking(model) as talk:
            write({"srv": server()})
            aside = load(Home(hermes_home), user_config=False)
            servers = type(talk.app.mcp)(talk.app.home, aside, print)
            assert await servers.reload(lambda: None) == []
