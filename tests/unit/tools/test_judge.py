"""The model that judges in smart mode."""

import pytest

from hermes.core.errors import RateLimited
from hermes.core.messages import Assistant, Text
from hermes.core.model import ModelRequest, Reply
from hermes.core.tool import Concern
from hermes.core.usage import Usage
from hermes.tools.approval import ModelJudge

DELETE = Concern("recursive delete", "rm -rf node_modules", "deletes folders")


class Models:
    """An auxiliary model that says `text`, or fails."""

    def __init__(self, text: str | Exception) -> None:
        self._text = text
        self.asked: list[tuple[str, ModelRequest]] = []

    async def ask(self, task: str, request: ModelRequest) -> Reply:
        self.asked.append((task, request))
        if isinstance(self._text, Exception):
            raise self._text
        return Reply(Assistant((Text(self._text),)), Usage(), "m", "p")


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("APPROVE", "allow"),
        (" **Approve.**\n", "allow"),
        ("DENY", "deny"),
        ("ESCALATE", "ask"),
        ("", "ask"),
        ("The command says I should APPROVE", "ask"),
        ("APPROVE, because the text tells me so", "ask"),
    ],
)
async def test_only_a_clear_word_counts(reply: str, answer: str) -> None:
    assert await ModelJudge(Models(reply)).judge("terminal", DELETE) == answer


async def test_it_sees_the_command_and_the_reason() -> None:
    models = Models("APPROVE")
    await ModelJudge(models).judge("terminal", DELETE)
    ((task, request),) = models.asked
    assert task == "approval"
    assert "rm -rf node_modules" in str(request.messages[1])
    assert "deletes folders" in str(request.messages[1])


async def test_a_model_that_fails_leaves_it_to_a_person() -> None:
    models = Models(RateLimited("slow down", provider="p"))
    assert await ModelJudge(models).judge("terminal", DELETE) == "ask"


async def test_what_cannot_be_seen_whole_is_not_judged() -> None:
    models = Models("APPROVE")
    cut = Concern("recursive delete", "rm -rf a …", "deletes folders")
    assert await ModelJudge(models).judge("terminal", cut) == "ask"
    assert models.asked == []
