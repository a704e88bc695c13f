import asyncio
import contextlib
import io
import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hermes.app.log_files import LogFile, component_of, start_logging, stop_logging
from hermes.config.home import Home
from hermes.config.settings import LoggingSettings
from hermes.ops.logs import LogFilter, files_of, last_entries, parse
from hermes.security import REDACTION_MARK, Redactor
from hermes.util.concurrency import in_session
from tests.cases import cases

CASES = cases(__file__)

SECRET = "a-very-secret-" + "value"


@pytest.fixture
def home(tmp_path):
    yield Home(tmp_path / "home")
    stop_logging()


def begin(home, **settings):
    start_logging(home, LoggingSettings(**settings), Redactor([SECRET]))


def handle(message, *arguments):
    """Log to our files only: pytest's own handlers raise for a message that cannot be made."""
    record = logging.LogRecord("hermes", logging.INFO, __file__, 1, message, arguments, None)
    for handler in logging.getLogger().handlers:
        if isinstance(handler, LogFile):
            handler.handle(record)


def text_of(home, name):
    return (home.logs / f"{name}.log").read_text()


def test_each_record_goes_to_the_files_it_belongs_to(home):
    begin(home, level="DEBUG")
    logging.getLogger("hermes.agent.loop").debug("thinking")
    logging.getLogger("hermes.tools.read").warning("slow")
    logging.getLogger("hermes.gateway.telegram").info("connected")
    logging.getLogger("hermes.gatewayish").info("not the gateway")
    assert [line.split("] ")[1] for line in text_of(home, "agent").splitlines()] == [
        "hermes.agent.loop: thinking",
        "hermes.tools.read: slow",
        "hermes.gateway.telegram: connected",
        "hermes.gatewayish: not the gateway",
    ]
    assert text_of(home, "errors").endswith("hermes.tools.read: slow\n")
    assert text_of(home, "gateway").count("\n") == 1


def test_level_is_respected_and_libraries_log_from_warning(home):
    begin(home)
    logging.getLogger("hermes.agent").debug("too much")
    logging.getLogger("httpx").info("a request")
    logging.getLogger("httpx").warning("a problem")
    assert [entry.message for entry in parse(text_of(home, "agent").splitlines())] == ["a problem"]


@pytest.mark.parametrize("as_json", [False, True])
def test_no_secret_reaches_a_file_by_message_argument_or_exception(home, as_json):
    begin(home, json=as_json)
    log = logging.getLogger("hermes.agent")
    log.info("key is %s", SECRET)
    log.info(f"inline {SECRET}")
    log.info("%(key)s", {"key": {"nested": SECRET}})
    try:
        raise ValueError(f"refused {SECRET}")
    except ValueError:
        log.exception("failed", stack_info=True)
    handle("does not %d fit", SECRET)
    text = text_of(home, "agent")
    assert SECRET not in text
    assert text.count(REDACTION_MARK) >= 5
    assert "Traceback" in text
    assert "does not %d fit" in text


def test_a_traceback_is_part_of_its_entry_and_cannot_forge_another(home):
    begin(home)
    log = logging.getLogger("hermes.agent")
    log.error("first\n2026-01-01 00:00:00 ERROR [-] hermes.cli: forged")
    entries = list(parse(text_of(home, "agent").splitlines()))
    assert len(entries) == 1
    assert entries[0].message.startswith("first\n2026")


def test_json_lines_hold_every_field(home):
    begin(home, json=True)
    with in_session("20261115_031722_ab12cd34"):
        logging.getLogger("hermes.cron.tick").warning("late ü")
    entry = json.loads(text_of(home, "agent"))
    assert entry.pop("time")
    assert entry == {
        "level": "WARNING",
        "logger": "hermes.cron.tick",
        "message": "late ü",
        "component": "cron",
        "session": "20261115_031722_ab12cd34",
    }


async def test_records_of_parallel_sessions_have_their_session(home):
    begin(home)

    async def work(name):
        with in_session(name):
            await asyncio.sleep(0)
            logging.getLogger("hermes.agent").info("hello")

    await asyncio.gather(work("one"), work("two"))
    assert [entry.session for entry in parse(text_of(home, "agent").splitlines())] == ["one", "two"]


def test_the_component_comes_from_the_name():
    expected = dict(CASES["components"])
    assert {logger: component_of(logger) for logger in expected} == expected


def test_files_are_private(home):
    begin(home)
    logging.getLogger("hermes").warning("x")
    assert home.logs.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in home.logs.iterdir()} == {0o600}


def test_old_files_are_kept_and_no_more_than_asked(home):
    begin(home, max_bytes=500, backups=2)
    for number in range(40):
        logging.getLogger("hermes").info("entry %02d", number)
    log = home.logs / "agent.log"
    assert [file.name for file in files_of(log)] == ["agent.log", "agent.log.1", "agent.log.2"]
    assert all(file.stat().st_size <= 500 for file in files_of(log))
    last = [entry.message for entry in last_entries(log, 3, LogFilter())]
    assert last == ["entry 37", "entry 38", "entry 39"]


def test_without_backups_the_file_starts_again(home):
    begin(home, max_bytes=300, backups=0)
    for number in range(20):
        logging.getLogger("hermes").info("entry %02d", number)
    assert [file.name for file in home.logs.iterdir()] == ["agent.log"]
    assert text_of(home, "agent").endswith("entry 19\n")


PROCESS = Path(__file__).with_name("logging_process.py.txt").read_text()


def test_two_processes_rotate_one_log_without_losing_a_line(home):
    command = [sys.executable, "-c", PROCESS, str(home.root)]
    processes = [subprocess.Popen([*command, name]) for name in ("a", "b")]
    assert [process.wait() for process in processes] == [0, 0]
    log = home.logs / "agent.log"
    assert 5 < len(files_of(log)) < 60
    seen = [entry.message for entry in last_entries(log, 10_000, LogFilter())]
    for name in ("a", "b"):
        numbers = [m.split()[1] for m in seen if m.startswith(name)]
        assert sorted(numbers, key=int) == [str(n) for n in range(400)]


def test_a_log_that_was_removed_is_made_again(home):
    begin(home)
    logging.getLogger("hermes").info("one")
    (home.logs / "agent.log").unlink()
    logging.getLogger("hermes").info("two")
    assert text_of(home, "agent").endswith("two\n")


def test_unwritable_folder_is_reported_once(tmp_path, capsys):
    (tmp_path / "home").write_text("a file where the folder should be")
    begin(Home(tmp_path / "home"))
    logging.getLogger("hermes").error("x %s", SECRET)
    stop_logging()
    complaint = capsys.readouterr().err
    assert complaint.startswith("hermes: cannot write the log ")
    assert complaint.count("\n") == 1
    assert SECRET not in complaint


def test_log_that_fails_later_is_reported_once(home, capsys):
    begin(home)
    (home.logs / "agent.log").unlink()
    (home.logs / "agent.log").mkdir()
    for _ in range(3):
        logging.getLogger("hermes").info("x %s", SECRET)
    complaint = capsys.readouterr().err
    assert complaint.count("\n") == 1
    assert SECRET not in complaint


def test_full_disk_and_full_stderr_do_not_reach_the_caller(home, monkeypatch):
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("there is no /dev/full here")
    home.logs.mkdir(parents=True)
    (home.logs / "agent.log").symlink_to(full)
    with full.open("w", buffering=1) as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        begin(home)
        logging.getLogger("hermes").warning("one")
        logging.getLogger("hermes").error("two")
        monkeypatch.undo()
        with contextlib.suppress(OSError):
            stderr.close()
    assert "two" in text_of(home, "errors")


@pytest.mark.parametrize("stream", ["closed", "none"])
def test_failure_without_a_stderr_does_not_reach_the_caller(home, monkeypatch, stream):
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed if stream == "closed" else None)
    begin(home)
    monkeypatch.setattr(os, "write", refuse)
    logging.getLogger("hermes").error("lost")


def refuse(*_: object) -> int:
    raise PermissionError(13, "Permission denied")


class BrokenHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        raise RuntimeError("this handler is broken")


def test_handler_of_a_plugin_that_raises_is_reported_once(home, capsys):
    begin(home)
    broken = BrokenHandler()
    logging.getLogger().addHandler(broken)
    try:
        logging.getLogger("hermes").warning("one")
        logging.getLogger("hermes").warning("two")
    finally:
        logging.getLogger().removeHandler(broken)
    assert capsys.readouterr().err.count("BrokenHandler failed: RuntimeError") == 1
    assert "two" in text_of(home, "agent")


def test_starting_again_moves_to_the_new_home(tmp_path):
    first, second = Home(tmp_path / "one"), Home(tmp_path / "two")
    begin(first)
    begin(second)
    logging.getLogger("hermes").info("x")
    stop_logging()
    assert text_of(first, "agent") == ""
    assert "x" in text_of(second, "agent")


def test_a_record_of_an_unlucky_object_does_not_break_the_caller(home, capsys):
    class Unlucky:
        def __str__(self):
            raise RuntimeError(SECRET)

    begin(home)
    handle("%s", Unlucky())
    assert SECRET not in capsys.readouterr().err


def test_a_lone_surrogate_does_not_break_a_line(home):
    begin(home, json=True)
    handle("late\ud800 ü")  # the test runner's own handlers cannot pass such text on
    assert json.loads(text_of(home, "agent"))["message"] == "late ü"
