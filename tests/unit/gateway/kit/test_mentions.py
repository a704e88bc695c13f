"""Which messages of groups are answered."""

import pytest

from hermes.config.settings.platforms import DiscordSettings, MatrixSettings, TelegramSettings
from hermes.core.errors import ConfigError
from hermes.gateway.platforms.kit.contract import MessageEvent, SessionSource
from hermes.gateway.platforms.kit.inbound import (
    GroupRules,
    group_rules,
    is_addressed,
    is_for_us,
    mentions,
    strip_mention,
)

STRICT = GroupRules(require_mention=True)


def message(text: str = "hi", *, chat: str = "c", thread: str = "", **fields) -> MessageEvent:
    chat_type = fields.pop("chat_type", "group")
    now = fields.pop("now", "")
    source = SessionSource("discord", chat, chat_type, "u", thread_id=thread, chat_now=now)
    return MessageEvent(source, "m", text, **fields)


def test_a_private_chat_is_always_answered() -> None:
    rules = GroupRules(require_mention=True, ignored=frozenset({"c"}), allowed=frozenset({"x"}))
    assert is_for_us(message(chat_type="dm"), rules)


def test_a_mention_is_wanted_where_it_is_required() -> None:
    assert not is_for_us(message(), STRICT)
    assert is_for_us(message(addressed=True), STRICT)
    assert is_for_us(message(button="approve:1"), STRICT)
    assert is_for_us(message(), GroupRules())


def test_a_pattern_counts_as_a_mention() -> None:
    rules = GroupRules(require_mention=True, mention_patterns=(r"^hey hermes\b",))
    assert is_for_us(message("Hey Hermes, what now"), rules)
    assert not is_for_us(message("they hey hermes"), rules)


def test_free_channels_need_no_mention() -> None:
    rules = GroupRules(require_mention=True, free_response=frozenset({"free"}))
    assert is_for_us(message(chat="free"), rules)
    assert is_for_us(message(thread="free"), rules)
    assert not is_for_us(message(chat="other"), rules)


def test_ignored_channels_are_silent_even_when_mentioned() -> None:
    rules = GroupRules(ignored=frozenset({"quiet"}), free_response=frozenset({"quiet"}))
    assert not is_for_us(message(chat="quiet", addressed=True), rules)
    assert not is_for_us(message(thread="quiet", addressed=True), rules)


def test_only_allowed_channels_are_answered_if_some_are_named() -> None:
    rules = GroupRules(allowed=frozenset({"ours"}))
    assert is_for_us(message(chat="ours"), rules)
    assert not is_for_us(message(chat="theirs", addressed=True), rules)


def test_a_chat_that_moved_is_meant_by_either_of_its_ids() -> None:
    rules = GroupRules(allowed=frozenset({"before", "now"}), ignored=frozenset({"quiet"}))
    assert is_for_us(message(chat="before", now="elsewhere"), rules)
    assert is_for_us(message(chat="elsewhere", now="now"), rules)
    assert not is_for_us(message(chat="before", now="quiet"), rules)


def test_a_pattern_that_is_none_is_a_clear_error() -> None:
    with pytest.raises(ConfigError, match="mention_patterns"):
        is_addressed(message(), GroupRules(mention_patterns=("(",)))


def test_rules_come_from_the_section_of_the_platform() -> None:
    discord = DiscordSettings(free_response_channels=("1",), ignored_channels=("2",))
    assert group_rules(discord) == GroupRules(
        require_mention=True, free_response=frozenset({"1"}), ignored=frozenset({"2"})
    )
    telegram = TelegramSettings(ignored_threads=("17",), mention_patterns=("bot",))
    assert group_rules(telegram) == GroupRules(mention_patterns=("bot",), ignored=frozenset({"17"}))
    assert group_rules(MatrixSettings(free_response_rooms=("!r",))).free_response == {"!r"}
    assert group_rules(None) == GroupRules()


def test_a_name_is_mentioned_as_a_word() -> None:
    assert mentions("well @Hermes, so", ("hermes",))
    for text in ("@hermesian", "a@hermes", "hermes", "@@hermes"):
        assert not mentions(text, ("hermes",))


def test_an_address_is_taken_off_the_text() -> None:
    assert strip_mention("@hermes: what is it", ("hermes",)) == "what is it"
    assert strip_mention("what is it @Hermes", ("hermes",)) == "what is it"
    assert strip_mention("ask @hermes about it", ("hermes",)) == "ask @hermes about it"


def test_a_message_of_blanks_keeps_nobody_waiting() -> None:
    """A pattern that tries again from every blank would take minutes."""
    blanks = " " * 200_000
    assert strip_mention(f"@hermes hi{blanks}you", ["hermes"]) == f"hi{blanks}you"
    assert strip_mention(f"hi{blanks}@hermes{blanks}", ["hermes"]) == "hi"
