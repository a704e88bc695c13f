"""`hermes hooks` as a user sees it."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from hermes.plugins.shell_hooks import HookApprovals
from tests.unit.cli.terminal import Hermes, Outcome


class Scene:
    def __init__(self, home: Path, folder: Path) -> None:
        home.mkdir()
        self.home, self.folder = home, folder
        self.approvals = HookApprovals(home)

    def script(self, body: str, name: str = "check.sh") -> str:
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return str(path)

    def set(self, **events: list[dict[str, Any]]) -> None:
        (self.home / "config.yaml").write_text(yaml.safe_dump({"hooks": events}))

    def run(self, *words: str, typed: str | None = None) -> Outcome:
        return Hermes("hooks", self.home)(*words, typed=typed)


@pytest.fixture
def scene(hermes_home: Path, workspace: Path) -> Scene:
    return Scene(hermes_home, workspace)


BLOCK = """cat > /dev/null; echo '{"decision": "block", "reason": "not today"}'"""


def test_hooks_are_listed_with_their_approval(scene: Scene) -> None:
    assert "there are no shell hooks" in scene.run("list").out
    scene.set(
        pre_tool_call=[{"command": "check", "matcher": "terminal|patch"}],
        on_session_end=[{"command": "notify --quiet"}],
    )
    scene.approvals.allow("on_session_end", "notify --quiet")
    assert sorted(scene.run("list").out.splitlines()) == [
        "· pre_tool_call [terminal|patch]  check  (not approved yet)",
        "✓ on_session_end  notify --quiet",
    ]
    facts = json.loads(scene.run("list", "--json").out)
    assert {fact["command"]: fact["approved"] for fact in facts} == {
        "check": False,
        "notify --quiet": True,
    }


def test_a_hook_is_tried_with_a_made_up_call(scene: Scene) -> None:
    command = scene.script(f"tee {scene.folder}/got.json > /dev/null; exit 0")
    scene.set(pre_tool_call=[{"command": command}])
    outcome = scene.run(
        "test", "pre_tool_call", "--for-tool", "web_search", "--accept-hooks"
    ).expect()
    assert outcome.out.splitlines()[0].startswith(f"{command}: exit code 0 after ")
    assert "answer: nothing to say" in outcome.out
    got = json.loads((scene.folder / "got.json").read_text())
    assert (got["hook_event_name"], got["tool_name"]) == ("pre_tool_call", "web_search")


def test_a_file_gives_the_arguments(scene: Scene) -> None:
    command = scene.script(f"tee {scene.folder}/got.json > /dev/null")
    scene.set(post_tool_call=[{"command": command}])
    payload = scene.folder / "payload.json"
    payload.write_text(
        json.dumps({"tool_name": "patch", "tool_input": {"path": "x"}, "extra": {"result": "ok"}})
    )
    words = ("--payload-file", str(payload), "--accept-hooks")
    assert scene.run("test", "post_tool_call", *words).code == 0
    got = json.loads((scene.folder / "got.json").read_text())
    assert got | json.loads(payload.read_text()) == got


@pytest.mark.parametrize("text", ["[1]", "nonsense", '{"extra": 3}', ""])
def test_a_file_that_holds_no_arguments_is_refused(scene: Scene, text: str) -> None:
    scene.set(pre_tool_call=[{"command": "true"}])
    file = scene.folder / "payload.json"
    file.write_text(text)
    scene.run("test", "pre_tool_call", "--accept-hooks", "--payload-file", str(file)).expect(
        2, err="does not hold arguments of a hook"
    )


def test_an_answer_and_a_failure_are_shown(scene: Scene) -> None:
    scene.set(
        pre_tool_call=[
            {"command": scene.script(BLOCK, "block.sh")},
            {"command": scene.script("echo oops >&2; exit 3", "fail.sh")},
            {"command": scene.script("echo hello", "chatty.sh")},
        ]
    )
    scene.run("test", "pre_tool_call", "--accept-hooks").expect(
        1,
        out=[
            '  answer: {"action":"block","message":"not today"}',
            "  failed: oops",
            "the call would be blocked",
            "its output is not JSON",
        ],
    )


def test_nothing_is_run_without_approval(scene: Scene) -> None:
    mark = scene.folder / "ran"
    command = scene.script(f"touch {mark}")
    scene.set(pre_tool_call=[{"command": command}])
    for words in (("test", "pre_tool_call"), ("doctor",)):
        outcome = scene.run(*words).expect(1)
        assert "not approved" in outcome.out + outcome.err
    assert scene.run("test", "pre_tool_call", typed="n\n").code == 1
    assert not mark.exists()
    assert scene.run("test", "pre_tool_call", typed="y\n").code == 0
    assert mark.exists()
    assert scene.run("test", "pre_tool_call").code == 0  # it was remembered
    assert scene.run("revoke", command).code == 0
    assert scene.run("test", "pre_tool_call").code == 1
    assert "is not approved" in scene.run("revoke", command).err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("test", "pre_tool_cal"), "did you mean pre_tool_call?"),
        (("test", "on_session_end"), "there is no shell hook for on_session_end"),
        (("test", "pre_tool_call", "--for-tool", "patch"), "(1 for other tools)"),
        (("test", "on_session_start", "--for-tool", "patch"), "has no tool"),
        (("test", "pre_tool_call", "--payload-file", "/no/such"), "cannot read /no/such"),
    ],
)
def test_a_wrong_question_is_answered_in_a_line(scene, words, said):
    scene.set(pre_tool_call=[{"command": "check", "matcher": "terminal"}])
    scene.run(*words).expect(2, err=said)


def test_the_doctor_finds_what_is_wrong(scene: Scene) -> None:
    scripts = {
        "good": scene.script(BLOCK, "good.sh"),
        "garbage": scene.script("echo hello", "garbage.sh"),
        "open": scene.script("true", "open.sh"),
        "changed": scene.script("true", "changed.sh"),
        "argument": f"sh -e {scene.script('true', 'argument.sh')}",
        "plain": scene.script("true", "plain.sh"),
        "slow": scene.script("sleep 60", "slow.sh"),
    }
    (scene.folder / "open.sh").chmod(0o777)
    (scene.folder / "plain.sh").chmod(0o644)
    for command in scripts.values():
        scene.approvals.allow("pre_tool_call", command)
    later = time.time() + 100
    os.utime(scene.folder / "changed.sh", (later, later))
    os.utime(scene.folder / "argument.sh", (later, later))
    scene.set(
        pre_tool_call=[
            *({"command": command, "timeout": 1 if name == "slow" else 60}
              for name, command in scripts.items()),
            {"command": "no-such-program-anywhere --now"},
            {"command": scene.script("true", "new.sh")},
        ]
    )  # fmt: skip
    outcome = scene.run("doctor").expect(1)
    found = {}
    for line in outcome.out.splitlines():
        if not line.startswith(" "):
            name = Path(line.split()[2 if "sh -e" not in line else 4]).stem
            found[name] = [line[0]]
        else:
            found[name].append(line.strip())
    assert found["good"] == ["✓"]
    assert "its output is not JSON" in found["garbage"][1]
    assert "can be changed by other users" in found["open"][1]
    assert "was changed after you approved" in found["changed"][1]
    assert "argument.sh was changed after you approved" in found["argument"][1]
    assert "is not executable" in found["plain"][1]
    assert found["slow"][1] == "it took longer than 1 seconds"
    assert found["no-such-program-anywhere"][1] == "there is no program no-such-program-anywhere"
    assert found["new"] == ["✗", "not approved yet: it does not run"]


def test_a_damaged_approval_file_is_reported(scene: Scene) -> None:
    (scene.home / "shell-hooks-allowlist.json").write_text("{")
    scene.set(pre_tool_call=[{"command": "check"}])
    assert "cannot be read" in scene.run("doctor").out
    assert "cannot be read" in scene.run("list").err
    tried = scene.run("test", "pre_tool_call")
    assert (tried.code, tried.out) == (3, "")
    assert "cannot be read" in tried.err


def test_the_doctor_finds_hooks_that_never_run(scene: Scene) -> None:
    scene.set(pre_tool_cal=[{"command": "true"}])
    found = scene.run("doctor").expect(1)
    assert found.out == (
        "✗ hooks.pre_tool_cal: there is no hook 'pre_tool_cal'; did you mean pre_tool_call?\n"
    )
