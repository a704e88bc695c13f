"""`hermes sessions browse` in a real terminal, and going on by title."""

from hermes.core.testing import ModelServer
from tests.integration.chat.conftest import at


def test_a_session_is_found_chosen_and_gone_on_with(hermes, screen, hermes_home):
    with ModelServer(["Paris.", "Rome.", "It has two million people."]) as server:
        for question in ("capital of France?", "capital of Italy?"):
            assert hermes("chat", "-q", question, *at(server)).returncode == 0
        for key, value in (("base_url", f"{server.url}/v1"), ("default", "lab-model")):
            assert hermes("config", "set", f"model.{key}", value).returncode == 0
        it = screen("chat").ready()
        assert it.leave() == 0
        it = screen("sessions", "browse")
        it.sees("2 of 2").sees("Esc cancels").sees_last("▸ capital of Italy?").sees_last(
            "assistant: Rome."
        )
        it.press("down").sees_last("▸ capital of France?").sees_last("assistant: Paris.")
        it.type("rome").sees_last("▸ capital of Italy?").gone("capital of France?")
        it.press("ctrl-u").type("fra").sees_last("▸ capital of France?").press("enter").ready()
        it.ask("how many people?", "It has two million people.")
        assert it.leave() == 0
        asked = server.calls[-1].body["messages"]
    assert [m["content"] for m in asked if m["role"] == "user"] == [
        "capital of France?",
        "how many people?",
    ]


def test_simple_terminal_gets_a_numbered_list(hermes, screen, hermes_home):
    with ModelServer(["Paris."]) as server:
        assert hermes("chat", "-q", "capital of France?", *at(server)).returncode == 0
    it = screen("sessions", "browse", TERM="dumb")
    it.sees("q to leave:").say("zebra").sees("nothing found").say("7")
    it.sees("there is no 7 on this page").say("q")
    assert it.ended() == 0


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
