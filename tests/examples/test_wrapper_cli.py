"""examples/wrapper-cli in a real terminal."""

from hermes.core.testing import ModelServer
from tests.examples.conftest import EXAMPLES
from tests.integration.chat.conftest import at

SCRIPT = str(EXAMPLES / "wrapper-cli" / "my_cli.py")
F2 = "\x1bOQ"


def test_every_extension_hook_of_the_chat_works(screen) -> None:
    with ModelServer(["Blue.", "A sentence."]) as server:
        it = screen("run", SCRIPT, *at(server)).ready()
        it.sees("lab-model · 0 messages · pinned: nothing")
        assert it.shown[-5] == "=" * 100
        it.ask("Which colour is the sky?", "Blue")
        it.sees_last("lab-model · 2 messages · pinned: nothing")
        it.say("/pin milk")
        it.sees_last("2 messages · pinned: milk")
        it.ask("/count", "asked so far: 1; an agent is here: True")
        it.type(F2)
        it.sees_last("In one sentence:")
        it.ask("why?", "A sentence")
        it.sees_last("4 messages · pinned: milk")
        it.say("/new")
        it.sees("A new conversation")
        it.sees_last("0 messages · pinned: milk")
        assert it.leave() == 0
        said = [call.body["messages"][-1]["content"] for call in server.calls]
    assert said == ["Which colour is the sky?", "In one sentence: why?"]


def test_its_help_is_its_own(hermes) -> None:
    done = hermes("run", SCRIPT, "--help")
    assert done.stdout.startswith("usage: my_cli.py")
    assert done.returncode == 0
