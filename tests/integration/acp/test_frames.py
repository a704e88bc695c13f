"""The wire itself: frames that no client of an SDK would send."""

import json
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes.core.messages import Text
from hermes.core.testing import ModelServer, Slow, Step, echo
from tests.integration.acp.conftest import SETTINGS
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

    def wait_for_update(self, kind: str) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if f'"{kind}"'.encode() in line:
                return
        raise AssertionError("the agent ended")

    def end(self) -> tuple[int, str]:
        _, errors = self._process.communicate(timeout=60)
        return self._process.returncode, errors.decode()

    def call(self, number: object, method: str, **params: object) -> dict:
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return self.answer(number)


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


BLOCKS = (
    {"type": "text", "text": "hi"},
    {"type": "text", "text": {"a": 1}},
    {"type": "image", "data": "not base64!", "mimeType": "image/png"},
    {"type": "image", "data": "aGk=", "mimeType": "../../etc"},
    {"type": "resource", "resource": {"uri": 7, "text": ["x"]}},
    {"type": "resource_link", "uri": "file://[::1", "name": None},
    {"type": "audio", "data": ""},
    {"type": []},
    "text",
    None,
    [],
)
ODD = (None, 0, -1, 2**70, 1e308, "", "x", "\0", "\ud800", [], [[]], {}, {"a": None}, True)


def odd_requests(chance: random.Random, session: str) -> Iterator[tuple[str, dict]]:
    """Requests for an open session whose parameters are partly right."""
    methods = {
        "session/prompt": ("prompt", lambda: chance.choices(BLOCKS, k=chance.randrange(4))),
        "session/set_mode": ("modeId", lambda: "ask"),
        "session/set_model": ("modelId", lambda: "custom:lab-model"),
        "session/set_config_option": ("configId", lambda: "effort"),
        "session/load": ("mcpServers", lambda: [{"name": "m", "command": "false"}]),
        "session/list": ("cursor", lambda: "1"),
        "session/cancel": ("reason", lambda: "x"),
        "$/cancel_request": ("requestId", lambda: 1),
    }
    for _ in range(120):
        method = chance.choice(tuple(methods))
        field, right = methods[method]
        value = right() if chance.random() < 0.6 else chance.choice(ODD)
        params = {"sessionId": session, "cwd": "/", field: value, "value": chance.choice(ODD)}
        yield method, params


@pytest.mark.parametrize("seed", range(2))
def test_odd_parameters_in_an_open_session_are_each_answered(agent, tmp_path, hermes_home, seed):
    hermes_home.mkdir(exist_ok=True)
    with ModelServer(echo) as server:
        (hermes_home / "config.yaml").write_text(SETTINGS.format(url=server.url))
        agent.send(INITIALIZE)
        agent.answer(0)
        made = agent.call("new", "session/new", cwd=str(tmp_path), mcpServers=[])
        session = made["result"]["sessionId"]
        for number, (method, params) in enumerate(odd_requests(random.Random(seed), session)):
            if method in ("session/cancel", "$/cancel_request"):
                agent.send({"jsonrpc": "2.0", "method": method, "params": params})
                continue
            error = agent.call(f"r{number}", method, **params).get("error", {})
            assert "internal error" not in error.get("message", ""), (method, params)
        last = agent.call("last", "session/prompt", sessionId=session, prompt=BLOCKS[:1])
        assert last["result"]["stopReason"] == "end_turn"
    code, errors = agent.end()
    assert (code, "Traceback" in errors) == (0, False)


def test_a_withdrawn_prompt_is_cancelled(agent: Agent, tmp_path: Path, hermes_home: Path):
    hermes_home.mkdir(exist_ok=True)
    with ModelServer([Step((Text("word " * 500),), faults=(Slow(0.05),))]) as server:
        (hermes_home / "config.yaml").write_text(SETTINGS.format(url=server.url))
        agent.send(INITIALIZE)
        agent.answer(0)
        session = agent.call(1, "session/new", cwd=str(tmp_path), mcpServers=[])["result"]
        params = {"sessionId": session["sessionId"], "prompt": BLOCKS[:1]}
        agent.send({"jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": params})
        agent.wait_for_update("agent_message_chunk")
        withdrawn = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 2}}
        agent.send(withdrawn)
        answer = agent.answer(2)
    cancelled = answer.get("error", {}).get("code") == -32800
    assert cancelled or answer["result"]["stopReason"] == "cancelled"


@pytest.mark.parametrize("is_offered", [True, False])
def test_keys_are_entered_in_a_terminal_of_the_editor(agent: Agent, is_offered: bool):
    capabilities = {"auth": {"terminal": True}} if is_offered else {}
    params = {"protocolVersion": 1, "clientCapabilities": capabilities}
    (method,) = agent.call(0, "initialize", **params)["result"]["authMethods"]
    terminal = (method.get("type"), method.get("args"))
    assert terminal == (("terminal", ["setup"]) if is_offered else (None, None))


def test_the_login_of_an_editor_appends_its_argument_to_the_command(tmp_path: Path):
    command = [*HERMES, "acp", "setup"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert "unrecognized arguments" not in done.stderr
    assert "hermes setup" in done.stdout + done.stderr  # it needs a terminal, which is said


def test_a_missing_key_asks_for_authentication(agent: Agent, tmp_path: Path, hermes_home: Path):
    hermes_home.mkdir(exist_ok=True)
    (hermes_home / "config.yaml").write_text("model: {provider: openrouter, default: a/b}\n")
    agent.send(INITIALIZE)
    agent.answer(0)
    for method in ("session/new", "authenticate"):
        refused = agent.call(method, method, cwd=str(tmp_path), mcpServers=[], methodId="setup")
        assert refused["error"]["code"] == -32000
        assert "hermes" in refused["error"]["message"]


def test_wrong_cursors_and_unknown_sessions_are_refused(agent: Agent, tmp_path: Path, hermes_home):
    hermes_home.mkdir(exist_ok=True)
    agent.send(INITIALIZE)
    agent.answer(0)
    for cursor in ("x", "-1", "٣", "9" * 40):
        refused = agent.call(cursor, "session/list", cursor=cursor)
        assert refused["error"]["code"] == -32602
    for method in ("session/load", "session/resume", "session/delete"):
        refused = agent.call(method, method, sessionId="none", cwd=str(tmp_path), mcpServers=[])
        assert refused["error"]["code"] == -32002


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
