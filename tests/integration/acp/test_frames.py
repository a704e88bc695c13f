"""The wire itself: frames that no client of an SDK would send."""

import json
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.screens.chat import HERMES

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": 1, "clientCapabilities": {}},
}


class Agent:
    """`hermes acp` with raw lines."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [*HERMES, "acp"],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def send(self, line: bytes | dict) -> None:
        data = line if isinstance(line, bytes) else json.dumps(line).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(data + b"\n")
        self._process.stdin.flush()

    def answer(self, number: object) -> dict:
        """The answer to a request; everything before it is skipped."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message = json.loads(line)
            if message.get("id") == number and "method" not in message:
                return message
        raise AssertionError("the agent ended")

    def end(self) -> tuple[int, str]:
        _, errors = self._process.communicate(timeout=60)
        return self._process.returncode, errors.decode()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    agent = Agent(tmp_path)
    yield agent
    agent.end()


def frames(chance: random.Random) -> Iterator[bytes]:
    """Malformed, hostile and merely wrong frames."""
    methods = ("session/new", "session/prompt", "session/load", "session/list", "initialize", "x")
    values = (None, 1, "x", [], {}, {"sessionId": 5}, {"cwd": "/"}, {"sessionId": "a", "prompt": 1})
    yield from (b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"jsonrpc":"2.0"}', b"[" * 100_000)
    yield b'{"jsonrpc":"2.0","id":1,"method":"' + b"a" * 1_000_000 + b'"}'
    for number in range(300):
        frame = {
            "jsonrpc": chance.choice(("2.0", "1.0", 2)),
            "id": chance.choice((number + 10, f"s{number}", None, 1.5, [], {})),
            "method": chance.choice((*methods, 7, None)),
            "params": chance.choice(values),
        }
        for key in chance.sample(sorted(frame), chance.randrange(3)):
            del frame[key]
        data = json.dumps(frame).encode()
        yield data[: chance.randrange(len(data))] if chance.random() < 0.2 else data


@pytest.mark.parametrize("seed", range(3))
def test_malformed_frames_never_end_the_process(agent: Agent, seed: int):
    agent.send(INITIALIZE)
    agent.answer(0)
    for frame in frames(random.Random(seed)):
        agent.send(frame)
    agent.send({**INITIALIZE, "id": "last"})
    assert agent.answer("last")["result"]["protocolVersion"] == 1
    code, errors = agent.end()
    assert (code, "Traceback" in errors) == (0, False)


def test_text_that_is_no_message_is_answered_with_an_error(agent: Agent):
    agent.send(b"hello")
    assert agent.answer(None)["error"]["code"] == -32700


def test_a_session_before_initialize_is_refused(agent: Agent, tmp_path: Path):
    params = {"cwd": str(tmp_path), "mcpServers": []}
    agent.send({"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": params})
    assert "initialize" in agent.answer(1)["error"]["message"]


def test_an_unknown_version_is_answered_with_the_one_that_is_spoken(agent: Agent):
    agent.send({**INITIALIZE, "params": {"protocolVersion": 9}})
    assert agent.answer(0)["result"]["protocolVersion"] == 1


def test_a_terminal_is_told_what_the_command_is_for(tmp_path: Path):
    import pexpect

    child = pexpect.spawn(HERMES[0], [*HERMES[1:], "acp"], cwd=str(tmp_path), timeout=30)
    child.expect("editor")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 2
