"""What the Copilot CLI says itself is not taken for words of its model."""

import pytest

from hermes.core.errors import (
    ContextOverflow,
    CredentialRefused,
    ModelNotFound,
    QuotaSpent,
    ReplyInvalid,
    ServerFault,
)
from tests.unit.providers.acp.stage import Stage, ask

COPILOT = {"agentInfo": {"name": "Copilot", "version": "1.0.102"}}
RETRYING = "Info: Request failed due to a transient API error. Retrying..."


NO_LOGIN = (
    "Error: Authentication failed with provider at http://h/v1 (HTTP 401).\n"
    "  Check your COPILOT_PROVIDER_API_KEY."
)
TOO_LONG = (
    "Error: 400 This model's maximum context length is 128000 tokens. However, your messages"
    " resulted in 131072 tokens."
)
GAVE_UP = (
    "Error: Failed to get response from the AI model; retried 5 times (total retry wait time:"
    " 16.48 seconds) Last error: 500 The server had an error."
)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Error: 402 Insufficient credits. Add more credits to continue.", QuotaSpent),
        (NO_LOGIN, CredentialRefused),
        ("Error: Model 'm' not found on provider at http://h/v1 (HTTP 404).", ModelNotFound),
        (TOO_LONG, ContextOverflow),
        (GAVE_UP, ServerFault),
        ("Info: Operation cancelled by user", ReplyInvalid),
    ],
)
async def test_a_failure_told_in_words_is_a_failure(stage: Stage, said, kind):
    model = stage.model([["say", "half"], ["say", RETRYING], ["say", said]], init=COPILOT)
    with pytest.raises(kind):
        await ask(model)


async def test_news_of_the_program_is_not_part_of_the_answer(stage: Stage):
    notes = [["say", "Info: Disabled tools: bash"], ["say", RETRYING], ["say", "Error: 500 x"]]
    deltas, reply = await ask(stage.model([*notes, ["say", "Hello."]], init=COPILOT))
    assert reply.message.text == "Hello."
    assert [delta.text for delta in deltas] == ["Hello."]


async def test_other_agents_may_begin_with_such_a_word(stage: Stage):
    _, reply = await ask(stage.model([["say", "Error: 402 is what the log says."]]))
    assert reply.message.text == "Error: 402 is what the log says."
