"""What owners, members and guests may do."""

import re
from pathlib import Path

import pytest

from hermes.app.commands import Surface, commands_in
from hermes.config.settings.platforms import GatewaySettings, Role
from hermes.gateway.auth import OWNERS_ONLY, may, toolsets_for

INTERNAL_PREFIX = GatewaySettings()


@pytest.mark.parametrize("command", ["/yolo", "/restart", "/model x --global", "/anything", ""])
def test_an_owner_may_everything(command: str) -> None:
    assert may("owner", command, INTERNAL_PREFIX) == ""


@pytest.mark.parametrize("command", ["/new", "/model gpt-5", "/approve", "/approve session", "/x"])
def test_a_member_may_what_concerns_only_the_own_conversation(command: str) -> None:
    assert may("member", command, INTERNAL_PREFIX) == ""


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("/yolo", "yolo"),
        ("/YOLO", "yolo"),
        ("/yol", "yolo"),
        ("/yolo@our_bot", "yolo"),
        ("/reload_mcp", "reload-mcp"),
        ("/set-home", "sethome"),
        ("/restart now", "restart"),
        ("/model gpt-5 --global", "model --global"),
        ("/model gpt-5 \u2014global", "model --global"),
        ("/approve ALWAYS", "approve always"),
        ("/pair", "pair"),
    ],
)
def test_a_member_may_not_change_things_for_others(command: str, name: str) -> None:
    refused = may("member", command, INTERNAL_PREFIX)
    assert refused.startswith(f"Only an owner may use /{name}. ") and "gateway.owners" in refused


def test_the_guide_names_what_only_owners_may() -> None:
    guide = Path(__file__).parents[4] / "docs" / "guide" / "gateway.md"
    row = next(line for line in guide.read_text().splitlines() if line.startswith("| member |"))
    here = {command.name for command in commands_in(Surface.CHATS)}
    owners = {name for name in OWNERS_ONLY if name.partition(" ")[0] in here}
    assert {name.replace("… ", "") for name in re.findall(r"`/([^`]+)`", row)} == owners


@pytest.mark.parametrize("command", ["/help", "/status", "/stop", "/new", "/reset", "/usage"])
def test_a_guest_may_look_and_begin_anew(command: str) -> None:
    assert may("guest", command, INTERNAL_PREFIX) == ""


@pytest.mark.parametrize("command", ["/background x", "/model", "/approve", "/deploy-skill"])
def test_a_guest_may_not_the_rest(command: str) -> None:
    assert may("guest", command, INTERNAL_PREFIX).startswith("A guest may not use /")


def test_the_settings_decide_what_a_role_may() -> None:
    settings = GatewaySettings(
        role_commands={"guest": ("/model", "set_home"), "member": ("all",), "owner": ("help",)}
    )
    assert may("guest", "/model x", settings) == ""
    assert may("guest", "/sethome", settings) == ""
    assert may("guest", "/model x --global", settings) != ""
    assert may("guest", "/help", settings) != ""
    assert may("member", "/yolo", settings) == ""
    assert may("owner", "/yolo", settings) != ""


@pytest.mark.parametrize("role", ["owner", "member"])
def test_owners_and_members_have_all_tools(role: Role) -> None:
    assert toolsets_for(role, INTERNAL_PREFIX) is None


def test_guests_have_few_tools_unless_the_settings_say_otherwise() -> None:
    assert toolsets_for("guest", INTERNAL_PREFIX) == ("web", "clarify", "todo", "vision")
    more = GatewaySettings(role_toolsets={"guest": ("all",), "member": ("web",), "owner": ()})
    assert toolsets_for("guest", more) is None
    assert toolsets_for("member", more) == ("web",)
    assert toolsets_for("owner", more) == ()
