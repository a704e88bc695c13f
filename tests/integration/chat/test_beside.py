"""What happens beside the answers of a conversation: questions, news, going back."""

import json
from pathlib import Path

import pexpect
import yaml

from hermes.core.messages import ToolCall
from hermes.core.testing import ModelServer
from tests.integration.chat.conftest import at
from tests.integration.chat.test_terminal import plain


def call(name: str, call_id: str = "c1", **arguments: object) -> ToolCall:
    return ToolCall(call_id, name, json.dumps(arguments))


def leave(child: pexpect.spawn) -> str:
    child.send("/quit\r")
    child.expect(pexpect.EOF)
    return plain(child.before)


def test_a_question_of_the_agent_is_answered_by_its_number(terminal):
    ask = call("clarify", question="Which colour?", choices=["red", "blue"])
    with ModelServer([ask, "Blue it is."]) as server:
        child = terminal("chat", *at(server))
        child.expect("› ")
        child.send("paint it\r")
        child.expect("your number or words: ")
        child.sendline("2")
        child.expect("Blue it is")
        answer = server.calls[1].body["messages"][-1]["content"]
        leave(child)
    assert "blue" in answer


def test_the_end_of_a_background_process_begins_a_turn(terminal, work: Path):
    command = "while [ ! -e go ]; do sleep 0.05; done; echo built"
    begin = call("terminal", command=command, background=True, notify_on_complete=True)
    with ModelServer([begin, "Started.", "It is built."]) as server:
        child = terminal("chat", *at(server))
        child.expect("› ")
        child.send("build\r")
        child.expect("Started")
        child.expect("› ")
        child.send("half a sentence")
        child.expect("half a sentence")
        (work / "go").touch()
        child.expect("background process proc_")
        child.expect("It is built")
        child.expect("half a sentence")  # still there to be sent
        news = server.calls[-1].body["messages"][-1]["content"]
        child.sendcontrol("c")
        child.expect("› ")
        leave(child)
    assert "exit code 0" in news
    assert "built" in news


def test_going_back_undoes_the_agents_work_and_keeps_the_users(terminal, work: Path):
    (work / "mine.txt").write_text("one\n")
    first = call("write_file", path="theirs.txt", content="x\n")
    with ModelServer([first, "Written."]) as server:
        child = terminal("chat", *at(server))
        child.expect("› ")
        child.send("write it\r")
        child.expect("Written")
        child.expect("› ")
        (work / "mine.txt").write_text("one\ntwo\n")
        child.send("/rollback\r")
        child.expect("1 file  write it")
        child.send("/rollback 1\r")
        child.expect("removed: theirs.txt")
        child.send("/rollback 77\r")
        child.expect("there is no checkpoint 77")
        leave(child)
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
    path = Path(result.partition("all of it is in ")[2].partition(",")[0])
    assert len(result) < 20_000
    assert "1999 xxx" in path.read_text()
