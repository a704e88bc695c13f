"""People who pass for others, and people who want to do more than they may. See test_attacks.py."""

import pytest

from hermes.config.settings.platforms import GatewaySettings
from hermes.gateway.auth import may, toolsets_for
from hermes.gateway.session_keys import build_session_key, memory_scope
from hermes.sdk.platforms import SessionSource
from tests.unit.gateway.auth_setup import AuthSetup, code_in

ALLOWED = "12345"


@pytest.fixture
def setup(tmp_path):
    return AuthSetup(tmp_path)


# --- user ids ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dm", "group"])
@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({"user_name": ALLOWED}, id="display_name_is_the_id"),
        pytest.param({"chat_name": ALLOWED}, id="chat_name_is_the_id"),
        pytest.param({"chat_id": ALLOWED}, id="chat_id_is_the_id"),
        pytest.param({"thread_id": ALLOWED}, id="thread_is_the_id"),
        pytest.param({"account": ALLOWED}, id="account_is_the_id"),
        pytest.param({"text": ALLOWED}, id="text_is_the_id"),
        pytest.param({"text": f"user_id: {ALLOWED}\nhello"}, id="text_says_the_id"),
        pytest.param({"text": f"Forwarded from {ALLOWED}: /yolo"}, id="forwarded_from_the_owner"),
        pytest.param({"user": "", "user_name": ALLOWED}, id="anonymous_admin"),
        pytest.param({"user": "", "chat_id": ALLOWED}, id="sender_chat_is_the_id"),
        pytest.param({"user": "1087968824", "is_bot": True}, id="group_anonymous_bot"),
        pytest.param({"user": ALLOWED, "is_bot": True}, id="program_with_the_id"),
        pytest.param({"user": ALLOWED, "platform": "discord"}, id="same_id_elsewhere"),
        pytest.param({"user": f"telegram:{ALLOWED}"}, id="platform_and_id"),
        pytest.param({"user": f" {ALLOWED}"}, id="space_before"),
        pytest.param({"user": f"{ALLOWED} "}, id="space_behind"),
        pytest.param({"user": f"{ALLOWED}\n"}, id="line_end_behind"),
        pytest.param({"user": f"{ALLOWED}\x00"}, id="nul_behind"),
        pytest.param({"user": f"{ALLOWED}\u200b"}, id="zero_width_space"),
        pytest.param({"user": f"\u202e{ALLOWED}"}, id="direction_mark"),
        pytest.param({"user": f"\ufeff{ALLOWED}"}, id="byte_order_mark"),
        pytest.param({"user": "\uff11\uff12\uff13\uff14\uff15"}, id="full_width_digits"),
        pytest.param({"user": "\u0661\u0662\u0663\u0664\u0665"}, id="arabic_digits"),
        pytest.param({"user": f"0{ALLOWED}"}, id="leading_zero"),
        pytest.param({"user": f"+{ALLOWED}"}, id="plus_sign"),
        pytest.param({"user": f"-{ALLOWED}"}, id="minus_sign"),
        pytest.param({"user": f"{ALLOWED}.0"}, id="as_a_fraction"),
        pytest.param({"user": ALLOWED[:-1]}, id="beginning_of_the_id"),
        pytest.param({"user": f"{ALLOWED}6"}, id="longer_id"),
        pytest.param({"user": f"{ALLOWED},67890"}, id="the_whole_list"),
        pytest.param({"user": ","}, id="a_comma"),
        pytest.param({"user": "*"}, id="a_star"),
    ],
)
async def test_impostors_are_refused(setup, facts, kind):
    setup.variables["TELEGRAM_ALLOWED_USERS"] = f"{ALLOWED}, 67890,"
    wanted = {"chat_type": kind, **facts}
    admission = await setup.says(wanted.pop("user", "999"), wanted.pop("text", "hello"), **wanted)
    assert not admission.allowed
    assert admission.role is None
    assert kind == "dm" or admission.reply == ""


@pytest.mark.parametrize(
    ("platform", "listed", "user"),
    [
        pytest.param("discord", "abc", "ABC", id="letter_case"),
        pytest.param("matrix", "@ann:x.org", "@ann:evil.org", id="another_homeserver"),
        pytest.param("matrix", "@ann:x.org", "@ann:x.org.evil.org", id="longer_homeserver"),
        pytest.param("matrix", "@ann:x.org", "@\u0430nn:x.org", id="cyrillic_letter"),
        pytest.param("matrix", "@kim:x.org", "@\u212aim:x.org", id="kelvin_sign"),
        pytest.param("email", "ann@x.org", "ann@x.org.evil.org", id="longer_domain"),
        pytest.param("email", "ann@x.org", "ann+1@x.org", id="plus_address"),
        pytest.param("email", "ann@x.org", "'ann@x.org' <eve@evil.org>", id="address_in_the_name"),
        pytest.param("email", "kim@x.org", "\u212aim@x.org", id="kelvin_sign_in_mail"),
        pytest.param("email", "ivi@x.org", "\u0130vi@x.org", id="dotted_capital_i"),
        pytest.param("email", "strasse@x.org", "stra\u00dfe@x.org", id="sharp_s"),
    ],
)
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


@pytest.mark.parametrize("said", ["ture", "truee", "TELEGRAM", "*", "none", "-1", "2", "null"])
async def test_unclear_switch_is_off(setup, said):
    setup.variables |= {"TELEGRAM_ALLOW_ALL_USERS": said, "GATEWAY_ALLOW_ALL_USERS": said}
    assert not (await setup.says("5")).allowed


async def test_allow_all_excludes_anonymous_authors_and_bots(setup):
    setup.variables["TELEGRAM_ALLOW_ALL_USERS"] = "true"
    assert not (await setup.says("", chat_type="group")).allowed
    assert not (await setup.says("5", is_bot=True)).allowed


# --- sessions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attacker", "victim"),
    [
        pytest.param(
            SessionSource("p", "c:5", "group"),
            SessionSource("p", "c", "group", user_id="5"),
            id="chat_id_holds_a_user",
        ),
        pytest.param(
            SessionSource("p", "c", user_id="x", thread_id=""),
            SessionSource("p", "c", "group", user_id=""),
            id="kind_of_chat",
        ),
        pytest.param(
            SessionSource("p", "c", "group", user_id="7:5"),
            SessionSource("p", "c", "group", user_id="5", thread_id="7"),
            id="user_id_holds_a_thread",
        ),
        pytest.param(
            SessionSource("p", "c%3A5", "group"),
            SessionSource("p", "c:5", "group"),
            id="escaped_already",
        ),
        pytest.param(
            SessionSource("p", "c", account="a:dm:x"),
            SessionSource("p", "x:dm:c", account="a"),
            id="account_holds_a_chat",
        ),
        pytest.param(
            SessionSource("p", "c", account="a@b"),
            SessionSource("p@a", "c", account="b"),
            id="account_holds_an_account",
        ),
        pytest.param(
            SessionSource("p", "c\u200b", user_id="5"),
            SessionSource("p", "c", user_id="5"),
            id="zero_width_character",
        ),
        pytest.param(
            SessionSource("p", "dm:c", "group"), SessionSource("p", "c", "dm"), id="chat_is_dm"
        ),
    ],
)
def test_ids_cannot_form_the_key_of_another_conversation(attacker, victim):
    for alone in (True, False):
        keys = [
            build_session_key(source, group_sessions_per_user=alone, thread_sessions_per_user=alone)
            for source in (attacker, victim)
        ]
        assert keys[0] != keys[1]


def test_user_ids_cannot_reach_notes_of_the_owner_or_of_a_chat():
    for user in ("", "chat:c", "../..", " ", "\x00"):
        scope = memory_scope(SessionSource("p", "d", user_id=user))
        assert scope.user not in ("", "p:chat:c")


# --- roles ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["member", "guest"])
@pytest.mark.parametrize(
    "command",
    [
        "/yolo", "yolo", "/YOLO", "/Yolo", "/yol", "/yo", "/yolo@bot", "/YOL@bot on", "//yolo",
        " /yolo ", "/yolo\n/help", "/yolo\u00a0on", "/reload-mcp", "/reload_mcp", "/Reload_MCP",
        "/restart", "/update", "/sethome", "/set-home", "/set_home", "/debug", "/pair", "/pair X",
        "/model --global x", "/model x --GLOBAL", "/model x -global", "/model x \u2014global",
        "/mod x --global", "/approve always", "/approve  ALWAYS", "/approve\talways",
        "/approve session always",
    ],
)  # fmt: skip
def test_owner_commands_are_refused_in_every_spelling(role, command):
    assert may(role, command, GatewaySettings()) != ""  # type: ignore[arg-type]


async def test_user_id_star_is_a_guest(setup):
    setup.variables["TELEGRAM_ALLOWED_USERS"] = "*"
    assert (await setup.says("*")).role == "guest"


async def test_paired_user_is_a_member(setup):
    setup.store.approve("telegram", code_in((await setup.says("5", user_name="owner")).reply))
    assert (await setup.says("5", user_name="owner")).role == "member"


async def test_two_listed_users_are_members(setup):
    setup.variables["TELEGRAM_ALLOWED_USERS"] = "5,6"
    assert [(await setup.says(user)).role for user in "56"] == ["member", "member"]


async def test_owner_of_another_platform_is_a_guest(tmp_path):
    setup = AuthSetup(tmp_path, owners=("discord:5", ":5", "5", "telegram:", "telegram"))
    setup.variables["GATEWAY_ALLOW_ALL_USERS"] = "true"
    assert (await setup.says("5")).role == "guest"
    assert (await setup.says("discord:5")).role == "guest"


async def test_user_listed_for_all_platforms_is_a_member(setup):
    setup.variables["GATEWAY_ALLOWED_USERS"] = "5"
    assert (await setup.says("5")).role == "member"


def test_a_guest_cannot_run_commands_or_change_files():
    given = set(toolsets_for("guest", GatewaySettings()) or ())
    forbidden = {"terminal", "file", "code_execution", "delegation", "cronjob", "messaging",
                 "memory", "skills", "browser", "session_search", "all", "hermes-cli"}  # fmt: skip
    assert given
    assert not given & forbidden
