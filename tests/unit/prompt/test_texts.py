"""The fixed texts are there, say what they must, and are short: the model pays for them."""

import pytest

from hermes.prompt import assembly, compat
from hermes.prompt.assembly import CONTAINER_HINT, PLATFORM_HINTS, TERMUX_HINT

PLATFORMS = [
    "cli",
    "telegram",
    "discord",
    "slack",
    "whatsapp",
    "signal",
    "matrix",
    "mattermost",
    "email",
    "sms",
    "bluebubbles",
    "weixin",
    "wecom",
    "dingtalk",
    "feishu",
    "qqbot",
    "homeassistant",
    "webhook",
    "api_server",
    "cron",
    "acp",
]

LIMITS = {
    "DEFAULT_AGENT_IDENTITY": 600,
    "MEMORY_GUIDANCE": 350,
    "SESSION_SEARCH_GUIDANCE": 350,
    "SKILLS_GUIDANCE": 350,
    "TOOL_USE_ENFORCEMENT_GUIDANCE": 350,
    "OPENAI_MODEL_EXECUTION_GUIDANCE": 900,
    "GOOGLE_MODEL_OPERATIONAL_GUIDANCE": 900,
    "WSL_ENVIRONMENT_HINT": 250,
}


@pytest.mark.parametrize("name", LIMITS)
def test_texts_are_short(name: str):
    assert 50 < len(getattr(compat, name)) <= LIMITS[name]


def test_every_platform_has_a_short_hint():
    assert sorted(PLATFORM_HINTS) == sorted(PLATFORMS)
    assert all(20 < len(hint) <= 250 for hint in PLATFORM_HINTS.values())
    assert max(map(len, (CONTAINER_HINT, TERMUX_HINT))) <= 250


@pytest.mark.parametrize("platform", ["whatsapp", "sms", "bluebubbles", "email", "signal"])
def test_where_markdown_shows_as_signs_the_model_is_told(platform: str):
    assert "plain text" in PLATFORM_HINTS[platform]


@pytest.mark.parametrize("platform", ["cron", "webhook"])
def test_where_nobody_is_there_the_model_is_told_not_to_ask(platform: str):
    assert "nobody is there" in PLATFORM_HINTS[platform]
    assert "Do not ask" in PLATFORM_HINTS[platform]


@pytest.mark.parametrize("platform", ["telegram", "discord", "whatsapp", "wecom", "matrix"])
def test_where_files_can_be_sent_the_model_is_told_how(platform: str):
    assert "MEDIA:/absolute/path" in PLATFORM_HINTS[platform]


def test_what_must_come_from_a_tool_is_listed():
    said = assembly.OPENAI_MODEL_EXECUTION_GUIDANCE
    for topic in ("arithmetic", "hashes", "time", "system state", "file contents", "git", "facts"):
        assert topic in said
