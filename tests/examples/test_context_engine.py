"""examples/context-engine, installed and used."""

import json

from hermes.core.messages import ToolCall
from hermes.core.testing import ModelServer
from tests.integration.chat.conftest import UNTITLED, at

SMALL = "context:\n  engine: ledger\nmodel:\n  context_length: 40000\n"
FILLER = "words " * 12_000


def test_old_requests_become_a_ledger_that_the_model_can_open(screen, install, hermes_home) -> None:
    install("context-engine/ledger", "context_engine/ledger")
    (hermes_home / "config.yaml").write_text(SMALL + UNTITLED)
    reopen = ToolCall("c1", "ledger_open", '{"number":1}')
    with ModelServer(["Red it is.", f"Long: {FILLER}", reopen, "It was red."]) as server:
        it = screen("chat", *at(server)).ready()
        it.ask("My colour is red.", "Red it is")
        it.ask("Tell me a lot.", "Long: words")
        it.ask("Which colour was it?", "It was red")
        assert it.leave() == 0
        _first, second, third, last = (call.body["messages"] for call in server.calls)
    assert [each["role"] for each in second] == ["system", "user", "assistant", "user"]
    assert third[0] == second[0], "the system prompt is as it was"
    assert third[1]["content"].splitlines()[1:] == ["1. My colour is red.", "2. Tell me a lot."]
    assert third[-1]["content"].endswith("Which colour was it?")
    assert FILLER not in json.dumps(third)
    entry = json.loads(last[-1]["content"])["entry"]
    assert [each["content"] for each in entry] == ["My colour is red.", "Red it is."]


def test_a_command_shows_it_among_the_engines(hermes, install, configure) -> None:
    install("context-engine/ledger", "context_engine/ledger")
    configure("context:\n  engine: ledger\n")
    shown = hermes("plugins", "list").stdout
    assert "context engine: ledger" in shown
