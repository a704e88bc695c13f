"""The completion menu: commands, arguments, references, pictures, and how names match."""

import asyncio
import threading
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent, Completion
from prompt_toolkit.document import Document

from hermes.app.references import complete_reference
from hermes.tui.completion import (
    FRESH_SECONDS,
    MAX_OFFERS,
    InputCompleter,
    Offer,
    OfferCache,
    OfferIndex,
)

SKILL = Offer("release-notes", "write the notes of a release", takes_more=True)


def completer(folder: Path, **more: object) -> InputCompleter:
    given = {
        "references": lambda fragment: complete_reference(fragment, folder),
        "more": lambda: [SKILL],
    }
    it = InputCompleter(folder=folder, **{**given, **more})  # type: ignore[arg-type] # each test knows what it gives
    it.offers.wait_seconds = 30  # what is tested is the menu, not whether this machine is quick
    return it


async def menu(it: InputCompleter, typed: str) -> list[Completion]:
    document = Document(typed, len(typed))
    if not it.wants(document):
        return []
    return [each async for each in it.get_completions_async(document, CompleteEvent())]


async def results(it: InputCompleter, typed: str) -> list[str]:
    """What stands in the input after each of the completions."""
    return [typed[: len(typed) + each.start_position] + each.text for each in await menu(it, typed)]


async def test_commands_come_with_what_they_do(tmp_path: Path) -> None:
    (model,) = await menu(completer(tmp_path), "/mode")
    assert (model.text, model.display_text) == ("/model ", "/model")
    assert model.display_meta_text == "show or change the model"


async def test_commands_of_the_terminal_and_skills(tmp_path: Path) -> None:
    it = completer(tmp_path)
    assert (await results(it, "/"))[:3] == ["/new", "/clear", "/history "]
    assert await results(it, "/rel") == ["/reload", "/reload-mcp", "/release-notes "]
    assert "/release-notes " in await results(it, "/notes")
    assert await results(it, "/approve") == []  # only in chats
    assert await results(it, "/CLEA") == ["/clear"]


async def test_the_menu_has_an_end(tmp_path: Path) -> None:
    it = completer(tmp_path, more=lambda: [Offer(f"skill-{number}") for number in range(600)])
    assert len(await results(it, "/")) == 50
    assert len(await results(it, "/skill")) == 50


async def test_an_alias_says_what_it_stands_for(tmp_path: Path) -> None:
    (reset,) = (each for each in await menu(completer(tmp_path), "/rese") if "rese" in each.text)
    assert reset.text == "/reset"
    assert reset.display_meta_text.startswith("/new: begin a new")


async def test_a_built_in_command_wins_over_a_skill_of_its_name(tmp_path: Path) -> None:
    it = completer(tmp_path, more=lambda: [Offer("help", "not this"), SKILL])
    assert [each.display_meta_text for each in await menu(it, "/help")][:1] != ["not this"]


@pytest.mark.parametrize("text", ["", "hello", "what is /mod", "a\n/mod", "a/b", "x@y.org"])
async def test_ordinary_text_opens_no_menu(tmp_path: Path, text: str) -> None:
    assert await menu(completer(tmp_path), text) == []


async def test_first_words_behind_a_command(tmp_path: Path) -> None:
    it = completer(tmp_path)
    assert await results(it, "/busy q") == ["/busy queue"]
    assert await results(it, "/sb o") == ["/sb on", "/sb off"]
    assert await results(it, "/verb a") == ["/verb all"]
    assert await results(it, "/busy queue ") == []
    assert await results(it, "/help mod") == ["/help model"]
    assert await results(it, "/nothing x") == []


async def test_names_behind_a_command(tmp_path: Path) -> None:
    it = completer(
        tmp_path,
        arguments={
            "resume": lambda: [Offer("Fix the parser", "yesterday", ("20260101_120000_abcdef01",))],
            "tools enable": lambda: [Offer("web"), Offer("terminal")],
            "rollback": lambda: [Offer("1", "src/main.py"), Offer("2")],
        },
    )
    assert await results(it, "/resume fix th") == ["/resume Fix the parser"]
    assert await results(it, "/resume pars") == ["/resume Fix the parser"]
    assert await results(it, "/resume 2026") == ["/resume 20260101_120000_abcdef01"]
    assert await results(it, "/tools enable w") == ["/tools enable web"]
    found = [f"/rollback {each}" for each in ("diff", "all", "1", "2")]
    assert await results(it, "/rollback ") == found


async def test_references_are_offered_anywhere_in_a_message(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main file.py").touch()
    it = completer(tmp_path)
    assert await results(it, "look at @sr") == ["look at @src/"]
    assert await results(it, "one\nlook at @src/m") == ['one\nlook at @"src/main file.py"']
    assert "/ask @src/" in await results(it, "/ask @s")


async def test_pictures_behind_image(tmp_path: Path) -> None:
    (tmp_path / "shots").mkdir()
    (tmp_path / "shots" / "b c.PNG").touch()
    (tmp_path / "a.jpg").touch()
    (tmp_path / "notes.txt").touch()
    (tmp_path / ".hidden.png").touch()
    it = completer(tmp_path)
    assert await results(it, "/image ") == ["/image shots/", "/image a.jpg"]
    assert await results(it, "/image shots/") == ["/image shots/b c.PNG"]
    assert await results(it, f"/image {tmp_path}/a.") == [f"/image {tmp_path}/a.jpg"]
    assert await results(it, "/image nowhere/") == []


async def test_names_of_strangers_do_not_steer_the_terminal(tmp_path: Path) -> None:
    it = completer(tmp_path, arguments={"resume": lambda: [Offer("a\x1b[2Jb\nc", "x\x07y")]})
    (offered,) = await menu(it, "/resume ")
    assert (offered.display_text, offered.display_meta_text) == ("ab c", "xy")


async def test_a_slow_list_does_not_hold_up_typing_and_is_used_when_it_comes(tmp_path):
    ready, came = threading.Event(), asyncio.Event()

    def slow() -> list[Offer]:
        ready.wait(30)
        return [Offer("late-model")]

    it = completer(tmp_path, arguments={"model": slow})
    it.offers.wait_seconds = 0.05
    it.offers.on_update = came.set
    assert await results(it, "/model ") == []
    ready.set()
    await asyncio.wait_for(came.wait(), 30)
    assert await results(it, "/model ") == ["/model late-model"]


async def test_a_list_that_fails_costs_only_its_entries(tmp_path, caplog):
    def broken() -> list[Offer]:
        raise RuntimeError("no connection")

    it = completer(tmp_path, more=broken, arguments={"fast": broken})
    assert await results(it, "/mode") == ["/model "]
    assert await results(it, "/fast n") == ["/fast normal"]
    assert "no completions for fast: no connection" in caplog.text


async def test_an_old_list_serves_while_a_new_one_is_made() -> None:
    now, asked, came = [0.0], [0], asyncio.Event()

    def source() -> list[Offer]:
        asked[0] += 1
        return [Offer(f"number-{asked[0]}")]

    answers = OfferCache(now=lambda: now[0])
    answers.on_update = came.set

    async def names() -> list[str]:
        return [each.name for each in (await answers.get("x", source)).offers]

    assert await names() == ["number-1"]
    now[0] = FRESH_SECONDS - 1
    assert await names() == ["number-1"]
    assert asked == [1]
    now[0] = FRESH_SECONDS + 1
    assert await names() == ["number-1"]
    await asyncio.wait_for(came.wait(), 30)
    assert await names() == ["number-2"]


def found(typed: str, *names: str) -> list[str]:
    return [match.name for match in OfferIndex([Offer(name) for name in names]).find(typed)]


def test_beginnings_come_before_words_before_parts_before_letters() -> None:
    names = ("mixed-order", "premodel", "set-model", "models", "model", "other")
    assert found("mod", *names) == ["models", "model", "set-model", "premodel", "mixed-order"]
    assert found("model", *names)[:2] == ["model", "models"]
    assert found("MOD", *names) == found("mod", *names)


def test_nothing_typed_offers_everything_in_order() -> None:
    assert found("", "b", "a", "c") == ["b", "a", "c"]
    assert len(found("", *(f"name-{number}" for number in range(80)))) == MAX_OFFERS


def test_scattered_letters_prefer_short_names() -> None:
    assert found("rn", "long-release-of-notes", "release-notes") == ["release-notes",
        "long-release-of-notes"]  # fmt: skip
    assert found("nr", "release-notes") == []


def test_an_alias_is_offered_only_when_its_beginning_is_typed() -> None:
    shelf = OfferIndex([Offer("new", aliases=("reset",)), Offer("retry"), Offer("breset")])
    assert [match.name for match in shelf.find("re")] == ["retry", "reset", "breset"]
    assert [match.name for match in shelf.find("reset")] == ["reset", "breset"]
    assert [match.name for match in shelf.find("n")] == ["new"]
    assert [match.name for match in shelf.find("rst")] == ["breset"]


def test_signs_of_regular_expressions_are_only_signs() -> None:
    assert found("c++", "c++", "c+") == ["c++"]
    assert found("[", "a[b") == ["a[b"]
    assert found("^-]", "x^-]") == ["x^-]"]
