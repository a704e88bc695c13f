"""What owners, members and guests may do."""

import pytest

from hermes.config.settings.platforms import GatewaySettings, Role
from hermes.gateway.door.roles import may, toolsets_for

OURS = GatewaySettings()


@pytest.mark.parametrize("command", ["/yolo", "/restart", "/model x --global", "/anything", ""])
def test_an_owner_may_everything(command: str) -> None:
    assert may("owner", command, OURS) == ""


@pytest.mark.parametrize("command", ["/new", "/model gpt-5", "/approve", "/approve session", "/x"])
def test_a_member_may_what_concerns_only_the_own_conversation(command: str) -> None:
    assert may("member", command, OURS) == ""


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
    assert may("member", command, OURS) == f"Only an owner may use /{name}."


@pytest.mark.parametrize("command", ["/help", "/status", "/stop", "/new", "/reset", "/usage"])
def test_a_guest_may_look_and_begin_anew(command: str) -> None:
    assert may("guest", command, OURS) == ""


@pytest.mark.parametrize("command", ["/background x", "/model", "/approve", "/deploy-skill"])
def test_a_guest_may_not_the_rest(command: str) -> None:
    assert may("guest", command, OURS).startswith("A guest may not use /")


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
    assert toolsets_for(role, OURS) is None


def test_guests_have_few_tools_unless_the_settings_say_otherwise() -> None:
    assert toolsets_for("guest", OURS) == ("web", "clarify", "todo", "vision")
    more = GatewaySettings(role_toolsets={"guest": ("all",), "member": ("web",), "owner": ()})
    assert toolsets_for("guest", more) is None
    assert toolsets_for("member", more) == ("web",)
    assert toolsets_for("owner", more) == ()
