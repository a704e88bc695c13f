"""`hermes sessions browse` in a real terminal, and going on by title."""

from hermes.core.testing import ModelServer
from tests.integration.chat.conftest import at


def test_a_session_is_found_chosen_and_gone_on_with(hermes, screen, hermes_home):
    with ModelServer(["Paris.", "Rome.", "It has two million people."]) as server:
        for question in ("capital of France?", "capital of Italy?"):
            assert hermes("chat", "-q", question, *at(server)).returncode == 0
        for key, value in (("base_url", f"{server.url}/v1"), ("default", "lab-model")):
            assert hermes("config", "set", f"model.{key}", value).returncode == 0
        it = screen("sessions", "browse")
        it.sees("q to leave:")
        italy, france = (line for line in it.lines if "capital of" in line)
        assert italy.startswith("  1 ") and italy.endswith("capital of Italy?")
        assert france.startswith("  2 ") and france.endswith("capital of France?")
        it.say("paris")
        it.wait(lambda it: it.text.count("q to leave:") == 2, "another page")
        assert [line[:4] for line in it.lines if "capital of France" in line] == ["  2 ", "  1 "]
        it.say("7").sees("there is no 7 on this page").say("1").ready()
        it.ask("how many people?", "It has two million people.")
        assert it.leave() == 0
        asked = server.calls[-1].body["messages"]
    assert [m["content"] for m in asked if m["role"] == "user"] == [
        "capital of France?",
        "how many people?",
    ]


def test_without_a_terminal_it_says_what_to_use(hermes):
    done = hermes("sessions", "browse")
    assert done.returncode == 2
    assert "sessions list" in done.stderr


def test_continue_takes_a_title(hermes):
    with ModelServer(["One.", "Two.", "Three."]) as server:
        hermes("chat", "-q", "first", *at(server))
        first = hermes("sessions", "list", "--json").stdout
        hermes("chat", "-q", "second", *at(server))
        session = first.split('"id": "')[1].split('"')[0]
        assert hermes("sessions", "rename", session, "Old plan").returncode == 0
        assert hermes("chat", "--continue", "Old plan", "-q", "third", *at(server)).returncode == 0
        asked = server.calls[-1].body["messages"]
    assert [m["content"] for m in asked if m["role"] == "user"] == ["first", "third"]
