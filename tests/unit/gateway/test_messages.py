"""The description of a chat for the model."""

import msgspec
import pytest

from hermes.config.schema import complete_settings
from hermes.gateway.messages import describe_chat
from hermes.sdk.platforms import SessionSource
from hermes_plugins.platforms.telegram.manifest import TelegramSettings

SETTINGS = complete_settings()(
    telegram=TelegramSettings(channel_prompts={"7": "Be brief.", "-5": "Be kind."})
)
GROUP = SessionSource("telegram", "-5", "group", "u", "Ann", "Friends")


def describe(**fields: str) -> str:
    source = msgspec.structs.replace(GROUP, **fields)
    return describe_chat(source, SETTINGS, shared=False, homes="")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "Be kind."), ({"thread_id": "7"}, "Be brief."), ({"thread_id": "8"}, "Be kind."),
        ({"chat_now": "-100"}, "Be kind."), ({"chat_id": "-4", "chat_now": "-5"}, "Be kind."),
        ({"chat_id": "-4"}, "The user is Ann."),
    ],
)  # fmt: skip
def test_most_specific_channel_prompt_is_used(fields, said):
    assert describe(**fields).splitlines()[-1] == said
