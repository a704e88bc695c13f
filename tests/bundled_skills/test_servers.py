"""The scripts of the skills for servers, with good and bad input."""

import gzip
import json
import socket
from pathlib import Path

import pytest

from tests.bundled_skills.conftest import Run
from tests.cases import cases

CASES = cases(__file__)

# linux-server


def test_the_health_report_shows_load_memory_and_open_ports(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        done = run("linux-server/health_report.py", "--json")
    lines = {line["what"]: line for line in json.loads(done.stdout)}
    assert {"up", "load", "memory", "zombies"} <= set(lines)
    assert lines[f"port {port}"]["value"] == "this machine only"


def test_the_health_report_warns_above_its_limits(run: Run) -> None:
    done = run("linux-server/health_report.py", "--memory", "0")
    assert done.returncode == 1
    assert "!! memory: " in done.stdout


# backup-and-restore


def backups(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).touch()


def test_the_newest_of_each_day_week_and_month_is_kept(run: Run, tmp_path: Path) -> None:
    backups(
        tmp_path,
        "app-2024-05-31-0100.tgz",
        "app-2024-05-31-2300.tgz",
        "app-2024-05-30-0100.tgz",
        "app-2024-05-20-0100.tgz",
        "app-2024-04-02-0100.tgz",
        "app-2024-04-01-0100.tgz",
        "app-2024-04-01-0100.tgz.sha256",
        "notes.txt",
    )
    arguments: tuple[object, ...] = (tmp_path, "--daily", 2, "--weekly", 2, "--monthly", 2)
    shown = run("backup-and-restore/thin_backups.py", *arguments)
    assert shown.stdout.count("would delete") == 2
    unnamed = run("backup-and-restore/thin_backups.py", *arguments, "--delete")
    assert (unnamed.returncode, "needs --pattern" in unnamed.stderr) == (2, True)
    assert len(list(tmp_path.iterdir())) == 8
    arguments += ("--pattern", "app-*")
    assert run("backup-and-restore/thin_backups.py", *arguments, "--delete").returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "app-2024-04-02-0100.tgz",
        "app-2024-05-20-0100.tgz",
        "app-2024-05-30-0100.tgz",
        "app-2024-05-31-2300.tgz",
        "notes.txt",
    ]


def test_the_last_backup_is_never_removed(run: Run, tmp_path: Path) -> None:
    backups(tmp_path, "db_20230101.sql", "db_20230102T2315.sql")
    run(
        "backup-and-restore/thin_backups.py",
        tmp_path,
        "--daily",
        0,
        "--weekly",
        0,
        "--monthly",
        0,
        "--delete",
        "--pattern",
        "db_*",
    )
    assert [path.name for path in tmp_path.iterdir()] == ["db_20230102T2315.sql"]
    assert run("backup-and-restore/thin_backups.py", tmp_path, "--last", 0).returncode == 2


def test_thinning_a_missing_folder_is_an_error(run: Run) -> None:
    done = run("backup-and-restore/thin_backups.py", "nowhere")
    assert (done.returncode, done.stderr) == (2, "error: nowhere is no folder\n")


# log-analysis

PLAIN_LOG = """\
2024-05-31 01:10:00,120 INFO started worker 1
2024-05-31 02:14:09,001 ERROR cannot reach 10.0.0.5:5432 for user 'ann'
2024-05-31 02:14:10,311 ERROR cannot reach 10.0.0.6:5432 for user 'bob'
May 31 03:00:00 host app[12]: warning: slow
"""


def summary(run: Run, *arguments: object, stdin: str = "") -> dict[str, object]:
    done = run("log-analysis/log_summary.py", *arguments, "--json", stdin=stdin)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_lines_that_differ_in_numbers_and_names_are_one_message(run: Run) -> None:
    found = summary(run, "-", stdin=PLAIN_LOG)
    assert found["levels"] == {"info": 1, "error": 2, "warning": 1}
    messages = found["messages"]
    assert isinstance(messages, list)
    assert (messages[0]["count"], messages[0]["place"]) == (2, "-:2")
    assert messages[0]["first"] == "2024-05-31 02:14:09"


def test_a_window_and_a_level_narrow_the_summary(run: Run, tmp_path: Path) -> None:
    with gzip.open(tmp_path / "app.log.1.gz", "wt") as file:
        file.write(PLAIN_LOG)
    found = summary(run, "app.log.1.gz", "--since", "2024-05-31 02:14:10", "--level", "error")
    assert found["lines"] == 1


def test_access_logs_are_counted_by_status_path_and_client(run: Run) -> None:
    line = '192.0.2.1 - - [31/May/2024:02:14:09 +0000] "GET /a?x={} HTTP/1.1" {} 15 "-" "curl"\n'
    found = summary(run, "-", stdin=line.format(1, 502) + line.format(2, 502) + line.format(3, 200))
    assert found["statuses"] == {"502": 2, "200": 1}
    assert found["paths"] == {"5xx /a": 2, "2xx /a": 1}
    assert found["clients"] == {"192.0.2.1": 3}


def test_json_lines_give_level_time_and_message(run: Run) -> None:
    row = {"timestamp": "2024-05-31T02:00:00.5Z", "level": "ERROR", "msg": "boom", "id": 7}
    found = summary(run, "-", stdin=json.dumps(row) + "\n{broken\n")
    assert found["levels"] == {"error": 1, "unknown": 1}
    assert found["first"] == "2024-05-31 02:00:00"


@pytest.mark.parametrize(("arguments", "code", "text"), CASES["unusable input of the log summary"])
def test_unusable_input_of_the_log_summary(run, arguments, code, text):
    done = run("log-analysis/log_summary.py", *arguments)
    assert done.returncode == code
    assert text in done.stderr
    assert "Traceback" not in done.stderr
