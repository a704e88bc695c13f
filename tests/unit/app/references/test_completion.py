"""The menu while a reference is typed."""

import time
from pathlib import Path

import pytest

from hermes.app.references import FileNames, complete_reference, fragment_at_end


def texts(fragment: str, folder: Path, names: FileNames | None = None) -> list[str]:
    return [each.text for each in complete_reference(fragment, folder, names or FileNames())]


@pytest.fixture
def tree(workspace: Path) -> Path:
    for name in ("src/app.py", "src/.hidden", "README.md", "my notes.txt", ".env", "file.txt"):
        (workspace / name).parent.mkdir(exist_ok=True)
        (workspace / name).touch()
    (workspace / ".ssh").mkdir()
    return workspace


def test_an_at_sign_shows_what_there_is(tree: Path) -> None:
    assert texts("@", tree) == [
        "@file:", "@folder:", "@diff", "@staged", "@git:", "@url:",
        "@file.txt", '@"my notes.txt"', "@README.md", "@src/",
    ]  # fmt: skip


def test_letters_narrow_it_down(tree: Path) -> None:
    assert texts("@fi", tree) == ["@file:", "@file.txt"]
    assert texts("@file:sr", tree) == ["@file:src/"]
    assert texts("@file:src/", tree) == ["@file:src/app.py"]
    assert texts("@read", tree) == ["@README.md"]
    assert texts("@folder:", tree) == ["@folder:src/"]
    assert texts("@git:1", tree) == ["@git:1", "@git:10"]
    assert texts("@url:x", tree) == []
    assert texts("@nothing-like-it", tree) == []


def test_hidden_names_only_when_asked_for_and_secret_ones_never(tree: Path) -> None:
    assert texts("@file:.", tree) == ["@file:.env"]
    assert texts("@src/.h", tree) == ["@src/.hidden"]
    assert texts("@file:.ssh/", tree) == []


def test_names_with_blanks_are_quoted(tree: Path) -> None:
    assert texts("@file:my", tree) == ['@file:"my notes.txt"']
    assert texts('@file:"my n', tree) == ['@file:"my notes.txt"']
    assert texts("@file:'my n", tree) == ["@file:'my notes.txt'"]
    (tree / "my folder").mkdir()
    (tree / "my folder/x").touch()
    assert texts("@file:my f", tree) == ['@file:"my folder/']
    assert texts('@file:"my folder/', tree) == ['@file:"my folder/x"']


def test_paths_from_home_and_from_the_top(tree: Path, user_home: Path) -> None:
    (user_home / "todo.txt").touch()
    assert texts("@file:~/to", tree) == ["@file:~/todo.txt"]
    assert texts("@../to", tree) == ["@../todo.txt"]
    assert texts(f"@file:{user_home}/to", tree) == [f"@file:{user_home}/todo.txt"]
    assert texts("@file:~nobody-of-that-name/", tree) == []


def test_what_git_ignores_is_left_out(tree: Path, git) -> None:
    (tree / ".gitignore").write_text("*.txt\n")
    assert texts("@file:", tree) == ["@file:README.md", "@file:src/"]


def test_files_of_the_repository_are_found_by_a_part_of_their_name(tree: Path, git) -> None:
    (tree / "src/deep/er").mkdir(parents=True)
    (tree / "src/deep/er/user_profile.py").touch()
    (tree / "src/.hidden_profile").touch()
    git("add", "-A")
    names = FileNames()
    while not names.in_repository(str(tree)):
        time.sleep(0.01)
    assert texts("@profile", tree, names) == ["@src/deep/er/user_profile.py"]
    assert texts("@file:deep/er/us", tree, names) == ["@file:src/deep/er/user_profile.py"]
    assert texts("@usprof", tree, names) == ["@src/deep/er/user_profile.py"]
    assert texts("@zqx", tree, names) == []


def test_a_large_folder_is_never_waited_for(workspace: Path) -> None:
    for number in range(7_000):
        (workspace / f"f{number:05}").touch()
    names = FileNames()
    assert len(texts("@file:f", workspace, names)) == 200
    while texts("@file:f0699", workspace, names) != [f"@file:f0699{n}" for n in range(10)]:
        time.sleep(0.01)  # all of them, a moment later


def test_strange_names_are_not_offered(workspace: Path) -> None:
    (workspace / "a\nb").touch()
    (workspace / 'say "hi"').touch()
    (workspace / "it's").touch()
    (workspace / "both'\"").touch()
    assert texts("@file:", workspace) == ['@file:"it\'s"', "@file:'say \"hi\"'"]
    assert texts("@file:'i", workspace) == ['@file:"it\'s"']


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("look at @", "@"),
        ("look at @file:src/a", "@file:src/a"),
        ('look at @file:"my no', '@file:"my no'),
        ("look at @file:my\\ no", "@file:my\\ no"),
        ("看@src", "@src"),
        ("look at @file:a then", ""),
        ('@file:"my notes" ', ""),
        ("kim@example", ""),
        ("nothing", ""),
    ],
)
def test_the_fragment_before_the_cursor(text: str, fragment: str) -> None:
    assert fragment_at_end(text) == fragment


async def test_what_was_chosen_finds_its_file(tree: Path, attach) -> None:
    (tree / "it's").touch()
    for text in [*texts("@file:", tree), *texts("@", tree)[6:]]:
        done = await attach(f"see {text} here")
        assert (done.warnings, "Attached" in done.text) == ((), True), text
