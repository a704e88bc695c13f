"""ByteRover, with a program in the place of `brv`."""

import json
import os
import signal
from pathlib import Path

import pytest

from hermes.sdk.memory import ServiceError
from hermes_plugins.memory.byterover import ByteRoverProvider


@pytest.fixture
def provider(brv: Path, hermes_home: Path) -> ByteRoverProvider:
    opened = ByteRoverProvider()
    opened.initialize("S-1", hermes_home=str(hermes_home))
    return opened


def calls(brv: Path) -> list[list[str]]:
    return [json.loads(line) for line in (brv / "calls").read_text().splitlines()]


def test_provider_is_available_when_the_program_is_installed(brv, monkeypatch):
    assert ByteRoverProvider().is_available()
    assert ByteRoverProvider().get_config_schema() == []
    monkeypatch.setenv("PATH", str(brv.parent))
    assert not ByteRoverProvider().is_available()


def test_each_user_has_a_project_of_their_own(provider, brv, hermes_home):
    provider.prefetch("Tea?")
    other = ByteRoverProvider()
    other.initialize("s1", hermes_home=str(hermes_home), user_id="alice")
    other.prefetch("Tea?")
    folders = [Path(call[0]) for call in calls(brv)]
    assert folders[0] == hermes_home / "byterover" / "hermes-owner"
    assert folders[1].name.startswith("hermes-alice-")


def test_a_turn_becomes_a_topic(provider: ByteRoverProvider, hermes_home: Path) -> None:
    provider.sync_turn('Use <b>"tea"</b> & milk.', "Fine.")
    (topic,) = (hermes_home / "byterover" / "hermes-owner").glob(".brv/**/*.html")
    assert topic.parent.as_posix().endswith("context-tree/conversations/s_1")
    text = topic.read_text()
    assert '<p>User: Use &lt;b&gt;"tea"&lt;/b&gt; &amp; milk.</p><p>Assistant: Fine.</p>' in text
    assert 'title="Use &lt;b&gt;&quot;tea&quot;&lt;/b&gt; &amp; milk."' in text
    assert "milk" in provider.prefetch("How with milk?")


def test_a_text_is_never_an_option(provider: ByteRoverProvider, brv: Path) -> None:
    provider.prefetch("--help me; $(touch x)")
    assert calls(brv)[0][1:] == [
        "search",
        " --help me; $(touch x)",
        "--limit",
        "6",
        "--format",
        "json",
    ]


def test_a_question_is_answered_by_the_last_of_several_lines(provider: ByteRoverProvider) -> None:
    provider.sync_turn("My cat is called Miro.", "Nice.")
    answer = json.loads(provider.handle_tool_call("brv_query", {"query": "my cat?"}))
    assert "Miro" in answer["answer"]


def test_keys_do_not_reach_the_program(provider, brv, monkeypatch):
    monkeypatch.setenv("OTHER_API_KEY", "key-that-is-nobody's-business")
    (brv / "brv").write_text('#!/bin/sh\nenv > "$0.env"\necho \'{"data": {}}\'\n')
    provider.prefetch("Tea?")
    assert "OTHER_API_KEY" not in (brv / "brv.env").read_text()


def test_a_program_that_hangs_is_ended(provider, brv, hermes_home):
    provider.save_config({"timeout": "0.3"}, str(hermes_home))
    (brv / "fault").write_text("hangs")
    provider.initialize("s1", hermes_home=str(hermes_home))
    with pytest.raises(ServiceError, match=r"did not end within 0\.3 s"):
        provider.prefetch("Tea?")


def test_a_program_that_leaves_another_behind_is_not_waited_for(provider, brv):
    (brv / "brv").write_text('#!/bin/sh\nsleep 20 &\necho $! > "$0.pid"\necho \'{"data": {}}\'\n')
    assert provider.prefetch("Tea?") == ""
    pid = int((brv / "brv.pid").read_text())
    os.kill(pid, signal.SIGKILL)  # it is still there


def test_error_contains_the_message_of_the_program(provider: ByteRoverProvider, brv: Path) -> None:
    (brv / "fault").write_text("refuses")
    with pytest.raises(ServiceError, match=r"brv search failed: No provider connected\."):
        provider.prefetch("Tea?")


def test_a_topic_that_is_not_taken_is_an_error(provider: ByteRoverProvider, brv: Path) -> None:
    answer = {"success": True, "data": {"status": "needs-llm-step", "sessionId": "s"}}
    (brv / "brv").write_text(f"#!/bin/sh\necho '{json.dumps(answer)}'\n")
    with pytest.raises(ServiceError, match="did not keep it"):
        provider.sync_turn("Hi.", "Hello.")
