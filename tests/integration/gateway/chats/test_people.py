"""Strangers, roles, and what belongs to whom."""

import re

from hermes.core.testing import ModelServer
from hermes.gateway.pairing import PairingStore
from hermes.util.concurrency import SystemClock


def tools(server: ModelServer) -> set[str]:
    return {each["function"]["name"] for each in server.calls[-1].body.get("tools", ())}


async def test_a_stranger_gets_a_code_and_is_let_in_by_it(harness):
    await harness.open()
    shown = await harness.ask("let me in", "pairing code", user="carl")
    code = re.search(r"code is (\S+);", shown.text)[1]
    assert harness.server.calls == []
    PairingStore(harness.home / "pairing", SystemClock()).approve("local", code)
    await harness.ask("hello", "hello", user="carl")


async def test_stranger_in_a_group_is_ignored(harness):
    await harness.open()
    harness.say("hey", user="carl", chat="room", chat_type="group", reply_to="")
    await harness.ask("hello", "hello")
    assert harness.texts("room") == []
    assert len(harness.server.calls) == 1


async def test_invitation_of_an_owner_admits_a_user(harness, monkeypatch):
    monkeypatch.setenv("LOCAL_ALLOWED_USERS", "anna")
    await harness.open()
    shown = await harness.ask("/pair", "gives access to the first")
    code = shown.text.split()[0]
    await harness.ask(code, "You are now authorized", user="carl")
    await harness.ask("hello", "hello", user="carl")


async def test_members_may_not_use_the_commands_of_owners(harness):
    await harness.open()
    for command in ("/yolo", "/restart", "/pair", "/sethome", "/model x --global"):
        await harness.ask(command, f"Only an owner may use /{command[1:].split()[0]}")


async def test_help_lists_allowed_commands(harness, monkeypatch):
    monkeypatch.setenv("LOCAL_ALLOW_ALL_USERS", "true")
    quick = {"deploy": {"command": "echo x"}}
    await harness.open(gateway__owners=["local:ben"], quick_commands=quick)
    lists = {}
    for user in ("ben", "anna", "stranger"):
        shown = await harness.ask("/help", "`/status`", user=user)
        lists[user] = shown.text
    words = ("`/restart`", "`/background ", "`/deploy`", "SKILL-NAME")
    assert [word in lists["ben"] for word in words] == [True, True, True, True]
    assert [word in lists["anna"] for word in words] == [False, True, True, True]
    assert [word in lists["stranger"] for word in words] == [False, False, False, False]


async def test_guests_have_few_tools(harness, monkeypatch):
    monkeypatch.setenv("LOCAL_ALLOW_ALL_USERS", "true")
    await harness.open()
    await harness.ask("hello", "hello", user="anna")
    assert {"terminal", "memory"} <= tools(harness.server)
    await harness.ask("hey", "hey", user="stranger")
    assert "terminal" not in tools(harness.server)
    assert "write_file" not in tools(harness.server)
    assert "web_search" in tools(harness.server)


async def test_conversations_of_other_users_cannot_be_resumed(harness):
    runner = await harness.open()
    await harness.ask("my plan is plum", "plum")
    session = next(iter(runner.gateway.open_agents().values())).session_id
    await harness.ask(f"/resume {session}", "no conversation", user="ben")
    shown = await harness.ask("/resume", "No sessions yet.", user="ben")
    assert session not in shown.text
    for named in ("nosuch", session[:2]):  # the beginning of several ids
        shown = await harness.ask(f"/resume {named}", f"no conversation '{named}' of y", user="ben")
        assert "`/resume` alone lists them" in shown.text
        assert session not in shown.text and "hermes sessions" not in shown.text
    await harness.ask("/resume", session)


async def test_notes_are_separate_for_each_user(harness):
    await harness.open()
    memories = harness.home / "memories"
    await harness.ask("hello", "hello")
    await harness.ask("hello", "hello", user="ben")
    names = sorted(path.name.split("-")[0] for path in (memories / "users").glob("*"))
    prompts = [str(call.body["messages"][0]) for call in harness.server.calls]
    assert names == [] or len(set(names)) == 2
    assert "anna" in prompts[0] and "anna" not in prompts[1]


async def test_commands_of_a_chat_run_in_a_sandbox_by_default(harness):
    runner = await harness.open()
    await harness.ask("hello", "hello")
    (agent,) = runner.gateway.open_agents().values()
    session = runner.gateway.app.session(agent)
    assert session.place.workplace.name == "sandbox"
    assert session.place.folder.startswith(str(harness.home / "workspaces"))


async def test_a_group_has_a_conversation_for_each_person(harness):
    await harness.open()
    await harness.ask("plum", "plum", user="anna", chat="room")
    harness.say("@hermes pear", user="anna", chat="team", chat_type="group")
    await harness.wait_for("pear", chat="team")
    harness.say("@hermes fig", user="ben", chat="team", chat_type="group")
    await harness.wait_for("fig", chat="team")
    assert "pear" not in str(harness.server.calls[-1].body["messages"])


async def test_a_cap_for_each_user_holds(harness):
    harness.home.mkdir(exist_ok=True)
    (harness.home / "config.yaml").write_text(
        "providers: {custom: {models: {lab-model: {price: {input: 3, output: 15}}}}}\n"
    )
    await harness.open([], gateway__user_day_usd=0.0000001)
    shown = await harness.ask("hello", "⚠️")
    assert "gateway.user_day_usd" in shown.text


async def test_role_without_toolsets_has_no_tools(harness):
    """No tools, not the usual ones."""
    await harness.open(gateway__role_toolsets={"member": []})
    await harness.ask("hello", "hello", user="ben")
    assert tools(harness.server) == set()
