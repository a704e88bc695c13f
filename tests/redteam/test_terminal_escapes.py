"""Text of the model, of tools and of files must not drive the terminal of the user."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes.core.messages import ToolCall
from hermes.core.testing import ModelServer
from tests.integration.chat.conftest import Run, at, hermes, screen, untitled, work
from tests.screens.chat import HERMES, Chat

__all__ = ["hermes", "screen", "untitled", "work"]

PAYLOADS: dict[str, str] = {
    "clipboard (OSC 52)": "\x1b]52;c;UFdORUQ=\x07",
    "title (OSC 0)": "\x1b]0;PWNED\x07",
    "title, ended by ST": "\x1b]2;PWNED\x1b\\",
    "hyperlink (OSC 8)": "\x1b]8;;http://evil.example\x1b\\PWNED\x1b]8;;\x1b\\",
    "clear screen": "\x1b[2J\x1b[H",
    "erase line": "\x1b[2K\x1b[1G",
    "cursor up": "\x1b[5A",
    "alternate screen": "\x1b[?1049h",
    "report of the cursor": "\x1b[6n",
    "report of the title": "\x1b[21t",
    "C1 CSI": "\x9b2J\x9bH",
    "C1 OSC": "\x9d52;c;UFdORUQ=\x9c",
    "device control (DCS)": "\x1bP$q\x1b\\",
    "application command (APC)": "\x1b_PWNED\x1b\\",
    "reset (RIS)": "\x1bc",
    "character set": "\x1b(0",
    "concealed": "\x1b[8mPWNED\x1b[0m",
    "colours": "\x1b[30;40mPWNED",
    "bell and backspace": "\x07\x08\x08\x08",
    "carriage return": "safe\rPWNED",
    "text direction": "\u202ePWNED\u2066",
    "unfinished sequence": "\x1b[",
}
EVERYTHING = "".join(PAYLOADS.values())
each_payload = pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS.keys())
OWN_COLOURS = re.compile(r"\x1b\[(?:0|[12347]|3[0-7]|9[0-7])(?:;[0-9]+)*m")
DRIVES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def driving(raw: bytes) -> list[str]:
    """Return what is left of the output that a terminal would obey, apart from colours."""
    text = OWN_COLOURS.sub("", raw.decode()).replace("\r\n", "\n")
    return [text[max(0, found.start() - 20) : found.end() + 10] for found in DRIVES.finditer(text)]


def assert_harmless(it: Chat, payload: str) -> None:
    assert driving(bytes(it.raw)) == []
    if payload != "\x1b[":  # ours begin with it
        assert payload.encode() not in it.raw


def ask_once(screen: Callable[..., Chat], server: ModelServer, *flags: str) -> Chat:
    it = screen("chat", "-q", "go", *at(server), *flags)
    it.ended()
    return it


@each_payload
def test_answer_of_the_model(screen, payload: str):
    with ModelServer([f"before {payload} after"]) as server:
        it = ask_once(screen, server)
    assert_harmless(it, payload)
    assert any("after" in line for line in it.everything)


@pytest.mark.parametrize("flag", ["--quiet", "--json", "--verbose"])
def test_answer_in_other_forms(screen, flag: str):
    with ModelServer([f"before {EVERYTHING} after"]) as server:
        it = ask_once(screen, server, flag)
    assert driving(bytes(it.raw)) == []
    assert any("after" in line for line in it.everything)


@each_payload
def test_call_and_result_of_a_tool(screen, work: Path, payload: str):
    (work / "notes.txt").write_text(f"a {payload} b\n")
    steps = [
        ToolCall("c1", f"tool{payload}", json.dumps({"x": f"argument {payload}"})),
        ToolCall("c2", "read_file", json.dumps({"path": "notes.txt"})),
        ToolCall("c3", "terminal", json.dumps({"command": f"printf %s {json.dumps(payload)}"})),
        ToolCall("c4", "read_file", json.dumps({"path": f"missing{payload}"})),
    ]
    with ModelServer([*steps, "Done."]) as server:
        it = screen("chat", "-q", "go", *at(server), "--yolo")
        it.ended()
    assert_harmless(it, payload)
    assert any(line.startswith("● tool") for line in it.everything)


@each_payload
def test_question_of_the_agent(screen, payload: str):
    asks = {"question": f"Which {payload}?", "choices": [f"red {payload}", "blue"]}
    with ModelServer([ToolCall("c1", "clarify", json.dumps(asks)), "Thanks."]) as server:
        it = screen("chat", "-q", "go", *at(server)).sees("your number or words").say("2")
        it.ended()
    assert_harmless(it, payload)


@each_payload
def test_log_file_and_its_reader(screen, hermes: Run, hermes_home: Path, payload: str):
    """Name and arguments of a tool come into the log when the call fails."""
    call = ToolCall("c1", f"tool{payload}", json.dumps({"x": payload}))
    with ModelServer([call, "Done."]) as server:
        ask_once(screen, server)
    log = (hermes_home / "logs" / "agent.log").read_bytes()
    assert b"tool" in log and driving(log) == []
    old = f"2026-11-15 03:17:22.123+01:00 INFO [-] hermes.agent: earlier {payload}\n"
    with (hermes_home / "logs" / "agent.log").open("a", newline="") as file:
        file.write(old.replace("\r", ""))
    it = Chat(["logs"], hermes_home, program=HERMES)
    it.ended()
    assert driving(bytes(it.raw)) == []
    it.close()
    piped = hermes("logs")
    assert "earlier" in piped.stdout and driving(piped.stdout.encode()) == []


def test_names_of_files_and_errors(screen, work: Path):
    hostile = f"x{PAYLOADS['title (OSC 0)']}{PAYLOADS['clear screen']}{PAYLOADS['C1 CSI']}"
    for words in (
        ("sessions", "show", hostile),
        ("config", "set", f"model.{hostile}", "1"),
        ("config", "show", hostile),
        ("skills", "show", hostile),
        (hostile,),
        ("chat", "-q", "go", "--model", hostile, "--base-url", "http://127.0.0.1:9/v1"),
    ):
        it = screen(*words)
        it.ended()
        assert driving(bytes(it.raw)) == [], words


def test_line_mode(screen):
    with ModelServer([f"before {EVERYTHING} after"]) as server:
        it = screen("chat", "--plain", *at(server)).sees(">").say("go").sees("after")
        assert driving(bytes(it.raw)) == []
        it.press("ctrl-d")
        it.ended()


FORBIDDEN = (b"\x1b]52", b"\x1b]0;", b"\x1b]2;", b"\x1b]8", b"\x1b[21t", b"\x1bc", b"PWNED\x1b[0m")


def test_terminal_interface_obeys_no_sequence_of_the_model(screen):
    call = ToolCall("c1", f"tool{EVERYTHING}", json.dumps({"x": EVERYTHING}))
    with ModelServer([call, f"before {EVERYTHING}\n\nafter"]) as server:
        it = screen("chat", *at(server)).ready()
        it.say("go").sees("after").ready()
        assert [each for each in FORBIDDEN if each in it.raw] == []


def test_colours_of_hermes_still_work(screen, work: Path):
    """The control: the sink lets the colours of Hermes through, and pipes get the text as it is."""
    with ModelServer([ToolCall("c1", "read_file", '{"path": "x"}'), "Done."]) as server:
        it = ask_once(screen, server)
    assert b"\x1b[36m\xe2\x97\x8f\x1b[0m read_file" in it.raw


def test_pipes_get_the_answer_byte_by_byte(hermes: Run, untitled: None):
    text = f"before {EVERYTHING} after".replace("\r", "")
    with ModelServer([text]) as server:
        done = hermes("chat", "-q", "go", *at(server))
    assert done.stdout == f"{text}\n"
