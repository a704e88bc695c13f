"""examples/wrapper-cli in a real terminal."""

import pexpect

from hermes.core.testing import ModelServer
from tests.examples.conftest import EXAMPLES
from tests.integration.chat.conftest import at

SCRIPT = str(EXAMPLES / "wrapper-cli" / "my_cli.py")
F2 = "\x1bOQ"


def test_every_extension_hook_of_the_chat_works(terminal) -> None:
    with ModelServer(["Blue.", "A sentence."]) as server:
        child = terminal("run", SCRIPT, *at(server))
        child.expect("====")
        child.expect("lab-model · 0 messages · pinned: nothing")
        child.send("Which colour is the sky?\r")
        child.expect("Blue")
        child.expect("lab-model · 2 messages · pinned: nothing")
        child.send("/pin milk\r")
        child.expect("2 messages · pinned: milk")
        child.send("/count\r")
        child.expect("asked so far: 1; an agent is here: True")
        child.expect("pinned: milk")
        child.send(F2)
        child.expect("In one sentence:")
        child.send("why?\r")
        child.expect("A sentence")
        child.expect("4 messages")
        child.send("/new\r")
        child.expect("A new conversation")
        child.expect("0 messages")
        child.sendeof()
        child.expect(pexpect.EOF)
        child.wait()
        assert child.exitstatus == 0
        said = [call.body["messages"][-1]["content"] for call in server.calls]
    assert said == ["Which colour is the sky?", "In one sentence: why?"]


def test_its_help_is_its_own(hermes) -> None:
    done = hermes("run", SCRIPT, "--help")
    assert done.stdout.startswith("usage: my_cli.py")
    assert done.returncode == 0
