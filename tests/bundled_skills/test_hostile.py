"""What the scripts do with files, streams and servers that are not as they should be."""

import json
import os
import socket
import sqlite3
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.bundled_skills.conftest import Run
from tests.bundled_skills.pages import script
from tests.cases import cases

CASES = cases(__file__)

TODAY = ("--today", "2024-01-31")


def read_by_head(path: str, *arguments: object) -> subprocess.CompletedProcess[bytes]:
    """Runs a script whose reader ends after the first bytes, as `head` does."""
    command = [sys.executable, str(script(path)), *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.read(1)
        process.stdout.close()
        errors = process.stderr.read()
    return subprocess.CompletedProcess(command, process.returncode, b"", errors)


def test_a_reader_that_stops_early_is_not_an_error(tmp_path: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_text("- [ ] a very long line of words, again and again\n" * 20_000)
    with sqlite3.connect(tmp_path / "a.db") as database:
        database.execute("CREATE TABLE t(a)")
        database.executemany("INSERT INTO t VALUES (?)", [("x" * 50,)] * 5000)
    database.close()
    for command in (
        ("ocr-and-documents/doc_text.py", text),
        ("task-lists/todo.py", text, "list"),
        ("sqlite/query.py", tmp_path / "a.db", "SELECT * FROM t", "--limit", 0),
    ):
        done = read_by_head(*command)
        assert (done.returncode, done.stderr) == (0, b""), command[0]


def test_names_that_are_not_unicode_are_escaped(run: Run, tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"b\xe4r.gif")).write_bytes(b"GIF89a" + bytes((7, 0, 5, 0, 0, 0, 0)))
    done = run("image-work/image_info.py", tmp_path)
    assert (done.returncode, done.stdout.endswith("b\\udce4r.gif: gif 7x5, 13 bytes\n")) == (
        0,
        True,
    )
    shape = run("json-and-apis/json_shape.py", "-", stdin=r'{"a": "\ud83d"}')
    assert (shape.returncode, "\\ud83d" in shape.stdout) == (0, True)


@pytest.mark.parametrize("command", CASES["a text in another encoding is named"])
def test_a_text_in_another_encoding_is_named(run, tmp_path, command):
    (tmp_path / "a").write_bytes("Tür,x\n1,2\n".encode("cp1252"))
    done = run(*command)
    assert (done.returncode, done.stderr.startswith("error: a is no UTF-8 text")) == (2, True)


# servers


@contextmanager
def babbling() -> Iterator[str]:
    """A server that does not speak HTTP."""

    def serve() -> None:
        while True:
            try:
                asker, _ = listener.accept()
            except OSError:
                return
            with asker:
                asker.recv(65536)
                asker.sendall(b"220 mail.example.org ready\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


@pytest.mark.parametrize("command", CASES["invalid server response is reported in one line"])
def test_invalid_server_response_is_reported_in_one_line(run, tmp_path, monkeypatch, command):
    with babbling() as url:
        for name in ("HASS_URL", "HUE_BRIDGE", "NTFY_SERVER"):
            monkeypatch.setenv(name, url)
        for name in ("HASS_TOKEN", "HUE_KEY", "NTFY_TOPIC"):
            monkeypatch.setenv(name, "x")
        token = dict.fromkeys(("client_id", "client_secret", "refresh_token"), "x")
        (tmp_path / "token.json").write_text(json.dumps({**token, "token_uri": url}))
        done = run(*(url if word == "URL" else word for word in command))
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.strip().splitlines()) == 1


# files of the user


@pytest.mark.parametrize(("command", "target"), CASES["existing files"])
def test_an_existing_file_is_replaced_only_on_request(run, tmp_path, command, target):
    (tmp_path / "a.csv").write_text("n\n1\n")
    (tmp_path / "talk.md").write_text("# A\n")
    (tmp_path / "flow.txt").write_text("a -> b\n")
    run("spreadsheets-xlsx/csv_to_xlsx.py", "a.csv", "--out", "a.xlsx")
    if target != "a.csv":
        (tmp_path / target).write_text("mine")
    before = (tmp_path / target).read_bytes()
    refused = run(*command)
    assert (refused.returncode, "--force" in refused.stderr) == (2, True)
    assert (tmp_path / target).read_bytes() == before
    assert run(*command, "--force").returncode == 0


def test_parts_of_two_meetings_are_never_mixed(run: Run) -> None:
    cut = ("meeting-notes/clean_transcript.py", "-", "--parts", 10)
    assert run(*cut, stdin="Ann: one two\nBob: three four\n").returncode == 0
    again = run(*cut, stdin="Ann: other\n")
    assert (again.returncode, "holds parts already" in again.stderr) == (2, True)
    assert run(*cut[:-1], 0, stdin="Ann: x\n").returncode == 2


def test_the_list_of_tasks_keeps_its_place_rights_and_line_ends(run: Run, tmp_path: Path) -> None:
    (tmp_path / "synced").mkdir()
    real = tmp_path / "synced" / "todo.txt"
    real.write_bytes("Old\u2028one due:2024-99-01\r\n".encode())
    real.chmod(0o600)
    (tmp_path / "todo.txt").symlink_to(real)
    added = run("task-lists/todo.py", "todo.txt", *TODAY, "add", "New due:tomorrow")
    assert added.stdout == "  2 2024-01-31 New due:2024-02-01\n"
    assert (tmp_path / "todo.txt").is_symlink()
    assert real.stat().st_mode & 0o777 == 0o600
    assert real.read_bytes().splitlines(keepends=True)[1] == (b"2024-01-31 New due:2024-02-01\r\n")
    assert "[due: no such day]" in run("task-lists/todo.py", "todo.txt", *TODAY, "list").stdout
    far = run("task-lists/todo.py", "todo.txt", *TODAY, "add", "Far due:2024-02-01 rec:9999y")
    assert far.returncode == 0
    assert "9999" in run("task-lists/todo.py", "todo.txt", *TODAY, "done", 3).stderr


@pytest.mark.parametrize("command", CASES["only plain files are replaced"])
def test_only_plain_files_are_replaced(run: Run, tmp_path: Path, command: tuple[str, ...]) -> None:
    os.mkfifo(tmp_path / "pipe")
    done = run(*command)
    assert (done.returncode, done.stderr) == (2, "error: pipe is no file\n")
    assert (tmp_path / "pipe").is_fifo()


def test_tasks_are_done_together_or_not_at_all(run: Run, tmp_path: Path) -> None:
    (tmp_path / "todo.txt").write_text("One\n")
    done = run("task-lists/todo.py", "todo.txt", "done", 1, 7)
    assert (done.returncode, done.stdout) == (2, "")
    assert (tmp_path / "todo.txt").read_text() == "One\n"


def test_adding_an_event_changes_no_other_byte(run: Run, tmp_path: Path) -> None:
    head = b"BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:1\nDTSTART:20240501T080000Z\nSUMMARY:Caf\xe9\n"
    (tmp_path / "a.ics").write_bytes(head + b"END:VEVENT\nEND:VCALENDAR\n")
    run("calendars/ics_write.py", "add", "a.ics", "--title", "X", "--start", "2024-05-03")
    written = (tmp_path / "a.ics").read_bytes()
    assert written.startswith(head)
    assert b"\r" not in written
    removed = run("calendars/ics_write.py", "remove", "a.ics", "1")
    assert removed.stdout == "1 removed\n"
    assert b"SUMMARY:X\n" in (tmp_path / "a.ics").read_bytes()
    hours = run("calendars/ics.py", "free", "a.ics", "--hours", "17:00-09:00")
    assert (hours.returncode, "--hours" in hours.stderr) == (2, True)
    assert run("calendars/ics.py", "list", "a.ics", "--days", 99999999).returncode == 2


# documents


def test_rtf_with_emoji_and_pages_that_are_not_there(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.rtf").write_bytes(rb"{\rtf1 \u-10179?\u-8704? \u8364?5}")
    assert run("ocr-and-documents/doc_text.py", "a.rtf").stdout == "\U0001f600 €5\n"
    for pages in ("0", "5-2", "x"):
        assert run("ocr-and-documents/doc_text.py", "a.rtf", "--pages", pages).returncode == 2
    beyond = run("ocr-and-documents/doc_text.py", "a.rtf", "--pages", "9")
    assert (beyond.returncode, beyond.stderr) == (2, "error: a.rtf has 1 pages\n")


def test_old_transcripts_keep_their_letters(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("Jörg: Grüße\n".encode("cp1252"))
    assert run("meeting-notes/clean_transcript.py", "a.txt").stdout == "Jörg: Grüße\n"


@pytest.mark.parametrize("cell", ['<c r="ZZZZZZZ1"><v>1</v></c>', '<c r="A1" t="s"><v>9</v></c>'])
@pytest.mark.parametrize("row", ["1", "999999999"])
def test_a_workbook_with_impossible_places_is_damaged(run, tmp_path, cell, row):
    run_space = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006/relationships"
    with zipfile.ZipFile(tmp_path / "a.xlsx", "w") as book:
        sheets = '<sheets><sheet name="A" r:id="r1"/></sheets>'
        book.writestr(
            "xl/workbook.xml", f'<workbook {run_space} xmlns:r="{office}">{sheets}</workbook>'
        )
        relation = '<Relationship Id="r1" Target="worksheets/a.xml"/>'
        book.writestr(
            "xl/_rels/workbook.xml.rels",
            f'<Relationships xmlns="{package}">{relation}</Relationships>',
        )
        rows = f'<sheetData><row r="{row}">{cell}</row></sheetData>'
        book.writestr("xl/worksheets/a.xml", f"<worksheet {run_space}>{rows}</worksheet>")
    done = run("spreadsheets-xlsx/xlsx_to_csv.py", "a.xlsx")
    assert (done.returncode, "the file is damaged" in done.stderr) == (2, True)


def test_a_database_with_odd_text_and_a_missing_module_is_shown(run: Run, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "a.db") as database:
        database.execute("CREATE TABLE good(a)")
        database.execute("INSERT INTO good VALUES (CAST(x'ff41' AS TEXT))")
        database.execute("PRAGMA writable_schema = ON")
        database.execute(
            "INSERT INTO sqlite_master VALUES"
            " ('table', 'bad', 'bad', 0, 'CREATE VIRTUAL TABLE bad USING nowhere(x)')"
        )
    database.close()
    shown = run("sqlite/query.py", "a.db").stdout
    assert "table bad: cannot be read: no such module: nowhere" in shown
    assert "table good: 1 rows" in shown
    assert run("sqlite/query.py", "a.db", "SELECT a FROM good").stdout.endswith("\ufffdA\n")
    assert run("sqlite/query.py", "a.db", "SELECT 1; SELECT 2").returncode == 2


@pytest.mark.parametrize(
    ("name", "content", "command", "code"),
    [
        ("a.gz", b"\x1f\x8b\x08\0\0\0\0\0\0\0\xff\xff", ("log-analysis/log_summary.py", "a.gz"), 2),
        ("a.log", b"[" * 5000 + b"\n" + b"{" * 9, ("log-analysis/log_summary.py", "a.log"), 0),
        ("a.log", b"a." * 200_000, ("log-analysis/log_summary.py", "a.log"), 0),
        ("a.md", b"[" * 50_000, ("writing-and-editing/text_check.py", "a.md"), 0),
        ("a.md", b"# A\n" + b"[" * 50_000, ("presentation-outline/slides.py", "a.md"), 0),
        ("a.json", b"1" * 5000, ("json-and-apis/json_shape.py", "a.json"), 2),
        ("a.csv", b"\xef\xbb\xbf", ("data-analysis-csv/profile_csv.py", "a.csv"), 2),
        ("a.csv", b"n\n1e308\n-1e308\n", ("plotting/svg_chart.py", "a.csv", "--y", "n"), 2),
        (
            "a.md",
            b"[x](" + b"y" * 5000 + b")",
            ("technical-documentation/check_docs.py", "a.md"),
            1,
        ),
        ("a.md", b"# A\n![x](a.md)\n", ("presentation-outline/slides.py", "a.md"), 2),
        (
            "a.json3",
            b'{"events": [{"segs": [{"utf8": null}]}]}',
            ("youtube-transcripts/captions.py", "a.json3"),
            2,
        ),
        ("t.json", b"[]", ("google-workspace/google.py", "--token", "t.json", "mail"), 2),
        ("s.json", b"{}", ("rss-and-news/feeds.py", "none.xml", "--seen", "s.json"), 2),
        ("s.json", b"[" * 9999, ("rss-and-news/feeds.py", "none.xml", "--seen", "s.json"), 2),
        ("c.json", b"[" * 9999, ("google-workspace/google_auth.py", "--client", "c.json"), 2),
        ("a.html", b"", ("web-scraping/scrape.py", "http://[::1"), 2),
        (
            "a.docx",
            b"PK\x03\x04" + b"x" * 99,
            ("word-docx/docx_fill.py", "a.docx", "--list"),
            2,
        ),
        ("a.md", b"![x](a.md)", ("word-docx/docx_write.py", "a.md", "--out", "b"), 2),
        ("a.md", b"*" * 20_000, ("word-docx/docx_write.py", "a.md", "--out", "b"), 0),
        ("a.md", b"## A\n![x](a.md)", ("slides-pptx/pptx_write.py", "a.md", "--out", "b"), 2),
        ("a.txt", b"a -> b -> c", ("diagrams/diagram.py", "a.txt"), 2),
        ("a.pdf", b"%PDF-1.4\nnothing", ("pdf-forms/pdf_tool.py", "fields", "a.pdf"), 2),
        ("a.ipynb", b"[" * 9999, ("jupyter/notebook.py", "show", "a.ipynb"), 2),
        ("a.ipynb", b'{"cells": [1]}', ("jupyter/notebook.py", "show", "a.ipynb"), 2),
        (
            "a.jsonl",
            b'{"messages": [1]}\n[',
            ("fine-tuning-notes/check_chat_data.py", "a.jsonl"),
            1,
        ),
        ("a.css", b"a{" * 5000, ("frontend-design/css_check.py", "a.css"), 0),
        ("a.html", b"", ("arxiv/arxiv.py", "tea", "--api", "nowhere"), 2),
    ],
)
def test_damaged_files_are_errors_of_one_line(run, tmp_path, name, content, command, code):
    (tmp_path / name).write_bytes(content)
    done = run(*command)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False)
    assert len(done.stderr.splitlines()) <= 1
    assert (tmp_path / name).read_bytes() == content
