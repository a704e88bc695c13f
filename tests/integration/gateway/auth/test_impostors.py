"""People who pass for others, and people who want to do more than they may. See test_attacks.py."""

import tomllib
from pathlib import Path

import pytest

from hermes.config.settings.platforms import GatewaySettings
from hermes.gateway.auth import may, toolsets_for
from hermes.gateway.session_keys import build_session_key, memory_scope
from hermes.sdk.platforms import SessionSource
from tests.unit.gateway.auth_setup import AuthSetup

ALLOWED = "12345"
CASES = tomllib.loads(Path(__file__).with_name("impostors.toml").read_text("utf-8"))


@pytest.fixture
def setup(tmp_path):
    return AuthSetup(tmp_path)


# --- user ids ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dm", "group"])
@pytest.mark.parametrize("facts", CASES["strangers"].values(), ids=CASES["strangers"])
async def test_impostors_are_refused(setup, facts, kind):
    setup.variables["TELEGRAM_ALLOWED_USERS"] = f"{ALLOWED}, 67890,"
    wanted = {"chat_type": kind, **facts}
    admission = await setup.says(wanted.pop("user", "999"), wanted.pop("text", "hello"), **wanted)
    assert not admission.allowed
    assert admission.role is None
    assert kind == "dm" or admission.reply == ""


@pytest.mark.parametrize(("platform", "listed", "user"), CASES["look_alikes"].values())
async def test_look_alikes_are_strangers(setup, platform, listed, user):
    setup.variables[f"{platform.upper()}_ALLOWED_USERS"] = listed
    assert not (await setup.says(user, platform=platform)).allowed
    assert (await setup.says(listed, platform=platform)).allowed, "the real one is let in"


@pytest.mark.parametrize(
    ("platform", "listed", "user"),
    [("email", "Ann@X.org", "ann@x.ORG"), ("matrix", "@Ann:x.org", "@ann:x.org")],
)
async def test_letter_case_is_ignored_where_the_platform_ignores_it(setup, platform, listed, user):
    setup.variables[f"{platform.upper()}_ALLOWED_USERS"] = listed
    assert (await setup.says(user, platform=platform)).allowed


# --- lists ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "listed", ["", ",", ",,,", " , ", "\t", "\n", "1*", "*1", "**", "* *", "'*'", '"*"', ".*", "?"]
)
@pytest.mark.parametrize("name", ["TELEGRAM_ALLOWED_USERS", "GATEWAY_ALLOWED_USERS"])
async def test_list_without_user_ids_admits_no_user(setup, name, listed):
    setup.variables[name] = listed
    for user in ("", " ", "1", "12", "21", "a", ","):
        assert not (await setup.says(user, chat_type="group")).allowed


@pytest.mark.parametrize(
    "said", ["", "no", "off", "0", "false", "ture", "TELEGRAM", "*", "2", "null"]
)
async def test_unclear_switch_is_off(setup, said):
    setup.variables |= {"TELEGRAM_ALLOW_ALL_USERS": said, "GATEWAY_ALLOW_ALL_USERS": said}
    assert not (await setup.says("5")).allowed


async def test_allow_all_excludes_anonymous_authors_and_bots(setup):
    setup.variables["TELEGRAM_ALLOW_ALL_USERS"] = "true"
    assert not (await setup.says("", chat_type="group")).allowed
    assert not (await setup.says("5", is_bot=True)).allowed


# --- sessions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("pair", CASES["sessions"].values(), ids=CASES["sessions"])
def test_ids_cannot_form_the_key_of_another_conversation(pair):
    for alone in (True, False):
        how = {"group_sessions_per_user": alone, "thread_sessions_per_user": alone}
        attacker, victim = (build_session_key(SessionSource(**each), **how) for each in pair)
        assert attacker != victim


def test_user_ids_cannot_reach_notes_of_the_owner_or_of_a_chat():
    for user in ("", "chat:c", "../..", " ", "\x00"):
        scope = memory_scope(SessionSource("p", "d", user_id=user))
        assert scope.user not in ("", "p:chat:c")


# --- roles ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["member", "guest"])
@pytest.mark.parametrize("command", CASES["commands"]["of_owners"])
def test_owner_commands_are_refused_in_every_spelling(role, command):
    assert may(role, command, GatewaySettings()) != ""  # type: ignore[arg-type]


async def test_two_listed_users_are_members(setup):
    setup.variables["TELEGRAM_ALLOWED_USERS"] = " 5 , 6,"
    assert [(await setup.says(user)).role for user in "56"] == ["member", "member"]


async def test_owner_of_another_platform_is_a_guest(tmp_path):
    setup = AuthSetup(tmp_path, owners=("discord:5", ":5", "5", "telegram:", "telegram"))
    setup.variables["GATEWAY_ALLOW_ALL_USERS"] = "true"
    assert (await setup.says("5")).role == "guest"
    assert (await setup.says("discord:5")).role == "guest"


def test_a_guest_cannot_run_commands_or_change_files():
    given = set(toolsets_for("guest", GatewaySettings()) or ())
    assert given
    assert not given & set(CASES["toolsets"]["forbidden"])
