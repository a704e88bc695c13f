import time


def test_the_list_shows_what_each_session_is_about(hermes):
    second, first = hermes("list").out.splitlines()
    assert second.split()[:2] == ["20260102_bbbb", "telegram"]
    assert second.endswith("2 messages  what is a zebra?")
    assert first.endswith("10d ago     3 messages  the plan")


def test_the_list_can_be_narrowed(hermes):
    assert hermes("list", "--source", "cli").out.count("\n") == 1
    assert hermes("list", "--limit", "1").out.startswith("20260102_bbbb")
    (only,) = hermes("list", "--source", "cli", "--json").document
    assert (only["id"], only["message_count"], only["title"]) == ("20260101_aaaa", 3, "the plan")


def test_sessions_of_programs_and_archived_ones_are_listed_when_asked_for(hermes):
    hermes.add("of_a_tool", "x", source="tool")
    hermes.add("put_away", "x", archived_at=time.time())
    assert hermes("list").out.count("\n") == 2
    assert hermes("list", "--source", "tool").out.startswith("of_a_tool")
    assert hermes("list", "--archived").out.startswith("put_away")
    assert "[archived]" in hermes("list", "--all").out
    assert len(hermes.ids()) == 4


def test_a_conversation_is_shown_with_its_calls_and_long_results_cut(hermes):
    text = hermes("show", "20260101_aaaa").out
    assert text.startswith("20260101_aaaa  the plan  cli  m  started 20")
    assert "user: list the\nfiles" in text
    assert "assistant: I look.\n[call of terminal] {}" in text
    assert "[... 3,000 characters left out ...]" in text


def test_a_session_is_named_by_id_beginning_or_title(hermes):
    whole = hermes("show", "20260101_aaaa").out
    assert hermes("show", "20260101").out == whole
    assert hermes("show", "the plan").out == whole
    assert hermes("show", "  the plan ").out == whole


def test_json_has_everything(hermes):
    document = hermes("show", "the plan", "--json").document
    assert document["session"]["id"] == "20260101_aaaa"
    assert [message["role"] for message in document["messages"]] == ["user", "assistant", "tool"]
    assert len(document["messages"][2]["content"]) == 5000


def test_the_log_also_has_what_was_undone(hermes):
    hermes.store(lambda store: store.undo("20260102_bbbb"))
    assert "zebra" not in hermes("show", "20260102_bbbb").out
    text = hermes("show", "20260102_bbbb", "--log").out
    assert text.count("(not in the conversation any more)") == 2
    assert "user: what is a zebra?" in text
    logged = hermes("show", "20260102_bbbb", "--log", "--json").document["messages"]
    assert [one["in_conversation"] for one in logged] == [False, False]
    assert "any more" not in hermes("show", "the plan", "--log").out


def test_a_tree_goes_up_and_down(hermes):
    hermes.add("child", "x", parent_session_id="20260101_aaaa")
    hermes.add("grandchild", "x", parent_session_id="child", title="below", end_reason="done")
    hermes.add("other", "x", parent_session_id="20260101_aaaa")
    lines = hermes("tree", "child").out.splitlines()
    assert [line.split("  20")[0] for line in lines] == [
        "20260101_aaaa (the plan)",
        "└ child",
        "  └ grandchild (below)",
    ]
    assert "this one" in lines[1]
    assert lines[2].endswith("1 message, done")
    document = hermes("tree", "the plan", "--json").document
    assert {one["id"] for one in document["descendants"]} == {"child", "grandchild", "other"}


def test_stored_escape_sequences_never_reach_the_terminal(hermes):
    nasty = "\x1b]52;c;x\x07\x1b[2J red \x9b31m\u202etxt"
    hermes.add("bad\x1b[2J", nasty, nasty, title=None, model=nasty, source=nasty)
    hermes.add("branch", nasty, parent_session_id="bad\x1b[2J")
    shown = [
        hermes("list", "--all").out,
        hermes("show", "branch").out,
        hermes("show", "branch", "--json").out,
        hermes("show", "branch", "--log").out,
        hermes("tree", "branch").out,
        hermes("search", "red").out,
        hermes("search", "red", "--json").out,
        hermes("stats").out,
        hermes("export", "-", "--format", "markdown").out,
        hermes("export", "-", "--format", "jsonl").out,
    ]
    for text in shown:
        assert "red" in text or "bad" in text or "cli" in text
        assert not set("\x1b\x07\x9b\u202e") & set(text)


def test_looking_at_nothing_creates_nothing(empty):
    assert empty("list").out == "no sessions yet\n"
    assert empty("list", "--json").document == []
    assert empty("search", "x").out == "no sessions yet\n"
    assert empty("stats", "--json").document == {}
    outcome = empty("show", "x")
    assert (outcome.code, "nothing was stored yet" in outcome.err) == (2, True)
    assert empty("export", "out.jsonl").code == 2
    assert not empty.home.root.exists()


def test_wrong_names_are_clear_errors(hermes):
    missing = hermes("show", "x\x1b[2J")
    assert (missing.code, missing.err.splitlines()[0]) == (2, "hermes: there is no session x")
    ambiguous = hermes("show", "2026")
    assert ambiguous.code == 2
    assert "20260102_bbbb, 20260101_aaaa" in ambiguous.err
    assert hermes("show", " ").code == 2
    for limit in ("0", "-3", "many", "99999999999"):
        outcome = hermes("list", "--limit", limit)
        assert (outcome.code, "--limit" in outcome.err) == (2, True)


def test_a_long_title_does_not_break_the_line_of_a_terminal(hermes, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    hermes.add("long", "word " * 100)
    lines = hermes("list", typed="").out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert lines[0].endswith("…")


def test_a_very_long_line_of_sessions_is_shown(empty):
    async def fill(store):
        await store.restore({"id": "s0", "messages": [], "started_at": 1.0})
        for number in range(1, 300):
            parent = f"s{number - 1}"
            record = {"id": f"s{number}", "parent_session_id": parent, "messages": []}
            await store.restore(record)

    empty.store(fill)
    assert empty("tree", "s150").out.count("\n") == 300
