"""`hermes lab serve` as a person uses it: a real process, a real request, Ctrl-C."""

import http.client
import json
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import get_args

import pytest

from hermes.cli.commands import lab
from hermes.core.errors import UsageError
from hermes.core.messages import Text, ToolCall
from hermes.core.testing import Cut, Fault, Refuse, Step

COMMAND = [sys.executable, "-c", "from hermes.cli.main import run; run()", "lab", "serve"]


@pytest.fixture
def serve():
    """Starts the command; gives the process and the address it printed."""
    started = []

    def start(*arguments):
        process = subprocess.Popen(
            [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        first = process.stdout.readline()
        assert "model server at http://127.0.0.1:" in first, process.stderr.read()
        return process, first.split()[3].rstrip(";").removeprefix("http://")

    yield start
    for process in started:
        process.kill()
        process.communicate()


def chat(address, text="hello there"):
    host, _, base = address.partition("/")
    connection = http.client.HTTPConnection(host, timeout=20)
    body = {"model": "lab-model", "messages": [{"role": "user", "content": text}]}
    connection.request("POST", f"/{base}/chat/completions", json.dumps(body))
    response = connection.getresponse()
    data = json.loads(response.read())
    connection.close()
    return response.status, data


def said(answer):
    return answer[1]["choices"][0]["message"]["content"]


def test_without_a_script_it_echoes_and_ends_with_a_report(serve):
    process, address = serve()
    assert said(chat(address)) == "hello there"
    process.send_signal(signal.SIGINT)
    how, request, report = process.stdout.read().splitlines()
    assert process.wait(timeout=20) == 0
    assert process.stderr.read() == ""
    assert f"--base-url http://{address}" in how
    assert request.startswith("POST /v1/chat/completions -> 200 (")
    assert report.startswith("1 calls: ")


def test_a_script_is_played_and_then_used_up(serve, tmp_path):
    script = tmp_path / "script.yaml"
    script.write_text("- first\n- faults: [{type: refuse, kind: overloaded}]\n")
    _, address = serve("--script", str(script))
    assert said(chat(address)) == "first"
    assert chat(address)[0] == 529
    status, data = chat(address)
    assert status == 400
    assert "used up" in data["error"]["message"]


def test_echo_follows_the_end_of_the_script(serve, tmp_path):
    script = tmp_path / "script.json"
    script.write_text('["first"]')
    _, address = serve("--script", str(script), "--echo")
    assert [said(chat(address, "and you?")) for _ in range(2)] == ["first", "and you?"]


def test_taken_port_is_reported_in_one_line(serve):
    _, address = serve()
    port = address.partition("/")[0].rpartition(":")[2]
    done = subprocess.run(
        [*COMMAND, "--port", port], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"hermes: cannot listen on port {port}: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("port", ["70000", "many"])
def test_wrong_port_is_reported_in_one_line(port):
    done = subprocess.run(
        [*COMMAND, "--port", port], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert port in done.stderr and "Traceback" not in done.stderr


def test_the_example_of_the_help_is_a_valid_script(tmp_path):
    texts = tomllib.loads((Path(lab.__file__).parents[1] / "help.toml").read_text())
    lines = texts["lab serve"]["epilog"].partition("with demo.yaml:\n")[2].partition("\n  then")[0]
    script = tmp_path / "demo.yaml"
    script.write_text(lines)
    assert lab.read_script(script) == [
        Step((Text("Hello, I am a script."),)),
        Step((ToolCall("call_1", "terminal", '{"command": "date"}'),)),
        Step(faults=(Refuse("rate_limited", retry_after=1),)),
        Step((Text("This stream is cut."),), faults=(Cut(2),)),
    ]


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("s.json", b'["a",\n  "b"', "s.json:2:6: Expecting ',' delimiter"),
        ("s.yaml", b"- a\n- [b\n", "s.yaml:3:1: "),
        ("s.yaml", b"- a\n- 5\n", r"\$\[1\]"),
        ("s.json", b'[{"faults": [{"type": "refuse", "kind": "nope"}]}]', r"nope.*\$\[0\]\.faults"),
        ("s.yaml", b"just text", "Expected `array`"),
        ("s.yaml", b"- caf\xe9", "not UTF-8 at byte 5"),
        ("s.yaml", b"- a\x00b", "s.yaml: character 4: control characters are not allowed"),
    ],
)
def test_a_wrong_script_names_the_place(tmp_path, name, content, complaint):
    script = tmp_path / name
    script.write_bytes(content)
    with pytest.raises(UsageError, match=complaint):
        lab.read_script(script)


def test_a_missing_script_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match=r"cannot read .*: No such file"):
        lab.read_script(tmp_path / "none.yaml")


def test_the_help_names_every_fault_a_script_can_have():
    listed = [line.split()[0] for line in lab.fault_list().splitlines()]
    assert listed == [kind.__struct_config__.tag for kind in get_args(Fault)]
    assert {"gzip", "redirect", "headers", "cut", "refuse"} <= set(listed)
