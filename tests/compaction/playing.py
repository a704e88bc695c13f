"""A story played against a context engine: compacted, gone on with, compacted again."""

import copy
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from hermes.context.conversation import estimate_messages_tokens_rough
from hermes.context.engine import ContextEngine, SummaryModel
from tests.compaction.stories import Dicts, Facts, story


class Outcome(NamedTuple):
    """One compaction."""

    round: int
    before: int
    """Tokens, by estimate."""
    after: int
    messages: Dicts
    facts: Facts


def roomy(name: str) -> int:
    """The context length whose threshold (half of it) the beginning of a story has just passed."""
    return int(estimate_messages_tokens_rough(story(name)[0].messages) * 1.9)


def played(
    engine: ContextEngine, name: str, summarisers: Sequence[SummaryModel], home: Path
) -> Iterator[Outcome]:
    """Compacts after each stretch. Fails when the engine changes what it was given."""
    logged: Dicts = []
    told = {
        "hermes_home": home,
        "platform": "cli",
        "model": "lab-model",
        "context_length": engine.context_length,
        "summarisers": list(summarisers),
        "history": lambda: list(logged),
    }
    engine.on_session_start("session-0", **told)
    messages: Dicts = []
    for number, stretch in enumerate(story(name)):
        messages = messages + stretch.messages
        logged += [message for message in stretch.messages if message["role"] != "system"]
        given, tokens = copy.deepcopy(messages), estimate_messages_tokens_rough(messages)
        compacted = engine.compress(messages, tokens)
        assert messages == given, "the engine changed the messages it was given"
        assert compacted[0] == given[0], "the system prompt did not come back as it was"
        messages = compacted
        left = estimate_messages_tokens_rough(messages)
        yield Outcome(number, tokens, left, messages, stretch.facts)
        before = f"session-{number}"
        engine.on_session_start(f"session-{number + 1}", parent_session_id=before, **told)
