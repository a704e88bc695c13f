"""Seeing what is stored, where, for whom, how full."""

import pytest

from tests.unit.cli.memory.conftest import MemoryCommand


def test_an_empty_home_says_so_and_stays_empty(hermes: MemoryCommand) -> None:
    outcome = hermes()
    assert outcome.code == 0
    assert outcome.out.splitlines()[0].startswith("Notes, in ")
    assert "none yet" in outcome.out and "Provider: none" in outcome.out
    assert hermes("show").out == "nothing is remembered yet\n"
    assert hermes("status").out.startswith("no memory provider")
    assert not hermes.home.root.exists()


def test_notes_of_every_scope_are_listed_with_how_full_they_are(hermes: MemoryCommand) -> None:
    notes = hermes.notes(project="/srv/site", chat="telegram:5")
    notes.notebook("memory").add("General.")
    notes.notebook("user").add("Called Ada.")
    notes.notebook("project").add("Use pnpm.")
    notes.notebook("chat").add("They plan a trip.")
    hermes.notes(user="telegram:7").notebook("memory").add("Likes tea.")
    lines = [line.split() for line in hermes().out.splitlines()[1:6]]
    assert lines == [
        ["memory", "yours", "1", "note", "0%,", "8/2,200", "characters"],
        ["user", "yours", "1", "note", "0%,", "11/1,375", "characters"],
        ["memory", "user", "telegram:7", "1", "note", "0%,", "10/2,200", "characters"],
        ["project", "/srv/site", "1", "note", "0%,", "9/2,200", "characters"],
        ["chat", "telegram:5", "1", "note", "0%,", "17/2,200", "characters"],
    ]


def test_the_provider_says_how_much_it_holds_and_where(local: MemoryCommand) -> None:
    local.says("My editor is vim. I live in Berlin.")
    local.says("My editor is nano.", user="telegram:7")
    out = local().out
    assert "Provider: holographic" in out
    assert "2 facts of yours and 1 of 1 other user" in out
    assert "holographic/memory.db" in out


def test_show_finds_words_in_notes_and_facts(local: MemoryCommand) -> None:
    local.notes().notebook("memory").add("The editor is set up\nwith two lines.")
    local.notes().notebook("user").add("Called Ada.")
    local.says("My editor is vim. I live in Berlin.")
    out = local("show", "editor").out
    assert out.splitlines()[:3] == [
        "memory (yours)",
        "  - The editor is set up",
        "    with two lines.",
    ]
    assert "provider (holographic)" in out
    assert "  - [1] My editor is vim. (trust 0.55, said " in out
    assert "Berlin" not in out and "Ada" not in out
    assert local("show", "zebra").out == "nothing is remembered about that\n"


def test_show_can_be_kept_to_one_place_and_one_user(local: MemoryCommand) -> None:
    local.notes().notebook("memory").add("A note.")
    local.says("My editor is vim.")
    local.says("My editor is nano.", user="telegram:7")
    (note,) = local("show", "--target", "memory", "--json").document
    assert note == {"target": "memory", "owner": "yours", "text": "A note."}
    (fact,) = local("show", "--target", "provider", "--json").document
    assert (fact["target"], fact["owner"], fact["text"]) == (
        "provider", "holographic", "My editor is vim.",
    )  # fmt: skip
    (fact,) = local("show", "--target", "provider", "--user", "telegram:7", "--json").document
    assert fact["text"] == "My editor is nano."


def test_a_damaged_file_of_notes_is_named(hermes: MemoryCommand) -> None:
    hermes.home.memories.mkdir(parents=True)
    (hermes.home.memories / "MEMORY.md").write_bytes(b"\xff\xfe\x00")
    assert "MEMORY.md is damaged" in hermes().out
    outcome = hermes("show")
    assert outcome.code != 0 and "MEMORY.md is damaged" in outcome.err


def test_a_broken_provider_does_not_hide_the_notes(hermes: MemoryCommand) -> None:
    hermes.plugin("mine", "raise RuntimeError('broken')")
    hermes.home.config_file.write_text("memory:\n  provider: mine\n")
    hermes.notes().notebook("memory").add("A note.")
    outcome = hermes("show")
    assert outcome.code == 1, "it is not all"
    assert "A note." in outcome.out
    assert "RuntimeError: broken" in outcome.err
    assert hermes("show", "--target", "provider").code == 3
    outcome = hermes()
    assert outcome.code == 3
    assert "RuntimeError: broken" in outcome.out and "hermes memory off" in outcome.out
    status = hermes("status", "--json")
    assert status.code == 1
    assert not status.document["ready"] and "broken" in status.document["problem"]


def test_a_damaged_file_does_not_hide_the_others(hermes: MemoryCommand) -> None:
    hermes.notes().notebook("user").add("Called Ada.")
    (hermes.home.memories / "MEMORY.md").write_bytes(b"\xff")
    outcome = hermes("show")
    assert outcome.code == 1
    assert "Called Ada." in outcome.out and "MEMORY.md is damaged" in outcome.err
    assert hermes("forget", "Ada", "--yes").code == 0


def test_what_is_shown_cannot_steer_the_terminal(local: MemoryCommand) -> None:
    local.says("Remember that \x1b]52;c;cm0gLXJm\x07I like \x1b[2Jtea.")
    assert "I like tea." in local("show").out
    for words in (("show",), ("show", "--json"), ("forget", "tea", "--yes")):
        outcome = local(*words)
        assert not {"\x1b", "\x07"} & set(outcome.out + outcome.err)


@pytest.mark.parametrize("limit", ["0", "-5", "x"])
def test_a_limit_is_a_number_from_one_up(hermes: MemoryCommand, limit: str) -> None:
    assert hermes("show", "--limit", limit).code == 2
