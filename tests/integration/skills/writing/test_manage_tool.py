"""The tool skill_manage."""

import json

import jsonschema_rs
import pytest

from hermes.core.cancel import CancelToken
from hermes.core.errors import ToolArgumentsInvalid, ToolError
from hermes.core.tool import Effect, ToolContext
from hermes.skills.history import Author
from hermes.skills.tools import skill_manage_tool
from tests.integration.skills.writing.conftest import text


async def use(
    place, action: str, name: str = "deploy", who: Author = Author.AGENT, **arguments
) -> str:
    tool = skill_manage_tool(lambda: place.writer, lambda: "s7", who)
    jsonschema_rs.validator_for(tool.spec.parameters).validate(
        {"action": action, "name": name, **arguments}
    )
    context = ToolContext("session", "call", CancelToken(), lambda _text: None)
    return await tool.handler(context, {"action": action, "name": name, **arguments})


async def test_the_reason_and_the_session_reach_the_history(place):
    said = await use(place, "create", content=text("deploy"), reason="learnt it")
    commit = await place.history.commit()
    assert said == f"deploy created (change {commit.short})"
    assert (commit.reason, commit.session, commit.who) == ("learnt it", "s7", "agent")
    await use(place, "patch", old_string="Do it", new_string="", who=Author.REVIEW)
    assert (await place.history.commit()).who == "review"


async def test_errors_say_what_to_do_next(place):
    with pytest.raises(ToolError, match="there is no skill") as missing:
        await use(place, "patch", name="server", old_string="a", new_string="b")
    assert missing.value.hint == "did you mean servers?"
    with pytest.raises(ToolError, match="not kept") as refused:
        await use(place, "create", content="no head")
    assert "name: deploy" in refused.value.hint


@pytest.mark.parametrize(
    ("action", "needed"),
    [("create", "content"), ("edit", "content"), ("patch", "old_string"),
     ("write_file", "file_path"), ("remove_file", "file_path")],
)  # fmt: skip
async def test_missing_arguments_are_refused(place, action, needed):
    with pytest.raises(ToolArgumentsInvalid, match=f"{action} needs {needed}"):
        await use(place, action)


async def test_lone_surrogates_and_nul_are_dropped(place):
    await use(place, "create", content=text("deploy", "a\ud800b\0c"), reason="\udfff why")
    assert "abc" in place.read("deploy/SKILL.md")


async def test_in_ask_mode_the_result_says_that_the_change_waits(asking):
    said = await use(asking, "create", content=text("deploy"))
    assert "waits for the user as proposal" in said
    assert asking.there() == []


async def test_an_interrupted_call_raises_and_the_change_is_whole(place):
    tool = skill_manage_tool(lambda: place.writer, lambda: "s")
    token = CancelToken()
    token.cancel()
    context = ToolContext("session", "call", token, lambda _text: None)
    with pytest.raises(Exception, match="stopped by the user"):
        await tool.handler(context, {"action": "delete", "name": "servers"})


def test_it_is_persistence_runs_alone_and_is_short(place):
    tool = skill_manage_tool(lambda: place.writer, lambda: "s")
    assert (tool.effect, tool.serial, tool.toolset) == (Effect.PERSIST, True, "skills")
    proposing = skill_manage_tool(lambda: place.writer, lambda: "s", proposes=True)
    assert proposing.effect is Effect.READ, "its proposals are approved one by one"
    assert set(tool.spec.parameters["properties"]) == {
        "action", "name", "content", "category", "old_string", "new_string", "replace_all",
        "file_path", "file_content", "reason",
    }  # fmt: skip
    assert tool.spec.parameters["required"] == ["action", "name"]
    assert len(json.dumps([tool.spec.description, tool.spec.parameters])) < 1400
