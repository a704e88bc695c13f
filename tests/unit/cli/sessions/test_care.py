import asyncio
import contextlib
import sqlite3
import stat

import pytest

from hermes.cli.commands import chat
from hermes.cli.context import Cli
from hermes.cli.main import Parser
from hermes.core.errors import StoreCorrupt
from hermes.store.records import SessionFilter
from hermes.store.session_store import open_store
from hermes.store.sqlite.backups import back_up_daily
from tests.unit.cli.terminal import Terminal


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
        outcome = hermes(action)
        assert outcome.code == StoreCorrupt.exit_code
        assert f"hermes sessions restore {backup}" in outcome.err
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
    assert hermes("restore", str(copy)).code == 2, "nobody was asked"
    outcome = hermes("restore", str(copy), "--yes")
    assert outcome.code == 0
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


def test_there_must_be_something_to_repair(empty):
    assert empty("repair").code != 0
    assert not empty.home.root.exists()


def test_a_server_is_not_repaired_from_here(hermes):
    hermes.home.config_file.write_text("store:\n  url: postgresql://localhost/none\n")
    outcome = hermes("repair")
    assert (outcome.code, "PostgreSQL" in outcome.err) == (2, True)


@pytest.mark.parametrize("action", ["reindex", "vacuum", "backup"])
def test_long_work_is_shown_at_a_terminal(hermes, tmp_path, action):
    words = [str(tmp_path / "copy.db")] if action == "backup" else []
    outcome = hermes(action, *words, typed="")
    assert outcome.code == 0
    assert ("100%" in outcome.err) is (action != "vacuum")
