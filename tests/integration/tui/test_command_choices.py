"""Commands without their argument show a list to choose from."""

from pathlib import Path

from hermes.core.testing import ModelServer
from tests.integration.tui.conftest import call


def test_resume_offers_other_conversations_with_a_preview(chat) -> None:
    with ModelServer(["One.", "Two.", "Back."]) as server:
        it = chat(server)
        it.ask("/resume", "There is no other conversation to continue.")
        it.ask("about apples", "One.").ask("/new", "A new conversation")
        it.ask("about pears", "Two.").ask("/new", "A new conversation")
        it.say("/resume").sees("Continue a conversation").sees("▸ about pears").sees("Two.")
        it.press("down").sees("▸ about apples").press("enter").sees("Back in")
        it.ready().ask("more", "Back.")
        messages = [each["content"] for each in server.calls[-1].body["messages"][1:]]
        assert messages == ["about apples", "One.", "more"]


def test_preview_wraps_long_questions(chat) -> None:
    question = " ".join(f"word{number}" for number in range(12))
    with ModelServer(["One."]) as server:
        it = chat(server, columns=100)
        it.ask(question, "One.").ask("/new", "A new conversation")
        it.say("/resume").sees_last("│ ❯ word0")
        preview = " ".join(line.partition("│")[2] for line in it.shown)
        assert question in " ".join(preview.split())


def test_escape_leaves_everything_as_it_was(chat) -> None:
    with ModelServer(["One."]) as server:
        it = chat(server)
        it.say("/skin").sees("Choose a skin").sees("an old line").press("down")
        it.sees("▸ kawaii").press("escape").ready()
        it.ask("hello", "One.")


def test_skin_says_whether_it_stays(chat, hermes_home: Path) -> None:
    with ModelServer([]) as server:
        it = chat(server)
        it.say("/skin mono").sees("Skin: mono, until you leave. /skin mono --global keeps it.")
        assert "mono" not in (hermes_home / "config.yaml").read_text()
        it.say("/skin mono --global").sees("Skin: mono, also in new conversations.")
        assert "skin: mono" in (hermes_home / "config.yaml").read_text()


def test_model_is_chosen_from_the_list_of_the_endpoint(chat) -> None:
    with ModelServer(["One."], models=["lab-model", "other-model"]) as server:
        it = chat(server)
        it.say("/model").sees("Choose a model; now lab-model on custom").press("down")
        it.sees("▸ other-model").press("enter").sees("From now on: other-model on custom")
        it.ready().ask("hello", "One.")
        assert server.calls[-1].body["model"] == "other-model"


def test_rollback_offers_turns_with_their_diff(chat, work: Path) -> None:
    (work / "plan.txt").write_text("one\n")
    change = call("patch", path="plan.txt", old_string="one\n", new_string="two\n")
    with ModelServer([change, "Changed."]) as server:
        it = chat(server)
        it.ask("change it", "Changed.").say("/rollback").sees("▸ change it").sees("- one")
        it.press("enter").sees("restored: plan.txt")
    assert (work / "plan.txt").read_text() == "one\n"


def test_diff_is_painted_like_the_changes_of_a_tool(chat, work: Path) -> None:
    (work / "plan.txt").write_text("one\n")
    change = call("patch", path="plan.txt", old_string="one\n", new_string="two\n")
    with ModelServer([change, "Changed."]) as server:
        it = chat(server)
        it.ask("change it", "Changed.").say("/diff")
        it.reads("Changes since the first edit of this session\nplan.txt\n   1 - one\n   1 + two")


def test_a_blank_line_stands_between_the_output_of_a_command_and_the_status(
    chat, work: Path
) -> None:
    (work / "plan.txt").write_text("one\n")
    change = call("patch", path="plan.txt", old_string="one\n", new_string="two\n")
    with ModelServer([change, "Changed."]) as server:
        it = chat(server)
        it.ask("change it", "Changed.")
        for command, last in (("/diff", "   1 + two"), ("/history", "  Changed.")):
            it.press("ctrl-l").gone("Changed.").say(command).sees_last(last).ready().settled(0.1)
            assert it.shown[-5:-3] == [last, ""]
