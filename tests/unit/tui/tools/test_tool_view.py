"""Tool calls while they run and when they have ended."""

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from hermes.config.settings import DetailSections, DisplaySettings, ToolProgress
from hermes.core.events import (
    SubagentFinished,
    SubagentProgress,
    SubagentStarted,
    ToolFinished,
    ToolOutput,
    ToolStarted,
)
from hermes.core.messages import INTERRUPTED_RESULT, ToolCall
from hermes.tui.skins import DisplayState, Skin
from hermes.tui.text import COLOUR, Depth, Paint, width
from hermes.tui.tool_view import ToolView

Show = Callable[..., list[str]]
HOSTILE = "\x1b[2Jevil\x07\u202e\r\nnext\tline\x9b31m 👩‍💻 日本語 שלום नमस्ते"
TEXTS = '{"text": ' * 700 + "1" + "}" * 700
DEEP = f'{{"command": {"[" * 900}{"]" * 900}, "output": {TEXTS}}}'


def start(view: ToolView, call_id: str, name: str = "terminal", **arguments: object) -> None:
    view.started(ToolStarted(ToolCall(call_id, name, json.dumps(arguments))))


def test_a_running_call_shows_its_time_and_its_last_output(view: ToolView) -> None:
    start(view, "1", command="make")
    assert view.running(80, 100.0) == ["● terminal make · 0 s"]
    for n in range(1000):
        view.output(ToolOutput("1", f"line {n}\n"))
    assert view.running(80, 107.9) == [
        "● terminal make · 7 s", "   line 997", "   line 998", "   line 999",
    ]  # fmt: skip
    view.output(ToolOutput("1", "\n10 %\r20 %\r30 %\r\n"))
    assert view.running(80, 108.0)[-1] == "   30 %"
    view.finished(ToolFinished("1", "terminal", "", False, 8.0), 80)
    assert view.running(80, 109.0) == []


def test_activity_can_be_hidden_separately_from_results() -> None:
    sections = DetailSections(activity="hidden", thinking="expanded")
    display = DisplayState(DisplaySettings(sections=sections), Skin(), Depth.NONE)
    assert (display.thinking, display.results, display.activity) == ("full", "collapsed", "hidden")
    view = ToolView(display)
    start(view, "1", command="make")
    view.output(ToolOutput("1", "line\n"))
    assert view.running(80, 100.0) == ["● terminal make · 0 s"]


def test_many_running_calls_take_few_lines(view: ToolView) -> None:
    for n in range(3):
        start(view, str(n), command=f"run {n}")
        view.output(ToolOutput(str(n), "a\nb\nc\nd\n"))
    assert len(view.running(80, 0.0)) == 8
    for n in range(3, 20):
        start(view, str(n), command=f"run {n}")
    lines = view.running(80, 0.0)
    assert len(lines) == 8
    assert lines[-1] == "   … +13 more"


def test_subagent_progress_is_shown(view: ToolView) -> None:
    start(view, "1", "delegate_task", tasks=[{"goal": "a"}, {"goal": "b"}])
    for child, goal in enumerate("ab"):
        view.subagent(SubagentStarted("1", child, "s", goal))
    view.subagent(SubagentProgress("1", 0, "read_file x"))
    view.subagent(SubagentFinished("1", 1, "completed", 12.0, 3))
    view.subagent(SubagentProgress("unheard of", 0, "x"))
    assert view.running(80, 0.0) == [
        "● delegate_task 2 tasks: a; b · 0 s", "   [1] read_file x", "   [2] completed, 12 s",
    ]  # fmt: skip
    results = [
        {"status": "completed", "summary": "Done.\nAll of it.", "api_calls": 3, "seconds": 2.0},
        {"status": "failed", "summary": "", "error": "no key", "api_calls": 1, "seconds": 0.5},
    ]
    text = json.dumps({"results": results})
    assert view.finished(ToolFinished("1", "delegate_task", text, False, 2.5), 80) == [
        "● delegate_task 2 tasks: a; b · 1 of 2 completed · 2.5 s ✓",
        "   [1] completed, 3 model calls, 2.0 s: Done. All of it.",
        "   [2] failed, 1 model call, 0.5 s: no key",
    ]


def test_unfinished_calls_are_reported_once(view: ToolView) -> None:
    start(view, "1", command="sleep 100")
    view.running(40, 0.0)
    assert view.stop_all() == ["● terminal sleep 100 · stopped ■"]
    assert view.stop_all() == []
    start(view, "2", command="sleep 100")
    stopped = ToolFinished("2", "terminal", INTERRUPTED_RESULT, True, 1.0)
    assert view.finished(stopped, 60) == ["● terminal sleep 100 · stopped · 1.0 s ■"]


def test_progress_off_shows_nothing(view: ToolView, display: DisplayState, show: Show) -> None:
    display.tool_progress = "off"
    start(view, "9", command="x")
    assert view.running(80, 0.0) == view.stop_all() == []
    assert show("terminal", {"command": "ls"}, "a") == []


def test_progress_new_counts_what_comes_again(view, display, show):
    display.tool_progress, display.results = "new", "hidden"
    assert show("terminal", {"command": "1"}, "a") == ["● terminal 1 ✓"]
    assert show("terminal", {"command": "2"}, "a") == show("terminal", {"command": "3"}, "a") == []
    assert show("terminal", {"command": "4"}, "no", failed=True) == [
        "   and 2 more calls of terminal", "● terminal 4 ✗",
    ]  # fmt: skip
    assert show("terminal", {"command": "5"}, "a") == []
    assert show("web_search", {"query": "q"}, "1. A")[:2] == [
        "   and 1 more call of terminal", "● web_search q · 1 result ✓",
    ]  # fmt: skip
    assert show("web_search", {"query": "r"}, "1. A") == []
    assert view.stop_all() == ["   and 1 more call of web_search"]
    assert view.flush_repeats() == []


def test_progress_verbose_shows_arguments_and_result(display: DisplayState, show: Show) -> None:
    display.tool_progress, display.results = "verbose", "hidden"
    lines = show("terminal", {"command": "seq 50", "timeout": 5}, "\n".join(map(str, range(1, 51))))
    assert lines[:4] == [
        "● terminal seq 50 · 50 lines ✓", "   command: seq 50", "   timeout: 5", "   1",
    ]  # fmt: skip
    assert lines[-2:] == ["   40", "   … 10 more lines"]
    script = {"code": "if x:\n    y()"}
    assert show("execute_code", script, "done")[1:4] == ["   code:", "     if x:", "         y()"]
    written = show("write_file", {"path": "a", "content": "b\n"}, "created a: 2 bytes, 1 line")
    assert written == ["● write_file a · +1 ✓", "   path: a", "   1 + b"]


@pytest.mark.parametrize(("level", "rows"), [("hidden", 0), ("collapsed", 4), ("full", 41)])
def test_detail_level_limits_the_shown_lines(level, rows, display, show):
    display.set_detail(level)
    lines = show("terminal", {"command": "x"}, "\n".join(["line"] * 100), seconds=0.05)
    assert lines[0] == "● terminal x · 100 lines ✓"
    assert len(lines) == 1 + rows


def test_looks_may_change_in_between(view: ToolView, display: DisplayState, show: Show) -> None:
    display.set_skin(Skin(tool_prefix="▸", tool_emojis={"terminal": "💻"}))
    assert show("terminal", {"command": "x"}, "")[0] == "💻 terminal x · no output ✓"
    assert show("mcp_x", {}, "")[0] == "▸  mcp_x ✓"
    display.preview = 6
    assert show("terminal", {"command": "a long command"}, "")[0].startswith("💻 terminal a lon… ·")


def test_without_room_the_count_stays_longer_than_the_time(show: Show) -> None:
    arguments = {"pattern": "def .*main", "path": "src"}
    found = "3 matches in 2 files:\na:1:x"

    def line(columns: int) -> str:
        return show("search_files", arguments, found, seconds=2.0, columns=columns)[0]

    assert line(80) == '● search_files "def .*main" in src · 3 matches in 2 files · 2.0 s ✓'
    assert line(52) == '● search_files "def .*main… · 3 matches in 2 files ✓'
    assert line(40) == '● search_files "def .*main" i… · 2.0 s ✓'
    assert line(24) == '● search_files "def .… ✓'


def test_a_tool_run_by_tool_search_is_shown_as_itself(show: Show) -> None:
    inner = {"name": "read_file", "arguments": {"path": "a.py"}}
    assert show("tool_search", inner, "1|x\n2|y") == ["● read_file a.py · 2 lines ✓"]
    assert show("tool_search", {"query": "images"}, "none") == ["● tool_search images ✓", "   none"]


def test_a_result_for_a_call_that_was_never_started(view: ToolView) -> None:
    finished = ToolFinished("9", "terminal", "out", False, 0.0)
    assert view.finished(finished, 80) == ["● terminal ✓", "   out"]
    view.output(ToolOutput("9", "late"))
    assert view.running(80, 0.0) == []


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("terminal", json.dumps({"command": HOSTILE, "background": True})),
        ("patch", json.dumps({"path": HOSTILE, "old_string": HOSTILE, "new_string": "x"})),
        ("patch", json.dumps({"patch": f"*** Add File: {HOSTILE}\n+{HOSTILE}"})),
        ("write_file", json.dumps({"path": 7, "content": [HOSTILE]})),
        ("todo", json.dumps({"todos": HOSTILE})),
        ("delegate_task", json.dumps({"tasks": [HOSTILE, {"goal": [HOSTILE]}]})),
        ("execute_code", json.dumps({"code": None})),
        ("web_extract", json.dumps({"urls": [{"a": HOSTILE}]})),
        (HOSTILE, json.dumps({HOSTILE: {HOSTILE: HOSTILE}})),
        ("read_file", HOSTILE),
        ("read_file", "[1, 2]"),
        ("read_file", '{"path": "\\ud800"}'),
        ("read_file", "[" * 100_000),
        ("read_file", f'{{"offset": {"9" * 4000}, "limit": {"9" * 4000}, "x": 1e999}}'),
        ("unheard_of", f'{{"offset": {"9" * 4000}, "x": -0.0, "y": true, "z": null}}'),
        ("terminal", DEEP),
        ("execute_code", DEEP),
    ],
)
@pytest.mark.parametrize(
    "result",
    [
        HOSTILE,
        json.dumps({"error": HOSTILE}),
        json.dumps({"results": [HOSTILE, 1, None, {"status": 5, "summary": [HOSTILE]}]}),
        json.dumps({"output": 5, "status": HOSTILE}),
        f"changed {HOSTILE}\n@@ -1,2 +1 @@\n-{HOSTILE}\n+{HOSTILE}",
        f"Todo list: {HOSTILE}\n[x] a: {HOSTILE}",
        "{" * 100_000,
        DEEP,
    ],
)
def test_nothing_steers_the_terminal_or_breaks_the_view(view, display, name, arguments, result):
    display.set_detail("full")
    every: tuple[ToolProgress, ...] = ("all", "verbose")
    for progress, columns in product(every, (10, 13, 24, 40, 80)):
        display.tool_progress = progress
        view.started(ToolStarted(ToolCall("1", name, arguments)))
        view.output(ToolOutput("1", result))
        view.subagent(SubagentProgress("1", 0, result))
        live = view.running(columns, 1.0)
        done = view.finished(ToolFinished("1", name, result, result == HOSTILE, 1.0), columns)
        for line in live + done:
            assert "\n" not in line
            assert not set(line) & set("\x1b\x07\r\t\x9b\u202e")
            assert width(line) <= columns


def test_colours_do_not_change_the_text(show: Show, display: DisplayState) -> None:
    arguments = {"path": "a.py", "old_string": "x = 1", "new_string": "x = 2"}
    plain = show("patch", arguments, "changed a.py")
    display.paint = Paint(depth=Depth.TRUE)
    painted = show("patch", arguments, "changed a.py")
    assert painted != plain
    assert [COLOUR.sub("", line) for line in painted] == plain
    assert all(line.count("\x1b[0m") * 2 == line.count("\x1b[") for line in painted)


def test_a_folded_output_shows_its_last_lines_and_the_real_number(show: Show) -> None:
    output = "\n".join(map(str, range(1, 401)))
    assert show("terminal", {"command": "make"}, output) == [
        "● terminal make · 400 lines ✓",
        "   … 397 more lines · ctrl-o shows all", "   398", "   399", "   400",
    ]  # fmt: skip
    assert show("terminal", {"command": "ls"}, "a\nb\nc") == [
        "● terminal ls ✓", "   a", "   b", "   c",
    ]  # fmt: skip
    cut = "1\n[… 199996 lines left out …]\n199998\n199999\n200000"
    cut += "\n[the middle of the output was cut; send it to a file to read all of it]"
    assert show("terminal", {"command": "seq 1 200000"}, cut) == [
        "● terminal seq 1 200000 · 200,000 lines ✓",
        "   … 199,997 more lines · ctrl-o shows all", "   199998", "   199999", "   200000",
    ]  # fmt: skip
    bytes_cut = "1\n2\n3\n[… 95 lines, 250 bytes left out …]\n9\n100"
    assert show("terminal", {"command": "x"}, bytes_cut)[0] == "● terminal x · 99 lines ✓"


def test_folded_results_can_be_shown_completely(
    view: ToolView, display: DisplayState, show: Show, tmp_path: Path
) -> None:
    show("terminal", {"command": "ls"}, "a\nb\nc")
    assert not view.folded, "it was shown completely"
    show("terminal", {"command": "seq 50"}, "\n".join(map(str, range(1, 51))))
    show("write_file", {"path": "a.py", "content": "x = 1\n" * 150}, "created a.py: 900 bytes")
    saved = tmp_path / "result.txt"
    saved.write_text("all\nof\nit\nis\nhere")
    show(
        "terminal", {"command": "cat big"},
        f"all\n[… 99999 characters in all; all of it is in {saved}, to be read in pages with"
        " read_file …]\nthere\nis\nmore\nhere",
    )  # fmt: skip
    seq, new, big = view.folded
    assert seq.title == "terminal seq 50"
    assert seq.rows(display, 80)[1:] == [f"   {number}" for number in range(1, 51)]
    assert len(new.rows(display, 80)) == 151
    assert big.rows(display, 80)[1:] == ["   all", "   of", "   it", "   is", "   here"]
    for number in range(100):
        show("terminal", {"command": "x"}, f"{number}\n" * 10)
    assert len(view.folded) == 50
    show("terminal", {"command": "x"}, "line\n" * 1_000_000)
    assert len(view.folded) == 0, "memory is bounded"


def test_a_long_new_file_shows_a_bounded_part(show: Show) -> None:
    lines = show("write_file", {"path": "a.py", "content": "x\n" * 150}, "created a.py: 300 bytes")
    assert len(lines) == 18
    assert lines[-1] == "   … 134 more lines · ctrl-o shows all"
