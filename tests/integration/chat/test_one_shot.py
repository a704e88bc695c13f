"""`hermes chat -q`: one question, one answer, the right exit code."""

import asyncio
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from hermes.core.events import ToolFinished, TurnFinished, TurnStarted, from_json
from hermes.core.messages import Text, ToolCall
from hermes.core.testing import Cut, ModelServer, Refuse, Stall, Step
from hermes.store import open_store
from tests.cases import cases
from tests.integration.chat.conftest import HERMES, at

CASES = cases(__file__)


def call(name: str, arguments: str, call_id: str = "c1") -> ToolCall:
    return ToolCall(call_id, name, arguments)


def test_the_answer_is_all_there_is_on_stdout(hermes):
    with ModelServer(["Hello to you."]) as server:
        done = hermes("chat", "-q", "hello", *at(server))
    assert (done.returncode, done.stdout, done.stderr) == (0, "Hello to you.\n", "")


def test_a_tool_call_has_its_effect(hermes, work: Path):
    write = call("write_file", '{"path":"notes.txt","content":"hello\\n"}')
    with ModelServer([write, "Written."]) as server:
        done = hermes("chat", "-q", "make notes.txt", *at(server))
    assert done.stdout == "Written.\n"
    assert (work / "notes.txt").read_text() == "hello\n"


def test_the_question_may_come_from_standard_input(hermes):
    with ModelServer(["ok", "ok", "ok"]) as server:
        hermes("chat", "-q", "-", *at(server), stdin="from a pipe")
        hermes("chat", "-q", "review this: -", *at(server), stdin="a diff")
        hermes("chat", *at(server), stdin="no flag at all")
        asked = [request.body["messages"][-1]["content"] for request in server.requests]
    assert asked == ["from a pipe", "review this: a diff", "no flag at all"]


def test_a_prompt_without_a_terminal_is_answered_once(hermes):
    with ModelServer(["Done.", "Done.", "Done."]) as server:
        done = [
            hermes("fix the tests", *at(server)),
            hermes("chat", "fix the tests", *at(server)),
            hermes("chat", *at(server), "fix", "the", "tests", "-Q"),
        ]
        asked = [request.body["messages"][-1]["content"] for request in server.requests]
    assert [(one.returncode, one.stdout, one.stderr) for one in done] == [(0, "Done.\n", "")] * 3
    assert asked == ["fix the tests"] * 3


def test_a_prompt_and_a_query_are_refused_together(hermes):
    done = hermes("chat", "-q", "fix", "the tests")
    assert done.returncode == 2
    assert "unexpected argument 'the tests'" in done.stderr
    assert "hermes chat -q 'fix the tests'" in done.stderr


def test_json_is_the_event_union_line_by_line(hermes):
    with ModelServer([call("terminal", '{"command":"echo hi"}'), "done"]) as server:
        done = hermes("chat", "--json", "-q", "go", *at(server))
    events = [from_json(line.encode()) for line in done.stdout.splitlines()]
    assert isinstance(events[0], TurnStarted)
    assert isinstance(events[-1], TurnFinished)
    assert [event.result for event in events if isinstance(event, ToolFinished)] == ["hi"]


def test_continue_resumes_the_last_chat(hermes):
    with ModelServer(["Bob, noted.", "Bob."]) as server:
        hermes("chat", "-q", "my name is Bob", *at(server))
        hermes("--continue", "-q", "what is my name?", *at(server))
        first, second = (request.body["messages"] for request in server.requests)
    assert second[: len(first)] == first
    assert [message["content"] for message in second[1:]] == [
        "my name is Bob",
        "Bob, noted.",
        "what is my name?",
    ]


def test_continue_skips_chats_without_messages(hermes, hermes_home):
    with ModelServer(["Bob, noted.", "Bob."]) as server:
        hermes("chat", "-q", "my name is Bob", *at(server))

        async def open_and_leave() -> None:
            store = open_store("", hermes_home / "state.db")
            await store.create("zzz_empty", source="cli", model="m", system_prompt="")
            store.close()

        asyncio.run(open_and_leave())
        hermes("--continue", "-q", "what is my name?", *at(server))
        assert server.requests[-1].body["messages"][1]["content"] == "my name is Bob"


def test_continue_without_an_earlier_chat_starts_a_new_one(hermes):
    with ModelServer(["hi"]) as server:
        assert hermes("chat", "-c", "-q", "hello", *at(server)).returncode == 0


def test_a_dangerous_command_is_refused_without_a_terminal(hermes, work: Path):
    (work / "precious").mkdir()
    danger = call("terminal", '{"command":"rm -rf precious"}')
    with ModelServer([danger, "I may not."]) as server:
        done = hermes("chat", "-q", "clean up", *at(server))
        told = server.requests[1].body["messages"][-1]["content"]
    assert done.returncode == 0
    assert (work / "precious").is_dir()
    assert "appro" in told


def test_yolo_runs_it_without_asking(hermes, work: Path):
    (work / "junk").mkdir()
    danger = call("terminal", '{"command":"rm -rf junk"}')
    with ModelServer([danger, "Gone."]) as server:
        hermes("chat", "--yolo", "-q", "clean up", *at(server))
    assert not (work / "junk").exists()


def test_the_agent_cannot_change_its_own_settings(hermes, hermes_home: Path):
    target = hermes_home / "config.yaml"
    write = call("write_file", f'{{"path":"{target}","content":"approvals: {{mode: off}}"}}')
    with ModelServer([write, "No."]) as server:
        hermes("chat", "--yolo", "-q", "loosen up", *at(server))
    assert not target.exists()


def test_a_cut_stream_is_tried_again(hermes):
    steps = [Step((Text("half an answer"),), faults=(Cut(1),)), "A whole answer."]
    with ModelServer(steps) as server:
        done = hermes("chat", "-q", "hello", *at(server))
    assert (done.returncode, done.stdout) == (0, "A whole answer.\n")


@pytest.mark.parametrize(("refusal", "exit_code", "words"), CASES["refusal is one clear line"])
def test_a_refusal_is_one_clear_line_with_the_next_step(hermes, refusal, exit_code, words):
    with ModelServer([Refuse(refusal)]) as server:
        done = hermes("chat", "-q", "hello", *at(server))
    assert (done.returncode, done.stdout) == (exit_code, "")
    first, second = done.stderr.splitlines()
    assert first.startswith("hermes: ")
    assert words in first
    assert second.startswith("  ")


def test_an_endpoint_that_refuses_connections_is_one_clear_line(hermes):
    # Port 9 (discard) is not served on test machines; a refused connection is tried three times.
    done = hermes("chat", "-q", "hello", "--base-url", "http://127.0.0.1:9/v1", "-m", "x")
    assert done.returncode == 5
    assert done.stderr.splitlines()[-2].startswith(
        "hermes: cannot reach custom at http://127.0.0.1:9"
    )


@pytest.mark.parametrize(("arguments", "exit_code", "words"), CASES["wrong usage is one line and"])
def test_wrong_usage_is_one_line_and_a_hint(hermes, arguments, exit_code, words):
    done = hermes(*arguments)
    assert done.returncode == exit_code
    lines = done.stderr.splitlines()
    assert lines[0].startswith("hermes: ")
    assert words in lines[0]
    assert len(lines) <= 2
    assert "Traceback" not in done.stderr


def test_broken_yaml_is_shown_with_its_place_and_left_alone(hermes, hermes_home: Path):
    hermes_home.mkdir()
    broken = "model:\n  default: [unclosed\nagent: {}\n"
    (hermes_home / "config.yaml").write_text(broken)
    done = hermes("chat", "-q", "hello")
    assert done.returncode == 3
    assert "config.yaml:" in done.stderr
    assert (hermes_home / "config.yaml").read_text() == broken


def test_a_home_that_is_a_file_is_reported(hermes, work: Path):
    (work / "file").write_text("")
    env = {**os.environ, "HERMES_HOME": str(work / "file")}
    done = hermes("chat", "-q", "hello", env=env)
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 2


def test_a_reader_that_closes_the_pipe_causes_no_traceback(hermes, work: Path):
    with ModelServer(lambda _request: "a long answer " * 10_000) as server:
        command = " ".join([*HERMES, "chat", "--json", "-q", "x", *at(server), "| head -c 1"])
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {command}"],
            cwd=work,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.stderr == ""


@pytest.mark.parametrize(("sent", "name"), [(signal.SIGINT, "Ctrl-C"), (signal.SIGTERM, "SIGTERM")])
def test_a_signal_stops_a_stalled_answer(work: Path, sent, name):
    stalled = Step((Text("never finished"),), faults=(Stall(1),))
    with ModelServer([stalled]) as server:
        process = subprocess.Popen(
            [*HERMES, "chat", "-q", "x", *at(server)],
            cwd=work,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        while not server.requests:
            time.sleep(0.01)
        time.sleep(0.1)
        process.send_signal(sent)
        _, errors = process.communicate(timeout=10)
    assert process.returncode == 130
    assert errors == f"hermes: stopped by {name}\n"


def test_after_a_kill_the_chat_continues_and_no_tool_runs_twice(work: Path, hermes):
    command = "echo ran >> runs.txt; sleep 600"
    slow = call("terminal", f'{{"command":"{command}"}}')
    started = threading.Event()

    def answer(request):
        if len(request.body["messages"]) == 2:
            started.set()
            return slow
        return "It was interrupted."

    with ModelServer(answer) as server:
        process = subprocess.Popen(
            [*HERMES, "chat", "-q", "go", *at(server)],
            cwd=work,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        started.wait(30)
        while not (work / "runs.txt").exists():
            time.sleep(0.01)
        process.kill()
        process.wait(10)
        done = hermes("chat", "-c", "-q", "what happened?", *at(server))
        resumed = server.requests[-1].body["messages"]
    assert done.stdout == "It was interrupted.\n"
    assert [message["role"] for message in resumed] == CASES["after a kill the chat continues"]
    assert "interrupted" in resumed[3]["content"]
    assert (work / "runs.txt").read_text() == "ran\n"


def test_a_key_never_reaches_the_model_the_store_or_the_logs(hermes, hermes_home: Path, work: Path):
    key = "sk-or-" + "v1-" + "0123456789abcdef" * 2
    hermes("config", "set", "OPENROUTER_API_KEY", key)
    (work / "leak.txt").write_text(f"the key is {key}\n")
    steps = [
        call("terminal", '{"command":"env; cat leak.txt"}'),
        call("read_file", '{"path":"leak.txt"}', "c2"),
        "done",
    ]
    with ModelServer(steps) as server:
        hermes("chat", "-q", "look", *at(server))
        sent = b"".join(request.raw for request in server.requests)
        assert not any(key in str(request.headers) for request in server.requests)
    assert key.encode() not in sent and b"the key is sk-" in sent
    for file in [*hermes_home.glob("state.db*"), *hermes_home.glob("logs/*")]:
        assert key.encode() not in file.read_bytes()


def test_a_key_in_the_output_of_a_failed_command_is_redacted(hermes, work: Path):
    key = "sk-or-" + "v1-" + "fedcba9876543210" * 2
    hermes("config", "set", "OPENROUTER_API_KEY", key)
    (work / "leak.txt").write_text(f"the key is {key}\n")
    slow = call("terminal", '{"command":"cat leak.txt; sleep 60","timeout":1}')
    with ModelServer([slow, "too slow"]) as server:
        hermes("chat", "-q", "look", *at(server))
        told = server.requests[1].body["messages"][-1]["content"]
    assert "stopped after 1 s" in told and "the key is" in told and key not in told
