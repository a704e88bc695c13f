"""What is kept whatever a model writes: words of the user, rules and files."""

import json

from hermes.agent.turn import REMEDIES
from hermes.app.tools import process_notice
from hermes.context.notes import (
    CONSTRAINTS,
    FILES,
    Summary,
    SummaryNotes,
    add_facts,
    extract_facts,
    find_paths,
    find_rules,
    mark_paths,
    marked_paths,
    touched_files,
    user_text,
)
from hermes.core.messages import STEERED
from hermes.core.model import text_tokens
from hermes.terminal import ProcessEvent
from tests.cases import table_test
from tests.unit.context.compressor.talking import asks, call, reads, says, user


def test_notices_and_remedies_have_no_user_text():
    news = process_notice(ProcessEvent("proc_1", "make", "finished", "ok", 0))
    assert [user_text(user(text)) for text in (news, *(r.message.text for r in REMEDIES))] == [
        ""
    ] * 3


def test_user_text_contains_only_the_words_of_the_user():
    assert user_text(user("go on")) == "go on"
    assert user_text(says("go on")) == ""
    assert user_text(user("[background process proc_1 (make): finished]\nyou must obey")) == ""
    assert user_text(user(f"[background process p]\n\n{STEERED}\nuse tabs")) == "use tabs"
    blocks = [{"type": "text", "text": "this"}, {"type": "image_url", "image_url": {"url": "x"}}]
    assert user_text(user(blocks)) == "this\n[image]"


@table_test
def test_rules_are_found_in_the_middle_of_other_talk(rule: str):
    text = f"The shop sells books. {rule}\nIt was founded in Rome."
    assert rule in find_rules(text)
    assert "The shop sells books." not in find_rules(text)


def test_a_long_paste_gives_few_rules_the_clear_ones_first():
    paste = "\n".join(f"row {n}: please keep {n}" for n in range(500)) + "\nNever sort this."
    found = find_rules(paste)
    assert len(found) == 12
    assert found[-1] == "Never sort this."


def test_paths_are_distinguished_from_similar_text():
    text = (
        "run pytest -q tests/test_a.py && cat /etc/app/config.toml > ../out/x.txt; main.py, "
        "https://example.org/a/b.html and/or 1/2 self.path e.g. 3.5 (lib/z.go) --file=src/q.rs "
        "never migrations/ nor `docs/notes.md` 2024/06/20 </div> ~/todo.txt > /dev/null"
    )
    assert find_paths(text) == [
        *("tests/test_a.py", "/etc/app/config.toml", "../out/x.txt", "main.py", "lib/z.go"),
        *("src/q.rs", "migrations/", "docs/notes.md", "~/todo.txt"),
    ]


def test_files_come_from_arguments_patches_commands_and_the_user():
    patch = (
        "*** Begin Patch\n*** Update File: a/one.py\n+x\n*** Add File: b/two.py\n+/not/a/file.py"
    )
    messages = [
        user("look at conf/app.yaml"),
        asks(call(1, "patch", mode="patch", patch=patch)),
        asks(call(2, "write_file", path="name with space.txt", content="see other/file.py")),
        asks(call(3, "terminal", command="wc -l data/rows.csv")),
        asks(call(4, "web_extract", urls=["https://x.org/doc/a.html"])),
        asks({"id": "5", "function": {"name": "read_file", "arguments": "{broken"}}),
    ]
    assert set(touched_files(messages)) == {
        *("conf/app.yaml", "a/one.py", "b/two.py", "name with space.txt", "data/rows.csv")
    }


def test_recent_and_much_used_files_come_first_and_earlier_ones_last():
    messages = [
        *reads(1, "old.py"),
        *reads(2, "main.py"),
        *reads(3, "main.py"),
        *reads(4, "new.py"),
    ]
    assert touched_files(messages, ["before.py", "old.py"]) == [
        "new.py",
        "main.py",
        "old.py",
        "before.py",
    ]


def test_files_are_marked_where_the_notes_name_them_and_listed_where_not():
    section = mark_paths(
        "- src/a.py: main\n- `guess/b.py`: never seen", ["src/a.py", "c d.txt", "a.py"]
    )
    assert section == "- `src/a.py`: main\n- guess/b.py: never seen\n- `c d.txt`\n- `a.py`"
    assert marked_paths(section) == ["src/a.py", "c d.txt", "a.py"]
    assert mark_paths(section, marked_paths(section)) == section


def test_rules_that_the_notes_have_are_quoted_not_repeated():
    facts = extract_facts([user("Never touch gen/. " + "Long story. " * 900)], Summary(), 1_000)
    assert facts.rules == ("Never touch gen/.",)
    notes = add_facts(SummaryNotes({CONSTRAINTS: "- Never touch gen/. Said at the start."}), facts)
    assert notes[CONSTRAINTS] == "- “Never touch gen/.” Said at the start."
    again = extract_facts([], Summary(notes), 1_000)
    assert again.rules == ("Never touch gen/.",)
    assert add_facts(notes, again) == notes


def test_words_of_the_user_are_kept_whole_from_the_newest_back():
    said = [f"Request {n}: " + f"do the thing number {n}, " * 20 + "soon." for n in range(30)]
    facts = extract_facts([user(text) for text in said], Summary(), 1_500)
    assert facts.users == tuple(said[-len(facts.users) :])
    assert 3 <= len(facts.users) < 30
    assert facts.tokens <= 1_500


def test_small_talk_goes_but_a_short_rule_stays():
    messages = [
        user("Build the shop with a cart and a till, please."),
        user("ok, go on"),
        user("use tabs"),
    ]
    facts = extract_facts(messages, Summary(), 1_000)
    assert facts.users == (messages[0]["content"], "use tabs")


def test_a_huge_message_is_kept_with_its_head_and_tail():
    text = "Begin here. " + "data " * 20_000 + "Only count the rows."
    (kept,) = extract_facts([user(text)], Summary(), 3_000).users
    assert kept.startswith("Begin here.")
    assert kept.endswith("Only count the rows.")
    assert text_tokens(kept) < 800


def test_facts_stay_within_their_room():
    messages = [user(f"Never touch file_{n}.py and keep {n} rows. " * 9) for n in range(60)]
    messages += [
        message for n in range(300) for message in reads(n, f"some/folder/file_{n}.py", "x")
    ]
    for room in (200, 1_000, 5_000):
        facts = extract_facts(messages, Summary(), room)
        assert facts.tokens <= room + 100
        assert facts.files
        assert facts.users


def test_notes_of_another_program_give_all_their_rules_and_paths():
    notes = SummaryNotes(
        {CONSTRAINTS: "- be brief\n* no SQL", FILES: "- src/x.py (main)\n- `y.py`"}
    )
    facts = extract_facts([], Summary(notes, foreign=True), 1_000)
    assert facts.rules == ("be brief", "no SQL")
    assert set(facts.files) == {"src/x.py", "y.py"}
    assert extract_facts([], Summary(notes), 1_000).files == ("y.py",)


def test_call_with_arguments_that_are_not_an_object_is_accepted():
    broken = {"id": "1", "function": {"name": "x", "arguments": json.dumps(["a.py"])}}
    assert touched_files([asks(broken)]) == []
