"""Shell commands, extended keys, vi keys, expanded results and notifications."""

from pathlib import Path

from hermes.core.messages import Text
from hermes.core.testing import ModelServer, Stall, Step
from tests.integration.tui.conftest import run, said
from tests.screens.chat import Chat


def test_own_command_runs_unasked_and_the_model_sees_it_with_the_next_message(
    chat, work: Path
) -> None:
    (work / "junk").mkdir()
    with ModelServer(["I see it."]) as server:
        it = chat(server)
        it.say("!rm -rf junk; echo done; false").sees("[exit code 1]").ready()
        assert not (work / "junk").exists()
        assert "done" in it.lines
        assert server.calls == []
        it.ask("what did I do?", "I see it.")
        message = said(server)
        assert message.startswith("what did I do?")
        assert "$ rm -rf junk; echo done; false\ndone\n[exit code 1]" in message
        it.press("escape", "escape").sees_last("▸ what did I do?")
        assert "exit code" not in it.shown[-2]


def test_own_command_is_stopped_by_ctrl_c(chat) -> None:
    with ModelServer([]) as server:
        it = chat(server)
        it.say("!echo begun; sleep 100").sees_last("begun").sees_last("ctrl-c stops")
        it.press("ctrl-c").sees("stopped by Ctrl-C").ready()


def test_long_output_of_an_own_command_is_cut(chat) -> None:
    with ModelServer(["Long."]) as server:
        it = chat(server)
        it.say("!seq 1 2000").sees("… 1,500 lines …").sees("2000").ready()
        it.ask("how long?", "Long.")
        assert len(said(server)) < 10_000


def test_shift_enter_begins_a_new_line(chat) -> None:
    with ModelServer(["Two lines."]) as server:
        it = chat(server)
        assert b"\x1b[>1u" in it.raw
        it.type("one").press("shift-enter").type("two").sees_last("  two").type("\x1b[27;2;13~")
        it.type("three").sees_last("  three").press("enter").sees("Two lines.")
        assert said(server) == "one\ntwo\nthree"
        assert it.ready().leave() == 0
        assert b"\x1b[<u" in it.raw


def test_ctrl_o_shows_the_latest_folded_result(chat) -> None:
    with ModelServer([run("seq 1 60"), "Counted."]) as server:
        it = chat(server)
        it.ask("count", "Counted.")
        assert "   7" not in it.everything
        it.press("ctrl-o").wait(lambda it: "   7" in it.everything, "the whole result")
        it.press("ctrl-o").sees("Nothing is folded.")


def test_vim_mode_edits_with_vi_keys(chat) -> None:
    with ModelServer(["Edited."]) as server:
        it = chat(server)
        it.ask("/vim on", "Vim mode: on").type("wrong words here").sees_last("words here")
        it.press("escape").sees_last("vim: normal").type("0dwx").type("A!").gone("vim: normal")
        it.sees_last("❯ ords here!").press("escape").sees_last("vim: normal").press("enter")
        it.sees("Edited.").ready()
        assert said(server) == "ords here!"
        assert "vim: normal" not in it.text


def test_escape_in_normal_mode_stops_the_turn(chat, settings) -> None:
    settings("display:\n  vim_mode: true\n")
    stalled = Step((Text("one two three four five"),), faults=(Stall(2),))
    with ModelServer([stalled]) as server:
        it = chat(server)
        it.say("count").sees("one two three fo").press("escape").sees_last("vim: normal")
        it.press("escape").sees("hermes: stopped by Esc")


def test_missing_file_is_reported(chat) -> None:
    with ModelServer(["Which file?"]) as server:
        it = chat(server)
        it.ask("look at @nope.txt, @someone and @types/node", "Which file?")
        assert any("@nope.txt" in line and "no such file" in line for line in it.everything)
        assert not any("no such file" in line for line in it.everything if "@someone:" in line)
        assert not any("@types/node:" in line for line in it.everything)


def notified(it: Chat, sequence: bytes) -> Chat:
    return it.wait(lambda it: sequence in it.raw, f"{sequence!r}")


def test_the_user_is_notified_when_a_question_waits(chat, work: Path) -> None:
    (work / "junk").mkdir()
    with ModelServer([run("rm -rf junk"), "Gone."]) as server:
        it = chat(server, KITTY_WINDOW_ID="1")
        it.say("clean up").sees_last("[o] once")
        notified(it, b"\x1b]99;o=unfocused;Hermes: waiting for your answer\x1b\\\a")
        it.type("o").sees("Gone.").ready()
        assert it.raw.count(b"\x1b]99;") == 1


def test_ctrl_l_clears_the_screen(chat) -> None:
    with ModelServer(["An answer."]) as server:
        it = chat(server)
        it.ask("hello", "An answer.").type("more").press("ctrl-l").gone("An answer.")
        it.settled()
        assert [line.split(" ")[0] for line in it.shown] == [
            "lab-model",
            "─" * it.screen.columns,
            "❯",
        ]
        assert it.input == ["❯ more"]
