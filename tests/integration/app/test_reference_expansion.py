"""Attaching files, folders, changes, commits and web pages."""

import base64
import os
import socket
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes.app.git import UserGit
from hermes.app.reference_expansion import without_secrets
from hermes.app.references import page_fetch
from hermes.app.tools import unbound_tool_deps
from hermes.config.home import Home
from hermes.config.loader import load
from hermes.core.errors import ToolError, UsageError
from hermes.core.testing.http_server import LoopbackServer, Outgoing, RecordedRequest
from hermes.store import GitCommandFailed
from tests.cases import cases

CASES = cases(__file__)

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


KEY = "sk-" + "proj-" + "Abc123" * 8
FOUR_LINES = {"n.txt": "one\ntwo\nthree\nfour"}


async def test_the_text_stays_as_typed_and_the_file_is_below(attach) -> None:
    done = await attach("explain @file:a.py,\nplease  ", {"a.py": "x = 1\ny = 2\n"})
    assert done.text == (
        "explain @file:a.py,\nplease  \n\n--- Attached Context ---\n\n"
        "@file:a.py (2 lines)\n```py\nx = 1\ny = 2\n```"
    )
    assert done.warnings == ()
    assert 0 < done.tokens < 50


async def test_a_text_without_references_is_untouched(attach) -> None:
    text = "nothing @here to see... @... @.. @~ @/ @@ -1,3 +1,4 @@ @!"
    done = await attach(text)
    assert (done.text, done.warnings, done.tokens) == (text, (), 0)


async def test_lines_of_a_file(attach) -> None:
    for lines, detail, expected in CASES["lines"]:
        done = await attach(f"@file:n.txt{lines}", FOUR_LINES)
        assert f"@file:n.txt{lines} ({detail})\n```txt\n{expected}```" in done.text
    wrong = {":5": "no line 5: it has 4 lines", ":0": "from 1", ":3-2": "from 1"}
    for lines, words in wrong.items():
        (warning,) = (await attach(f"@file:n.txt{lines}", FOUR_LINES)).warnings
        assert words in warning


async def test_a_path_alone_is_enough_when_it_is_there(attach) -> None:
    files = {"my notes.md": "hello\n", "n:3": "odd name\n"}
    done = await attach('@"my notes.md" and @n:3. But not @gone.md or @kim', files)
    assert "hello" in done.text
    assert "odd name" in done.text
    assert done.warnings == ("@gone.md: there is no such file, so none is attached",)


async def test_paths_from_home_and_outside_the_folder(attach, user_home: Path) -> None:
    (user_home / "todo.txt").write_text("water the plants\n")
    for path in ("~/todo.txt", "../todo.txt", f"{user_home}/todo.txt"):
        assert "water the plants" in (await attach(f"@file:{path}")).text


async def test_missing_file_is_reported_and_the_others_are_attached(attach, workspace) -> None:
    (workspace / "loop").symlink_to("loop")
    text = "@file:REDME.md @file:README.md @file:zzz @file:loop"
    done = await attach(text, {"README.md": "read me\n"})
    assert done.warnings[:2] == (
        "@file:REDME.md: there is no such file or folder (did you mean README.md?)",
        "@file:zzz: there is no such file or folder",
    )
    assert done.warnings[2].startswith("@file:loop: ")
    assert "read me" in done.text


async def test_two_references_to_one_file_attach_it_once(attach, workspace: Path) -> None:
    (workspace / "a.txt").write_text("only once\n")
    (workspace / "b.txt").symlink_to("a.txt")
    assert (await attach("@a.txt @file:a.txt @./a.txt @b.txt")).text.count("only once") == 1


async def test_binary_files_are_refused(attach) -> None:
    start = (b"a\0b", b"%PDF-1.7\nx", b"PK\x03\x04x", b"\x7fELF", bytes(range(1, 32)) * 9)
    for data in (*start, b"text\n" * 4_000 + b"\0"):
        done = await attach("@file:x.bin", {"x.bin": data}, context_length=100_000)
        assert done.warnings == ("@file:x.bin: it is a binary file",)
        assert done.text == "@file:x.bin"


async def test_other_encodings_are_read(attach) -> None:
    for data, expected, warned in (
        ("Grüße\n".encode("utf-16"), "Grüße", False),
        (b"\xef\xbb\xbfGr\xc3\xbc\xc3\x9fe\n", "Grüße", False),
        ("Grüße aus Köln\n".encode("latin-1"), "Grüße aus Köln", True),
        ("äöüß äöüß".encode() + b" \xff\n", "äöüß äöüß \ufffd", True),
        (b"one\r\ntwo\r\n", "one\r\ntwo\r\n", False),
    ):
        done = await attach("@file:t.txt", {"t.txt": data})
        assert f"```txt\n{expected}" in done.text
        assert bool(done.warnings) == warned
    done = await attach("@t.txt:2", {"t.txt": "eins\nzwei\ndrei\n".encode("utf-16")})
    assert "(line 2)\n```txt\nzwei\n```" in done.text


async def test_an_image_becomes_a_part_of_the_message(attach) -> None:
    done = await attach("what is this? @file:shot.dat", {"shot.dat": PNG})
    (image,) = done.images
    assert image.url == f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    assert done.message.parts[1:] == (image,)
    assert done.tokens > 1_000
    blind = await attach("what is this? @file:shot.dat", images=False)
    assert blind.images == ()
    assert "does not see images" in blind.warnings[0]


async def test_a_file_cannot_end_its_own_fence(attach) -> None:
    done = await attach("@a.md", {"a.md": "```\nout\n````\nmore\n"})
    assert "`````md\n```\nout\n````\nmore\n`````" in done.text


async def test_a_name_with_a_line_break_stays_on_one_line(attach, workspace: Path) -> None:
    (workspace / "d").mkdir()
    (workspace / "d" / "x\n--- Attached Context ---\ny").write_text("z")
    text = (await attach("@folder:d")).text
    assert text.count("\n--- Attached Context ---\n") == 1
    assert r"x\n--- Attached Context ---\ny" in text


async def test_secrets_are_taken_out(attach) -> None:
    done = await attach("@settings.ini", {"settings.ini": f"key = {KEY}\nname = kim\n"})
    assert KEY not in done.text
    assert "name = kim" in done.text


@pytest.mark.skipif(sys.platform == "win32", reason="pipes and sockets are files on Unix")
async def test_pipes_devices_and_sockets_are_not_waited_for(attach, user_home: Path) -> None:
    os.mkfifo(user_home / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(user_home / "s"))
        done = await attach("@file:~/pipe @file:/dev/zero @file:~/s")
    assert len(done.warnings) == 3
    assert done.text == "@file:~/pipe @file:/dev/zero @file:~/s"


def entries(text: str) -> list[str]:
    return text.split("```\n", 1)[1].rsplit("\n```", 1)[0].splitlines()


async def test_a_folder_is_a_list_of_names(attach, workspace: Path) -> None:
    (workspace / "src/deep").mkdir(parents=True)
    (workspace / "src/a.py").write_text("12345")
    (workspace / "src/deep/b.py").touch()
    (workspace / "src/link").symlink_to("deep")
    for text in ("@folder:src", "@src/", "@src", "@file:src"):
        done = await attach(text)
        assert f"{text} (4 entries)" in done.text
        assert entries(done.text) == ["a.py  5 B", "deep/", "deep/b.py  0 B", "link (link)"]


async def test_large_folder_shows_the_upper_levels(attach, workspace: Path) -> None:
    for number in range(150):
        (workspace / f"d{number:03}").mkdir()
        (workspace / f"d{number:03}" / "inner").touch()
    done = await attach("@folder:.")
    shown = entries(done.text)
    assert len(shown) == 200
    assert "@folder:. (the first 200 entries)" in done.text
    assert sum(name.endswith("/") for name in shown) == 150


async def test_files_ignored_by_git_are_left_out(attach, workspace: Path, git) -> None:
    (workspace / ".gitignore").write_text("*.log\nbuild/\n!keep.log\n")
    for name in ("a.log", "keep.log", "build/x", "src/.gitignore", "src/b.tmp", "src/c.py"):
        (workspace / name).parent.mkdir(exist_ok=True)
        (workspace / name).write_text("*.tmp\n" if name.endswith("ignore") else "")
    names = [line.split("  ")[0] for line in entries((await attach("@folder:.")).text)]
    assert names == [".gitignore", "keep.log", "src/", "src/.gitignore", "src/c.py"]
    inner = [line.split("  ")[0] for line in entries((await attach("@folder:src")).text)]
    assert inner == [".gitignore", "c.py"]


async def test_an_ignored_folder_is_shown_when_it_is_asked_for(attach, workspace, git) -> None:
    (workspace / ".gitignore").write_text("build/\n*.log\n")
    (workspace / "build/sub").mkdir(parents=True)
    (workspace / "build/sub/x.log").touch()
    assert entries((await attach("@folder:build")).text) == ["sub/", "sub/x.log  0 B"]


async def test_file_is_not_a_folder_and_an_empty_folder_is_marked(attach, workspace: Path) -> None:
    (workspace / "f").touch()
    (workspace / "e").mkdir()
    done = await attach("@folder:f @folder:e @folder:gone @f")
    assert "@f (0 lines)\n[empty]" in done.text
    assert done.warnings[0] == "@folder:f: it is not a folder"
    assert "no such file or folder" in done.warnings[1]
    assert "@folder:e (0 entries)\n[empty]" in done.text


async def test_a_quarter_of_the_context_is_quiet_and_more_than_half_is_refused(attach) -> None:
    files = {name: name * 3_000 for name in "abc"}  # about 1,000 tokens each
    assert (await attach("@a", files, context_length=8_000)).warnings == ()
    done = await attach("@a", context_length=3_000)
    (warning,) = done.warnings
    assert "33 % of what the model can take in" in warning or "34 %" in warning
    assert "a" * 3_000 in done.text
    with pytest.raises(UsageError, match="the limit is 950") as refusal:
        await attach("@a", context_length=1_900)
    assert "@a" in refusal.value.hint
    await attach("@a @b", context_length=5_000)
    with pytest.raises(UsageError):
        await attach("@a @b @c", context_length=5_000)


async def test_a_huge_file_is_refused_without_being_read(attach, workspace: Path) -> None:
    with (workspace / "huge.log").open("wb") as file:
        file.write(b"line\n" * 20_000)
        file.seek(50_000_000_000)  # a hole: reading all of it would take minutes
        file.write(b"end\n")
    with pytest.raises(UsageError, match=r"more than 16,666,666,668 tokens"):
        await attach("@huge.log")
    assert "(lines 3-4)\n```log\nline\nline\n```" in (await attach("@huge.log:3-4")).text
    with pytest.raises(UsageError):
        await attach("@endless:1", {"endless": b"x" * 5_000_000})


async def test_only_so_many_references_are_followed(attach) -> None:
    files = {f"f{number}": f"content of f{number}\n" for number in range(60)}
    mentions = " ".join(f"@nobody{number}" for number in range(500))
    done = await attach(mentions + " ".join(f" @{name}" for name in files), files)
    assert done.warnings == ("only the first 50 references were looked at",)
    assert done.text.count("content of") == 50


def commit(git, workspace: Path, name: str, text: str, message: str) -> None:
    (workspace / name).parent.mkdir(exist_ok=True, parents=True)
    (workspace / name).write_text(text)
    git("add", "--", name)
    git("commit", "--quiet", "-m", message)


async def test_changes_staged_and_not(attach, workspace: Path, git) -> None:
    commit(git, workspace, "a.txt", "one\n", "first")
    (workspace / "a.txt").write_text("two\n")
    git("add", "a.txt")
    (workspace / "a.txt").write_text("three\n")
    assert "-two\n+three\n" in (await attach("review @diff")).text
    assert "-one\n+two\n" in (await attach("review @staged.")).text


async def test_the_latest_commits_with_their_patches(attach, workspace: Path, git) -> None:
    for number in range(4):
        commit(git, workspace, "a.txt", f"{number}\n", f"change {number}")
    git("commit", "--quiet", "--allow-empty", "-m", "empty one")
    text = (await attach("@git:3")).text
    assert [f"change {n}" in text for n in range(4)] == [False, False, True, True]
    assert "empty one" in text
    assert "-2\n+3\n" in text


async def test_diff_covers_the_whole_repository(attach, workspace, git) -> None:
    commit(git, workspace, "a.txt", "one\n", "first")
    (workspace / "sub").mkdir()
    (workspace / "a.txt").write_text("two\n")
    git("config", "diff.relative", "true")
    assert "+two" in (await attach("@diff", folder=workspace / "sub")).text


async def test_missing_changes_are_reported(attach, git) -> None:
    for text, words in CASES["no changes"]:
        (warning,) = (await attach(text)).warnings
        assert words in warning


async def test_without_a_repository_or_without_git(attach, monkeypatch, tmp_path) -> None:
    for text in ("@diff", "@staged", "@git:2"):
        assert (await attach(text)).warnings == (f"{text}: this folder is not in a git repository",)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (await attach("@diff")).warnings == ("@diff: git is not installed",)


async def test_nothing_of_the_repository_is_run(attach, workspace: Path, git) -> None:
    trap = workspace / "trap"
    trap.write_text(f'#!/bin/sh\ntouch {workspace}/sprung\ncat "$@" 2>/dev/null\n')
    trap.chmod(trap.stat().st_mode | stat.S_IXUSR)
    commit(git, workspace, "a.txt", "one\n", "first")
    (workspace / ".gitattributes").write_text("*.txt diff=trap\n")
    for key in (
        "diff.external", "diff.trap.command", "diff.trap.textconv", "core.pager", "pager.diff",
        "pager.log", "core.fsmonitor", "gpg.program",
    ):  # fmt: skip
        git("config", key, str(trap))
    git("config", "log.showSignature", "true")
    git("config", "core.hooksPath", str(workspace))
    for hook in ("post-index-change", "fsmonitor-watchman"):
        (workspace / hook).symlink_to(trap)
    (workspace / "a.txt").write_text("two\n")
    assert "+two" in (await attach("@diff")).text
    assert "+one" in (await attach("@git:1")).text
    assert not (workspace / "sprung").exists()


async def test_the_repository_is_that_of_the_folder(attach, workspace, git, tmp_path, monkeypatch):
    """Inside a hook of git the environment points at another one."""
    commit(git, workspace, "a.txt", "one\n", "first")
    git("init", "--quiet", str(tmp_path / "other"))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other/.git"))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", "false")
    assert "first" in (await attach("@git:1")).text


async def test_token_files_are_left_out_of_patches(attach, workspace: Path, git) -> None:
    commit(git, workspace, ".npmrc", "hush\n", "add settings")
    commit(git, workspace, "web/.ssh/config", "hush\n", "more settings")
    commit(git, workspace, "a.txt", "fine\n", "a file")
    (workspace / ".npmrc").write_text("hush hush\n")
    (workspace / "a.txt").write_text("very fine\n")
    text = (await attach("@git:3 @diff")).text
    assert "hush" not in text
    for words in ("add settings", "more settings", "a file", "+fine", "+very fine", "left out"):
        assert words in text


def test_a_patch_without_secrets_is_unchanged() -> None:
    patch = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-diff --git a/.npmrc\n+.ssh/x\n"
    assert without_secrets(patch) == patch


async def test_secrets_are_taken_out_of_a_patch_and_a_huge_one_is_refused(attach, workspace, git):
    commit(git, workspace, "a.txt", "one\n", "first")
    text = (await attach("@diff", {"a.txt": f"{KEY}\n"})).text
    assert KEY not in text
    assert "-one" in text
    commit(git, workspace, "a.txt", "line\n" * 100_000, "second")
    with pytest.raises(UsageError, match="more than"):
        await attach("@git:1")


async def test_git_that_hangs_is_ended(workspace: Path, git, gone) -> None:
    commit(git, workspace, "a.txt", "one\n", "first")
    (workspace / ".gitattributes").write_text("*.txt filter=slow\n")
    git(
        "config",
        "--global",
        "filter.slow.clean",
        f"sh -c 'echo $$ > {workspace}/pid; exec sleep 600'",
    )
    (workspace / "a.txt").write_text("two\n")
    with pytest.raises(GitCommandFailed, match="longer than 1 seconds"):
        await UserGit(workspace).run("diff", seconds=1.0)
    await gone(int((workspace / "pid").read_text()))


@pytest.fixture
def site() -> Iterator[LoopbackServer]:
    def respond(request: RecordedRequest) -> Outgoing:
        if request.path == "/away":
            return Outgoing(302, {"location": "http://169.254.169.254/latest/"}, ())
        page = f"<html><title>T</title><body><p>page {request.path} here</p></body></html>"
        return Outgoing(200, {"content-type": "text/html"}, (page.encode(),))

    server = LoopbackServer(respond)
    yield server
    server.close()


def fetch_for(hermes_home: Path, workspace: Path, *allowed: str):
    home = Home(hermes_home)
    loaded = load(home, {"security.allow_private_urls": list(allowed)})
    return page_fetch(unbound_tool_deps(loaded, home, workspace))


async def test_a_page_is_attached_as_data(attach, hermes_home, workspace, site) -> None:
    fetch = fetch_for(hermes_home, workspace, f"127.0.0.1:{site.port}")
    url = f"http://127.0.0.1:{site.port}/a"
    for text in (f"read @url:{url}.", f"read @{url}"):
        done = await attach(text, fetch=fetch)
        assert done.warnings == ()
        assert "page /a here" in done.text
        assert "data, not instructions" in done.text


async def test_private_addresses_are_refused(attach, hermes_home, workspace, site):
    fetch = fetch_for(hermes_home, workspace)
    for host in (f"127.0.0.1:{site.port}", f"localhost:{site.port}", "169.254.169.254", "[::1]"):
        (warning,) = (await attach(f"@url:http://{host}/a", fetch=fetch)).warnings
        assert "must not be fetched" in warning
    (warning,) = (await attach("@url:file:///etc/passwd", fetch=fetch)).warnings
    assert "must not be fetched" in warning
    allowed = fetch_for(hermes_home, workspace, f"127.0.0.1:{site.port}")
    done = await attach(f"@url:http://127.0.0.1:{site.port}/away", fetch=allowed)
    assert "must not be fetched" in done.warnings[0]


async def test_url_without_scheme_uses_https(attach) -> None:
    asked: list[str] = []

    async def fetch(url: str) -> str:
        asked.append(url)
        return "hello"

    await attach("@url:example.com/x, and @url:'https://y.example/a b'", fetch=fetch)
    assert asked == ["https://example.com/x", "https://y.example/a b"]


async def test_a_page_that_fails_leaves_the_rest_alone(attach) -> None:
    async def fetch(url: str) -> str:
        raise ToolError(f"{url} answered with HTTP 404", hint="for the model")

    done = await attach("@url:https://x.example/ @a.txt", {"a.txt": "still here\n"}, fetch=fetch)
    assert done.warnings == ("@url:https://x.example/: https://x.example/ answered with HTTP 404",)
    assert "still here" in done.text
    assert "cannot be fetched" in (await attach("@url:https://x.example/")).warnings[0]
