"""What the agent asks while it works: consent, a decision, a secret."""

import threading
import time
from functools import partial
from pathlib import Path

import pytest

from hermes.core.messages import ToolCall
from hermes.core.testing import ModelServer, RecordedRequest, StepLike
from tests.cases import cases
from tests.integration.chat.conftest import at
from tests.integration.tui.conftest import call, run, said
from tests.screens.chat import Chat

CASES = cases(__file__)

REMOVAL = "rm -rf junk"
ASKED = """
⚠ terminal wants to run this:
  │ rm -rf junk
  deletes folders with everything in them
  in the folder \
"""
CHOICES = "   [o] once   [s] in this session   [a] always  ▸[d] deny\n"
DENIED = """
❯ clean up

⚠ rm -rf junk → not allowed
▪ terminal rm -rf junk ✗
   the user did not allow this: deletes folders with everything in them
""".strip()
COLOUR = call("clarify", question="Which colour?", choices=["red", "blue", "green"])
HANDS_OFF = 0.5


@pytest.fixture
def junk(work: Path) -> Path:
    (work / "junk").mkdir()
    return work / "junk"


def consider(it: Chat) -> None:
    """Wait for the question, and for the time to be over in which no key says yes."""
    it.sees_last("[o] once")
    end = time.monotonic() + HANDS_OFF
    it.wait(lambda _it: time.monotonic() > end, "the time to answer")


def test_while_a_question_is_open_it_waits_for_the_user(chat, junk: Path) -> None:
    with ModelServer([run(REMOVAL, "c1"), "Done."]) as server:
        it = chat(server)
        it.say("clean up")
        consider(it)
        assert "● waiting for you" in it.lines
        assert "ctrl-c stops" not in it.text
        assert "Enter:" not in it.text
        row = it.lines[it.screen.cursor.y]
        assert row[it.screen.cursor.x :].startswith("▸[d]"), "the cursor is at the marked answer"
        it.type("d").sees("Done.").gone("waiting for you")


def test_a_question_in_a_narrow_window_is_wrapped_between_words(chat, junk: Path) -> None:
    with ModelServer([run(REMOVAL, "c1"), "Done."]) as server:
        it = chat(server, columns=40)
        it.say("clean up")
        consider(it)
        start = next(at for at, line in enumerate(it.lines) if line.startswith("⚠"))
        assert it.lines[start : start + 4] == [
            "⚠ terminal wants to run this:",
            "  │ rm -rf junk",
            "  deletes folders with everything in",
            "  them",
        ]
        assert [line.strip() for line in it.lines if "] " in line] == [
            "[o] once", "[s] in this session", "[a] always", "▸[d] deny",
        ]  # fmt: skip
        it.type("d").sees("Done.")


def test_once_allows_one_call_and_deny_none(chat, junk: Path) -> None:
    with ModelServer([run(REMOVAL, "c1"), run(REMOVAL, "c2"), "Done."]) as server:
        it = chat(server)
        it.say("clean up")
        consider(it)
        assert it.text.partition("clean up\n")[2].startswith(ASKED)
        assert CHOICES in it.text
        it.type("d").sees("→ not allowed")
        assert junk.is_dir()
        consider(it)
        it.type("o")
        it.reads(f"""
{DENIED}
⚠ rm -rf junk → allowed once
▪ terminal rm -rf junk · no output ✓

Done.
""")
    assert not junk.exists()


def test_a_yes_for_the_session_by_arrow_keys_is_not_asked_again(chat, junk: Path) -> None:
    with ModelServer([run(REMOVAL, "c1"), run(REMOVAL, "c2"), "Done."]) as server:
        it = chat(server)
        it.say("clean up")
        consider(it)
        it.press("left", "left").sees_last("▸[s] in this session").press("enter")
        it.sees_last("▸[1] exactly this").press("enter")
        it.reads(CASES["yes for the session by arrow"])


def test_always_is_remembered_by_the_next_conversation(chat, junk: Path) -> None:
    with ModelServer([run(REMOVAL), "Done.", run(REMOVAL), "Done again."]) as server:
        it = chat(server)
        it.say("clean up")
        consider(it)
        it.type("a").sees_last("▸[1] exactly this").type("1")
        it.sees("→ always allowed").sees("Done.")
        assert it.leave() == 0
        junk.mkdir()
        chat(server).ask("clean up", "Done again.")
    assert not junk.exists()


def test_a_whole_class_is_named_and_confirmed_with_a_second_key(chat, junk: Path) -> None:
    other = run("rm -rf other", "c3")
    with ModelServer([run(REMOVAL, "c1"), run(REMOVAL, "c2"), other, "Done."]) as server:
        it = chat(server)
        it.say("clean up")
        consider(it)
        it.type("s").sees_last("[3] everything of the class 'recursive delete' in").type("3")
        it.sees_last("[y] yes, I am sure").sees_last("▸[d] deny").press("enter")
        it.sees("→ not allowed")
        assert junk.is_dir()
        consider(it)
        it.type("s").sees_last("[3] everything").type("3").sees_last("[y] yes").type("y")
        it.sees("→ allowed in this session").sees("Done.")
    assert not junk.exists()


def test_a_message_that_is_being_typed_does_not_answer(chat, junk: Path) -> None:
    typed = threading.Event()
    removal = run(REMOVAL)
    with ModelServer([lambda _request: removal if typed.wait(30) else "", "Hm."]) as server:
        it = chat(server)
        it.say("clean up").type("yes, and so").sees_last("❯ yes, and so")
        typed.set()
        it.sees_last("Press Tab to answer; your message is kept.").type(" on")
        it.sees_last("❯ yes, and so on").press("tab").sees_last("[o] once").type("d")
        it.reads(f"{DENIED}\n\nHm.")
        assert it.input == ["❯ yes, and so on"]
    assert junk.is_dir()


def _has_effect(answers: int, it: Chat) -> bool:
    return "do" in it.input[0] or it.talk.count("Hm.") > answers


def test_letters_right_after_the_question_came_belong_to_a_message(chat, junk: Path) -> None:
    """Only those that surely came in time are judged: a machine may be slow."""

    def answer(request: RecordedRequest) -> StepLike:
        return run(REMOVAL) if request.body["messages"][-1]["role"] == "user" else "Hm."

    with ModelServer(answer) as server:
        it = chat(server)
        for _ in range(20):
            answers = it.talk.count("Hm.")
            began = time.monotonic()
            it.say("clean up").sees_last("[o] once").type("do")
            took = time.monotonic() - began
            it.wait(partial(_has_effect, answers), "an effect")
            if took < HANDS_OFF:
                break
            it.press("ctrl-c")  # ends the turn, if it waits for an answer, and leaves the letters
            it.press("ctrl-u")
            it.ready()
        assert took < HANDS_OFF
        it.sees_last("Press Tab to answer; your message is kept.")
        assert it.input == ["❯ do"]
    assert junk.is_dir()


def test_questions_wait_until_they_are_answered(chat, settings, junk: Path) -> None:
    settings("approvals:\n  timeout: 0.2\nclarify:\n  timeout: 0.2\n")
    with ModelServer([run(REMOVAL), COLOUR, "Done."]) as server:
        it = chat(server)
        it.say("clean up").sees_last("[o] once")
        time.sleep(1)
        it.type("o").sees_last("or your own words")
        time.sleep(1)
        it.type("3\r").sees("Done.")
    assert not junk.exists()


def test_no_answer_in_time_means_no(chat, settings, junk: Path) -> None:
    settings("approvals:\n  platform_timeouts:\n    cli: 1\n")
    with ModelServer([run(REMOVAL), "Then not."]) as server:
        it = chat(server)
        it.say("clean up").sees_last("[o] once")
        it.reads(CASES["no answer in time means no"])
        assert it.shown[-1] == "❯"
    assert junk.is_dir()


def test_a_question_of_the_agent(chat) -> None:
    answers = {
        "3\r": "green",
        "\x1b[B\r": "blue",
        "\x1b[A\x1b[A\r": "blue",
        "as you like\r": "as you like",
    }
    """By number, by arrow keys, in own words."""
    steps = [step for number in range(4) for step in (COLOUR, f"Answer {number}.")]
    with ModelServer(steps) as server:
        it = chat(server)
        for number, (typed, answer) in enumerate(answers.items()):
            it.say(f"paint {number}").sees_last("or your own words")
            at = it.shown.index(f"❯ paint {number}")
            assert it.shown[at + 2 : at + 8] == [
                "? Which colour?", " › 1. red", "   2. blue", "   3. green",
                "  ↑ ↓ Enter, or your own words", "  ›",
            ]  # fmt: skip
            it.type(typed)
            it.reads(f"""
❯ paint {number}

? Which colour?
  {answer}
▪ clarify Which colour? ✓

Answer {number}.
""")
            it.ready()
            assert answer in said(server)


SKILL = CASES["skill"]


def test_a_secret_is_never_shown(chat, hermes_home: Path) -> None:
    folder = hermes_home / "skills" / "brew-tea"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(SKILL)
    with ModelServer(
        [ToolCall("c1", "skill_view", '{"name":"brew-tea"}'), "Tea is ready."]
    ) as server:
        it = chat(server)
        it.say("tea please").sees_last("? Key of the kettle (KETTLE_KEY)").type("steam-4711")
        it.sees_last("**********").press("enter").sees("Tea is ready.").ready()
        it.press("up").sees_last("❯ tea please")
        assert "steam" not in server.calls[1].raw.decode()
    assert b"steam" not in it.raw
    assert "4711" not in (hermes_home / "history").read_text()
    assert "KETTLE_KEY=steam-4711" in (hermes_home / ".env").read_text()


@pytest.mark.parametrize(
    ("typed", "forbids"), [(["Y"], True), (["maybe", "YES "], True), (["n"], False), ([""], False)]
)
def test_the_consent_to_a_hook(screen, settings, hermes_home, typed, forbids):
    """Enter alone takes what is marked, which is no."""
    guard = """echo '{"decision": "block", "reason": "by the guard"}'"""
    (hermes_home / "guard").write_text(guard)
    settings(f"hooks:\n  pre_tool_call:\n    - command: sh {hermes_home / 'guard'}\n")
    with ModelServer([call("todo"), "Done."]) as server:
        it = screen("chat", *at(server))
        for number, words in enumerate(typed):
            it.sees_last("Allow it, now and in the future?")
            it.wait(lambda it, asked=number: it.text.count("please answer") == asked, "a question")
            it.type(f"{words}\r")
        it.ready().ask("go", "Done.")
        assert ("by the guard" in said(server)) is forbids
        shown = "".join(it.text.split())  # where the line breaks depends on the length of the path
        assert shown.count("isleftoutinthissession") == (0 if forbids else 1)


def test_scopes_are_wrapped_between_words(chat, junk: Path) -> None:
    with ModelServer([run(REMOVAL), "Done."]) as server:
        it = chat(server, columns=60)
        it.say("clean up")
        consider(it)
        it.type("a").sees_last("\n       everywhere\n").press("escape").sees("Done.")
