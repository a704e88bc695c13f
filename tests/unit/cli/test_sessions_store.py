"""`hermes sessions`: export, import, backup, restore, repair and other care of the store."""

import asyncio
import contextlib
import json
import os
import sqlite3
import stat

import pytest

from hermes.cli.commands import chat
from hermes.cli.context import Cli
from hermes.cli.main import Parser
from hermes.core.errors import StoreCorrupt
from hermes.store.records import SessionFilter
from hermes.store.session_store import open_store
from hermes.store.sqlite.repair import back_up_daily
from tests.cases import cases
from tests.unit.cli.conftest import Sessions
from tests.unit.cli.terminal import Terminal

CASES = cases(__file__)


@pytest.fixture
def hermes(stored_sessions: Sessions) -> Sessions:
    return stored_sessions


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out.jsonl"


def lines(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_an_export_imported_elsewhere_is_the_same(hermes, empty, out, tmp_path):
    hermes.store(lambda store: store.undo("20260102_bbbb"))
    hermes.store(lambda store: store.branch("20260101_aaaa", "branch"))
    assert hermes("export", str(out)).out == f"wrote 3 sessions to {out}\n"
    elsewhere = type(empty)("sessions", tmp_path / "elsewhere")
    assert elsewhere("import", str(out)).out == "imported 3 sessions\n"
    for session in ("20260101_aaaa", "20260102_bbbb", "branch"):
        for words in (("--json",), ("--log", "--json")):
            there, here = (one("show", session, *words).document for one in (elsewhere, hermes))
            for document in (there, here):
                for message in document["messages"]:
                    message.pop("id", None)
            assert there == here
    again = tmp_path / "again.jsonl"
    elsewhere("export", str(again))
    assert [one["id"] for one in lines(again)] == [one["id"] for one in lines(out)]


def test_an_export_is_private_and_replaced_only_when_forced(hermes, out):
    hermes("export", str(out))
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    hermes("export", str(out), "--session-id", "the plan").expect(2, err="exists already")
    assert len(lines(out)) == 2
    out.chmod(0o644)
    assert hermes("export", str(out), "--session-id", "the plan", "--force").code == 0
    assert (len(lines(out)), stat.S_IMODE(out.stat().st_mode)) == (1, 0o644)


def test_an_earlier_export_of_the_same_sessions_is_replaced(hermes, out):
    hermes("export", str(out), "--session-id", "the plan")
    hermes("export", str(out)).expect(out="wrote 2 sessions")
    first, second = lines(out)
    for changed in (
        "a note\n",
        json.dumps({**first, "message_count": first["message_count"] + 1}),
        json.dumps({**second, "id": "of another store"}),
    ):
        out.write_text(changed)
        hermes("export", str(out)).expect(2, err="exists already")
        assert out.read_text() == changed


def test_an_export_can_be_narrowed(hermes, out):
    hermes("export", str(out), "--source", "telegram")
    assert [one["id"] for one in lines(out)] == ["20260102_bbbb"]
    text = hermes("export", "-", "--session-id", "20260102", "--session-id", "20260101").out
    assert [json.loads(line)["id"] for line in text.splitlines()] == [
        "20260101_aaaa",
        "20260102_bbbb",
    ]


@pytest.mark.parametrize(
    ("name", "start"),
    [("a.md", "# the plan\n"), ("a.HTML", "<!DOCTYPE html>\n"), ("a.jsonl", "{"), ("noname", "{")],
)
def test_the_name_of_the_file_decides_the_form(hermes, tmp_path, name, start):
    assert hermes("export", str(tmp_path / name)).code == 0
    assert (tmp_path / name).read_text("utf-8").startswith(start)


def test_format_can_be_chosen(hermes):
    assert hermes("export", "-", "--format", "html").out.endswith("</html>\n")
    markdown = hermes("export", "-", "--format", "markdown").out
    assert markdown.count("\n---\n") == 1
    assert hermes("export", "-", "--format", "pdf").code == 2


def test_an_output_that_cannot_be_written_is_a_clear_error(hermes, tmp_path):
    (tmp_path / "folder").mkdir()
    for name, said in (
        ("folder", "is not a file"),
        ("missing/out.jsonl", "there is no folder"),
        ("x" * 300, "file name too long"),
    ):
        hermes("export", str(tmp_path / name), "--force").expect(2, err=said)
    hermes("export", "/dev/null", "--force").expect(2, err="is not a file")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "home"]


def test_a_link_stays_a_link(hermes, tmp_path):
    link = tmp_path / "link.jsonl"
    link.symlink_to("target.jsonl")
    assert hermes("export", str(link)).code == 0
    assert link.is_symlink()
    assert len(lines(tmp_path / "target.jsonl")) == 2


def test_nothing_to_export_writes_nothing(hermes, out):
    assert hermes("export", str(out), "--source", "nowhere").code == 2
    assert hermes("export", str(out), "--session-id", "nobody").code == 2
    assert not out.exists()


def write(path, *sessions):
    path.write_text("\n".join(json.dumps(one) for one in sessions), "utf-8")


def test_plain_messages_become_a_session(empty, out):
    said = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {"role": "assistant", "content": "hello", "reasoning_content": "greet"},
    ]
    write(out, {"messages": said}, said)
    document = empty("import", str(out), "--json").document
    assert len(document["stored"]) == 2
    shown = empty("show", document["stored"][0], "--json").document
    assert shown["session"]["system_prompt"] == "be brief"
    assert shown["session"]["source"] == "import"
    assert [m["content"] for m in shown["messages"]] == ["hi", "hello"]
    assert shown["messages"][1]["reasoning"] == "greet"


def test_the_documented_columns_are_read_and_unknown_ones_ignored(empty, out):
    call = {"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}}
    messages = [
        {"id": 7, "session_id": "s", "role": "user", "content": "go", "timestamp": 5.0},
        {"id": 8, "role": "assistant", "content": None, "tool_calls": json.dumps([call])},
        {"id": 9, "role": "tool", "content": "ok", "tool_call_id": "c", "tool_name": "t"},
        {"id": 10, "role": "assistant", "content": "done", "tool_calls": "[broken"},
    ]
    write(out, {"id": "s", "source": "cli", "started_at": 4.0, "odd": [1], "messages": messages})
    assert empty("import", str(out)).code == 0
    text = empty("show", "s").out
    assert "user: go" in text and "[call of t] {}" in text and "[result of t]\nok" in text
    assert "assistant: done" in text


def test_existing_sessions_are_refused_or_skipped(hermes, out):
    write(out, {"id": "new", "messages": []}, {"id": "20260101_aaaa", "messages": []})
    hermes("import", str(out)).expect(2, err=f"{out}:2: there is already a session 20260101_aaaa")
    assert "new" not in hermes.ids()
    outcome = hermes("import", str(out), "--skip-existing")
    assert outcome.out == "imported 1 session, skipped 1 that existed already\n"
    assert "new" in hermes.ids()
    assert len(hermes("show", "the plan", "--json").document["messages"]) == 3


def test_title_in_use_gets_a_number_and_the_new_title_is_shown(hermes, out):
    write(out, {"id": "new", "title": "the plan", "messages": []})
    assert "new is now called the plan #2" in hermes("import", str(out)).out


def test_a_child_may_stand_before_its_parent(empty, out):
    write(
        out,
        {"id": "child", "parent_session_id": "parent", "messages": []},
        {"id": "parent", "parent_session_id": "grandparent", "messages": []},
        {"id": "grandparent", "parent_session_id": "nobody", "messages": []},
        {"id": "ring", "parent_session_id": "ring", "messages": []},
    )
    assert empty("import", str(out)).code == 0
    assert len(empty("tree", "child", "--json").document["ancestors"]) == 2


BROKEN = [*CASES["broken lines"], ("[" * 100_000, "this is not JSON")]


@pytest.mark.parametrize(("line", "said"), BROKEN, ids=[said for _, said in BROKEN])
def test_a_broken_line_is_named_and_nothing_is_stored(empty, out, line, said):
    out.write_text('{"id": "good", "messages": []}\n\n' + line + "\n", "utf-8")
    empty("import", str(out)).expect(2, err=[f"{out}:3: ", said])
    assert "good" not in empty.ids()


def test_many_broken_lines_are_not_all_shown(empty, out):
    out.write_text("{\n" * 9)
    err = empty("import", str(out)).err
    assert (err.count("not JSON"), "and 4 more lines" in err) == (5, True)


def test_a_file_that_cannot_be_read_is_a_clear_error(empty, tmp_path):
    (tmp_path / "nothing").write_text("\n\n")
    (tmp_path / "latin").write_bytes(b'{"messages": [{"role": "user", "content": "\xe9"}]}')
    (tmp_path / "folder").mkdir()
    for name, said in (
        ("missing", "no such file"),
        ("folder", "is a directory"),
        ("nothing", "there is no session in it"),
        ("latin", "latin:1: this is not JSON"),
    ):
        empty("import", str(tmp_path / name)).expect(2, err=said)
    assert not empty.home.root.exists() or not empty.ids()


def test_a_pipe_cannot_be_checked_before_it_is_stored(empty):
    reader, writer = os.pipe()
    os.write(writer, b'{"messages": []}')
    os.close(writer)
    outcome = empty("import", f"/dev/fd/{reader}")
    os.close(reader)
    assert (outcome.code, "it must be a file" in outcome.err) == (2, True)


def test_the_numbers_of_the_store(hermes):
    text = hermes("stats").out
    facts = dict(line.split(maxsplit=1) for line in text.splitlines() if line[0] != " ")
    assert facts["sessions"] == "2"
    assert facts["messages"] == "5"
    assert facts["sources"] == "cli 1, telegram 1"
    assert facts["store"] == str(hermes.home.state_db)
    document = hermes("stats", "--json").document
    assert (document["sessions"], document["tool_calls"]) == (2, 1)


def test_the_index_is_built_anew(hermes):
    assert hermes("reindex").out == "indexed 5 messages\n"
    assert "zebra" in hermes("search", "zebra").out


def test_room_is_given_back(hermes):
    hermes.add("big", *["z" * 1000] * 2000)
    hermes("delete", "big", "--yes")
    before = hermes("stats", "--json").document["sizes"]["total"]
    assert " before, " in hermes("vacuum").out
    assert hermes("stats", "--json").document["sizes"]["total"] < before / 2


def test_a_copy_is_whole_private_and_never_overwrites(hermes, tmp_path):
    target = tmp_path / "copy.db"
    target.write_text("precious")
    outcome = hermes("backup", str(target))
    assert (outcome.code, target.read_text()) == (2, "precious")
    target.unlink()
    assert "copied the store to" in hermes("backup", str(target)).out
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    sqlite = open_store("", target)
    try:
        assert len(asyncio.run(sqlite.sessions(SessionFilter()))) == 2
    finally:
        sqlite.close()


def test_a_copy_that_cannot_be_made_is_a_clear_error(hermes, tmp_path):
    for name in ("missing/copy.db", "x" * 300):
        assert hermes("backup", str(tmp_path / name)).code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


def test_a_sound_store_needs_no_repair(hermes):
    assert "is not damaged" in hermes("repair").out
    assert hermes("repair", "--json").document["outcome"] == "already_sound"


def test_a_damaged_store_is_repaired_and_kept(hermes):
    hermes.add("many", *[f"message {number} " + "y" * 400 for number in range(400)])
    path = hermes.home.state_db
    data = bytearray(path.read_bytes())
    page = len(data) // 4096 // 2 * 4096
    data[page : page + 4096] = b"\xff" * 4096
    path.write_bytes(data)
    document = hermes("repair", "--json").document
    assert document["outcome"] == "rescued"
    assert document["sessions"] == 3
    assert "was damaged" in document["summary"]
    assert "zebra" in hermes("show", "20260102").out


def test_an_unreadable_store_names_the_daily_backup_that_restores_it(hermes):
    backup = back_up_daily(hermes.home.state_db, 3)
    hermes.home.state_db.write_bytes(bytes(5000))
    for action in ("repair", "list"):
        hermes(action).expect(StoreCorrupt.exit_code, err=f"hermes sessions restore {backup}")
    assert hermes("restore", str(backup), "--yes").code == 0
    assert "zebra" in hermes("show", "20260102").out


@pytest.mark.parametrize(("setting", "made"), [("", 1), ("sessions: {daily_backups: 0}", 0)])
def test_the_daily_backup_is_made_after_a_conversation(hermes, setting, made):
    hermes.home.config_file.write_text(setting)

    class Leader:
        async def talk(self, *_args, **_options):
            return 7

    cli = Cli(hermes.home, Terminal(), Terminal(), Terminal())
    parser = Parser(prog="hermes chat")
    chat.COMMAND.configure(parser)
    assert chat.run(parser.parse_args([]), cli, Leader()) == 7
    assert len(list(hermes.home.root.glob("backups/sessions/*.db"))) == made


def test_a_backup_is_restored_and_the_store_before_it_kept(hermes, tmp_path):
    copy = tmp_path / "copy.db"
    assert hermes("backup", str(copy)).code == 0
    hermes.add("later", "said after the backup")
    assert hermes("restore", str(copy)).code == 2, "no question was asked"
    outcome = hermes("restore", str(copy), "--yes").expect()
    assert "said after" not in hermes("list").out
    assert "zebra" in hermes("show", "20260102").out
    (kept,) = hermes.home.root.glob("state.db.replaced-*")
    assert str(kept) in outcome.out
    assert hermes("restore", str(kept), "--yes").code == 0
    assert "said after" in hermes("list").out


@pytest.mark.parametrize("what", ["nothing", "text", "another database", "the store itself"])
def test_only_a_store_is_restored(hermes, tmp_path, what):
    file = tmp_path / "file.db"
    match what:
        case "text":
            file.write_text("not a database " * 1000)
        case "another database":
            with contextlib.closing(sqlite3.connect(file)) as other:
                other.execute("CREATE TABLE t (x)")
        case "the store itself":
            file = hermes.home.state_db
    before = hermes("list", "--all", "--json").document
    outcome = hermes("restore", str(file), "--yes")
    assert outcome.code != 0
    assert outcome.err
    assert hermes("list", "--all", "--json").document == before
    assert not list(hermes.home.root.glob("state.db.re*-*"))


def test_a_server_is_not_repaired_from_here(hermes):
    hermes.home.config_file.write_text("store:\n  url: postgresql://localhost/none\n")
    hermes("repair").expect(2, err="PostgreSQL")


@pytest.mark.parametrize("action", ["reindex", "vacuum", "backup"])
def test_long_work_is_shown_at_a_terminal(hermes, tmp_path, action):
    words = [str(tmp_path / "copy.db")] if action == "backup" else []
    outcome = hermes(action, *words, typed="").expect()
    assert ("100%" in outcome.err) is (action != "vacuum")
