"""Which command lines only look, so that no checkpoint is taken before them."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.security import PathGuard, examine
from hermes.security.read_only import is_read_only


def cases(name: str) -> list[str]:
    """One a line; a here-document goes up to its end."""
    found: list[str] = []
    lines = iter(Path(__file__).with_name(name).read_text("utf-8").splitlines()[1:])
    for line in lines:
        while "EOF" in line and not line.endswith("\nEOF"):
            line += "\n" + next(lines)
        found.append(line)
    return found


LOOKS, CHANGES = cases("read-only.txt"), cases("changing.txt")


# One test for each list: a failure names every line that is wrong.


def test_reading_commands_are_read_only() -> None:
    assert [command for command in LOOKS if not is_read_only(command)] == []


def test_other_commands_are_not_read_only() -> None:
    assert [command for command in ["", "#", *CHANGES] if is_read_only(command)] == []


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(LOOKS), st.sampled_from(CHANGES[:100]))
def test_one_program_that_changes_something_is_enough(look: str, change: str) -> None:
    assert not is_read_only(f"{look}\n{change}")
    assert not is_read_only(f"{change}\n{look}")


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=100))
def test_any_text_gets_an_answer(command: str) -> None:
    assert is_read_only(command) in (True, False)


@pytest.mark.parametrize(
    "command", ["(" * 3_000, "ls;" * 3_000, "x" * 300_000, "uniq " + "-" * 15_000]
)
def test_commands_built_to_exhaust_the_parser_get_an_answer(command: str) -> None:
    assert not is_read_only(command + " >x")


def edits(command: str, folder: Path) -> bool:
    guard = PathGuard(folder.parent, (folder,), (folder.parent / ".hermes",))
    return examine(command, guard, str(folder)).edits


def test_commands_that_change_files_of_the_workspace_are_recognised(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    changing = (
        "sed -i s/a/b/ x.py", "perl -pi -e s/a/b/ x.py", "echo hi > notes.txt", "echo hi >>a/b",
        "ls | tee out.txt", "mv a b", "cp a b", "rm a", "touch a", "mkdir build", "ln -s a b",
        "cd sub && echo x > y", "bash -c 'echo x > y'", "find . -name '*.py' | xargs rm",
        "git checkout .", "git apply fix.diff", "patch -p1 < fix.diff", "tar xf a.tar",
        f"echo x > {work}/y", "echo x > $target", "cat <<EOF > new.py\nx = 1\nEOF",
        "python3 -c \"open('x', 'w').write('y')\"",
    )  # fmt: skip
    assert [command for command in changing if not edits(command, work)] == []
    others = (
        "ls", "git status", "git stash list", "pytest -q", "make test", "grep x . > /dev/null",
        "pytest > /tmp/log.txt 2>&1", "cp a /tmp/b", "sed -n 1,3p x.py", "python3 check.py",
        "git commit -m x", "echo x 2>&1",
    )  # fmt: skip
    assert [command for command in others if edits(command, work)] == []
