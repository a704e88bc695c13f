"""Skills, as a user of `hermes chat` meets them."""

import json
from pathlib import Path

import pexpect
import pytest

from hermes.core.messages import ToolCall
from hermes.core.testing import ModelServer, RecordedRequest, StepLike
from tests.cases import cases
from tests.integration.chat.conftest import UNTITLED, at, hermes, screen, terminal, untitled, work

CASES = cases(__file__)

__all__ = ["hermes", "screen", "terminal", "untitled", "work"]

TEA = CASES["tea"]


def view(name: str) -> ToolCall:
    return ToolCall("v1", "skill_view", json.dumps({"name": name}))


def run(command: str) -> ToolCall:
    return ToolCall("t1", "terminal", json.dumps({"command": command}))


@pytest.fixture
def tea(hermes_home: Path) -> Path:
    folder = hermes_home / "skills" / "kitchen" / "brew-tea"
    (folder / "scripts").mkdir(parents=True)
    (folder / "SKILL.md").write_text(TEA)
    (folder / "scripts" / "kettle.sh").write_text("echo hot ${KETTLE_KEY:+with key}\n")
    return folder


def test_the_model_knows_of_skills_and_loads_one(hermes, untitled, tea: Path) -> None:
    with ModelServer([view("brew-tea"), "Tea is ready."]) as server:
        done = hermes("chat", "-q", "tea please", *at(server))
        assert done.stdout == "Tea is ready.\n"
        first, second = (call.body["messages"] for call in server.calls)
    assert "- brew-tea: Brew tea the way the house likes it" in first[0]["content"]
    assert "git-workflow" in first[0]["content"], "bundled ones are there too"
    loaded = second[-1]["content"]
    assert f"Boil water with {tea}/scripts/kettle.sh." in loaded
    assert "tea.cup = blue" in loaded
    assert "KETTLE_KEY is not set" in loaded
    assert hermes("skills", "list", "--json").returncode == 0


def test_a_variable_of_a_loaded_skill_reaches_commands_and_no_other(
    hermes, untitled, tea: Path, hermes_home: Path
) -> None:
    (hermes_home / ".env").write_text("KETTLE_KEY=steam-4711-secret\nOTHER_KEY=x1y2z3a4b5\n")
    script = f"sh {tea}/scripts/kettle.sh; echo $KETTLE_KEY; echo other:$OTHER_KEY."
    with ModelServer([run(script), view("brew-tea"), run(script), "Done."]) as server:
        hermes("chat", "-q", "tea please", *at(server))
        bodies = [call.body["messages"][-1]["content"] for call in server.calls]
    assert "with key" not in bodies[1]
    assert "hot with key" in bodies[3]
    assert "other:." in bodies[3]
    assert "steam-4711" not in json.dumps(bodies), "its value never reaches the model"


def test_the_user_is_asked_for_a_key_unseen(terminal, tea: Path, hermes_home: Path) -> None:
    script = f"sh {tea}/scripts/kettle.sh"
    with ModelServer([view("brew-tea"), run(script), "Done."]) as server:
        child = terminal("chat", "-q", "tea please", *at(server))
        child.expect("Key of the kettle")
        child.expect("skips it")
        child.sendline("steam-4711-secret")
        child.expect("Done")
        child.expect(pexpect.EOF)
        assert "hot with key" in server.calls[2].body["messages"][-1]["content"]
        assert all("steam-4711" not in call.raw.decode() for call in server.calls)
    assert "steam-4711" not in child.before
    assert "KETTLE_KEY=steam-4711-secret" in (hermes_home / ".env").read_text()


def test_a_skill_is_called_by_its_name_or_chosen_for_the_session(hermes, screen, tea: Path) -> None:
    with ModelServer(["One.", "Two.", "Three."]) as server:
        hermes("chat", "-q", "/brew-tea for two", *at(server))
        hermes("chat", "-q", "hello", "-s", "brew-tea", *at(server))
        it = screen("chat", *at(server)).ready()
        it.say("/brew-tea never")
        it.sees("skips it")
        it.press("ctrl-c")
        it.sees("interrupted")
        it.ready()
        it.say("/Brew_Tea now")
        it.sees_last("skips it")
        it.ask("", "Three")
        assert it.leave() == 0
        called, chosen, typed = (call.body["messages"][-1]["content"] for call in server.calls)
    assert "Boil water" in called and called.endswith("for two")
    assert "Boil water" in chosen and chosen.endswith("hello")
    assert typed.endswith("now")
    wrong = hermes("chat", "-q", "hello", "-s", "brew-te", *at(server))
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "did you mean brew-tea?" in wrong.stderr


def test_the_model_cannot_call_a_skill_that_is_for_the_user(hermes, untitled, tea: Path) -> None:
    head = "---\ndisable-model-invocation: true\nargument-hint: [cups] [kind]\n"
    (tea / "SKILL.md").write_text(TEA.replace("---\n", head, 1) + "\nBrew $1 of $2.\n")
    with ModelServer([view("brew-tea"), "Sorry.", "Done."]) as server:
        hermes("chat", "-q", "tea please", *at(server))
        hermes("chat", "-q", "/brew-tea two Assam", *at(server))
        first, refused, called = (call.body["messages"] for call in server.calls)
    assert "brew-tea" not in first[0]["content"]
    assert "only the user can call the skill 'brew-tea'" in refused[-1]["content"]
    assert "Boil water" not in refused[-1]["content"]
    assert "Brew two of Assam." in called[-1]["content"]


def test_unknown_skill_is_refused_before_the_prompt(terminal, tea: Path) -> None:
    with ModelServer([]) as server:
        child = terminal("chat", "-s", "brew-te", *at(server))
        child.expect("did you mean brew-tea")
        child.expect(pexpect.EOF)
        child.wait()
    assert child.exitstatus == 2
    assert "›" not in child.before


LEARNT = """---
name: count-stars
description: Count the stars of a photo
---
Threshold, label, count.
"""


def test_skill_created_by_the_agent_can_be_shown_and_undone(hermes, untitled, hermes_home):
    with (hermes_home / "config.yaml").open("a") as file:
        file.write("approvals:\n  effects: {skill_manage: allow}\n")
    arguments = {"action": "create", "name": "count-stars", "content": LEARNT, "reason": "asked"}
    create = ToolCall("s1", "skill_manage", json.dumps(arguments))
    with ModelServer([create, "Saved."]) as server:
        hermes("chat", "-q", "remember how", *at(server))
        assert "created" in server.calls[1].body["messages"][-1]["content"]
    (entry,) = json.loads(hermes("skills", "log", "--json").stdout)
    assert entry["skills"] == ["count-stars"]
    assert "+Threshold, label, count." in hermes("skills", "diff").stdout
    assert hermes("skills", "undo", entry["id"][:8], "--yes").returncode == 0
    assert not (hermes_home / "skills" / "count-stars").exists()


def test_after_a_longer_piece_of_work_the_model_looks_back(screen, hermes_home: Path) -> None:
    (hermes_home / "config.yaml").write_text(f"skills:\n  creation_nudge_interval: 2\n{UNTITLED}")
    steps: list[StepLike] = [
        ToolCall("a", "todo", "{}"),
        ToolCall("b", "todo", '{"todos":[]}'),
        "Counted.",
    ]
    learn = {"action": "create", "name": "count-stars", "content": LEARNT, "reason": "worked"}

    def answer(request: RecordedRequest) -> StepLike:
        if steps:
            return steps.pop(0)
        last = request.body["messages"][-1]
        if last["role"] == "user":
            return ToolCall("s1", "skill_manage", json.dumps(learn))
        return "nothing more"

    with ModelServer(answer) as server:
        it = screen("chat", *at(server)).ready()
        it.say("how many stars?")
        it.sees("Counted")
        it.sees("Learnt: count-stars created")
        assert it.leave() == 0
        said = [call.body["messages"] for call in server.calls]
    assert said[3][:2] == said[2][:2], "the prompt cache holds"
    assert server.calls[3].body["tools"] == server.calls[0].body["tools"]
    assert (hermes_home / "skills" / "count-stars" / "SKILL.md").exists()
