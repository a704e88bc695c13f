"""Slash commands that every surface has."""

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from hermes.app import command_handlers
from hermes.app.commands import COMMAND_REGISTRY, CommandCall, Surface, resolve_command
from hermes.app.model_choice import ModelFilter
from hermes.app.sessions import SessionRequest
from hermes.config.home import Home
from hermes.config.loader import load
from hermes.core.events import TurnFinished
from hermes.core.messages import ToolCall, ToolResult, User
from hermes.core.testing import ModelServer, Stall
from tests.cases import cases
from tests.integration.mcp.stage import PROGRAM
from tests.unit.skills.skill_files import put

CASES = cases(__file__)


def test_names_aliases_and_beginnings() -> None:
    found = {typed: resolve_command(typed) for typed, _ in CASES["names"]}
    assert {typed: one and one.name for typed, one in found.items()} == dict(CASES["names"])
    names = [name for each in COMMAND_REGISTRY for name in each.names]
    assert len(names) == len(set(names)), "no name is used twice"
    assert resolve_command("/skin", Surface.CHATS) is None, "a command of the terminal"
    assert resolve_command("/model", Surface.CHATS) is not None


def asked(server: ModelServer, call: int = -1) -> list[str]:
    """What the user said in a request."""
    messages = server.calls[call].body["messages"]
    return [each["content"] for each in messages if each["role"] == "user"]


async def test_the_last_question_is_asked_again(talking) -> None:
    async with talking(["one", "two", "better"]) as talk:
        await talk.say("first")
        await talk.say("second")
        await talk.say("/retry")
        assert isinstance(talk.events[-1], TurnFinished)
        assert talk.events[-1].text == "better"
        assert asked(talk.server) == ["first", "second"]
        stored = await talk.app.store.messages(talk.agent.session_id)
        assert [message.text for message in stored] == ["first", "one", "second", "better"]


async def test_undo_removes_the_last_turns(talking) -> None:
    async with talking(["one", "two", "three", "again"]) as talk:
        for text in ("first", "second", "third"):
            await talk.say(text)
        assert "second" in await talk.say("/undo 2")
        await talk.say("something else")
        assert asked(talk.server) == ["first", "something else"]


async def test_undo_of_an_empty_conversation_is_refused(talking) -> None:
    async with talking([]) as talk:
        assert "nothing was asked yet" in await talk.say("/undo")
        assert "nothing was asked yet" in await talk.say("/retry")
        assert "nothing to branch" in await talk.say("/branch")
        assert "is not a number" in await talk.say("/undo many")


async def test_another_model_answers_in_the_same_conversation(talking) -> None:
    async with talking(["one", "two"]) as talk:
        await talk.say("first")
        assert "**lab**" in await talk.say("/model")
        assert "**other**" in await talk.say("/model other")
        await talk.say("second")
        assert [call.body["model"] for call in talk.server.calls] == ["lab", "other"]
        assert asked(talk.server) == ["first", "second"]
        assert "other on custom" in await talk.say("/status")


async def test_branch_continues_in_a_copy(talking) -> None:
    async with talking(["one", "two", "three"]) as talk:
        await talk.say("first")
        old = talk.agent.session_id
        await talk.say("/branch Another way")
        assert talk.agent.session_id != old
        await talk.say("second")
        await talk.say(f"/resume {old}")
        await talk.say("third")
        assert asked(talk.server) == ["first", "third"]
        assert "You are in this" in await talk.say(f"/resume {old}")
        assert "Another way" in (await talk.app.store.resolve("Another way")).title


@pytest.mark.parametrize("command", ["/new", "/branch"])
async def test_the_agent_that_was_left_is_closed(talking, command: str) -> None:
    async with talking(["hi"]) as talk:
        await talk.say("hello")
        before = talk.agent
        await talk.say(command)
        assert talk.app.session(talk.agent).session_id != before.session_id
        with pytest.raises(KeyError):
            talk.app.session(before)


async def test_titles_effort_and_personality(talking) -> None:
    async with talking(["one", "two"]) as talk:
        assert "no title" in await talk.say("/title")
        assert "Plans" in await talk.say("/title Plans")
        assert "high" in await talk.say("/reasoning high")
        assert "is not an effort" in await talk.say("/reasoning maximal")
        assert "pirate" in await talk.say("/personality")
        await talk.say("/personality pirate")
        await talk.say("first")
        assert "pirate" in talk.server.calls[-1].body["messages"][0]["content"]
        await talk.say("/personality none")
        await talk.say("second")
        assert "pirate" not in talk.server.calls[-1].body["messages"][0]["content"]
        assert "no personality 'nobody'" in await talk.say("/personality nobody")


async def test_consent_can_be_switched_off_and_on(talking) -> None:
    touch = ToolCall("c1", "terminal", json.dumps({"command": "rm -rf ./gone"}))
    again = ToolCall("c2", "terminal", json.dumps({"command": "rm -rf ./gone"}))
    async with talking([touch, "done", again, "not done"]) as talk:
        assert "allowed without asking" in await talk.say("/yolo")
        await talk.say("remove it")
        assert "not allowed" not in str(talk.server.calls[-1].body["messages"][-1])
        assert "asked about again" in await talk.say("/yolo")
        await talk.say("remove it")
        assert "not allowed without" in str(talk.server.calls[-1].body["messages"][-1])


async def test_an_aside_leaves_no_trace(talking) -> None:
    async with talking(["one", "because", "two"]) as talk:
        await talk.say("first")
        assert await talk.say("/btw why?") == "because"
        await talk.say("second")
        assert asked(talk.server) == ["first", "second"]


async def test_a_background_task_answers_in_the_conversation(talking) -> None:
    async with talking(["counted: 3"]) as talk:
        answer = await talk.say("/background count the files")
        assert "Started `bg_" in answer
        assert "count the files" in await talk.say("/agents")
        while len(talk.shown) < 3:
            await asyncio.sleep(0.01)
        assert "counted: 3" in talk.shown[-1]
        assert not talk.agent.history
        while await talk.say("/agents") != "Nothing runs in the background.":
            await asyncio.sleep(0.01)  # it may still be leaving


async def test_stop_ends_a_turn_and_else_the_background(talking) -> None:
    async with talking([Stall(0, 30), Stall(0, 30)]) as talk:
        turn = asyncio.ensure_future(talk.say("first"))
        while not talk.server.calls:
            await asyncio.sleep(0.01)
        assert await talk.say("/new") == "`/new` comes after this turn; `/stop` ends it."
        assert talk.kept == ["/new"]
        await talk.say("/stop")
        await turn
        assert talk.events[-1].exit_reason == "interrupted"
        await talk.say("/bg something long")
        while len(talk.server.calls) < 2:
            await asyncio.sleep(0.01)
        assert await talk.say("/stop") == "Stopped 1 background task."
        assert await talk.say("/stop") == "Nothing is running."


def delegating(child: Any) -> Callable[[Any], Any]:
    """Answers the main conversation, which delegates once, and the subagent with `child`."""

    def answer(request: Any) -> Any:
        messages = request.body["messages"]
        said = str(messages[1]["content"])
        if said.startswith("count the files"):
            return child
        if messages[-1]["role"] == "tool":
            return "I go on."
        if "[background subagent" in str(messages[-1]["content"]):
            return "There are 3."
        given = {"goal": "count the files", "background": True}
        return ToolCall("c1", "delegate_task", json.dumps(given))

    return answer


async def test_a_subagent_in_the_background_reports_in_the_conversation(talking) -> None:
    async with talking(delegating("counted: 3")) as talk:
        await talk.say("how many files are there?")
        if talk.events[-1].text == "I go on.":  # else it was done before the next request
            await asyncio.wait_for(talk.agent.pending.wait(), 30)
            await talk.ask(talk.agent.pending.take())
        assert talk.events[-1].text == "There are 3."
        questions = [each.text for each in talk.agent.history if isinstance(each, User)]
        head, session, report = questions[-1].split("\n")
        assert re.fullmatch(
            r"\[background subagent agent_\w+ \(count the files\): completed\]", head
        )
        assert report == "counted: 3"
        child = await talk.app.store.info(session.removeprefix("session "))
        assert (child.source, child.parent_id) == ("subagent", talk.agent.session_id)
        again = await talk.app.agent(SessionRequest(Path.cwd(), resume=talk.agent.session_id))
        assert again.pending.take() is None, "it was reported"


async def test_a_subagent_in_the_background_is_listed_and_stopped(talking) -> None:
    async with talking(delegating(Stall(0, 60))) as talk:
        await talk.say("how many files are there?")
        listed = await talk.say("/agents")
        assert re.fullmatch(r"- `agent_\w+` count the files \(\d+ s\)", listed)
        assert await talk.say("/stop") == "Stopped 1 background task."
        while await talk.say("/agents") != "Nothing runs in the background.":
            await asyncio.sleep(0.01)
        assert "(count the files): interrupted]" in talk.agent.pending.take().text


async def test_a_subagent_that_ended_with_its_conversation_is_reported_as_lost(talking) -> None:
    async with talking(delegating(Stall(0, 60))) as talk:
        await talk.say("how many files are there?")
        again = await talk.app.agent(SessionRequest(Path.cwd(), resume=talk.agent.session_id))
        lost = again.pending.take()
        assert "(count the files): interrupted]\nIt was at work when the program ended" in lost.text


async def test_a_single_answer_starts_no_subagent_in_the_background(talking) -> None:
    async with talking(delegating("counted: 3")) as talk:
        talk.agent = await talk.app.agent(SessionRequest(Path.cwd(), goes_on=False))
        await talk.say("how many files are there?")
        (result,) = [each for each in talk.agent.history if isinstance(each, ToolResult)]
        assert "this conversation ends with its answer" in result.text


async def test_help_lists_and_explains(talking, hermes_home) -> None:
    hint = {"argument-hint": "[issue] [branch]"}
    put(hermes_home / "skills", "ship-it", description="Release it", **hint)
    async with talking([], "quick_commands:\n  uptime: {command: echo up}\n") as talk:
        assert "`terminal`" in await talk.say("/toolsets")
        listed = await talk.say("/help")
        assert "`/model [[PROVIDER:]MODEL] [--global]`" in listed
        assert "`/uptime` (your own)" in listed
        assert "`/branch [TITLE]`, `/fork`" in await talk.say("/help fork")
        assert await talk.say("/help ship-it") == (
            "`/ship-it` calls a skill: [issue] [branch] Release it"
        )
        assert "up" in await talk.say("/uptime")


async def test_quick_commands_that_fail_or_say_words(talking) -> None:
    settings = "quick_commands:\n  bad: {command: 'echo no; exit 3'}\n  hi: say hello to\n"
    settings += "  bye: {type: prompt, command: say goodbye to}\n"
    async with talking(["hello Ann", "bye Ann"], settings) as talk:
        assert await talk.say("/bad") == "```\nno\n```\n\nexit code 3"
        await talk.say("/hi Ann")
        await talk.say("/bye Ann")
        assert asked(talk.server) == ["say hello to Ann", "say goodbye to Ann"]


async def test_unknown_command_is_reported_and_a_path_is_a_message(talking) -> None:
    async with talking(["a file"]) as talk:
        assert "Did you mean `/compress`?" in await talk.say("/comprss")
        assert not talk.server.calls
        await talk.say("/etc/hosts is what?")
        assert asked(talk.server) == ["/etc/hosts is what?"]


async def test_suggestions_for_unknown_commands(talking) -> None:
    async with talking([], "quick_commands:\n  deploy: {command: echo up}\n") as talk:
        said = {typed: await talk.say(f"/{typed}") for typed, _ in CASES["suggestions"]}
    expected = {
        typed: f"There is no command `/{typed}`."
        + (f" Did you mean `/{meant}`?" if meant else "")
        + " `/help` lists them."
        for typed, meant in CASES["suggestions"]
    }
    assert said == expected


async def test_the_command_of_a_skill_that_cannot_be_used_says_why(talking, hermes_home) -> None:
    skills = hermes_home / "skills"
    put(skills, "games/mac-notes", platforms="[windows]")
    put(skills, "web-tool", "---\nname: web-tool\ndescription: d\nrequires_tools: [none]\n---\nx")
    put(skills, "away")
    put(skills, "torn", "---\n[\n---\n")
    async with talking([], "skills: {disabled: [away]}\n") as talk:
        said = {name: await talk.say(f"/{name} now") for name in ("Mac_Notes", "away", "torn")}
        assert "needs none" in await talk.say("/web-tool")
        assert "There is no command `/tear`" in await talk.say("/tear")
    assert said["Mac_Notes"] == "The skill `mac-notes` is hidden here: only for windows."
    assert said["away"] == "The skill `away` is hidden here: switched off in the settings."
    assert said["torn"].startswith("The skill `torn` does not load: its head is not valid YAML")


async def test_usage_and_profile(talking) -> None:
    async with talking(["one"]) as talk:
        assert await talk.say("/usage") == "No model was called yet."
        await talk.say("first")
        assert "| main | lab | 1 |" in await talk.say("/usage")
        assert "Profile **" in await talk.say("/profile")
        assert "as they were" in await talk.say("/reload")


async def test_faster_answers_where_the_provider_has_them(talking) -> None:
    async with talking([]) as talk:
        assert await talk.say("/fast") == "Answers: normal"
        assert "custom has no faster answers" in await talk.say("/fast fast")
        session = talk.app.session(talk.agent)
        await session.switch(msgspec.structs.replace(session.target, provider="openai"))
        assert await talk.say("/fast fast") == "Answers from now on: fast"
        assert session.target.profile.extra_body["service_tier"] == "priority"
        assert await talk.say("/fast") == "Answers: fast"
        await talk.say("/fast normal")
        assert "service_tier" not in session.target.profile.extra_body


async def test_snapshot_of_a_home_without_settings_says_what_it_would_have(
    talking, hermes_home
) -> None:
    async with talking([]) as talk:
        (hermes_home / "config.yaml").unlink()
        for name in ("auth.json", "SOUL.md"):
            (hermes_home / name).unlink(missing_ok=True)
        for file in hermes_home.glob("*.json"):
            file.unlink()
        said = await talk.say("/snapshot create")
        assert "there are none yet" in said
        assert "hermes backup" in said


async def test_switch_to_a_small_model_does_not_compact(talking) -> None:
    async with talking(["one", '{"reply":"two"}']) as talk:
        await talk.say("first")
        session = talk.app.session(talk.agent)
        large, before = session.target, talk.agent.session_id
        profile = msgspec.structs.replace(large.profile, small=True, context_length=4096)
        await session.switch(msgspec.structs.replace(large, profile=profile))
        await talk.say("second")
        assert talk.agent.history[-1].text == "two"
        assert (talk.agent.session_id, len(talk.server.calls)) == (before, 2)
        await session.switch(large)
        assert session.compaction_policy.enabled


async def test_session_begun_with_a_small_model_compacts_after_a_switch(
    talking, monkeypatch
) -> None:
    async with talking(['{"reply":"one"}']) as talk:
        large = talk.app.session(talk.agent).target
        profile = msgspec.structs.replace(large.profile, small=True, context_length=4096)
        small = msgspec.structs.replace(large, profile=profile)

        async def find_small(_request: object) -> object:
            return small

        monkeypatch.setattr(talk.app, "find_target", find_small)
        await talk.say("/new")
        await talk.say("first " + "long " * 9_000)
        session = talk.app.session(talk.agent)
        assert session.target.profile.small
        assert not session.compaction_policy.is_due(talk.agent.history)
        profile = msgspec.structs.replace(large.profile, context_length=10_000)
        await session.switch(msgspec.structs.replace(large, profile=profile))
        assert session.compaction_policy.is_due(talk.agent.history)


async def test_snapshot_is_restored(talking, hermes_home) -> None:
    async with talking([]) as talk:
        assert "There are no snapshots" in await talk.say("/snapshot")
        assert "“good”" in await talk.say("/snapshot create good")
        (hermes_home / "config.yaml").write_text("worktree: true\n")
        assert "Restored" in await talk.say("/snap restore good")
        assert "auto_title" in (hermes_home / "config.yaml").read_text()
        assert "before restore" in await talk.say("/snapshot list")
        assert await talk.say("/snapshot prune 1") == "Deleted 1 snapshot."
        assert "an action is missing" in await talk.say("/snapshot burn")


def write_call(name: str, text: str) -> ToolCall:
    return ToolCall(f"c-{name}", "write_file", json.dumps({"path": name, "content": text}))


async def test_rollback_lists_only_turns_of_this_session(talking) -> None:
    script = [write_call("one.txt", "1"), "done", write_call("two.txt", "2"), "done"]
    async with talking(script) as talk:
        await talk.say("write the first")
        await talk.say("/new")
        listed = await talk.say("/rollback")
        assert "no files were changed in this session" in listed
        assert "`/rollback all` lists 1 of other sessions too." in listed
        await talk.say("write the second")
        listed = await talk.say("/rollback")
        assert "write the second" in listed
        assert "write the first" not in listed
        assert "write the first" in await talk.say("/rollback all")
        assert "removed: two.txt" in await talk.say("/rollback 1")
        assert "rollback to 1" in await talk.say("/rollback"), "it can be undone from the list"


async def test_unknown_provider_prefix_is_refused_unless_the_endpoint_lists_the_model(
    talking,
) -> None:
    async with talking([]) as talk:
        refused = await talk.say("/model nosuch:abc")
        assert "'nosuch' is not a provider, and custom does not list nosuch:abc" in refused
        assert "/model custom:nosuch:abc" in refused
        assert "**lab**" in await talk.say("/model")
        assert "**nosuch:abc** on custom" in await talk.say("/model custom:nosuch:abc")
        assert "**maker/model:free**" in await talk.say("/model maker/model:free")
        talk.server._models = ["lab", "qwen3:4b"]
        target = talk.app.session(talk.agent).target
        await talk.app.providers.lister.models(target, ModelFilter(), refresh=True)
        assert "**qwen3:4b** on custom" in await talk.say("/model qwen3:4b")


async def test_sessions_are_found_by_title_and_by_message(talking) -> None:
    async with talking(["the capital is Paris", "fine", "Milan"]) as talk:
        await talk.say("a question about France")
        await talk.say("/title My talk")
        first = talk.agent.session_id
        await talk.say("/new")
        await talk.say("talk to me")
        command = resolve_command("/sessions")
        assert command is not None

        async def search(words: str) -> str:
            return await command_handlers.search_sessions(CommandCall(command, words, talk))

        found = await search("talk")
        assert f"- `{first}` **My talk**" in found
        assert "talk to me" in found
        assert first in await search("Paris")
        asked = len(talk.server.calls)
        assert (await search("capitals")).startswith("No message has exactly these words")
        assert (await search("the capital of Franec")).startswith("No message has exactly")
        assert len(talk.server.calls) == asked, "a search that finds enough asks no model"
        assert (await search("Rome")).startswith("No session has 'Rome' in its title or messages.")


async def test_a_search_that_finds_nothing_asks_the_model_for_other_words(talking) -> None:
    async with talking(["the capital is Paris", "fine", "- city\n- Paris\n- seat"]) as talk:
        await talk.say("a question about France")
        first = talk.agent.session_id
        await talk.say("/new")
        await talk.say("hello")
        command = resolve_command("/sessions")
        assert command is not None
        found = await command_handlers.search_sessions(CommandCall(command, "metropolis", talk))
        assert first in found and found.startswith("No conversation has all of the words")


async def test_usage_after_a_stopped_call_does_not_deny_the_call(talking) -> None:
    async with talking([Stall(0, 30)]) as talk:
        turn = asyncio.ensure_future(talk.say("first"))
        while not talk.server.calls:
            await asyncio.sleep(0.01)
        await talk.say("/stop")
        await turn
        assert await talk.say("/usage") == "No model call was completed yet."


async def test_status_names_the_approval_mode(talking) -> None:
    async with talking([]) as talk:
        assert "- Approvals: ask" in await talk.say("/status")
        await talk.say("/yolo")
        assert "- Approvals: **off**: everything is allowed" in await talk.say("/status")


def server(scene: str = "bare", **more: Any) -> dict[str, Any]:
    return {"command": "python3", "args": [PROGRAM, scene], **more}


@pytest.fixture
def write(hermes_home: Path) -> Callable[..., None]:
    """The servers in config.yaml, and lines of .env."""

    def written(servers: dict[str, Any], saved: str = "") -> None:
        settings = {"sessions": {"auto_title": False}, "mcp_servers": servers}
        (hermes_home / "config.yaml").write_text(yaml.safe_dump(settings))
        (hermes_home / ".env").write_text(saved)

    return written


def offered(model: ModelServer) -> set[str]:
    """The tools of servers in the last request."""
    names = {tool["function"]["name"] for tool in model.calls[-1].body["tools"]}
    return {name for name in names if name.startswith("mcp_")}


async def test_a_server_that_was_added_meanwhile_is_there_for_the_next_conversation(talking, write):
    async with talking(["one", "two"]) as talk:
        assert "There are no MCP servers" in await talk.say("/reload-mcp")
        write({"late": server()})
        answer = await talk.say("/reload-mcp")
        assert answer.startswith("- `late` added: 4 tools\n")
        assert "This conversation keeps the tools it has; `/new` begins one" in answer
        await talk.say("first")
        assert offered(talk.server) == set()
        await talk.say("/new")
        await talk.say("second")
        assert "mcp_late_echo" in offered(talk.server)


async def test_removed_changed_disabled_and_broken_servers_are_listed(talking, write) -> None:
    async with talking([]) as talk:
        write({name: server() for name in ("gone", "new-look", "off", "same")})
        await talk.say("/reload-mcp")
        changed = {"liar": server("liar"), "new-look": server("pages", timeout=3)}
        broken = {"command": "no-such-program"}
        write({"broken": broken, **changed, "off": server(enabled=False), "same": server()})
        lines = (await talk.say("/reload-mcp")).splitlines()
        assert lines[0].startswith("- `broken` failed: broken: there is no program 'no-such")
        assert lines[0].endswith(" (install it, or correct `command` of the server)")
        assert lines[1:6] == [
            "- `gone` removed",
            "- `liar` added: 5 tools, 10 left out",
            "- `new-look` changed: 3 tools",
            "- `off` is switched off",
            "- `same` started anew: 4 tools",
        ]
        await talk.say("/new")
        brought = talk.app.session(talk.agent).brought
        assert {tool.toolset for tool in brought} == {"mcp-liar", "mcp-new-look", "mcp-same"}


async def test_mcp_shows_servers_with_state_and_tools(talking, write) -> None:
    async with talking([]) as talk:
        assert "There are no MCP servers" in await talk.say("/mcp")
        write({"late": server(), "off": server(enabled=False)})
        await talk.say("/reload-mcp")
        await talk.say("/new")
        shown = await talk.say("/mcp")
        assert "- **late** connected (stdio); 4 tools here\n  - `mcp_late_" in shown
        assert "- **off** switched off; 0 tools here" in shown


async def test_new_secrets_are_known_and_unreadable_settings_change_nothing(
    talking, write, hermes_home
) -> None:
    async with talking(["one"]) as talk:
        write({"srv": server(env={"PASS": "${SRV_PASS}"})}, "SRV_PASS=open-sesame\n")
        assert "`srv` added" in await talk.say("/reload-mcp")
        assert "open-sesame" not in talk.app.redactor.redact("it is open-sesame")
        (hermes_home / "config.yaml").write_text("mcp_servers: [what\n")
        assert "config.yaml" in await talk.say("/reload-mcp")
        await talk.say("/new")
        await talk.say("hello")
        assert "mcp_srv_echo" in offered(talk.server)


async def test_settings_that_were_left_aside_stay_there(talking, write, hermes_home) -> None:
    async with talking([]) as talk:
        write({"srv": server()})
        aside = load(Home(hermes_home), user_config=False)
        servers = type(talk.app.mcp)(talk.app.home, aside, print)
        assert await servers.reload(lambda: None) == []
