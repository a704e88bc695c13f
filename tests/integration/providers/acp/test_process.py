"""The agent program as a process: found, started, lost, started again, ended."""

import asyncio
import os
from pathlib import Path

import pytest

from hermes.core.errors import RequestRefused, StreamCut, StreamStalled, Unreachable
from hermes.core.model import ModelEvent, Reply, TextDelta
from hermes.providers.acp import AcpModel
from hermes.providers.acp.process import MAX_LINE, agent_command
from hermes.providers.endpoints import Timeouts
from tests.integration.providers.acp.fake_agent import ASK, Stage, ask, until

HANG = [["say", "a"], ["sleep", 60]]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_program_that_is_not_there_is_named_with_what_to_do(stage: Stage):
    with pytest.raises(Unreachable, match="no-such-agent is not installed") as caught:
        await ask(stage.over(["no-such-agent", "--acp"]))
    assert "npm install -g @github/copilot" in caught.value.hint
    assert "HERMES_COPILOT_ACP_COMMAND" in caught.value.hint


async def test_file_that_is_not_a_program_is_reported(stage: Stage, tmp_path: Path):
    broken = tmp_path / "agent"
    broken.write_bytes(b"\x00\x01")
    broken.chmod(0o755)
    with pytest.raises(Unreachable, match="cannot be started"):
        await ask(stage.over([broken]))


async def test_a_program_that_ends_at_once_shows_its_last_words(stage: Stage):
    with pytest.raises(Unreachable, match=r"exit code 3: error: unknown option '--acp'") as caught:
        await ask(stage.model([], dies=[3, "error: unknown option '--acp'\n"]))
    assert "by hand" in caught.value.hint


async def test_a_program_of_another_version_is_not_asked_again(stage: Stage):
    with pytest.raises(RequestRefused, match="speaks version 2"):
        await ask(stage.model([], init={"protocolVersion": 2}))
    with pytest.raises(RequestRefused, match="does not speak"):
        await ask(stage.model([], init={"protocolVersion": "new"}))


async def test_a_crash_in_a_reply_cuts_it_and_the_next_call_starts_again(stage: Stage):
    dying = [["say", "half"], ["die", 1, "Segmentation\x1b[0m fault\nkey ghp_abcdefghijklmnop\n"]]
    model = stage.model(dying)
    with pytest.raises(StreamCut, match="exit code 1: Segmentation fault / key ") as caught:
        await ask(model)
    assert "ghp_" not in str(caught.value)
    with pytest.raises(StreamCut):
        await ask(model)
    assert len(stage.starts) == 2


async def test_program_killed_from_outside_is_reported(stage: Stage):
    with pytest.raises(StreamCut, match="signal 9"):
        await ask(stage.model([["kill"]]))


async def test_a_program_that_died_between_two_calls_is_not_noticed(stage: Stage):
    model = stage.model([["say", "a"]])
    await ask(model)
    os.kill(stage.starts[0]["pid"], 9)
    agent = await stage.agents.ready()
    await until(lambda: agent.is_ending)
    _, reply = await ask(model)
    assert reply.message.text == "a"
    assert len(stage.starts) == 2


async def test_silence_ends_the_call_and_the_program(stage: Stage):
    model = stage.model(HANG, limits=Timeouts(read=0.5, stale=60, request=60))
    with pytest.raises(StreamStalled, match=r"sent nothing for 0.5 s"):
        await ask(model)
    await until(lambda: not alive(stage.starts[0]["pid"]))


async def test_signs_of_life_that_bring_nothing_are_not_enough(stage: Stage):
    noise = [["update", {"sessionUpdate": "usage_update", "used": 1}], ["sleep", 0.1]] * 100
    model = stage.model(noise, limits=Timeouts(read=60, stale=0.5, request=60))
    with pytest.raises(StreamStalled, match=r"nothing new for 0.5 s"):
        await ask(model)


async def test_a_call_has_an_end_however_much_it_brings(stage: Stage):
    chatter = [["say", "a"], ["sleep", 0.05]] * 500
    model = stage.model(chatter, limits=Timeouts(read=60, stale=60, request=0.5))
    with pytest.raises(StreamStalled, match=r"within 0.5 s"):
        await ask(model)


async def test_a_program_that_never_answers_is_given_up(stage: Stage):
    model = stage.over(["sleep", "60"], limits=Timeouts(read=0.3, stale=60, request=60))
    with pytest.raises(StreamStalled):
        await ask(model)


async def stop_after_first_delta(model: AcpModel) -> asyncio.Task[Reply]:
    deltas: asyncio.Queue[ModelEvent] = asyncio.Queue()
    call = asyncio.create_task(model.call(ASK, deltas.put_nowait))
    assert await deltas.get() == TextDelta("a")
    call.cancel()
    await asyncio.sleep(0)
    assert call.done()
    return call


async def test_stopping_cancels_the_turn_and_the_program_lives_on(stage: Stage):
    model = stage.model([["say", "a"], ["await cancel"], ["end", "cancelled"]], [["say", "b"]])
    await stop_after_first_delta(model)
    await until(lambda: stage.calls("session/cancel") == [{"sessionId": "s1"}])
    _, reply = await ask(model)
    assert reply.message.text == "b"
    assert len(stage.starts) == 1


async def test_stopping_does_not_wait_for_a_program_that_hangs(stage: Stage):
    call = await stop_after_first_delta(stage.model(HANG))
    assert call.cancelled()


async def test_a_finished_turn_is_not_cancelled(stage: Stage):
    await ask(stage.model([["say", "a"]]))
    await stage.agents.close()
    assert stage.calls("session/cancel") == []


@pytest.mark.parametrize("stubborn", [False, True])
async def test_the_program_ends_with_its_owner_and_leaves_no_folder(stage: Stage, stubborn):
    await ask(stage.model([["say", "a"]], stubborn=stubborn))
    folder = Path(stage.calls("session/new")[0]["cwd"])
    assert list(folder.iterdir()) == []
    await stage.agents.close()
    assert not alive(stage.starts[0]["pid"])
    assert not folder.exists()


async def test_a_line_without_end_is_not_read_for_ever(stage: Stage, monkeypatch):
    monkeypatch.setattr("hermes.providers.acp.process.MAX_LINE", 2 * 1024**2)
    assert MAX_LINE > 2 * 1024**2
    with pytest.raises(StreamCut, match="line of more than 2 MB"):
        await ask(stage.model([["raw", "x" * 5_000_000]]))


async def test_program_gets_only_its_own_keys(stage: Stage, monkeypatch):
    given = {"GH_TOKEN": "gho_1", "COPILOT_GITHUB_TOKEN": "gho_2", "COPILOT_HOME": "/x"}
    kept = {"OPENROUTER_API_KEY": "sk", "ANTHROPIC_TOKEN": "t", "COPILOT_ALLOW_ALL": "true"}
    for name, value in {**given, **kept}.items():
        monkeypatch.setenv(name, value)
    await ask(stage.model([["say", "a"]]))
    environment = stage.starts[0]["environment"]
    assert {name: environment.get(name) for name in given} == given
    assert not kept.keys() & environment.keys()
    assert {"HOME", "PATH"} <= environment.keys()


OURS = ("--acp", "--stdio", "--available-tools=none")


@pytest.mark.parametrize(
    ("variables", "command"),
    [
        ({}, ("copilot", *OURS)),
        ({"COPILOT_CLI_PATH": "/opt/copilot"}, ("/opt/copilot", *OURS)),
        ({"HERMES_COPILOT_ACP_COMMAND": "a", "COPILOT_CLI_PATH": "b"}, ("a", "--acp", "--stdio")),
        ({"HERMES_COPILOT_ACP_ARGS": "--acp --x 'a b'"}, ("copilot", "--acp", "--x", "a b")),
    ],
)
def test_the_variables_decide(variables, command):
    assert agent_command(variables.get)[: len(command)] == command


def test_another_program_gets_no_options_of_copilot():
    command = agent_command({"HERMES_COPILOT_ACP_COMMAND": "gemini"}.get)
    assert command == ("gemini", "--acp", "--stdio")
