"""The command menu of Discord."""

from hermes_plugins.platforms.discord.client import (
    command_definitions,
    command_text,
    merge_commands,
)

OURS = command_definitions([("status", "Shows it"), ("model", "Changes it")])


def as_discord_has_them(**changes: object) -> list[dict[str, object]]:
    return [{**command, "id": "1", "version": "2", **changes} for command in OURS]


def test_names_discord_would_refuse_are_left_out() -> None:
    made = command_definitions(
        [("/Status", ""), ("two words", "x"), ("x" * 33, "x"), ("set-home", "y" * 200)]
    )
    assert [command["name"] for command in made] == ["status", "set-home"]
    assert [len(command["description"]) for command in made] == [6, 100]


def test_no_more_than_discord_takes() -> None:
    assert len(command_definitions([(f"c{number}", "x") for number in range(150)])) == 100


def test_unchanged_commands_are_not_written() -> None:
    others = [{"id": "3", "name": "dice", "description": "Rolls"}]
    assert merge_commands([*as_discord_has_them(), *others], OURS, "safe") is None


def test_changed_commands_are_written_and_foreign_ones_stay() -> None:
    there = [*as_discord_has_them(description="old"), {"id": "3", "name": "dice", "version": "4"}]
    assert merge_commands(there, OURS, "safe") == [*OURS, {"id": "3", "name": "dice"}]


def test_a_command_with_other_arguments_differs() -> None:
    assert merge_commands(as_discord_has_them(options=[]), OURS, "safe") == OURS


def test_a_full_menu_of_others_is_not_driven_out() -> None:
    there = [{"id": str(number), "name": f"c{number}"} for number in range(99)]
    new = merge_commands(there, OURS, "safe")
    assert new is not None
    assert [command["name"] for command in new][:2] == ["status", "c0"]
    assert len(new) == 100


def test_off_never_writes_and_bulk_always_does() -> None:
    assert merge_commands([], OURS, "off") is None
    assert merge_commands(as_discord_has_them(), OURS, "bulk") == OURS


def test_a_used_command_reads_as_if_it_was_written() -> None:
    option = {"name": "arguments", "value": "gpt-5 now"}
    assert command_text({"name": "model", "options": [option]}) == "/model gpt-5 now"
    assert command_text({"name": "status"}) == "/status"


def test_permissions_of_foreign_commands_are_unchanged() -> None:
    dice = {"id": "3", "type": 1, "name": "dice", "description": "Rolls"}
    dice |= {"default_member_permissions": "8", "contexts": [0], "nsfw": True}
    new = merge_commands([{**dice, "version": "4", "guild_id": None}], OURS, "safe")
    assert new == [*OURS, dice]


def test_removed_own_command_is_deleted() -> None:
    gone = [{**each, "id": "7"} for each in command_definitions([("old-skill", "Did something")])]
    other = {"id": "3", "name": "dice", "description": "Rolls"}
    assert merge_commands([*as_discord_has_them(), *gone, other], OURS, "safe") == [*OURS, other]
    assert merge_commands([*as_discord_has_them(), other], OURS, "safe") is None


def test_a_full_menu_that_is_right_is_left_alone() -> None:
    others = [{"id": str(number), "name": f"c{number}"} for number in range(99)]
    assert merge_commands([*as_discord_has_them()[:1], *others], OURS, "safe") is None
