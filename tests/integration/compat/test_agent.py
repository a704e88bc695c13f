"""`AIAgent`, as scripts use it."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes.compat.agent import AIAgent, Callbacks, SessionManager
from hermes.compat.sessions import SessionDB
from hermes.core.errors import ConfigError, UsageError
from hermes.core.events import CompactionStarted, SubagentFinished, ToolStarted
from hermes.core.messages import Text, ToolCall
from hermes.core.testing import ModelServer, Refuse, Stall, Step
from tests.cases import cases

CASES = cases(__file__)

MakeAgent = Callable[..., AIAgent]
SUMMARY = CASES["summary"]


@pytest.fixture
def agent_at(hermes_home: Path, tmp_path: Path) -> Iterator[MakeAgent]:
    """Makes agents that work in an empty folder and ask `server`."""
    made: list[AIAgent] = []
    work = tmp_path / "work"
    work.mkdir()
    hermes_home.mkdir(exist_ok=True)
    (hermes_home / "config.yaml").write_text("sessions:\n  auto_title: false\n")

    def make(server: ModelServer, **more: Any) -> AIAgent:
        given = {"model": "lab", "quiet_mode": True, "working_folder": work, **more}
        made.append(AIAgent(base_url=f"{server.url}/v1", api_key="lab-key", **given))
        return made[-1]

    yield make
    for each in made:
        each.close()


def call(name: str, number: int = 1, **arguments: Any) -> ToolCall:
    return ToolCall(f"call_{number}", name, json.dumps(arguments))


def body(server: ModelServer, number: int = -1) -> dict[str, Any]:
    found: dict[str, Any] = server.calls[number].body
    return found


def test_result_has_the_documented_fields(agent_at):
    with ModelServer([call("terminal", command="echo over"), "It says over."]) as server:
        agent = agent_at(server)
        result = agent.run_conversation("what does echo say?")
    assert result["final_response"] == "It says over."
    assert result["completed"] and not result["partial"] and not result["failed"]
    assert result["interrupted"] is False
    assert result["error"] is None
    assert result["exit_reason"] == "answered"
    assert result["api_calls"] == 2
    assert [m["role"] for m in result["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert result["total_tokens"] == result["prompt_tokens"] + result["completion_tokens"] > 0
    assert result["session_id"] == agent.session_id
    assert (agent.model, agent.provider) == ("lab", "custom")


def test_request_overrides_are_fields_of_each_request(agent_at):
    with ModelServer([call("terminal", command="true"), "Done."]) as server:
        agent_at(server, request_overrides={"temperature": 0.7, "seed": 3}).chat("go")
    assert [(each.body["temperature"], each.body["seed"]) for each in server.calls] == [
        (0.7, 3)
    ] * 2


@pytest.mark.parametrize(("wrap_up", "calls"), [("true", 2), ("false", 1)])
def test_limit_of_model_calls_ends_with_a_summary_unless_it_is_switched_off(
    agent_at, hermes_home, wrap_up, calls
):
    with (hermes_home / "config.yaml").open("a") as file:
        file.write(f"agent: {{wrap_up: {wrap_up}}}\n")
    steps = [call("terminal", command="true"), "So far: nothing."][:calls]
    with ModelServer(steps) as server:
        result = agent_at(server, max_iterations=1).run_conversation("go")
    assert len(server.calls) == calls
    assert (result["exit_reason"], result["completed"]) == ("max_iterations", False)


def test_chat_returns_the_answer_and_continues(agent_at):
    with ModelServer(["one", "two"]) as server:
        agent = agent_at(server)
        assert [agent.chat("first"), agent.chat("second")] == ["one", "two"]
        said = [m["content"] for m in body(server)["messages"][1:]]
    assert said == ["first", "one", "second"]


def test_tools_are_chosen_by_toolset(agent_at):
    with ModelServer(["a", "b"]) as server:
        agent_at(server, enabled_toolsets=["file"]).chat("hi")
        agent_at(server, disabled_toolsets=["terminal", "web"]).chat("hi")
        few, most = (
            {tool["function"]["name"] for tool in body(server, n)["tools"]} for n in (0, 1)
        )
    assert few == {"read_file", "write_file", "patch", "search_files"}
    assert "todo" in most
    assert not most & {"terminal", "process", "web_search"}


def test_ephemeral_prompt_is_sent_and_not_stored(agent_at):
    with ModelServer(["fine"]) as server:
        agent = agent_at(
            server,
            ephemeral_system_prompt="Speak softly.",
            prefill_messages=[
                {"role": "user", "content": "ready?"},
                {"role": "assistant", "content": "ready"},
            ],
        )
        result = agent.run_conversation("hi", system_message="The user is a pilot.")
        sent = body(server)["messages"]
    assert sent[0]["content"].endswith("Speak softly.")
    assert "The user is a pilot." in sent[0]["content"]
    assert [m["content"] for m in sent[1:]] == ["ready?", "ready", "hi"]
    assert [m["content"] for m in result["messages"]] == ["hi", "fine"]
    stored = SessionDB().get_session(result["session_id"])["system_prompt"]
    assert "The user is a pilot." in stored
    assert "softly" not in stored


def test_a_conversation_can_begin_with_a_history(agent_at):
    history = [
        {"role": "system", "content": "of another agent"},
        {"role": "user", "content": "my name is Ada"},
        {"role": "assistant", "content": "Hello Ada."},
    ]
    with ModelServer(["Ada."]) as server:
        agent = agent_at(server)
        result = agent.run_conversation("who am I?", conversation_history=history, task_id="task-7")
    assert result["session_id"] == "task-7"
    assert len(result["messages"]) == 4
    assert len(SessionDB().get_messages("task-7")) == 4


def test_a_session_is_gone_on_with_by_its_id(agent_at):
    with ModelServer(["noted", "Ada"]) as server:
        agent_at(server, session_id="mine").chat("I am Ada")
        assert agent_at(server, session_id="mine").chat("who am I?") == "Ada"
        first, second = (body(server, n)["messages"] for n in (0, 1))
    assert second[: len(first)] == first, "word for word, the system prompt too"


def test_sessions_can_use_another_store(agent_at, tmp_path):
    db = SessionDB(tmp_path / "own.db")
    with ModelServer(["ok"]) as server:
        result = agent_at(server, session_db=db).run_conversation("hi")
    assert len(db.get_messages(result["session_id"])) == 2
    db.close()


def test_a_failure_is_in_the_result(agent_at):
    with ModelServer([Step(faults=(Refuse("unauthorized"),))]) as server:
        result = agent_at(server).run_conversation("hi")
    assert (result["failed"], result["completed"], result["exit_reason"]) == (True, False, "failed")
    assert "key" in result["error"]


def test_a_fallback_model_takes_over(agent_at):
    with ModelServer([Step(faults=(Refuse("model_not_found"),)), "from the other"]) as server:
        agent = agent_at(
            server,
            fallback_model={
                "provider": "custom", "model": "spare", "base_url": f"{server.url}/v1",
            },
        )  # fmt: skip
        assert agent.chat("hi") == "from the other"
        assert [body(server, n)["model"] for n in (0, 1)] == ["lab", "spare"]


def test_wrong_use_is_an_error_with_a_hint(agent_at):
    with ModelServer([]) as server:
        with pytest.raises(UsageError, match="empty"):
            agent_at(server).run_conversation("  ")
        with pytest.raises(ConfigError, match="max_turns"):
            agent_at(server, max_iterations=0)
        with pytest.raises(UsageError, match="no_such"):
            agent_at(server, enabled_toolsets=["no_such"]).chat("hi")


def test_another_thread_can_stop_a_turn(agent_at):
    stalled = Step((Text("never finished"),), faults=(Stall(1),))
    with ModelServer([stalled, "here again"]) as server:
        begun = threading.Event()
        agent = agent_at(server, callbacks=Callbacks(on_text=lambda _text: begun.set()))
        threading.Thread(target=lambda: (begun.wait(20), agent.interrupt("enough"))).start()
        result = agent.run_conversation("hi")
        assert (result["interrupted"], result["error"]) == (True, "enough")
        assert agent.chat("again?") == "here again"


def test_callbacks_receive_the_events(agent_at):
    heard: list[Any] = []
    callbacks = Callbacks(
        on_event=lambda event: heard.append(type(event)),
        on_text=lambda text: heard.append(text),
        on_tool=lambda name, arguments: heard.append((name, json.loads(arguments))),
        on_question=lambda question, choices: f"{question} {list(choices)} blue",
    )
    question = call("clarify", question="which?", choices=["red", "blue"])
    with ModelServer([question, "Blue it is."]) as server:
        agent = agent_at(server, callbacks=callbacks, enabled_toolsets=["clarify"])
        agent.chat("paint it")
        answer = body(server)["messages"][-1]["content"]
    assert "which? ['red', 'blue'] blue" in answer
    assert ("clarify", {"question": "which?", "choices": ["red", "blue"]}) in heard
    assert ToolStarted in heard
    assert "".join(each for each in heard if isinstance(each, str)) == "Blue it is."


def test_trajectories_are_saved_in_the_working_folder(agent_at, tmp_path):
    with ModelServer([call("todo"), "done"]) as server:
        agent_at(server, save_trajectories=True).chat("hi")
    (line,) = (tmp_path / "work" / "trajectory_samples.jsonl").read_text().splitlines()
    entry = json.loads(line)
    said = [turn["from"] for turn in entry["conversations"]]
    assert said == ["system", "human", "gpt", "tool", "gpt"]
    assert (entry["model"], entry["completed"]) == ("lab", True)


def test_a_subagent_works_with_fewer_tools_and_reports(agent_at):
    heard: list[Any] = []
    steps = [
        call("delegate_task", goal="count the files", context="in this folder"),
        "There are none.",
        "A subagent found none.",
    ]
    with ModelServer(steps) as server:
        agent = agent_at(server, callbacks=Callbacks(on_event=heard.append))
        result = agent.run_conversation("how many files?")
        child = body(server, 1)
        report = json.loads(body(server, 2)["messages"][-1]["content"])
    assert result["final_response"] == "A subagent found none."
    assert "count the files" in child["messages"][-1]["content"]
    names = {tool["function"]["name"] for tool in child["tools"]}
    assert "terminal" in names
    assert not names & {"delegate_task", "clarify", "memory", "execute_code"}
    (message,) = report["results"]
    assert (message["status"], message["summary"]) == ("completed", "There are none.")
    (finished,) = [event for event in heard if isinstance(event, SubagentFinished)]
    assert (finished.status, finished.api_calls) == ("completed", 1)
    own = SessionDB().get_session(message["session_id"])
    assert (own["parent_session_id"], own["source"]) == (result["session_id"], "subagent")


def test_a_long_conversation_is_compacted_and_keeps_its_task(agent_at, hermes_home, tmp_path):
    (hermes_home / "config.yaml").write_text(
        "sessions:\n  auto_title: false\nmodel:\n  context_length: 16000\n"
        "compression:\n  protect_last_n: 4\n"
    )
    big = tmp_path / "work" / "big.txt"
    big.write_text("\n".join(f"line {n} with some words in it" for n in range(400)))
    reads = [
        Step((Text(f"Page {n}. " * 150), call("read_file", n, path="big.txt", offset=n, limit=90)))
        for n in range(1, 12)
    ]

    def answer(request: Any) -> Any:
        if not request.body.get("tools"):
            return SUMMARY
        return reads.pop(0) if reads else "All read."

    heard: list[Any] = []
    with ModelServer(answer) as server:
        agent = agent_at(server, callbacks=Callbacks(on_event=heard.append))
        result = agent.run_conversation("Read big.txt in pages and never change it.")
        requests = [one.body for one in server.calls]
    assert result["completed"]
    assert any(isinstance(event, CompactionStarted) for event in heard)
    talked = [one for one in requests if one.get("tools")]  # not what the summariser was asked
    last = json.dumps(talked[-1]["messages"])
    assert "Read big.txt in pages and never change it." in last
    assert "[CONTEXT COMPACTION]" in last
    systems = {one["messages"][0]["content"] for one in talked}
    assert len(systems) == 1, "the system prompt stays what it was"
    line = SessionDB().get_session(result["session_id"])
    assert line["parent_session_id"]


def test_conversation_gets_a_title(agent_at, hermes_home):
    (hermes_home / "config.yaml").write_text("")

    def answer(request: Any) -> Any:
        return "hello" if request.body.get("tools") else '"Greeting the agent"'

    with ModelServer(answer) as server:
        agent = agent_at(server)
        result = agent.run_conversation("hi there")
        db = SessionDB()
        for _ in range(400):
            if title := db.get_session(result["session_id"])["title"]:
                break
            time.sleep(0.02)
    assert title == "Greeting the agent"


def test_notes_and_profile_are_in_the_prompt_of_the_next_session(agent_at, hermes_home):
    with (hermes_home / "config.yaml").open("a") as file:
        file.write("approvals:\n  effects: {memory: allow}\n")
    steps = [call("memory", action="add", target="user", content="Speaks Welsh."), "noted", "hi"]
    with ModelServer(steps) as server:
        agent_at(server).chat("I speak Welsh")
        agent_at(server).chat("hello")
        first, second = (body(server, n)["messages"][0]["content"] for n in (1, 2))
    assert "Speaks Welsh." not in first, "the prompt of a session never changes"
    assert "Speaks Welsh." in second


def test_instructions_in_a_subfolder_come_with_the_first_look_into_it(agent_at, tmp_path):
    api = tmp_path / "work" / "api"
    api.mkdir()
    (api / "AGENTS.md").write_text("Use tabs in this folder.")
    (api / "main.py").write_text("print('hi')\n")
    reads = [call("read_file", n, path="api/main.py", limit=n) for n in (1, 2)]
    with ModelServer([*reads, "done"]) as server:
        agent_at(server).chat("read it twice")
        results = [m["content"] for m in body(server)["messages"] if m["role"] == "tool"]
    assert "Use tabs in this folder." in results[0]
    assert "Use tabs" not in results[1]


ENGINE = CASES["engine"]


def test_an_engine_of_ones_own_brings_its_tool(agent_at, hermes_home, tmp_path, monkeypatch):
    folder = hermes_home / "plugins" / "context_engine" / "counting"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(ENGINE)
    (folder / "plugin.yaml").write_text("name: counting\ndescription: counts\nversion: 1.0\n")
    (hermes_home / "config.yaml").write_text(
        "sessions: {auto_title: false}\ncontext: {engine: counting}\n"
    )
    monkeypatch.chdir(tmp_path)
    with ModelServer([call("how_much"), "enough"]) as server:
        agent = agent_at(server)
        agent.chat("how much is it?")
        agent.close()
        result = json.loads(body(server)["messages"][-1]["content"])
    assert result["tokens"] > 1000
    assert result["said"] == 2
    assert (tmp_path / "ended.txt").read_text() == "5"


def test_a_session_manager_keeps_conversations_apart_and_forks_them(hermes_home, tmp_path):
    hermes_home.mkdir(exist_ok=True)
    manager = SessionManager()
    with ModelServer(["one", "two", "three"]) as server:
        model = f"{{provider: custom, base_url: '{server.url}/v1', default: lab, api_key: k}}"
        text = f"model: {model}\nsessions: {{auto_title: false}}\n"
        (hermes_home / "config.yaml").write_text(text)
        first = manager.create_session(str(tmp_path))
        assert (first.cwd, first.model) == (str(tmp_path), "lab")
        assert first.prompt("hello")["final_response"] == "one"
        fork = manager.fork_session(first.session_id)
        assert fork is not None
        fork.prompt("again")
        assert [m["content"] for m in body(server)["messages"][1:]] == ["hello", "one", "again"]
        first.prompt("more")
        assert [m["content"] for m in body(server)["messages"][1:]] == ["hello", "one", "more"]
    assert {each.session_id for each in manager.list_sessions()} == {
        first.session_id,
        fork.session_id,
    }
    assert manager.remove_session(fork.session_id)
    manager.cleanup()
    assert manager.get_session(first.session_id) is None
