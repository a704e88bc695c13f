"""The documented names, used as a script would use them."""

import threading

import pytest

from hermes.compat.sessions import SessionDB
from hermes.core.errors import SessionNotFound

CALL = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}


@pytest.fixture
def db(tmp_path):
    db = SessionDB(tmp_path / "state.db")
    yield db
    db.close()


def fill(db, session_id="s", source="cli"):
    db.create_session(session_id, source, model="m")
    db.append_message(session_id, "user", "please chat-send the report")
    db.append_message(session_id, "assistant", None, tool_calls=[CALL], finish_reason="tool_calls")
    db.append_message(session_id, "tool", "a b c", tool_name="ls", tool_call_id="c1")
    return db.append_message(session_id, "assistant", "sent", reasoning="easy")


def test_messages_come_back_by_column(db):
    last = fill(db)
    messages = db.get_messages("s")
    assert [m["role"] for m in messages] == ["user", "assistant", "tool", "assistant"]
    assert messages[-1]["id"] == last
    assert messages[1]["tool_calls"] == [CALL]
    assert messages[2]["tool_name"] == "ls"
    assert messages[3]["reasoning"] == "easy"
    assert all(m["session_id"] == "s" for m in messages)


def test_a_conversation_comes_back_in_openai_form(db):
    fill(db)
    user, call, result, answer = db.get_messages_as_conversation("s")
    assert user == {"role": "user", "content": "please chat-send the report"}
    assert call["tool_calls"][0]["function"]["name"] == "ls"
    assert (result["role"], result["tool_call_id"], result["content"]) == ("tool", "c1", "a b c")
    assert answer["content"] == "sent"
    assert call["finish_reason"] == "tool_calls", "it was stored"
    assert "finish_reason" not in answer, "none was stored"
    assert db.get_messages_as_conversation("missing") == []


def test_creating_a_session_again_changes_nothing(db):
    assert db.create_session("s", "cli", model="m") == "s"
    assert db.create_session("s", "telegram") == "s"
    assert db.get_session("s")["source"] == "cli"


def test_a_session_ends_and_opens_again(db):
    fill(db)
    db.end_session("s", "user_exit")
    assert db.get_session("s")["end_reason"] == "user_exit"
    db.reopen_session("s")
    session = db.get_session("s")
    assert (session["ended_at"], session["end_reason"]) == (None, None)


def test_titles(db):
    for name in ("a", "b", "c"):
        db.create_session(name, "cli")
    assert db.set_session_title("a", "  My\u200b plan\n")
    assert db.get_session("a")["title"] == "My plan"
    with pytest.raises(ValueError, match="already"):
        db.set_session_title("b", "My plan")
    with pytest.raises(ValueError, match="100"):
        db.set_session_title("b", "x" * 101)
    assert not db.set_session_title("missing", "T")
    assert db.get_next_title_in_lineage("My plan") == "My plan #2"
    assert db.set_session_title("b", "My plan #2")
    assert db.get_next_title_in_lineage("My plan #2") == "My plan #3"
    assert db.resolve_session_by_title("My plan") == "b"
    assert db.resolve_session_by_title("nothing") is None
    assert db.set_session_title("a", "")
    assert db.get_session("a")["title"] is None


def test_search_returns_the_documented_keys(db):
    fill(db)
    (hit,) = db.search_messages("chat-send")
    assert hit["snippet"] == "please >>>chat-send<<< the report"
    assert hit["session_id"] == "s"
    assert hit["role"] == "user"
    assert hit["source"] == "cli"
    assert hit["model"] == "m"
    assert hit["session_started"] <= hit["timestamp"]
    assert isinstance(hit["context"], list | tuple)
    assert db.search_messages("chat-send", source_filter=["telegram"]) == []
    assert db.search_messages("chat-send", exclude_sources=["cli"]) == []
    assert db.search_messages("chat-send", role_filter=["assistant"]) == []
    assert db.search_messages("   ") == []


def test_the_rich_list_shows_preview_and_last_activity(db):
    fill(db, "old")
    fill(db, "new", source="telegram")
    rich = db.list_sessions_rich()
    assert [row["id"] for row in rich] == ["new", "old"]
    assert rich[0]["preview"] == "please chat-send the report"
    assert rich[0]["last_active"] >= rich[0]["started_at"]
    assert [row["id"] for row in db.list_sessions_rich(source="cli")] == ["old"]
    assert [row["id"] for row in db.list_sessions_rich(limit=1, offset=1)] == ["old"]


def test_token_counts_add_up(db):
    db.create_session("s", "cli")
    db.update_token_counts("s", 10, 5, model="big", estimated_cost_usd=0.5, cost_status="known")
    db.update_token_counts("s", 1, 1, cache_read_tokens=7)
    session = db.get_session("s")
    assert (session["input_tokens"], session["output_tokens"]) == (11, 6)
    assert (session["cache_read_tokens"], session["estimated_cost_usd"]) == (7, 0.5)
    assert (session["model"], session["cost_status"]) == ("big", "known")
    with pytest.raises(TypeError, match="nonsense"):
        db.update_token_counts("s", nonsense=1)


def test_export_prune_clear_and_delete(db):
    fill(db, "a")
    fill(db, "b", source="telegram")
    assert [m["role"] for m in db.export_session("a")["messages"]][:2] == ["user", "assistant"]
    assert db.export_session("missing") is None
    assert [record["id"] for record in db.export_all(source="telegram")] == ["b"]
    assert db.prune_sessions(older_than_days=0) == 0, "neither has ended"
    db.end_session("a", "user_exit")
    assert db.prune_sessions(older_than_days=1) == 0, "not old enough"
    assert db.prune_sessions(older_than_days=0, source="telegram") == 0
    assert db.prune_sessions(older_than_days=0) == 1
    db.clear_messages("b")
    assert db.get_messages("b") == []
    assert db.get_session("b")["message_count"] == 0
    assert db.delete_session("b")
    assert not db.delete_session("b")


def test_lineage_goes_up_and_down(db):
    db.create_session("a", "cli")
    db.create_session("b", "cli", parent_session_id="a")
    db.create_session("c", "cli", parent_session_id="b")
    assert db.get_ancestors("c") == ["b", "a"]
    assert db.get_descendants("a") == ["b", "c"]


def test_a_message_to_an_unknown_session_is_refused(db):
    with pytest.raises(SessionNotFound, match="missing"):
        db.append_message("missing", "user", "hello")


def test_threads_may_share_it(db):
    db.create_session("s", "cli")
    threads = [
        threading.Thread(target=db.append_message, args=("s", "user", str(n))) for n in range(40)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(int(m["content"]) for m in db.get_messages("s")) == list(range(40))


def test_without_a_path_it_is_the_store_of_the_home(hermes_home):
    db = SessionDB()
    db.create_session("s", "cli")
    db.close()
    assert (hermes_home / "state.db").exists()
