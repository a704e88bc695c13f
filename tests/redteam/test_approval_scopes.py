"""Approvals for longer than one call cover what was shown, and nothing that only resembles it."""

from pathlib import Path

import pytest

from hermes.core.ports import ApprovalAnswer
from tests.redteam.conftest import Machine, RecordingApprover, call, creates_in_home

DENY = ApprovalAnswer.DENY
SESSION = ApprovalAnswer.SESSION
IN_FOLDER = ApprovalAnswer("session", "folder", confirmed=True)
ARGUMENTS = ApprovalAnswer("session", "arguments")
HARMLESS = "rm -rf build"
NEXT = " then "  #: Between two calls.


def shell(command: str, **more: str) -> tuple[str, dict[str, str]]:
    return call("terminal", command=command, **more)


async def attack(machine: Machine, answer: ApprovalAnswer, first: str, *then: str) -> int:
    """Run `first`, which is answered with `answer`, then the others, which are denied. Return how
    many questions there were."""
    (machine.work / "build").mkdir(exist_ok=True)
    person = RecordingApprover(DENY, answer)
    await machine.run(*map(shell, (first, *then)), approver=person)
    return len(person.questions)


async def test_f9_harmless_inline_code_does_not_cover_dangerous_code(machine: Machine) -> None:
    dangerous = f"import shutil; shutil.rmtree('{machine.home}/Documents')"
    unreadable = 'python3 -c "exec(open(0).read())" < /dev/null'
    await attack(machine, SESSION, unreadable, f'python3 -c "{dangerous}"')
    machine.assert_unharmed()


@pytest.mark.parametrize("answer", [SESSION, ARGUMENTS, IN_FOLDER], ids=lambda each: each.scope)
@pytest.mark.parametrize(
    "attempt",
    [
        "rm -rf ~/data",
        "rm -rf HOME_/data",
        "rm -rf ../data",
        "rm -rf build ../data",
        "rm -rf build; rm -rf ~/data",
        "rm -rf build\nrm -rf ~/data",
        "rm -rf build && rm -rf $HOME/data",
        "rm -rf build || true; (cd ~; rm -rf data)",
        "cd ~ && rm -rf data",
        "cd .. ; rm -rf data",
        "pushd .. >/dev/null; rm -rf data",
        "cd; rm -rf data",
        "bash -c 'cd ..; rm -rf data'",
        "D=~; rm -rf $D/data",
        "rm -rf $(echo ../data)",
        "echo ../data | xargs rm -rf",
        "find .. -name data -exec rm -rf {} +",
        "ln -s ~/data d; rm -rf d/*",
        "ln -s ~/data d; rm -rf */*",
        f"ln -s ~/data d{NEXT}rm -rf d/*",
        f"ln -s ~/data d{NEXT}rm -rf */*",
        f"ln -s ~/data d{NEXT}rm -rf d/important.txt d/",
        f"ln -s ~/data d{NEXT}tar cf x.tar d{NEXT}rm d{NEXT}tar xf x.tar; rm -rf d/*",
        "ln -s .. up; rm -rf up/data",
        "env -C .. rm -rf data",
        "rm -rf -- '../data'",
        "rm -rf build \\\n ../data",
        "rm -rf {build,../data}",
        "git -C .. init -q; git -C .. clean -ffdxq data",
        "PATH=..:$PATH rm -rf build ~/data",
    ],
)
async def test_approval_of_a_build_folder_does_not_cover_data(
    machine: Machine, answer: ApprovalAnswer, attempt: str
) -> None:
    await attack(
        machine, answer, HARMLESS, *attempt.replace("HOME_", str(machine.home)).split(NEXT)
    )
    machine.assert_unharmed()


@creates_in_home
async def test_control_the_class_everywhere_covers_data(machine: Machine) -> None:
    everywhere = ApprovalAnswer("session", "everywhere", confirmed=True)
    assert await attack(machine, everywhere, HARMLESS, "rm -rf ~/data") == 1
    assert not (machine.home / "data").exists()


@pytest.mark.parametrize("answer", [SESSION, ARGUMENTS, IN_FOLDER], ids=lambda each: each.scope)
async def test_control_the_same_command_is_not_asked_again(
    machine: Machine, answer: ApprovalAnswer
) -> None:
    assert await attack(machine, answer, HARMLESS, "mkdir build", HARMLESS) == 1
    assert not (machine.work / "build").exists()


@pytest.mark.parametrize("answer", [SESSION, ARGUMENTS, IN_FOLDER], ids=lambda each: each.scope)
async def test_the_same_words_in_another_folder_are_asked_about(
    machine: Machine, answer: ApprovalAnswer
) -> None:
    """The live shell moves, and the text stays the same."""
    (machine.work / "data").mkdir()
    assert await attack(machine, answer, "rm -rf data", "cd ~", "rm -rf data") == 2
    machine.assert_unharmed()


async def test_the_folder_of_one_call_counts(machine: Machine) -> None:
    (machine.work / "data").mkdir()
    person = RecordingApprover(DENY, SESSION)
    calls = [shell("rm -rf data"), shell("rm -rf data", workdir=str(machine.home))]
    await machine.run(*calls, approver=person)
    assert len(person.questions) == 2
    machine.assert_unharmed()


async def test_a_variable_of_the_shell_does_not_change_what_was_approved(machine: Machine) -> None:
    steps = ("export D=build", 'rm -rf "$D"', "export D=$HOME/data", 'rm -rf "$D"')
    person = RecordingApprover(DENY, SESSION)
    (machine.work / "build").mkdir()
    await machine.run(*map(shell, steps), approver=person)
    assert len(person.questions) == 2
    assert "command" not in [scope.value for scope in person.questions[0].scopes]
    machine.assert_unharmed()


@pytest.mark.parametrize(
    "attempt",
    [
        "git push -f origin main extra",
        "git push -f origin",
        "FOO=1 git push -f origin main",
        "GIT_SSH_COMMAND='touch {mark}' git push -f origin main",
        "git push -f origin main; touch {mark}",
        "git push -f origin main & touch {mark}",
        "git push -f origin main > {mark}",
        "git push -f origin main $(touch {mark})",
        "git push -f origin main # \n touch {mark}",
        "./git push -f origin main",
    ],
)
async def test_rule_for_arguments_does_not_match_more_than_these_words(
    machine: Machine, attempt: str
) -> None:
    mark = machine.work / "mark"
    program = machine.work / "git"
    program.write_text(f"#!/bin/sh\ntouch {mark}\n")
    program.chmod(0o755)
    attempt = attempt.format(mark=mark)
    # What another rule does not find dangerous needs no approval; the rule must not be why.
    person = RecordingApprover(DENY, ARGUMENTS)
    await machine.run(shell("git push -f origin main"), shell(attempt), approver=person)
    assert len(person.questions) == 2 or attempt.startswith("./git")
    assert not mark.exists() or attempt.startswith("./git")


@pytest.mark.parametrize("scope", ["folder", "everywhere"])
async def test_a_destructive_class_needs_the_second_confirmation(
    machine: Machine, scope: str
) -> None:
    """A surface that forgets to confirm gets an approval for one call."""
    (machine.work / "other").mkdir()
    unconfirmed = ApprovalAnswer("always", scope)
    assert await attack(machine, unconfirmed, HARMLESS, "rm -rf other") == 2
    assert (machine.work / "other").is_dir()
    assert "rules" not in (machine.hermes / "config.yaml").read_text()


async def test_a_permanent_rule_holds_in_its_folder_only(machine: Machine) -> None:
    """In a second session, which works elsewhere, the same command is asked about."""
    always = ApprovalAnswer("always", "folder", confirmed=True)
    (machine.work / "build").mkdir()
    await machine.run(shell(HARMLESS), approver=RecordingApprover(always))
    machine.configure("")  # keeps what the approval has written out of what counts as harm
    (machine.hermes / "config.yaml").write_text(rules_of(machine))
    (machine.work / "sub" / "build").mkdir(parents=True)
    await machine.run(shell(HARMLESS), working_folder=machine.work / "sub")
    assert not (machine.work / "sub" / "build").exists()
    outside = machine.home / "data"
    (outside / "build").mkdir()
    await machine.run(shell(HARMLESS), working_folder=outside)
    assert (outside / "build").is_dir()


def rules_of(machine: Machine) -> str:
    return (
        f"{machine.settings}approvals:\n  rules:\n"
        f"  - {{classes: [recursive delete], folder: {machine.work}, reason: x}}\n"
    )


async def test_an_approval_of_one_file_does_not_cover_another(machine: Machine) -> None:
    """Writing outside the workspace, allowed for one folder."""
    notes = machine.home / "notes"
    in_folder = ApprovalAnswer("session", "folder")
    person = RecordingApprover(DENY, in_folder)
    await machine.run(
        call("write_file", path=str(notes / "a.md"), content="one\n"),
        call("write_file", path=str(notes / "b.md"), content="two\n"),
        call("write_file", path=str(machine.home / "data" / "important.txt"), content="gone\n"),
        call("write_file", path=str(notes / ".." / "data" / "important.txt"), content="gone\n"),
        call("patch", mode="patch", patch=both_files(machine.home)),
        approver=person,
    )
    assert (notes / "b.md").read_text() == "two\n"
    assert len(person.questions) == 4
    machine.assert_unharmed()


def both_files(home: Path) -> str:
    return (
        f"*** Begin Patch\n*** Update File: {home}/notes/a.md\n@@\n-one\n+1\n"
        f"*** Delete File: {home}/data/important.txt\n*** End Patch"
    )


@pytest.mark.parametrize("tool", ["write_file", "patch"])
async def test_the_question_about_an_edit_shows_the_diff(machine: Machine, tool: str) -> None:
    machine.configure(f"approvals:\n  effects: {{{tool}: ask}}\n")
    edits = {
        "write_file": call("write_file", path="README.md", content="# Another project\n"),
        "patch": call("patch", path="README.md", old_string="A project", new_string="Another"),
    }
    person = RecordingApprover()
    await machine.run(edits[tool], approver=person)
    (question,) = person.questions
    assert "-# A project" in question.subject and "+# Another" in question.subject
    assert (machine.work / "README.md").read_text() == "# A project\n"


@pytest.mark.parametrize("rule", ["ask", "deny"])
@pytest.mark.parametrize(
    "attempt",
    [
        call("read_file", path="README.md"),
        call("write_file", path="README.md", content="x"),
        call("patch", path="README.md", old_string="A", new_string="B"),
        call("terminal", command="echo x > README.md"),
        call("search_files", pattern="project"),
        call("todo", todos=[{"id": "1", "content": "project"}]),
        call("execute_code", code="open('README.md', 'w')"),
        call("memory", action="add", target="memory", content="project"),
        call("delegate_task", goal="project"),
        call("session_search", query="project"),
    ],
    ids=lambda each: each[0],
)
async def test_settings_for_a_builtin_tool_are_obeyed(machine: Machine, rule, attempt) -> None:
    name = attempt[0]
    machine.configure(f"approvals:\n  effects: {{{name}: {rule}}}\n")
    person = RecordingApprover()
    outcome = await machine.run(attempt, approver=person)
    assert [question.tool for question in person.questions] == [name] * (rule == "ask")
    assert "did not allow" in outcome.text or "refused" in outcome.text
    assert (machine.work / "README.md").read_text() == "# A project\n"


async def test_allowing_a_tool_does_not_lift_its_dangers(machine: Machine) -> None:
    machine.configure("approvals:\n  effects: {terminal: allow, write_file: allow}\n")
    await machine.run(
        shell("rm -rf ~/data"),
        shell(f"echo 'approvals: {{mode: off}}' >> {machine.hermes}/config.yaml"),
        call("write_file", path=str(machine.home / "data" / "important.txt"), content="gone"),
        call("write_file", path=str(machine.hermes / "config.yaml"), content="x: 1"),
    )
    machine.assert_unharmed()
