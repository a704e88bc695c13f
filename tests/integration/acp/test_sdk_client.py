"""Full sessions of an editor, with the client of the protocol's Python SDK."""

import asyncio
import base64
import json
import os
import sys
from pathlib import Path

import acp
import pytest
from acp.schema import (
    EmbeddedResourceContentBlock,
    McpServerStdio,
    TextResourceContents,
)

from hermes.core.messages import Text, ToolCall
from hermes.core.testing import ModelServer, Refuse, Slow, Step

PICTURE = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(40)).decode()
MCP_SERVER = Path(__file__).parents[1] / "mcp" / "program.py"


def call(name: str, number: int = 1, **arguments: object) -> ToolCall:
    return ToolCall(f"call_{number}", name, json.dumps(arguments))


def said(text: str) -> list:
    return [acp.text_block(text)]


async def eventually(condition) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.02)


async def test_a_prompt_is_answered_in_pieces_with_its_usage(editor, work):
    with ModelServer(["Hello, editor. How are you?"]) as server:
        async with editor(server) as e:
            session = await e.agent.new_session(cwd=str(work), mcp_servers=[])
            result = await e.agent.prompt(session_id=session.session_id, prompt=said("hi"))
            await eventually(lambda: e.of("available_commands_update"))
    assert e.text() == "Hello, editor. How are you?"
    assert len(e.of("agent_message_chunk")) > 1
    assert result.stop_reason == "end_turn"
    assert result.usage.total_tokens == e.of("usage_update")[-1].used
    assert {"model", "compress"} <= {
        each.name for each in e.of("available_commands_update")[0].available_commands
    }


@pytest.mark.parametrize(("answer", "is_gone"), [("once", True), ("deny", False), ("", False)])
async def test_a_dangerous_command_runs_only_with_permission(editor, work, answer, is_gone):
    (work / "build").mkdir()
    steps = [Step((call("terminal", command="rm -rf build"),)), "done"]
    with ModelServer(steps) as server:
        async with editor(server) as e:
            e.answer = answer
            session = await e.agent.new_session(cwd=str(work), mcp_servers=[])
            await e.agent.prompt(session_id=session.session_id, prompt=said("clean"))
    assert (work / "build").exists() is not is_gone
    ((question, options),) = e.questions
    assert question.tool_call_id == "call_1"
    assert "│ rm -rf build" in question.content[0].content.text
    assert (options[0].kind, options[-1].kind) == ("allow_once", "reject_once")
    (started,) = e.of("tool_call")
    assert (started.kind, started.title) == ("execute", "terminal: rm -rf build")
    ended = e.of("tool_call_update")[-1].status
    assert ended == ("completed" if is_gone else "failed")


async def test_an_edit_is_shown_as_a_diff_with_its_place(editor, work):
    (work / "a.txt").write_text("old\n")
    steps = [
        Step((call("read_file", 1, path="a.txt"),)),
        Step((call("write_file", 2, path="a.txt", content="new\n"),)),
        "done",
    ]
    with ModelServer(steps) as server:
        async with editor(server) as e:
            session = await e.agent.new_session(cwd=str(work), mcp_servers=[])
            await e.agent.prompt(session_id=session.session_id, prompt=said("change it"))
    edit = next(each for each in e.of("tool_call_update") if each.tool_call_id == "call_2")
    (diff,) = edit.content
    assert (diff.path, diff.old_text, diff.new_text) == (str(work / "a.txt"), "old\n", "new\n")
    start = next(each for each in e.of("tool_call") if each.tool_call_id == "call_2")
    assert (start.kind, start.locations[0].path) == ("edit", str(work / "a.txt"))


async def test_a_task_list_is_shown_as_a_plan(editor, work):
    todos = [
        {"id": "1", "content": "read", "status": "completed"},
        {"id": "2", "content": "write", "status": "in_progress"},
    ]
    with ModelServer([Step((call("todo", todos=todos),)), "ok"]) as server:
        async with editor(server) as e:
            session = await e.agent.new_session(cwd=str(work), mcp_servers=[])
            await e.agent.prompt(session_id=session.session_id, prompt=said("plan"))
    (plan,) = e.of("plan")
    assert [(each.content, each.status) for each in plan.entries] == [
        ("read", "completed"),
        ("write", "in_progress"),
    ]


async def test_a_cancelled_stream_ends_as_cancelled_and_keeps_its_text(editor, work):
    long = Step((Text("one two three four five six " * 50),), faults=(Slow(0.05),))
    with ModelServer([long, "again"]) as server:
        async with editor(server) as e:
            session = await e.agent.new_session(cwd=str(work), mcp_servers=[])
            prompt = asyncio.create_task(
                e.agent.prompt(session_id=session.session_id, prompt=said("count"))
            )
            await eventually(lambda: len(e.of("agent_message_chunk")) > 2)
            await e.agent.cancel(session_id=session.session_id)
            assert (await prompt).stop_reason == "cancelled"
            await e.agent.prompt(session_id=session.session_id, prompt=said("go on"))
            sent = server.calls[-1].body["messages"]
    assert "one two" in next(m for m in sent if m["role"] == "assistant")["content"]


async def test_a_cancelled_command_is_stopped(editor, work):
    pid = work / "pid"
    steps = [Step((call("terminal", command="echo $$ > pid; exec sleep 300"),))]
    with ModelServer(steps) as server:
        async with editor(server) as e:
            session = await e.agent.new_session(cwd=str(work), mcp_servers=[])
            prompt = asyncio.create_task(
                e.agent.prompt(session_id=session.session_id, prompt=said("wait"))
            )
            await eventually(lambda: pid.exists() and pid.read_text().strip())
            os.kill(int(pid.read_text()), 0)
            await e.agent.cancel(session_id=session.session_id)
            assert (await prompt).stop_reason == "cancelled"
            with pytest.raises(ProcessLookupError):
                os.kill(int(pid.read_text()), 0)


async def test_a_loaded_session_replays_everything_before_the_answer(editor, work):
    steps = [Step((call("terminal", command="echo hello"),)), "It says hello."]
    with ModelServer([*steps, "You asked for hello."]) as server:
        async with editor(server) as first:
            session = await first.agent.new_session(cwd=str(work), mcp_servers=[])
            await first.agent.prompt(session_id=session.session_id, prompt=said("say hello"))
        async with editor(server) as e:
            listed = await e.agent.list_sessions()
            (known,) = listed.sessions
            assert (known.session_id, known.cwd) == (session.session_id, str(work))
            await e.agent.load_session(cwd=str(work), mcp_servers=[], session_id=session.session_id)
            replayed = [update.session_update for _, update in e.updates]
            assert replayed == [
                "user_message_chunk",
                "tool_call",
                "tool_call_update",
                "agent_message_chunk",
            ]
            assert e.text("user_message_chunk") == "say hello"
            await e.agent.prompt(session_id=session.session_id, prompt=said("what was it?"))
            sent = server.calls[-1].body["messages"]
    assert [m["content"] for m in sent if m["role"] == "user"] == ["say hello", "what was it?"]


async def test_a_resumed_session_is_not_replayed(editor, work):
    with ModelServer(["one", "two"]) as server:
        async with editor(server) as e:
            session = await e.agent.new_session(cwd=str(work), mcp_servers=[])
            await e.agent.prompt(session_id=session.session_id, prompt=said("first"))
            await e.agent.close_session(session_id=session.session_id)
            with pytest.raises(acp.RequestError, match="is not open"):
                await e.agent.prompt(session_id=session.session_id, prompt=said("x"))
            e.updates.clear()
            await e.agent.resume_session(cwd=str(work), session_id=session.session_id)
            assert not e.of("user_message_chunk")
            await e.agent.prompt(session_id=session.session_id, prompt=said("second"))
            assert len(server.calls[-1].body["messages"]) == 4


async def test_two_sessions_work_at_the_same_time_in_their_own_folders(editor, work, tmp_path):
    other = tmp_path / "other"
    other.mkdir()

    def answer(request):
        text = json.dumps(request.body["messages"])
        if '"tool"' in text:
            return "ok"
        return Step((call("terminal", command="pwd > where; sleep 0.3"),))

    with ModelServer(answer) as server:
        async with editor(server) as e:
            ids = [
                (await e.agent.new_session(cwd=str(folder), mcp_servers=[])).session_id
                for folder in (work, other)
            ]
            prompts = (e.agent.prompt(session_id=each, prompt=said("go")) for each in ids)
            results = await asyncio.gather(*prompts)
    assert [each.stop_reason for each in results] == ["end_turn", "end_turn"]
    assert (work / "where").read_text().strip() == str(work)
    assert (other / "where").read_text().strip() == str(other)
    assert [e.text(session_id=each) for each in ids] == ["ok", "ok"]


async def test_modes_and_options_can_be_changed(editor, work):
    steps = [Step((call("write_file", path="a.txt", content="x"),)), "I may not."]
    with ModelServer(steps) as server:
        async with editor(server) as e:
            session = await e.agent.new_session(cwd=str(work), mcp_servers=[])
            options = {each.id: each for each in session.config_options}
            assert options["model"].current_value == "custom:lab-model"
            await e.agent.set_session_mode(session_id=session.session_id, mode_id="plan")
            assert e.of("current_mode_update")[0].current_mode_id == "plan"
            await e.agent.prompt(session_id=session.session_id, prompt=said("write"))
            changed = await e.agent.set_config_option(
                session_id=session.session_id, config_id="effort", value="low"
            )
            values = {each.id: each.current_value for each in changed.config_options}
            assert (values["mode"], values["effort"]) == ("plan", "low")
            for config_id, value in (("effort", "huge"), ("colour", "red"), ("mode", "free")):
                with pytest.raises(acp.RequestError, match="there is no"):
                    await e.agent.set_config_option(
                        session_id=session.session_id, config_id=config_id, value=value
                    )
            await e.agent.prompt(session_id=session.session_id, prompt=said("/reasoning"))
    assert "Reasoning effort: low" in e.text()
    assert not (work / "a.txt").exists()


async def test_unsaved_changes_of_the_editor_are_read_and_edits_reach_it(editor, work):
    path = work / "a.txt"
    path.write_text("on disk\n")
    steps = [
        Step((call("read_file", 1, path="a.txt"),)),
        Step((call("patch", 2, path="a.txt", old_string="unsaved", new_string="changed"),)),
        "done",
    ]
    with ModelServer(steps) as server:
        async with editor(server, fs=True) as e:
            e.buffers[str(path)] = "unsaved text\n"
            session = await e.agent.new_session(cwd=str(work), mcp_servers=[])
            await e.agent.prompt(session_id=session.session_id, prompt=said("edit"))
            shown = server.calls[1].body["messages"][-1]["content"]
    assert "unsaved text" in shown
    assert "on disk" not in shown
    assert e.buffers[str(path)] == "changed text\n" == path.read_text()


IN_EDITOR = "acp: {terminal: editor}\n"


async def test_commands_run_in_terminals_of_the_editor_if_the_settings_say_so(editor, work):
    (work / "sub").mkdir()
    steps = [
        Step((call("terminal", 1, command="cd sub && echo hello"),)),
        Step((call("terminal", 2, command="pwd; exit 3"),)),
        "done",
    ]
    with ModelServer(steps) as server:
        async with editor(server, settings=IN_EDITOR, fs=True) as e:
            session = await e.agent.new_session(cwd=str(work), mcp_servers=[])
            await e.agent.prompt(session_id=session.session_id, prompt=said("run"))
            results = [
                m["content"] for m in server.calls[-1].body["messages"] if m["role"] == "tool"
            ]
    assert "hello" in results[0]
    assert str(work / "sub") in results[1]
    assert "3" in results[1]
    assert e.released == ["t1", "t2"] == list(e.terminals)
    shown = [c for each in e.of("tool_call_update") for c in each.content or ()]
    assert {c.terminal_id for c in shown if c.type == "terminal"} == {"t1", "t2"}


async def test_a_cancelled_command_is_killed_in_the_terminal_of_the_editor(editor, work):
    with ModelServer([Step((call("terminal", command="sleep 300"),))]) as server:
        async with editor(server, settings=IN_EDITOR, fs=True) as e:
            session = await e.agent.new_session(cwd=str(work), mcp_servers=[])
            prompt = asyncio.create_task(
                e.agent.prompt(session_id=session.session_id, prompt=said("wait"))
            )
            await eventually(lambda: e.terminals)
            await e.agent.cancel(session_id=session.session_id)
            assert (await prompt).stop_reason == "cancelled"
            await eventually(lambda: e.terminals["t1"].returncode is not None)
            assert e.released == ["t1"]


async def test_a_picture_and_a_file_reach_the_model(editor, work):
    with ModelServer(["a picture"]) as server:
        async with editor(server) as e:
            session = await e.agent.new_session(cwd=str(work), mcp_servers=[])
            resource = TextResourceContents(uri="file:///x/notes%201.md", text="remember milk")
            blocks = [
                acp.text_block("look at "),
                acp.image_block(PICTURE, "image/png"),
                EmbeddedResourceContentBlock(type="resource", resource=resource),
            ]
            await e.agent.prompt(session_id=session.session_id, prompt=blocks)
            content = server.calls[0].body["messages"][-1]["content"]
    text = "".join(part.get("text", "") for part in content)
    assert "/x/notes 1.md:\n```\nremember milk\n```" in text
    assert any(part["type"] == "image_url" for part in content)


async def test_servers_of_the_editor_serve_their_session_only(editor, work):
    server_of_editor = McpServerStdio(
        name="mine", command=sys.executable, args=[str(MCP_SERVER), "plain"], env=[]
    )
    with ModelServer(["a", "b"]) as server:
        async with editor(server) as e:
            for servers in ([server_of_editor], []):
                session = await e.agent.new_session(cwd=str(work), mcp_servers=servers)
                await e.agent.prompt(session_id=session.session_id, prompt=said("hi"))
            bodies = [json.dumps(each.body["tools"]) for each in server.calls]
    assert "mcp_mine_" in bodies[0]
    assert "mcp_mine_" not in bodies[1]


async def test_slash_commands_answer_without_the_model(editor, work):
    with ModelServer([]) as server:
        async with editor(server) as e:
            session = await e.agent.new_session(cwd=str(work), mcp_servers=[])
            result = await e.agent.prompt(session_id=session.session_id, prompt=said("/model"))
    assert result.stop_reason == "end_turn"
    assert "lab-model" in e.text()


async def test_a_question_of_the_agent_is_a_form_of_the_editor(editor, work):
    with ModelServer([Step((call("clarify", question="Which colour?"),)), "Red it is."]) as server:
        async with editor(server, forms=True) as e:
            e.form_answer = "red"
            session = await e.agent.new_session(cwd=str(work), mcp_servers=[])
            await e.agent.prompt(session_id=session.session_id, prompt=said("paint"))
            result = server.calls[-1].body["messages"][-1]["content"]
    assert e.forms == ["Which colour?"], result
    assert "red" in result


async def test_sessions_can_be_forked_and_deleted(editor, work):
    with ModelServer(["one", "two"]) as server:
        async with editor(server) as e:
            session = await e.agent.new_session(cwd=str(work), mcp_servers=[])
            await e.agent.prompt(session_id=session.session_id, prompt=said("first"))
            fork = await e.agent.fork_session(cwd=str(work), session_id=session.session_id)
            await e.agent.prompt(session_id=fork.session_id, prompt=said("second"))
            assert len(server.calls[-1].body["messages"]) == 4
            deletion = {"sessionId": fork.session_id}  # the SDK has no method for it
            await e.agent._conn.send_request("session/delete", deletion)
            left = [each.session_id for each in (await e.agent.list_sessions()).sessions]
    assert left == [session.session_id]


async def test_a_failing_model_is_an_error_with_the_reason(editor, work):
    with ModelServer([Refuse("forbidden")]) as server:
        async with editor(server) as e:
            session = await e.agent.new_session(cwd=str(work), mcp_servers=[])
            with pytest.raises(acp.RequestError, match=r"lab-model|forbidden|403"):
                await e.agent.prompt(session_id=session.session_id, prompt=said("hi"))


@pytest.mark.parametrize("cwd", ["relative", "/does/not/exist"])
async def test_a_wrong_folder_is_refused_with_a_reason(editor, cwd):
    with ModelServer([]) as server:
        async with editor(server) as e:
            with pytest.raises(acp.RequestError, match=r"absolute path|no folder"):
                await e.agent.new_session(cwd=cwd, mcp_servers=[])
