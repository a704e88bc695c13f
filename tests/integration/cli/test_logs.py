import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import pytest

from hermes.config.home import Home
from hermes.core.errors import UsageError
from tests.cases import cases
from tests.unit.cli.terminal import call

CASES = cases(__file__)


@pytest.fixture
def home(tmp_path):
    home = Home(tmp_path / "home")
    home.logs.mkdir(parents=True)
    return home


def hermes_logs(home, *arguments):
    return call("logs", home, *arguments)


def line(message, *, level="INFO", session="-", logger="hermes.agent", ago=0.0):
    moment = datetime.now(UTC) - timedelta(seconds=ago)
    stamp = moment.isoformat(sep=" ", timespec="milliseconds")
    return f"{stamp} {level} [{session}] {logger}: {message}"


def write(home, name, *lines):
    with (home.logs / name).open("a") as file:
        file.writelines(f"{text}\n" for text in lines)


def test_the_last_entries_come_in_order_over_rotated_files(home):
    write(home, "agent.log.1", *(line(f"old {n}") for n in range(5)))
    write(home, "agent.log", *(line(f"new {n}") for n in range(3)))
    out = hermes_logs(home, "-n", "5").expect().out
    assert [text.split(": ")[1] for text in out.splitlines()] == CASES[
        "last entries come in order over"
    ]


def test_text_and_json_forms_can_be_mixed_and_each_shown_as_the_other(home):
    entry = CASES["text and json forms can be"]
    write(home, "agent.log", line("plain"), "    more", json.dumps(entry))
    _, out, _ = hermes_logs(home)
    assert out.endswith(
        "plain\n    more\n"
        "2026-11-15 03:17:22.123+00:00 ERROR [s1] hermes.tools.builtin.terminal: two\n    lines\n"
    )
    _, out, _ = hermes_logs(home, "--json")
    first, second = (json.loads(text) for text in out.splitlines())
    assert first["message"] == "plain\nmore"
    assert second == entry


@pytest.mark.parametrize(("arguments", "shown"), CASES["filters"])
def test_filters(home, arguments, shown):
    write(
        home,
        "agent.log",
        line("ancient", ago=200_000),
        line("worse", level="ERROR", logger="hermes.tools.x", ago=3000),
        line("fine", ago=60),
        line("bad", level="WARNING", session="20261115_031722_ab12cd34"),
    )
    _, out, _ = hermes_logs(home, *arguments)
    assert sorted(text.split(": ")[1] for text in out.splitlines()) == sorted(shown)


def test_lines_of_an_unknown_form_are_shown_as_they_are(home):
    write(home, "agent.log", "torn off line", line("whole"), "{broken json")
    _, out, _ = hermes_logs(home)
    assert out.startswith("torn off line\n")
    assert out.endswith("{broken json\n")


def test_a_missing_log_is_one_clear_line(tmp_path):
    empty = Home(tmp_path / "nothing")
    code, out, err = hermes_logs(empty, "gateway")
    assert (code, out) == (1, "")
    assert err.startswith("there is no log gateway yet")
    code, out, err = hermes_logs(empty, "list")
    assert (code, err) == (0, "")
    assert out.startswith("no logs yet")
    assert not empty.root.exists()


def test_list_names_files_and_sizes(home):
    write(home, "agent.log", line("x"))
    write(home, "agent.log.1", "y" * 1499)
    out = hermes_logs(home, "list").expect().out
    assert out.splitlines()[1].split()[:3] == ["agent.log.1", "1.5", "kB"]
    _, out, _ = hermes_logs(home, "list", "--json")
    assert json.loads(out)[1] == {"path": str(home.logs / "agent.log.1"), "bytes": 1500}


@pytest.mark.parametrize("arguments", [["--since", "soon"], ["-n", "-3"]])
def test_nonsense_is_refused(home, arguments):
    write(home, "agent.log", line("x"))
    with pytest.raises(UsageError):
        hermes_logs(home, *arguments)


FOLLOWER = CASES["follower"]


def test_follow_continues_after_a_rotation_and_ends_quietly(home):
    write(home, "agent.log", line("before"))
    with (
        subprocess.Popen(
            [sys.executable, "-c", FOLLOWER, str(home.root)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as follower,
        contextlib.ExitStack() as ends,
    ):
        ends.callback(follower.kill)
        assert follower.stdout is not None

        def next_message():
            return follower.stdout.readline().rstrip().split(": ")[1]

        assert next_message() == "before"
        write(home, "agent.log", line("hidden", level="DEBUG"), line("live"))
        assert next_message() == "live"
        write(home, "agent.log", line("last of the old"))
        (home.logs / "agent.log").rename(home.logs / "agent.log.1")
        write(home, "agent.log", line("first of the new"))
        assert next_message() == "last of the old"
        assert next_message() == "first of the new"
        (home.logs / "agent.log").write_text("")
        time.sleep(0.6)  # two looks at the emptied file
        write(home, "agent.log", line("after emptying"))
        assert next_message() == "after emptying"
        os.kill(follower.pid, signal.SIGINT)
        out, err = follower.communicate()
    assert (follower.returncode, out, err) == (0, "", "")


def test_logging_is_not_touched_by_reading(home):
    write(home, "agent.log", line("x"))
    before = list(logging.getLogger().handlers)
    hermes_logs(home)
    assert logging.getLogger().handlers == before
