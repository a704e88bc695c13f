"""References in a message: syntax, blocked paths, completion."""

import os
import time
from pathlib import Path

import pytest

from hermes.app.references import (
    FileNames,
    clean_url,
    complete_reference,
    find_references,
    fragment_at_end,
    possible_values,
    split_lines,
)
from hermes.security import PathGuard
from tests.cases import cases

CASES = cases(__file__)


def found(text: str) -> list[tuple[str, str]]:
    return [(each.kind, each.value) for each in find_references(text)]


def test_every_kind_is_found_in_the_order_of_the_text() -> None:
    text = "see @file:a.py:1-3 @folder:src @diff and @staged, @git:3 @url:https://x.example/y @b.md"
    kinds = ["file", "folder", "diff", "staged", "git", "url", "bare"]
    values = ["a.py:1-3", "src", "", "", "3", "https://x.example/y", "b.md"]
    assert found(text) == list(zip(kinds, values, strict=True))


def test_addresses_and_code_are_left_alone() -> None:
    assert [text for text in CASES["no references"] if found(text)] == []
    assert found("`code` @file:a\n```\n@file:b\n```\n@file:c `") == [("file", "a"), ("file", "c")]


def test_paths_with_blanks_and_in_sentences() -> None:
    expected = {text: [("file", value)] for text, value in CASES["paths"]}
    assert {text: found(text) for text in expected} == expected


def test_file_named_like_a_keyword_is_a_path() -> None:
    names = ["diff-notes.txt", "staged/x", "diff.py"]
    assert found(" ".join(f"@{name}" for name in names)) == [("bare", name) for name in names]
    assert found("what is in @diff?") == [("diff", "")]


def test_the_same_reference_twice_is_one() -> None:
    assert len(find_references("@file:a and @file:a")) == 1


def test_punctuation_after_a_path_may_belong_to_the_sentence() -> None:
    for text in ("(@a.py).", "@a.py，然后"):
        (only,) = find_references(text)
        assert "a.py" in possible_values(only)


def test_lines_are_split_from_the_path() -> None:
    path, lines = split_lines("src/a:b.py:10-20")
    assert (path, lines and (lines.first, lines.last)) == ("src/a:b.py", (10, 20))
    assert split_lines("src/a.py") == ("src/a.py", None)


def test_a_url_ends_before_the_marks_of_the_sentence() -> None:
    urls = dict(CASES["urls"])
    assert {written: clean_url(written) for written in urls} == urls


def test_long_paste_is_searched_in_linear_time() -> None:
    """Each of these once took more than linear time."""
    for piece in ("@" + "!" * 50_000, "`" * 50_000, "@a " * 20_000, "`a @x` " * 20_000):
        find_references(piece)
        for each in find_references(piece)[:5]:
            possible_values(each)


def put(path: Path, text: str = "hush\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


async def assert_blocked(attach, text: str, **changes: object) -> None:
    done = await attach(text, **changes)
    assert "hush" not in done.text, text
    assert len(done.warnings) == 1, text
    assert "blocked" in done.warnings[0], text


@pytest.mark.parametrize("name", CASES["secret files"])
async def test_keys_passwords_and_shell_settings(attach, user_home: Path, name: str) -> None:
    put(user_home / name)
    await assert_blocked(attach, f"@file:~/{name}")
    await assert_blocked(attach, f"@~/{name}:1")
    await assert_blocked(attach, f"@file:./../{name}")
    await assert_blocked(attach, f"@file:{user_home}/./x/../{name}")


async def test_names_in_a_blocked_folder_are_not_shown(attach, user_home: Path) -> None:
    put(user_home / ".ssh/id_ed25519")
    for text in ("@folder:~/.ssh", "@file:~/.ssh", "@~/.ssh/", "@file:~/.ssh/id_ed2551"):
        done = await attach(text)
        assert "id_ed25519" not in done.text + "".join(done.warnings)
        assert "blocked" in done.warnings[0]


async def test_links_lead_to_where_they_lead(attach, user_home: Path, workspace: Path) -> None:
    put(user_home / ".ssh/key")
    (workspace / "innocent.txt").symlink_to(user_home / ".ssh/key")
    (workspace / "docs").symlink_to(user_home / ".ssh")
    (workspace / "twice").symlink_to("docs")
    for text in ("@innocent.txt", "@docs/key", "@twice/key", "@folder:docs", "@folder:twice"):
        await assert_blocked(attach, text)


async def test_a_blocked_place_that_is_a_link_itself(attach, user_home, workspace) -> None:
    put(workspace / "dotfiles/bashrc")
    put(workspace / "vault/id_rsa")
    (user_home / ".bashrc").symlink_to(workspace / "dotfiles/bashrc")
    (user_home / ".ssh").symlink_to(workspace / "vault")
    for text in ("@~/.bashrc", "@dotfiles/bashrc", "@~/.ssh/id_rsa", "@vault/id_rsa"):
        await assert_blocked(attach, text)


async def test_other_letter_case_and_other_homes(attach, tmp_path: Path) -> None:
    for name in (".SSH/id_rsa", "kim/.ssh/id_rsa", "kim/.hermes/.env", "kim/.NetRC"):
        put(tmp_path / name)
        await assert_blocked(attach, f"@file:{tmp_path / name}")


async def test_a_hermes_home_of_another_name(attach, context, tmp_path: Path) -> None:
    guard = PathGuard(context.guard.home, (), (tmp_path / "h",))
    for name in ("h/.env", "h/.env.old", "h/auth.json", "h/profiles/p/.env"):
        put(tmp_path / name)
        await assert_blocked(attach, f"@file:{tmp_path / name}", guard=guard)


async def test_a_token_file_of_a_project(attach, workspace: Path) -> None:
    put(workspace / "web/.npmrc")
    await assert_blocked(attach, "@web/.npmrc")
    put(workspace / "web/index.js", "fine\n")
    assert ".npmrc" not in (await attach("@folder:web")).text.partition("---")[2]


async def test_the_live_state_of_the_system(attach) -> None:
    for path in ("/proc/self/environ", f"/proc/{os.getpid()}/cmdline", "/proc/self/root/etc"):
        (warning,) = (await attach(f"@file:{path}")).warnings
        assert "blocked" in warning


async def test_files_without_secrets_stay_readable(attach, user_home, hermes_home, workspace):
    put(hermes_home / "config.yaml", "model: x\n")
    put(hermes_home / "skills/a/SKILL.md", "a skill\n")
    put(workspace / ".env", "DEBUG=1\n")
    put(workspace / "bashrc.md", "about shells\n")
    done = await attach("@~/.hermes/config.yaml @~/.hermes/skills/a/SKILL.md @.env @bashrc.md")
    assert done.warnings == ()
    for text in ("model: x", "a skill", "DEBUG=1", "about shells"):
        assert text in done.text


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


def test_letters_narrow_it_down_and_hidden_names_are_asked_for(tree: Path) -> None:
    assert {fragment: texts(fragment, tree) for fragment in CASES["offers"]} == CASES["offers"]


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


def test_files_ignored_by_git_are_left_out(tree: Path, git) -> None:
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


def test_letters_of_folders_find_a_path_and_the_closest_letters_come_first(tree: Path, git) -> None:
    for path in ("src/tools/editor/main.py", "src/tui/input.py", "src/time/units/index.py"):
        (tree / path).parent.mkdir(parents=True)
        (tree / path).touch()
    git("add", "-A")
    names = FileNames()
    while not names.in_repository(str(tree)):
        time.sleep(0.01)
    assert texts("@tuiin", tree, names) == ["@src/tui/input.py", "@src/time/units/index.py"]
    assert texts("@edmain", tree, names) == ["@src/tools/editor/main.py"]


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


def test_the_fragment_before_the_cursor() -> None:
    fragments = dict(CASES["fragments"])
    assert {text: fragment_at_end(text) for text in fragments} == fragments


async def test_chosen_suggestion_refers_to_its_file(tree: Path, attach) -> None:
    (tree / "it's").touch()
    for text in [*texts("@file:", tree), *texts("@", tree)[6:]]:
        done = await attach(f"see {text} here")
        assert (done.warnings, "Attached" in done.text) == ((), True), text
