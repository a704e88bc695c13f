"""The syntax of references and the allowed paths."""

import os
from pathlib import Path

import msgspec
import pytest

from hermes.app.references import clean_url, find_references, possible_values, split_lines
from hermes.security import PathGuard


def found(text: str) -> list[tuple[str, str]]:
    return [(each.kind, each.value) for each in find_references(text)]


def test_every_kind_is_found_in_the_order_of_the_text() -> None:
    text = "see @file:a.py:1-3 @folder:src @diff and @staged, @git:3 @url:https://x.example/y @b.md"
    assert found(text) == [
        ("file", "a.py:1-3"),
        ("folder", "src"),
        ("diff", ""),
        ("staged", ""),
        ("git", "3"),
        ("url", "https://x.example/y"),
        ("bare", "b.md"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "mail me at kim@example.com",
        "git@host:repo.git",
        "a \\@file:x is not meant",
        "`@file:x` is how it is written",
        "``a ` @file:x``",
        "```python\n@property\ndef x(self): ...\n```\n",
        "~~~\n@file:x\n~~~",
        "```\n@file:x never closed",
        "@",
        "https://example.com/@file:x",
    ],
)
def test_addresses_and_code_are_left_alone(text: str) -> None:
    assert found(text) == []


def test_text_goes_on_behind_code() -> None:
    assert found("`code` @file:a\n```\n@file:b\n```\n@file:c `") == [("file", "a"), ("file", "c")]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('@file:"my notes.txt"', "my notes.txt"),
        ("@file:'my notes.txt':3-4 please", "my notes.txt:3-4"),
        ("@file:my\\ notes.txt", "my notes.txt"),
        ('@FILE:"a b"', "a b"),
        ("(@file:a.py)", "a.py)"),
        ("看@file:a.py，好", "a.py，好"),
    ],
)
def test_paths_with_blanks_and_in_sentences(text: str, value: str) -> None:
    assert found(text) == [("file", value)]


def test_a_file_called_like_a_word_is_no_word() -> None:
    assert found("@diff-notes.txt @staged/x @diff.py") == [
        ("bare", "diff-notes.txt"),
        ("bare", "staged/x"),
        ("bare", "diff.py"),
    ]
    assert found("what is in @diff?") == [("diff", "")]


def test_the_same_reference_twice_is_one() -> None:
    assert len(find_references("@file:a and @file:a")) == 1


@pytest.mark.parametrize("text", ["(@a.py).", "@a.py，然后"])
def test_marks_behind_a_path_may_belong_to_the_sentence(text: str) -> None:
    (only,) = find_references(text)
    assert "a.py" in possible_values(only)


def test_lines_are_told_from_the_path() -> None:
    path, lines = split_lines("src/a:b.py:10-20")
    assert (path, lines and (lines.first, lines.last)) == ("src/a:b.py", (10, 20))
    assert split_lines("src/a.py") == ("src/a.py", None)


@pytest.mark.parametrize(
    ("written", "url"),
    [
        ("https://x.example/a_(b).", "https://x.example/a_(b)"),
        ("https://x.example/a),", "https://x.example/a"),
        ("https://x.example/?q=1!", "https://x.example/?q=1"),
    ],
)
def test_a_url_ends_before_the_marks_of_the_sentence(written: str, url: str) -> None:
    assert clean_url(written) == url


def test_a_long_paste_is_looked_through_at_once() -> None:
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


@pytest.mark.parametrize(
    "name",
    [
        ".ssh/id_ed25519", ".ssh/config", ".aws/credentials", ".gnupg/private-keys-v1.d/x",
        ".kube/config", ".bashrc", ".zshrc", ".profile", ".zshenv", ".bash_history",
        ".config/fish/config.fish", ".netrc", ".pgpass", ".npmrc", ".pypirc", ".docker/config.json",
        ".hermes/.env", ".hermes/.env.bak", ".hermes/auth.json", ".hermes/profiles/work/.env",
    ],
)  # fmt: skip
async def test_keys_passwords_and_shell_settings(attach, user_home: Path, name: str) -> None:
    put(user_home / name)
    await assert_blocked(attach, f"@file:~/{name}")
    await assert_blocked(attach, f"@~/{name}:1")
    await assert_blocked(attach, f"@file:./../{name}")
    await assert_blocked(attach, f"@file:{user_home}/./x/../{name}")


async def test_names_in_a_blocked_folder_are_not_told(attach, user_home: Path) -> None:
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


async def test_a_hermes_home_of_another_name(attach, desk, tmp_path: Path) -> None:
    guard = PathGuard(desk.guard.home, (), (tmp_path / "h",))
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


async def test_what_is_no_secret_stays_readable(attach, user_home, hermes_home, workspace) -> None:
    put(hermes_home / "config.yaml", "model: x\n")
    put(hermes_home / "skills/a/SKILL.md", "a skill\n")
    put(workspace / ".env", "DEBUG=1\n")
    put(workspace / "bashrc.md", "about shells\n")
    done = await attach("@~/.hermes/config.yaml @~/.hermes/skills/a/SKILL.md @.env @bashrc.md")
    assert done.warnings == ()
    for text in ("model: x", "a skill", "DEBUG=1", "about shells"):
        assert text in done.text


def test_the_desk_is_frozen(desk) -> None:
    with pytest.raises(AttributeError):
        desk.folder = Path("/")
    assert msgspec.structs.replace(desk, context_length=10).max_tokens == 5
