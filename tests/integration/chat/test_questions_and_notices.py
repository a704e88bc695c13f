"""Questions of the agent, notices of background processes, and going back."""

import json
from pathlib import Path

import yaml

from hermes.core.messages import ToolCall
from hermes.core.testing import ModelServer
from tests.integration.chat.conftest import at


def call(name: str, call_id: str = "c1", **arguments: object) -> ToolCall:
    return ToolCall(call_id, name, json.dumps(arguments))


def test_a_question_of_the_agent_is_answered_by_its_number(screen):
    ask = call("clarify", question="Which colour?", choices=["red", "blue"])
    with ModelServer([ask, "Blue it is."]) as server:
        it = screen("chat", *at(server)).ready()
        it.say("paint it").sees("or your own words").ask("2", "Blue it is")
        answer = server.calls[1].body["messages"][-1]["content"]
    assert "blue" in answer


def test_the_end_of_a_background_process_begins_a_turn(screen, work: Path):
    command = "while [ ! -e go ]; do sleep 0.05; done; echo built"
    begin = call("terminal", command=command, background=True, notify_on_complete=True)
    with ModelServer([begin, "Started.", "It is built."]) as server:
        it = screen("chat", *at(server)).ready()
        it.ask("build", "Started").type("half a sentence").sees_last("❯ half a sentence")
        (work / "go").touch()
        it.sees("background process proc_").sees("It is built")
        assert it.settled().input == ["❯ half a sentence"], "still there to be sent"
        news = server.calls[-1].body["messages"][-1]["content"]
    assert "exit code 0" in news and "built" in news


def test_going_back_undoes_the_agents_work_and_keeps_the_users(screen, work: Path):
    (work / "mine.txt").write_text("one\n")
    first = call("write_file", path="theirs.txt", content="x\n")
    with ModelServer([first, "Written."]) as server:
        it = screen("chat", *at(server)).ready()
        it.ask("write it", "Written")
        (work / "mine.txt").write_text("one\ntwo\n")
        it.say("/rollback").sees("▸ write it").press("escape").ready()
        it.ask("/rollback 1", "removed: theirs.txt")
        it.ask("/rollback 77", "there is no checkpoint 77")
    assert sorted(path.name for path in work.iterdir()) == ["mine.txt"]
    assert (work / "mine.txt").read_text() == "one\ntwo\n"


def test_smart_approval_lets_a_model_judge(hermes, hermes_home: Path, work: Path):
    hermes_home.mkdir()
    (hermes_home / "config.yaml").write_text(yaml.safe_dump({"approvals": {"mode": "smart"}}))
    (work / "node_modules").mkdir()
    wipe = call("terminal", command="rm -rf node_modules")
    with ModelServer([wipe, "APPROVE", "Gone."]) as server:
        done = hermes("chat", "-q", "clean", *at(server))
    assert (done.stdout, (work / "node_modules").exists()) == ("Gone.\n", False)


def test_a_result_that_is_too_long_can_be_read_in_pages(hermes, work: Path):
    (work / "long.txt").write_text("".join(f"{n} {'x' * 300}\n" for n in range(2_000)))
    look = call("search_files", pattern="x", path="long.txt", limit=2_000)
    with ModelServer([look, "Long."]) as server:
        hermes("chat", "-q", "look", *at(server))
        result = server.requests[1].body["messages"][-1]["content"]
    path = Path(result.partition("with read_file: ")[2].partition(" …]")[0])
    assert len(result) < 20_000
    assert "1999 xxx" in path.read_text()
