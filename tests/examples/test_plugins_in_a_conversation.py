"""A plugin that uses documented functions while a conversation goes on."""

import json
from pathlib import Path

from hermes.core.messages import ToolCall
from hermes.core.testing import ModelServer
from tests.examples.conftest import EXAMPLES
from tests.integration.chat.conftest import UNTITLED, at

BUSY = Path(__file__).with_name("busy_plugin.py.txt").read_text()


def test_it_meets_the_plugins_of_the_conversation_and_not_others(hermes, hermes_home, work) -> None:
    folder = hermes_home / "plugins" / "busy"
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text("name: busy\nversion: '1'\ndescription: a test\n")
    (folder / "__init__.py").write_text(BUSY)
    (hermes_home / "config.yaml").write_text(
        f"plugins:\n  enabled: [busy]\napprovals:\n  effects:\n    busy: allow\n{UNTITLED}"
    )
    (work / "plan.txt").write_text("tea")
    with ModelServer([ToolCall("c1", "busy", "{}"), "Done."]) as server:
        done = hermes("chat", "-q", "go", *at(server))
        assert (done.stdout, done.stderr) == ("Done.\n", "")
        answer = json.loads(server.calls[1].body["messages"][-1]["content"])
    assert answer.pop("file")["content"] == "1|tea"
    assert answer == {"heard": ["I listen."], "plugins": ["busy"]}
    assert (hermes_home / "loaded").read_text() == "once\n"


def test_a_wrapper_talks_in_the_profile_of_the_command_line(hermes, terminal, hermes_home) -> None:
    assert hermes("profile", "create", "second").returncode == 0
    (hermes_home / "profiles" / "second" / "config.yaml").write_text(UNTITLED)
    script = str(EXAMPLES / "wrapper-cli" / "my_cli.py")
    with ModelServer(["Hello."]) as server:
        child = terminal("-p", "second", "run", script, *at(server))
        child.expect("0 messages")
        child.send("hi\r")
        child.expect("Hello")
        child.expect("2 messages")
        child.sendeof()
        child.wait()
    assert "hi" in hermes("-p", "second", "sessions", "export", "-").stdout
    assert "hi" not in hermes("sessions", "list").stdout
