"""Who is let in, as whom, and what the others hear."""

from pathlib import Path

import pytest

from hermes.config.settings import Settings
from hermes.config.settings.platforms import Platform, PlatformsSettings, TelegramSettings
from hermes.gateway.auth import Authorizer
from hermes.gateway.platforms.kit.contract import SessionSource
from tests.unit.gateway.door.parts import Scene, code_in


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


async def test_a_stranger_is_told_a_code_in_a_private_chat(scene: Scene) -> None:
    admission = await scene.says("5", user_name="Eve")
    assert not admission.allowed
    assert admission.role is None
    code = code_in(admission.reply)
    assert f"hermes pairing approve telegram {code}" in admission.reply


async def test_to_ask_who_somebody_is_makes_no_code(scene: Scene) -> None:
    authorizer = Authorizer(scene.settings, scene.variables.get, scene.store, scene.prefixes)
    assert authorizer.known(SessionSource("telegram", "5", user_id="5")) is None
    assert scene.store.pending("telegram") == []
    assert code_in((await scene.says("5")).reply)


@pytest.mark.parametrize("kind", ["group", "channel"])
async def test_a_stranger_in_a_group_hears_nothing(scene: Scene, kind: str) -> None:
    admission = await scene.says("5", chat_type=kind)
    assert (admission.allowed, admission.reply) == (False, "")


async def test_the_only_one_on_the_list_is_the_owner(scene: Scene) -> None:
    scene.variables["TELEGRAM_ALLOWED_USERS"] = "5"
    admission = await scene.says("5")
    assert (admission.allowed, admission.role) == (True, "owner")


async def test_several_on_the_list_are_members(scene: Scene) -> None:
    scene.variables["TELEGRAM_ALLOWED_USERS"] = " 5 , 6,"
    assert (await scene.says("6")).role == "member"


async def test_the_list_of_all_platforms_counts_beside_that_of_the_platform(scene: Scene) -> None:
    scene.variables |= {"TELEGRAM_ALLOWED_USERS": "5", "GATEWAY_ALLOWED_USERS": "7"}
    assert (await scene.says("7")).role == "member"
    assert (await scene.says("5")).role == "owner"


async def test_the_list_of_one_platform_is_nothing_on_another(scene: Scene) -> None:
    scene.variables["TELEGRAM_ALLOWED_USERS"] = "5"
    assert not (await scene.says("5", platform="discord")).allowed


@pytest.mark.parametrize("name", ["TELEGRAM_ALLOW_ALL_USERS", "GATEWAY_ALLOW_ALL_USERS"])
async def test_everybody_is_a_guest_where_everybody_is_let_in(scene: Scene, name: str) -> None:
    scene.variables[name] = "true"
    admission = await scene.says("99")
    assert (admission.allowed, admission.role) == (True, "guest")


async def test_who_is_on_the_list_keeps_the_role_where_everybody_is_let_in(scene: Scene) -> None:
    scene.variables |= {"TELEGRAM_ALLOWED_USERS": "5", "TELEGRAM_ALLOW_ALL_USERS": "1"}
    assert (await scene.says("5")).role == "owner"


@pytest.mark.parametrize("said", ["false", "0", "no", "off", "", "maybe", "TELEGRAM"])
async def test_what_is_no_clear_yes_lets_nobody_in(scene: Scene, said: str) -> None:
    scene.variables["GATEWAY_ALLOW_ALL_USERS"] = said
    assert not (await scene.says("99")).allowed


async def test_a_star_on_the_list_is_everybody_as_a_guest(scene: Scene) -> None:
    scene.variables["TELEGRAM_ALLOWED_USERS"] = "5,*"
    assert (await scene.says("99")).role == "guest"
    assert (await scene.says("5")).role == "owner"


async def test_owners_and_roles_of_the_settings_come_first(tmp_path: Path) -> None:
    scene = Scene(tmp_path, owners=("telegram:1",), roles={"telegram:5": "guest"})
    scene.variables["TELEGRAM_ALLOWED_USERS"] = "5"
    assert (await scene.says("1")).role == "owner"
    assert (await scene.says("5")).role == "guest"


async def test_where_owners_are_named_the_list_makes_none(tmp_path: Path) -> None:
    scene = Scene(tmp_path, owners=("telegram:1",))
    scene.variables |= {"TELEGRAM_ALLOWED_USERS": "5", "DISCORD_ALLOWED_USERS": "5"}
    assert (await scene.says("5")).role == "member"
    assert (await scene.says("5", platform="discord")).role == "owner"


async def test_a_role_alone_lets_nobody_in(tmp_path: Path) -> None:
    scene = Scene(tmp_path, roles={"telegram:5": "owner"})
    assert not (await scene.says("5")).allowed


async def test_paired_users_are_members(scene: Scene) -> None:
    code = code_in((await scene.says("5")).reply)
    scene.another_process().approve("telegram", code)
    admission = await scene.says("5", chat_type="group")
    assert (admission.allowed, admission.role, admission.why) == (True, "member", "paired")


async def test_an_invitation_lets_in_who_sends_its_code(scene: Scene) -> None:
    code = scene.store.invite("telegram")
    admission = await scene.says("5", f" {code.lower()[:4]}-{code.lower()[4:]} ")
    assert not admission.allowed, "the code is no message for the agent"
    assert "authorized" in admission.reply
    assert (await scene.says("5")).role == "member"
    assert not (await scene.says("6", code)).allowed


async def test_a_stranger_is_ignored_when_the_settings_say_so(scene: Scene) -> None:
    scene.settings = Settings(unauthorized_dm_behavior="ignore")
    assert (await scene.says("5")).reply == ""


@pytest.mark.parametrize(
    "settings",
    [
        Settings(telegram=TelegramSettings(unauthorized_dm_behavior="ignore")),
        Settings(
            unauthorized_dm_behavior="ignore",
            platforms=PlatformsSettings(discord=Platform(unauthorized_dm_behavior="pair")),
        ),
    ],
    ids=["section", "connection"],
)
async def test_a_platform_may_differ_from_the_others(scene: Scene, settings: Settings) -> None:
    scene.settings = settings
    assert (await scene.says("5")).reply == ""
    assert (await scene.says("5", platform="discord")).reply != ""


async def test_an_invitation_works_also_where_strangers_are_ignored(scene: Scene) -> None:
    scene.settings = Settings(unauthorized_dm_behavior="ignore")
    code = scene.store.invite("telegram")
    assert (await scene.says("5", code)).reply


async def test_another_program_is_heard_only_when_programs_are_welcome(scene: Scene) -> None:
    scene.variables["DISCORD_ALLOWED_USERS"] = "5"
    assert not (await scene.says("5", platform="discord", is_bot=True)).allowed
    scene.variables["DISCORD_ALLOW_BOTS"] = "all"
    assert (await scene.says("5", platform="discord", is_bot=True)).allowed
    stranger = await scene.says("6", platform="discord", is_bot=True)
    assert (stranger.allowed, stranger.reply) == (False, "")


async def test_a_platform_that_checks_by_itself_is_believed(scene: Scene) -> None:
    authorizer = Authorizer(
        scene.settings, scene.variables.get, scene.store, {}, trusted={"webhook": "member"}
    )
    admission = await authorizer.admit(SessionSource("webhook", "route"), "")
    assert (admission.allowed, admission.role) == (True, "member")


async def test_a_damaged_file_shuts_out_the_paired_and_nobody_else(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    code = code_in((await scene.says("5")).reply)
    scene.store.approve("telegram", code)
    approved = scene.folder / "telegram-approved.json"
    approved.write_text("{")
    scene.variables["TELEGRAM_ALLOWED_USERS"] = "7"
    assert not (await scene.says("5")).allowed
    assert (await scene.says("7")).allowed
    assert approved.read_text() == "{"
    assert "damaged" in caplog.text
