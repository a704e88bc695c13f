"""`hermes sessions`: list, show, search, usage, rename, archive, branch and delete."""

import time

import pytest

from hermes.core.model import ModelCall, Usage
from hermes.core.testing import ModelServer
from tests.cases import cases
from tests.unit.cli.conftest import DAY, Sessions

CASES = cases(__file__)


@pytest.fixture
def hermes(stored_sessions: Sessions) -> Sessions:
    return stored_sessions


def test_the_list_shows_what_each_session_is_about(hermes):
    second, first = hermes("list").out.splitlines()
    assert second.split()[:2] == ["20260102_bbbb", "telegram"]
    assert second.endswith("2 messages  what is a zebra?")
    assert first.endswith("10d ago     3 messages  the plan")


def test_the_list_can_be_narrowed(hermes):
    assert hermes("list", "--source", "cli").out.count("\n") == 1
    cut = hermes("list", "--limit", "1")
    assert cut.out.startswith("20260102_bbbb") and cut.err == "1 more: --limit 2 lists all\n"
    assert hermes("list", "--limit", "1", "--json").err == cut.err
    assert not hermes("list").err
    (only,) = hermes("list", "--source", "cli", "--json").document
    assert (only["id"], only["message_count"], only["title"]) == ("20260101_aaaa", 3, "the plan")


def test_the_list_shows_the_newest_session_of_a_compacted_conversation(hermes):
    ended = time.time() - 100
    facts = {"started_at": ended - 50, "ended_at": ended, "end_reason": "compression"}
    hermes.add("20260105_old", "a long talk", **facts)
    hermes.add("20260105_new", "goes on", started_at=ended, parent_session_id="20260105_old")
    hermes.add("20260105_lost", "its child was deleted", **facts)
    listed = hermes("list").out
    assert "_new" in listed and "_old" not in listed and "_lost" in listed
    assert "20260105_old" in hermes("list", "--all").out


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
    assert "user: list the\nfiles" in text and "assistant: I look.\n[call of terminal] {}" in text
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
    empty("show", "x").expect(2, err="nothing was stored yet")
    assert empty("export", "out.jsonl").code == 2
    assert empty("repair").code != 0
    assert not empty.home.root.exists()


def test_wrong_names_are_clear_errors(hermes):
    missing = hermes("show", "x\x1b[2J")
    assert (missing.code, missing.err.splitlines()[0]) == (2, "hermes: there is no session x")
    hermes("show", "2026").expect(2, err="20260102_bbbb, 20260101_aaaa")
    assert hermes("show", " ").code == 2
    for limit in ("0", "-3", "many", "99999999999"):
        hermes("list", "--limit", limit).expect(2, err="--limit")


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


@pytest.fixture
def found(hermes):
    """The ids of the sessions a search finds."""

    def search(*words):
        outcome = hermes("search", *words, "--json").expect()
        return [hit["session_id"] for hit in outcome.document]

    return search


def test_hits_are_listed_below_their_session_without_marks(hermes):
    hermes.add("20260103_cccc", "zebra\n" * 300, "zebra again", "no stripes")
    out = hermes("search", "zebra").out
    assert [line[:13] for line in out.splitlines() if line[:1] == "2"] == [
        "20260103_cccc",
        "20260102_bbbb",
    ]
    assert out.count("\n\n") == 1
    assert ">>>" not in out and "no stripes" not in out and "striped" not in out
    assert out.count("  user: what is a zebra?\n") == 1
    assert max(map(len, out.splitlines())) <= 200
    assert "what is a \x1b[1mzebra\x1b[0m?" in hermes("search", "zebra", typed="").out
    nothing = hermes("search", "hippopotamus")
    assert nothing.code == 0 and nothing.out.startswith("nothing found: try other or fewer words")


def test_a_search_finds_other_endings_typing_errors_and_whole_questions(hermes):
    hermes.add("20260103_cccc", "My tomatoes get brown", "That is early blight")
    for query in ("tomato", "erly blihgt", "What was it that my tomatoes had?"):
        outcome = hermes("search", query)
        assert outcome.out.startswith("20260103_cccc"), query
        assert outcome.err.startswith("No ") and "these" in outcome.err
    (hit,) = hermes("search", "tomato", "--json").document
    assert (hit["match"], hit["share"]) == ("similar", 0.9)
    assert "these" not in hermes("search", "tomatoes").err


def test_at_a_terminal_a_model_suggests_words_when_little_is_found(hermes):
    with ModelServer(["zebra, giraffe", "elephant"]) as server:
        address = f"{server.url}/v1"
        model = f"model: {{provider: custom, base_url: '{address}', default: lab}}\n"
        hermes.home.config_file.write_text(model)
        assert "nothing found" in hermes("search", "safari").out, "a script asks no model"
        assert not server.calls
        found = hermes("search", "safari", typed="")
        assert "what is a" in found.out and "20260102_bbbb" in found.out
        assert "little was found; also searched for: zebra, giraffe" in found.err
        assert "nothing found" in hermes("search", "savanna", typed="").out
        hermes.home.config_file.write_text(
            f"{model}auxiliary: {{session_search: {{suggest_words: false}}}}\n"
        )
        assert "nothing found" in hermes("search", "safari", typed="").out
        assert len(server.calls) == 2
    (line,) = hermes.store(lambda store: store.usage())
    assert (line.task, line.calls) == ("session_search", 2)


def test_without_a_model_a_search_at_a_terminal_just_finds_nothing(hermes):
    outcome = hermes("search", "safari", typed="")
    assert outcome.code == 0 and "nothing found: try other" in outcome.out


def test_browse_finds_a_session_in_spite_of_a_typing_error(hermes):
    outcome = hermes("browse", typed="zebar\nhippopotamus\nq\n")
    assert outcome.out.count("what is a zebra?") == 2  # in the list and in the search
    assert "nothing found for 'hippopotamus': try other or fewer words" in outcome.out


def test_titles_are_searched(hermes):
    assert hermes("search", "PLAN").out.startswith("20260101_aaaa  cli  ")
    (hit,) = hermes("search", "the plan", "--json").document
    assert (hit["role"], hit["snippet"]) == ("title", "the plan")
    assert hermes("search", "plan", "--source", "telegram").out.startswith("nothing found: ")
    assert hermes("search", "pl_n").out.startswith("nothing found: ")


def test_empty_sessions_are_listed_only_with_all(hermes):
    hermes.add("20260104_empty")
    hermes.add("20260104_branch", parent_session_id="20260101_aaaa")
    assert "_empty" not in hermes("list").out and "_branch" in hermes("list").out
    assert "_empty" in hermes("list", "--all").out


def test_the_json_list_has_no_system_prompts(hermes):
    hermes.add("20260104_long", "hi", system_prompt="x" * 5000)
    assert "xxx" not in hermes("list", "--json").out
    assert hermes("list", "--json").document[0]["id"] == "20260104_long"


def test_a_search_can_be_narrowed(hermes, found):
    hermes.add("old", "a zebra", started_at=time.time() - 40 * DAY)
    assert sorted(found("zebra")) == ["20260102_bbbb", "old"]
    assert found("zebra", "--source", "telegram") == ["20260102_bbbb"]
    assert found("zebra", "--session", "old") == ["old"]
    assert found("zebra", "--since", "7d") == ["20260102_bbbb"]
    assert found("zebra", "--until", "7d") == ["old"]
    assert found("zebra", "--limit", "1") == ["20260102_bbbb"]
    assert found("animal", "--role", "user") == []
    assert found("striped", "animal", "--role", "assistant") == ["20260102_bbbb"]
    assert found("zebra NOT what") == ["old"]


def test_a_date_as_an_end_includes_that_day(hermes, found):
    noon = time.mktime((2026, 3, 5, 12, 0, 0, 0, 0, -1))
    hermes.add("march", "a giraffe", started_at=noon)
    assert found("giraffe", "--since", "2026-03-05", "--until", "2026-03-05") == ["march"]
    assert found("giraffe", "--since", "2026-03-06") == []
    assert found("giraffe", "--until", "2026-03-04") == []
    assert found("giraffe", "--since", "2026-03-05T11:59", "--until", "2026-03-05 12:01") == [
        "march"
    ]


@pytest.mark.parametrize(("words", "said"), CASES["wrong input is a clear error"])
def test_wrong_input_is_a_clear_error(hermes, words, said):
    hermes("search", *words).expect(2, err=said)


def spend(hermes, session, *calls):
    async def record(store):
        for call in calls:
            await store.record_call(session, call)

    hermes.store(record)


PRICED = ModelCall(Usage(1000, 50, 200), model="big", provider="p", cost_usd=1.5)
UNPRICED = ModelCall(Usage(10, 5), model="small", provider="local", task="title_generation")


def test_tokens_and_cost_are_shown_for_each_kind_of_call(hermes):
    spend(hermes, "20260101_aaaa", PRICED, PRICED, UNPRICED)
    head, big, small, total, _, note, how = hermes("usage").out.splitlines()
    assert head.split()[:3] == ["task", "model", "provider"]
    assert big.split() == ["main", "big", "p", "2", "2,000", "400", "100", "$3.00"]
    assert small.split() == ["title_generation", "small", "local", "1", "10", "0", "5", "unknown"]
    assert total.split() == ["total", "3", "2,010", "400", "105", "$3.00+?"]
    assert note == "the price of 1 call is unknown; to set the price of a model:"
    assert how.startswith("  hermes config set providers.ID.models.NAME.price ")


def test_one_session_and_a_time_can_be_chosen(hermes):
    spend(hermes, "20260101_aaaa", PRICED)
    assert hermes("usage", "20260102").out == "no model was called\n"
    assert "$1.50" in hermes("usage", "the plan").out
    assert "$1.50" in hermes("usage", "--since", "1h").out
    (line,) = hermes("usage", "the plan", "--json").document
    assert (line["calls"], line["usage"]["cache_read"], line["cost_usd"]) == (1, 200, 1.5)
    assert hermes("usage", "--since", "2999-01-01").out == "no model was called in that time\n"
    assert hermes("usage", "nobody").code == 2


def titles(hermes):
    return {one["id"]: one["title"] for one in hermes("list", "--all", "--json").document}


def test_a_session_is_renamed(hermes):
    assert "now called My zebra" in hermes("rename", "20260102", "My", "zebra").out
    assert titles(hermes)["20260102_bbbb"] == "My zebra"
    hermes("rename", "20260102", "a\u202eb\x1b\u200bc\td")  # not all of it shows
    assert titles(hermes)["20260102_bbbb"] == "abc d"


@pytest.mark.parametrize(("title", "said"), CASES["title that cannot be is refused"])
def test_a_title_that_cannot_be_is_refused(hermes, title, said):
    before = titles(hermes)
    hermes("rename", "20260102", title).expect(2, err=said)
    assert titles(hermes) == before


def test_archived_sessions_leave_the_list_and_come_back(hermes):
    assert hermes("archive", "the plan", "20260102").code == 0
    assert hermes("list").out == "no sessions yet\n"
    assert "zebra" in hermes("search", "zebra").out
    hermes("unarchive", "20260102")
    assert hermes("list").out.startswith("20260102_bbbb")


def test_nothing_is_archived_when_one_name_is_wrong(hermes):
    assert hermes("archive", "the plan", "nobody").code == 2
    assert hermes("list", "--archived").out == "no such sessions\n"


def test_branch_is_a_session_of_its_own(hermes):
    made = hermes("branch", "20260102", "--title", "other way", "--json").document
    assert (made["title"], made["parent_id"]) == ("other way", "20260102_bbbb")
    assert "what is a zebra?" in hermes("show", "other way").out
    outcome = hermes("branch", "the plan")
    assert "(the plan #2) from 20260101_aaaa (the plan)" in outcome.out
    assert "hermes --resume 20" in outcome.out


def test_a_branch_with_a_wrong_title_is_not_made(hermes):
    for title in ("the plan", "x" * 200):
        assert hermes("branch", "20260102", "--title", title).code == 2
    assert len(hermes.ids()) == 2


def test_deleting_asks_at_a_terminal_and_the_default_is_no(hermes):
    outcome = hermes("delete", "the plan", typed="\n").expect(1)
    assert outcome.out.startswith("Delete 20260101_aaaa (the plan) with 3 messages? [y/N] ")
    assert outcome.out.endswith("nothing was deleted\n")
    assert len(hermes.ids()) == 2
    assert hermes("delete", "the plan", typed="y\n").code == 0
    assert hermes.ids() == {"20260102_bbbb"}


def test_deleting_without_a_terminal_needs_yes(hermes):
    hermes("delete", "the plan").expect(2, err="needs --yes")
    assert len(hermes.ids()) == 2
    assert hermes("delete", "the plan", "--yes").out == "deleted 20260101_aaaa (the plan)\n"
    assert hermes.ids() == {"20260102_bbbb"}
    assert hermes("delete", "the plan", "--yes").code == 2


def test_a_title_means_the_session_that_has_it_when_it_is_deleted(hermes):
    hermes.add("newer", "x", title="the plan #2")
    assert hermes("show", "the plan").out.startswith("newer")
    assert hermes("delete", "the plan", "--yes").out == "deleted 20260101_aaaa (the plan)\n"
    hermes("delete", "the plan", "--yes").expect(2, err="with that title is newer")


@pytest.fixture
def aged(hermes):
    """Sessions of 100 days: ended, open, archived, and ended of another source."""
    began = time.time() - 100 * DAY
    hermes.add("ended", "x", started_at=began, ended_at=began + 1)
    hermes.add("open", "x", started_at=began)
    hermes.add("kept", "x", started_at=began, ended_at=began + 1, archived_at=began + 2)
    hermes.add("job", "x", started_at=began, ended_at=began + 1, source="cron")
    return hermes


def test_pruning_takes_old_ended_sessions_and_keeps_archived_ones(aged):
    before = aged.ids()
    assert aged("prune", "--yes").out == "deleted 2 sessions\n"
    assert before - aged.ids() == {"ended", "job"}
    assert "nothing was deleted" in aged("prune", "--yes").out


def test_pruning_can_be_narrowed_and_tried_first(aged):
    before = aged.ids()
    preview = aged("prune", "--source", "cron", "--dry-run")
    assert preview.out.startswith("job ")
    assert preview.out.endswith("1 session would be deleted\n")
    assert aged("prune", "--dry-run", "--json").document == {"would_delete": ["job", "ended"]}
    assert aged.ids() == before
    assert aged("prune", "--source", "cron", "--yes", "--json").document == {"deleted": ["job"]}
    assert aged("prune", "--older-than", "5", "--yes").out == "deleted 2 sessions\n"
    assert aged.ids() == {"open", "kept", "20260102_bbbb"}


def test_pruning_asks_first(aged):
    before = aged.ids()
    aged("prune", typed="no\n").expect(1, out="Delete 2 sessions started more than 90d ago? [y/N]")
    assert aged("prune").code == 2
    assert aged.ids() == before


@pytest.mark.parametrize("age", ["-1", "soon", "1.5", "99999999999", ""])
def test_an_age_that_is_none_is_refused(aged, age):
    before = aged.ids()
    aged("prune", f"--older-than={age}", "--yes").expect(2, err="--older-than")
    assert aged.ids() == before
