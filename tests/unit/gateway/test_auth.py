"""Who may talk to the agent, and what each role may do."""

import re
from pathlib import Path

import msgspec
import pytest

from hermes.app.commands import Surface, commands_in
from hermes.config.schema import complete_settings
from hermes.config.settings import Settings
from hermes.config.settings.platforms import GatewaySettings, Platform
from hermes.core.events import ApprovalAsked
from hermes.gateway.auth import OWNERS_ONLY, Authorizer, may, may_approve, toolsets_for
from hermes.sdk.platforms import Capabilities, PlatformManifest, SessionSource
from hermes_plugins.platforms.telegram.manifest import TelegramSettings
from tests.unit.gateway.auth_setup import AuthSetup, code_in

WEBHOOK = PlatformManifest(
    "webhook", "Webhook", "x:X", Capabilities(max_chars=1), checks_callers=True
)


@pytest.fixture
def setup(tmp_path):
    return AuthSetup(tmp_path)


async def test_stranger_gets_a_code_in_a_private_chat(setup):
    admission = await setup.says("5", user_name="Eve")
    assert not admission.allowed
    assert admission.role is None
    code = code_in(admission.reply)
    assert f"hermes pairing approve telegram {code}" in admission.reply


async def test_checking_a_user_creates_no_code(setup):
    authorizer = Authorizer(setup.settings, setup.variables.get, setup.store, {})
    assert authorizer.recognize(SessionSource("telegram", "5", user_id="5")) is None
    assert setup.store.pending("telegram") == []
    assert code_in((await setup.says("5")).reply)


@pytest.mark.parametrize("kind", ["group", "channel"])
async def test_stranger_in_a_group_gets_no_reply(setup, kind):
    admission = await setup.says("5", chat_type=kind)
    assert (admission.allowed, admission.reply) == (False, "")


async def test_single_listed_user_is_the_owner(setup):
    setup.variables["TELEGRAM_ALLOWED_USERS"] = "5"
    admission = await setup.says("5")
    assert (admission.allowed, admission.role) == (True, "owner")


async def test_general_allowlist_adds_to_the_one_of_the_platform(setup):
    setup.variables |= {"TELEGRAM_ALLOWED_USERS": "5", "GATEWAY_ALLOWED_USERS": "7"}
    assert (await setup.says("7")).role == "member"
    assert (await setup.says("5")).role == "owner"


@pytest.mark.parametrize("name", ["TELEGRAM_ALLOW_ALL_USERS", "GATEWAY_ALLOW_ALL_USERS"])
async def test_open_access_makes_everyone_a_guest(setup, name):
    setup.variables[name] = "true"
    admission = await setup.says("99")
    assert (admission.allowed, admission.role) == (True, "guest")


@pytest.mark.parametrize("said", ["false", "0", "no", "off", "", "maybe", "truee", "-1"])
async def test_unclear_switch_is_off(setup, said):
    setup.variables["GATEWAY_ALLOW_ALL_USERS"] = said
    assert not (await setup.says("99")).allowed


async def test_listed_user_keeps_the_role_with_open_access(setup):
    setup.variables |= {"TELEGRAM_ALLOWED_USERS": "5", "TELEGRAM_ALLOW_ALL_USERS": "1"}
    assert (await setup.says("5")).role == "owner"


async def test_star_in_the_allowlist_makes_everyone_a_guest(setup):
    setup.variables["TELEGRAM_ALLOWED_USERS"] = "5,*"
    assert {(await setup.says(user)).role for user in ("99", "*")} == {"guest"}
    assert (await setup.says("5")).role == "owner"


async def test_owners_and_roles_of_the_settings_come_first(tmp_path):
    setup = AuthSetup(tmp_path, owners=("telegram:1",), roles={"telegram:5": "guest"})
    setup.variables["TELEGRAM_ALLOWED_USERS"] = "5"
    assert (await setup.says("1")).role == "owner"
    assert (await setup.says("5")).role == "guest"


async def test_allowlist_makes_no_owner_where_owners_are_named(tmp_path):
    setup = AuthSetup(tmp_path, owners=("telegram:1",))
    setup.variables |= {"TELEGRAM_ALLOWED_USERS": "5", "DISCORD_ALLOWED_USERS": "5"}
    assert (await setup.says("5")).role == "member"
    assert (await setup.says("5", platform="discord")).role == "owner"


async def test_role_alone_does_not_admit(tmp_path):
    setup = AuthSetup(tmp_path, roles={"telegram:5": "owner"})
    assert not (await setup.says("5")).allowed


async def test_paired_users_are_members(setup):
    code = code_in((await setup.says("5")).reply)
    setup.another_process().approve("telegram", code)
    admission = await setup.says("5", chat_type="group")
    assert (admission.allowed, admission.role, admission.why) == (True, "member", "paired")


async def test_invitation_code_authorizes_its_sender(setup):
    code = setup.store.invite("telegram")
    admission = await setup.says("5", f" {code.lower()[:4]}-{code.lower()[4:]} ")
    assert not admission.allowed, "the code is no message for the agent"
    assert "authorized" in admission.reply
    assert (await setup.says("5")).role == "member"
    assert not (await setup.says("6", code)).allowed


async def test_a_stranger_is_ignored_when_the_settings_say_so(setup):
    setup.settings = Settings(unauthorized_dm_behavior="ignore")
    assert (await setup.says("5")).reply == ""


@pytest.mark.parametrize(
    "settings",
    [
        complete_settings()(telegram=TelegramSettings(unauthorized_dm_behavior="ignore")),
        complete_settings()(
            unauthorized_dm_behavior="ignore",
            platforms=msgspec.structs.replace(
                complete_settings()().platforms, discord=Platform(unauthorized_dm_behavior="pair")
            ),
        ),
    ],
    ids=["section", "connection"],
)
async def test_a_platform_may_differ_from_the_others(setup, settings):
    setup.settings = settings
    assert (await setup.says("5")).reply == ""
    assert (await setup.says("5", platform="discord")).reply != ""


async def test_an_invitation_works_also_where_strangers_are_ignored(setup):
    setup.settings = Settings(unauthorized_dm_behavior="ignore")
    code = setup.store.invite("telegram")
    assert (await setup.says("5", code)).reply


async def test_other_bots_are_refused_unless_allowed(setup):
    setup.variables["DISCORD_ALLOWED_USERS"] = "5"
    assert not (await setup.says("5", platform="discord", is_bot=True)).allowed
    setup.variables["DISCORD_ALLOW_BOTS"] = "all"
    assert (await setup.says("5", platform="discord", is_bot=True)).allowed
    stranger = await setup.says("6", platform="discord", is_bot=True)
    assert (stranger.allowed, stranger.reply) == (False, "")


async def test_platform_that_authenticates_users_is_trusted(setup):
    authorizer = Authorizer(setup.settings, setup.variables.get, setup.store, {"webhook": WEBHOOK})
    admission = await authorizer.admit(SessionSource("webhook", "route"), "")
    assert (admission.allowed, admission.role) == (True, "member")


async def test_damaged_file_excludes_only_paired_users(setup, caplog):
    code = code_in((await setup.says("5")).reply)
    setup.store.approve("telegram", code)
    approved = setup.folder / "telegram-approved.json"
    approved.write_text("{")
    setup.variables["TELEGRAM_ALLOWED_USERS"] = "7"
    assert not (await setup.says("5")).allowed
    assert (await setup.says("7")).allowed
    assert approved.read_text() == "{"
    assert "damaged" in caplog.text


INTERNAL_PREFIX = GatewaySettings()


@pytest.mark.parametrize("command", ["/yolo", "/restart", "/model x --global", "/anything", ""])
def test_an_owner_may_everything(command):
    assert may("owner", command, INTERNAL_PREFIX) == ""


@pytest.mark.parametrize("command", ["/new", "/model gpt-5", "/approve", "/approve session", "/x"])
def test_member_may_use_commands_of_the_own_conversation(command):
    assert may("member", command, INTERNAL_PREFIX) == ""


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("/yolo", "yolo"), ("/YOLO", "yolo"), ("/yol", "yolo"), ("/yolo@our_bot", "yolo"),
        ("/reload_mcp", "reload-mcp"), ("/set-home", "sethome"), ("/restart now", "restart"),
        ("/model gpt-5 --global", "model --global"),
        ("/model gpt-5 \u2014global", "model --global"), ("/approve ALWAYS", "approve always"),
        ("/pair", "pair"),
    ],
)  # fmt: skip
def test_a_member_may_not_change_things_for_others(command, name):
    refused = may("member", command, INTERNAL_PREFIX)
    assert refused.startswith(f"Only an owner may use /{name}. ") and "gateway.owners" in refused


def test_guide_names_owner_commands():
    guide = Path(__file__).parents[3] / "docs" / "guide" / "gateway.md"
    row = next(line for line in guide.read_text().splitlines() if line.startswith("| member |"))
    here = {command.name for command in commands_in(Surface.CHATS)}
    owners = {name for name in OWNERS_ONLY if name.partition(" ")[0] in here}
    assert {name.replace("… ", "") for name in re.findall(r"`/([^`]+)`", row)} == owners


@pytest.mark.parametrize("command", ["/help", "/status", "/stop", "/new", "/reset", "/usage"])
def test_a_guest_may_look_and_begin_anew(command):
    assert may("guest", command, INTERNAL_PREFIX) == ""


@pytest.mark.parametrize("command", ["/background x", "/model", "/approve", "/deploy-skill"])
def test_a_guest_may_not_the_rest(command):
    assert may("guest", command, INTERNAL_PREFIX).startswith("A guest may not use /")


def test_settings_override_role_commands():
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
def test_owners_and_members_have_all_tools(role):
    assert toolsets_for(role, INTERNAL_PREFIX) is None


def test_guests_have_few_tools_unless_the_settings_say_otherwise():
    assert toolsets_for("guest", INTERNAL_PREFIX) == ("web", "clarify", "todo", "vision")
    more = GatewaySettings(role_toolsets={"guest": ("all",), "member": ("web",), "owner": ()})
    assert toolsets_for("guest", more) is None
    assert toolsets_for("member", more) == ("web",)
    assert toolsets_for("owner", more) == ()


@pytest.mark.parametrize(
    ("tool", "effect", "isolated", "may_member"),
    [
        ("terminal", "execute", True, True),
        ("write_file", "write", True, True),
        ("terminal", "execute", False, False),
        ("write_file", "write", False, False),
        ("terminal", "", True, False),
        ("terminal", "network", True, False),
        ("read_file", "read", True, False),
        ("mcp_files_write", "execute", True, False),
        ("send_message", "send", True, False),
        ("cronjob", "persist", True, False),
        ("memory", "persist", True, False),
    ],
)
def test_role_decides_about_approvals(tool, effect, isolated, may_member):
    question = ApprovalAsked("c1", tool, "x", "why", effect=effect)
    assert may_approve("owner", question, isolated=isolated)
    assert may_approve("member", question, isolated=isolated) is may_member
    assert not may_approve("guest", question, isolated=isolated)
